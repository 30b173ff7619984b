#!/bin/sh
# Builds libfgpu.so and fence-probe into the directory $OUT (default out/ of the repository). Needs only a C compiler ($CC, default cc).
set -eu
cd "$(dirname "$0")"
OUT=${OUT:-../../../out}
mkdir -p "$OUT"
trap 'rm -f "$OUT/libfgpu.so.$$" "$OUT/fence-probe.$$"' EXIT
# No fortified or stack-checking functions: they bring newer symbols. -Bsymbolic-functions: what we call ourselves is never another library's;
# plain -Bsymbolic would also make us the first in our own searches of the default scope, which the probe makes.
flags="-std=gnu11 -O2 -g -Wall -Wextra -Werror -U_FORTIFY_SOURCE -fno-stack-protector -fvisibility=hidden -ffunction-sections -fdata-sections"
${CC:-cc} $flags -fPIC -shared -Wl,-soname,libfgpu.so -Wl,-Bsymbolic-functions -Wl,-z,now -Wl,-z,relro -Wl,--gc-sections -Wl,--no-undefined \
	-Wl,--version-script=exports.map -nostartfiles -o "$OUT/libfgpu.so.$$" \
	resolve.c libc.c region.c pointers.c charge.c context.c memory.c pool.c vmm.c array.c graph.c gate.c launch.c report.c nvml.c self.c uuid.c
start=
[ "$(uname -m)" = x86_64 ] && start=-nostartfiles
${CC:-cc} $flags -fPIE -pie -Wl,-z,now -Wl,-z,relro -Wl,--gc-sections $start -o "$OUT/fence-probe.$$" probe.c libc.c uuid.c
# Renamed into place: a process that has the old one mapped keeps it.
mv -f "$OUT/libfgpu.so.$$" "$OUT/libfgpu.so"
mv -f "$OUT/fence-probe.$$" "$OUT/fence-probe"
