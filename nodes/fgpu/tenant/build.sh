#!/bin/sh
# Builds the tenant into the directory $OUT: tenant, tenant-linked (linked with libcuda.so.1, as via=link needs) and
# tenant-plugin.so (for via=plugin). Needs only a C compiler ($CC, default cc) and the headers in ../abi ($ABI): no CUDA.
set -eu
cd "$(dirname "$0")"
OUT=${OUT:-../../../out}
ABI=${ABI:-../abi}
CC=${CC:-cc}
mkdir -p "$OUT"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
compile() { # NAME FLAGS...
	name=$1
	shift
	$CC -std=gnu11 -O2 -Wall -Wextra -Werror -I. -I"$ABI" -o "$OUT/$name.$$" main.c resolve.c memory.c launch.c process.c evade.c info.c "$@" -lpthread -ldl
	mv -f "$OUT/$name.$$" "$OUT/$name" # a running one keeps its file
}
compile tenant

# What the linker must see of libcuda.so.1: the names alone.
{
	echo '#define ENTRY(base, spelling, version, perthread) void spelling(void) {}'
	echo '#include "entries.h"'
} >"$work/stub.c"
mkdir "$work/lib"
$CC -w -shared -fPIC -I. -Wl,-soname,libcuda.so.1 -o "$work/lib/libcuda.so" "$work/stub.c"
compile tenant-linked -DTENANT_LINKED linked.c -L"$work/lib" -Wl,--no-as-needed -lcuda
$CC -std=gnu11 -O2 -Wall -Wextra -Werror -I. -I"$ABI" -shared -fPIC -o "$OUT/tenant-plugin.so.$$" linked.c -L"$work/lib" -Wl,--no-as-needed -lcuda
mv -f "$OUT/tenant-plugin.so.$$" "$OUT/tenant-plugin.so"
