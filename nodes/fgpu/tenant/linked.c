//go:build ignore

// The driver's functions as the linker binds them. Part of tenant-linked, and all of tenant-plugin.so.
#include "tenant.h"

// Weak: a program linked for a newer driver starts with an older one all the same.
#define ENTRY(base, spelling, version, perthread) extern __typeof__(spelling) spelling __attribute__((weak));
#include "entries.h"
#undef ENTRY

void linked(struct driver *d) {
#define ENTRY(base, spelling, version, perthread) d->base = spelling;
#include "entries.h"
#undef ENTRY
}
