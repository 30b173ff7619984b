//go:build ignore

#include "spec.h"

#include <stdint.h>
#include <stdio.h>
#include <stddef.h>

// At most nine digits, so that no number can overflow before its range is checked.
static const char *number(const char *s, unsigned long long *out)
{
	unsigned long long n = 0;
	int digits = 0;
	for (; *s >= '0' && *s <= '9'; s++) {
		if (++digits > 9)
			return NULL;
		n = n * 10 + (unsigned)(*s - '0');
	}
	*out = n;
	return digits ? s : NULL;
}

// Not tolower(): the grammar must not depend on the process's locale.
static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c; }

static int rest_is(const char *s, const char *want)
{
	while (*want && lower(*s) == *want)
		s++, want++;
	return !*want && !*s;
}

// Reads a number with its unit, up to the end of the text.
static int size(const char *text, unsigned long long *mib)
{
	if (!(text = number(text, mib)))
		return -1;
	if (rest_is(text, "g") || rest_is(text, "gb") || rest_is(text, "gib"))
		*mib *= 1024;
	else if (!rest_is(text, "m") && !rest_is(text, "mb") && !rest_is(text, "mib"))
		return -1;
	return 0;
}

int sim_parse_spec(const char *text, struct sim_spec *out)
{
	unsigned long long count, mib;
	if (!text || !(text = number(text, &count)) || lower(*text) != 'x')
		return -1;
	if (size(text + 1, &mib) != 0)
		return -1;
	if (count > SIM_MAX_GPUS || mib == 0 || mib > SIM_MAX_MIB)
		return -1;
	out->count = (unsigned)count;
	out->bytes = mib << 20;
	return 0;
}

int sim_parse_size(const char *text, uint64_t *bytes)
{
	unsigned long long mib = 0;
	if (rest_is(text, "0"))
		*bytes = 0;
	else if (size(text, &mib) != 0 || mib > SIM_MAX_MIB)
		return -1;
	else
		*bytes = mib << 20;
	return 0;
}

static uint64_t fnv1a(uint64_t h, const char *s)
{
	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * 0x100000001b3ULL;
	return h;
}

// FNV alone leaves neighbours alike in the high bits; this spreads them (splitmix64's finalizer).
static uint64_t mix(uint64_t h)
{
	h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ULL;
	h = (h ^ (h >> 27)) * 0x94d049bb133111ebULL;
	return h ^ (h >> 31);
}

void sim_uuid(const char *node, unsigned index, char out[SIM_UUID_SIZE])
{
	uint64_t h = fnv1a(0xcbf29ce484222325ULL, node);
	uint64_t hi = mix(h + 0x9e3779b97f4a7c15ULL * (2 * (uint64_t)index + 1));
	uint64_t lo = mix(h + 0x9e3779b97f4a7c15ULL * (2 * (uint64_t)index + 2));
	hi = (hi & ~0xf000ULL) | 0x8000ULL;                    // RFC 9562 version 8: made by our own rule
	lo = (lo & 0x3fffffffffffffffULL) | (1ULL << 63);      // and its variant
	snprintf(out, SIM_UUID_SIZE, "GPU-%08x-%04x-%04x-%04x-%012llx", (unsigned)(hi >> 32),
		 (unsigned)(hi >> 16) & 0xffff, (unsigned)hi & 0xffff, (unsigned)(lo >> 48),
		 (unsigned long long)(lo & 0xffffffffffffULL));
}
