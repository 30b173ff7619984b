//go:build ignore

#include "shim.h"

#include <string.h>

// The names of a whole GPU ("GPU-…") and of a part of one ("MIG-…") end in the same 36 characters; CUDA tells the 16 bytes.
bool same_uuid(const char *name, const CUuuid *u) {
	static const char hex[] = "0123456789abcdef";
	const char *p = strchr(name, '-');
	if (!p || p - name != 3)
		return false;
	p++;
	for (int i = 0; i < 16; i++) {
		if ((i == 4 || i == 6 || i == 8 || i == 10) && *p++ != '-')
			return false;
		uint8_t b = (uint8_t)u->bytes[i];
		if ((p[0] | 0x20) != hex[b >> 4] || (p[1] | 0x20) != hex[b & 15]) // the bit makes letters small and leaves digits
			return false;
		p += 2;
	}
	return !*p;
}
