#!/bin/sh
# Builds the simulated driver into the directory $OUT: libcuda.so.1, libnvidia-ml.so.1, sim-ioctl and
# nvidia-cuda-mps-control. Needs only a C compiler ($CC, default cc) and a POSIX shell.
#
#   SIM_CUDA=11030   leave out of libcuda.so.1 what came after that CUDA version (default: nothing)
#   NVML_MAP=FILE    a linker's version script with the only symbols that libnvidia-ml.so.1 is to have (for tests)
set -eu
cd "$(dirname "$0")"
OUT=${OUT:-../../../out/simdriver}
SIM_CUDA=${SIM_CUDA:-99990}
mkdir -p "$OUT"
tmp=$(mktemp -d "$OUT/.build-XXXXXX")
trap 'rm -rf "$tmp"' EXIT

cc="${CC:-cc} -std=gnu11 -O2 -Wall -Wextra -Werror"
lib="$cc -shared -fPIC -fvisibility=hidden -fno-plt -Wl,-Bsymbolic-functions -Wl,--no-undefined -Wl,-z,relro"
node="alive.c conf.c ledger.c device_time.c spec.c mig.c" # what all libraries know of the simulated node

# The exports of libcuda are the rows of cuda_entries.def that the version has.
{
	echo '{ global: fairsliceSimulated;'
	sed -n 's/^SIM_ENTRY(\([^,]*\), \([^,]*\), \([0-9]*\), .*/\2 \3/p' cuda_entries.def |
		while read -r name since; do [ "$since" -gt "$SIM_CUDA" ] || echo "$name;"; done
	echo 'local: *; };'
} >"$tmp/cuda.map"

$lib -Wl,-soname,libcuda.so.1 -Wl,--version-script="$tmp/cuda.map" -o "$tmp/libcuda.so.1" \
	cuda_*.c mps.c mps_limits.c memory_limits.c $node -lpthread &
cuda=$!
$lib -Wl,-soname,libnvidia-ml.so.1 ${NVML_MAP:+-Wl,--version-script="$NVML_MAP"} -o "$tmp/libnvidia-ml.so.1" \
	nvml*.c memory_limits.c $node -lpthread
$cc -static -o "$tmp/sim-ioctl" ioctl.c $node
$cc -o "$tmp/nvidia-cuda-mps-control" mps_control.c mps_limits.c -lpthread
wait $cuda

# Built beside their place and renamed into it: a process that has an old one mapped keeps that.
for f in "$tmp"/lib* "$tmp/sim-ioctl" "$tmp/nvidia-cuda-mps-control"; do
	mv -f "$f" "$OUT/"
done
