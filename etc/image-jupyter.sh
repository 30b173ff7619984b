#!/usr/bin/env bash
# Builds jupyter:6.4, Debian 13's Jupyter Notebook with numpy, as an image whose app "jupyter" the web page can open.
#
#   etc/image-jupyter.sh OUT.sif
#
# See etc/image-debian.sh --help for the mirror and the cache.
set -euo pipefail

case $#:${1-} in
1:-h | 1:--help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
1:-*) echo "image-jupyter.sh: unknown option '$1'; try --help" >&2; exit 2 ;;
1:?*) ;;
*) echo "usage: etc/image-jupyter.sh OUT.sif" >&2; exit 2 ;;
esac

files=$(mktemp -d)
trap 'rm -rf "$files"' EXIT
mkdir -p "$files/etc/backend.ai/service-defs"
# It listens on the loopback address only, which on a node that jobs share is no wall: whoever starts it says in FAIRSLICE_APP_TOKEN
# what each request must bring (Authorization: token …). It is asked under the name of the web page, and links in
# its pages must carry the prefix under which it is shown: FAIRSLICE_APP_BASE. Started by hand, without them, Jupyter
# makes up a token and prints it.
cat >"$files/etc/backend.ai/service-defs/jupyter.json" <<'JSON'
{
  "prestart": [
    {
      "action": "write_tempfile",
      "args": {
        "body": [
          "import os\n",
          "c.NotebookApp.ip = '127.0.0.1'\n",
          "c.NotebookApp.port = {ports[0]}\n",
          "c.NotebookApp.port_retries = 0\n",
          "c.NotebookApp.base_url = os.environ.get('FAIRSLICE_APP_BASE', '/')\n",
          "if 'FAIRSLICE_APP_TOKEN' in os.environ:\n",
          "    c.NotebookApp.token = os.environ['FAIRSLICE_APP_TOKEN']\n",
          "c.NotebookApp.allow_remote_access = True\n",
          "c.NotebookApp.allow_root = True\n",
          "c.NotebookApp.open_browser = False\n",
          "c.NotebookApp.quit_button = False\n",
          "c.FileContentsManager.delete_to_trash = False\n"
        ]
      },
      "ref": "config"
    }
  ],
  "command": ["{runtime_path}", "-m", "notebook", "--config", "{config}"],
  "url_template": "{protocol}://{host}:{port}/tree"
}
JSON

"$(dirname "$0")/image-debian.sh" --files "$files" \
    --label ai.backend.kernelspec=1 \
    --label ai.backend.role=COMPUTE \
    --label ai.backend.base-distro=debian13 \
    --label ai.backend.runtime-type=python \
    --label ai.backend.runtime-path=/usr/bin/python3 \
    --label ai.backend.features='batch query uid-match user-input tty' \
    --label ai.backend.service-ports=jupyter:http:8081 \
    --label ai.backend.resource.min.cpu=1 \
    --label ai.backend.resource.min.mem=512m \
    --label ai.backend.envs.corecount=OPENBLAS_NUM_THREADS,OMP_NUM_THREADS,NPROC \
    jupyter:6.4 trixie "$1" jupyter-notebook python3-ipykernel python3-numpy python3-venv
