#!/usr/bin/env bash
# Builds a Python image of Debian's own Python with numpy: python:3.11 of Debian 12, python:3.13 of Debian 13.
#
#   etc/image-python.sh 3.11|3.13 OUT.sif
#
# See etc/image-debian.sh --help for the mirror and the cache.
set -euo pipefail

usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; }
case $#:${1-} in
1:-h | 1:--help) usage; exit 0 ;;
2:3.11) suite=bookworm distro=debian12 ;;
2:3.13) suite=trixie distro=debian13 ;;
*) usage >&2; exit 2 ;;
esac

# The words that Backend.AI's images have, too.
exec "$(dirname "$0")/image-debian.sh" \
    --label ai.backend.kernelspec=1 \
    --label ai.backend.role=COMPUTE \
    --label ai.backend.base-distro="$distro" \
    --label ai.backend.runtime-type=python \
    --label ai.backend.runtime-path=/usr/bin/python3 \
    --label ai.backend.features='batch query uid-match user-input' \
    --label ai.backend.resource.min.cpu=1 \
    --label ai.backend.resource.min.mem=256m \
    --label ai.backend.envs.corecount=OPENBLAS_NUM_THREADS,OMP_NUM_THREADS,NPROC \
    "python:$1" "$suite" "$2" python3 python3-numpy python3-venv
