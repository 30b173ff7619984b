#!/bin/sh
# Builds the simulated driver into the directory $OUT. Needs only a C compiler ($CC, default cc).
set -eu
cd "$(dirname "$0")"
OUT=${OUT:-../../../out/simdriver}
mkdir -p "$OUT"
lib=$OUT/libnvidia-ml.so.1
# Built beside its place and renamed into it: a process that has the old one mapped keeps it.
${CC:-cc} -std=gnu11 -shared -fPIC -O2 -Wall -Wextra -Werror -fvisibility=hidden \
	-Wl,-soname,libnvidia-ml.so.1 -Wl,--no-undefined -o "$lib.$$" nvml.c ledger.c spec.c -lpthread
mv -f "$lib.$$" "$lib"
