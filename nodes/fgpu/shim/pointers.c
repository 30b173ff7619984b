//go:build ignore

// What this process holds, by the driver's handles: an open-addressed hash table in pages of its own. An entry is removed before
// the driver frees what it is about, because the driver may hand the same handle to another thread at once.
#include "shim.h"

#include <string.h>

static size_t home(const struct process *p, uint32_t kind, uint64_t key) {
	uint64_t h = (key ^ (uint64_t)kind << 56) * 0x9e3779b97f4a7c15;
	return (size_t)(h >> 20) & (p->room - 1);
}

// find returns the entry, or the free place where it belongs. The table is never full.
static struct entry *find(const struct process *p, uint32_t kind, uint64_t key) {
	size_t i = home(p, kind, key);
	while (p->entries[i].kind && (p->entries[i].kind != kind || p->entries[i].key != key))
		i = (i + 1) & (p->room - 1);
	return &p->entries[i];
}

static bool grow(struct process *p) {
	if (p->room && p->filled < p->room / 2)
		return true;
	struct process bigger = { .room = p->room ? p->room * 2 : 1024 };
	bigger.entries = map_pages(bigger.room * sizeof *bigger.entries);
	if (!bigger.entries)
		return p->filled + 1 < p->room; // full to the last place but one: slow, but right
	for (size_t i = 0; i < p->room; i++)
		if (p->entries[i].kind)
			*find(&bigger, p->entries[i].kind, p->entries[i].key) = p->entries[i];
	if (p->entries)
		unmap_pages(p->entries, p->room * sizeof *p->entries);
	p->entries = bigger.entries;
	p->room = bigger.room;
	return true;
}

// erase closes the gap, so that what was put past it is still found.
static void erase(struct process *p, struct entry *e) {
	size_t gap = (size_t)(e - p->entries), mask = p->room - 1;
	for (size_t i = (gap + 1) & mask; p->entries[i].kind; i = (i + 1) & mask) {
		size_t h = home(p, p->entries[i].kind, p->entries[i].key);
		if (((i - h) & mask) >= ((i - gap) & mask)) {
			p->entries[gap] = p->entries[i];
			gap = i;
		}
	}
	memset(&p->entries[gap], 0, sizeof *e);
	p->filled--;
}

bool entries_put(const struct entry *e) {
	struct process *p = process();
	struct entry stale = { .kind = 0 };
	lock(&p->table);
	bool room = grow(p);
	if (room) {
		struct entry *at = find(p, e->kind, e->key);
		stale = *at;
		p->filled += !stale.kind;
		*at = *e;
	}
	unlock(&p->table);
	if (stale.kind && stale.kind != HANDLE && stale.kind != MAPPING)
		release(stale.device, stale.bytes);
	return room;
}

bool entries_take(enum held_kind kind, uint64_t key, struct entry *out) {
	struct process *p = process();
	bool there = false;
	if (!p)
		return false;
	lock(&p->table);
	struct entry *at = p->room ? find(p, kind, key) : NULL;
	if (at && at->kind) {
		*out = *at;
		erase(p, at);
		there = true;
	}
	unlock(&p->table);
	return there;
}

struct copy {
	struct entry *out;
};

static void copy_out(struct entry *e, void *with) { *((struct copy *)with)->out = *e; }

bool entries_get(enum held_kind kind, uint64_t key, struct entry *out) {
	return entries_change(kind, key, copy_out, &(struct copy){ out });
}

bool entries_change(enum held_kind kind, uint64_t key, void (*change)(struct entry *, void *), void *with) {
	struct process *p = process();
	bool there = false;
	if (!p)
		return false;
	lock(&p->table);
	struct entry *at = p->room ? find(p, kind, key) : NULL;
	if (at && at->kind) {
		change(at, with);
		there = true;
	}
	unlock(&p->table);
	return there;
}

bool entries_next(enum held_kind kind, size_t *at, struct entry *out) {
	struct process *p = process();
	bool there = false;
	if (!p)
		return false;
	lock(&p->table);
	for (; !there && *at < p->room; ++*at)
		if (p->entries[*at].kind == kind) {
			*out = p->entries[*at];
			there = true;
		}
	unlock(&p->table);
	return there;
}

static bool ends_with_context(const struct entry *e) { return e->kind == LINEAR || e->kind == ARRAY || e->kind == MIPMAP; }

// The lowest bit of a context's address is free for the mark.
void entries_mark(uint64_t context, bool marked) {
	struct process *p = process();
	if (!p || !context)
		return;
	lock(&p->table);
	for (size_t i = 0; i < p->room; i++)
		if (ends_with_context(&p->entries[i]) && (p->entries[i].context & ~1ull) == context)
			p->entries[i].context = context | marked;
	unlock(&p->table);
}

void entries_drop(uint64_t context) {
	struct process *p = process();
	uint64_t bytes[FGPU_DEVICES] = { 0 };
	if (!p || !context)
		return;
	lock(&p->table);
	for (size_t i = 0; i < p->room;) {
		struct entry *e = &p->entries[i];
		if (!ends_with_context(e) || e->context != (context | 1)) {
			i++;
			continue;
		}
		bytes[e->device] += e->bytes;
		erase(p, e); // another may have moved here: look again
	}
	unlock(&p->table);
	for (unsigned d = 0; d < FGPU_DEVICES; d++)
		release(d, bytes[d]);
}
