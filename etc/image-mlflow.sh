#!/usr/bin/env bash
# Builds mlflow:3.17, MLflow with its web page on Debian 12's Python 3.11, as an image with the app "mlflow-ui", which users start
# themselves (in /opt/mlflow, a virtual environment; `mlflow` is in the PATH).
#
#   etc/image-mlflow.sh OUT.sif
#
# MLflow comes from the index that this machine's pip is configured for. Left out is what only its models need, and
# is most of its size: pyarrow, scipy, scikit-learn, matplotlib, skops. See etc/image-debian.sh --help for the mirror and the cache.
set -euo pipefail

case $#:${1-} in
1:-h | 1:--help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
1:-*) echo "image-mlflow.sh: unknown option '$1'; try --help" >&2; exit 2 ;;
1:?*) ;;
*) echo "usage: etc/image-mlflow.sh OUT.sif" >&2; exit 2 ;;
esac
version=3.17.2 # mlflow, mlflow-skinny and mlflow-tracing must be of one version, and are not always published together

# Run in the tree, where pip cannot see this machine's files: its configuration goes there as variables (of this process,
# which mmdebstrap passes on), and the file of certificates that it names, if it names one, as a copy.
command -v pip3 >/dev/null || { echo "image-mlflow.sh: pip3 is missing; run: etc/setup-apps.sh" >&2; exit 1; }
while IFS='=' read -r key value; do
    key=${key#*.} key=${key#.}
    value=${value#\'} value=${value%\'}
    case $key in
    cert | find-links | no-index | target | prefix | user | root) ;; # of this machine's files
    *[!a-z-]* | '') ;;
    *) key=${key//-/_} && export "PIP_${key^^}=$value" ;;
    esac
done < <(pip3 config list 2>/dev/null)
FAIRSLICE_CA=$(pip3 config list 2>/dev/null | sed -n "s/^[^=]*\.cert='\(.*\)'\$/\1/p" | head -n 1)
export FAIRSLICE_CA

# shellcheck disable=SC2016 # $1 is the tree
run='set -e
unset PIP_CERT PIP_FIND_LINKS TMPDIR
if [ -n "$FAIRSLICE_CA" ]; then
    cp "$FAIRSLICE_CA" "$1/tmp/ca.crt"
    export PIP_CERT=/tmp/ca.crt REQUESTS_CA_BUNDLE=/tmp/ca.crt SSL_CERT_FILE=/tmp/ca.crt
fi
pip="chroot $1 /opt/mlflow/bin/python3 -m pip install --no-cache-dir --no-compile --quiet"
chroot "$1" python3 -m venv /opt/mlflow
$pip --no-deps mlflow=='$version'
chroot "$1" /opt/mlflow/bin/python3 -c "
import importlib.metadata, re
for need in importlib.metadata.requires(\"mlflow\"):
    name = re.match(r\"[A-Za-z0-9._-]+\", need).group().lower()
    if \"extra ==\" not in need and name not in (\"pyarrow\", \"scipy\", \"scikit-learn\", \"matplotlib\", \"skops\"):
        print(need)
" >"$1/tmp/needs"
$pip -r /tmp/needs
rm -f "$1/tmp/needs" "$1/tmp/ca.crt"
cd "$1/opt/mlflow"
find . -depth -type d -name tests -path "*/site-packages/*" -exec rm -r {} +
find . -name "*.map" -delete
chroot "$1" /opt/mlflow/bin/python3 -m compileall -q --invalidation-mode unchecked-hash /opt/mlflow/lib
ln -s /opt/mlflow/bin/mlflow "$1/usr/local/bin/mlflow"
'
files=$(mktemp -d)
trap 'rm -rf "$files"' EXIT
mkdir -p "$files/.singularity.d/env"
# A site's use of MLflow is nobody else's business, and nodes may have no way out. There is no git, and no need to say so.
# shellcheck disable=SC2016 # for the container's shell
printf 'export MLFLOW_DISABLE_TELEMETRY="${MLFLOW_DISABLE_TELEMETRY:-true}"\nexport GIT_PYTHON_REFRESH=quiet\n' >"$files/.singularity.d/env/90-mlflow.sh"

"$(dirname "$0")/image-debian.sh" --run "$run" --files "$files" \
    --label ai.backend.kernelspec=1 \
    --label ai.backend.role=COMPUTE \
    --label ai.backend.base-distro=debian12 \
    --label ai.backend.runtime-type=python \
    --label ai.backend.runtime-path=/opt/mlflow/bin/python3 \
    --label ai.backend.features='batch query uid-match user-input' \
    --label ai.backend.service-ports=mlflow-ui:preopen:5000 \
    --label ai.backend.resource.min.cpu=1 \
    --label ai.backend.resource.min.mem=1g \
    --label ai.backend.envs.corecount=OPENBLAS_NUM_THREADS,OMP_NUM_THREADS,NPROC \
    mlflow:3.17 bookworm "$1" python3 python3-venv libstdc++6
