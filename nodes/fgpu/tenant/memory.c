//go:build ignore

// Device memory by each family of allocation functions.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tenant.h"

static CUresult malloc_take(struct held *h, size_t bytes) { return CU(cuMemAlloc, &h->pointer, bytes); }
static CUresult malloc_give(struct held *h) { return CU(cuMemFree, h->pointer); }

// Rows of 64 KiB, which every driver's pitch divides, so that what is asked for is what is used.
static CUresult pitch_take(struct held *h, size_t bytes) {
	size_t pitch, width = bytes < 65536 ? bytes : 65536;
	return CU(cuMemAllocPitch, &h->pointer, &pitch, width, bytes / width, 4);
}

static CUresult managed_take(struct held *h, size_t bytes) { return CU(cuMemAllocManaged, &h->pointer, bytes, CU_MEM_ATTACH_GLOBAL); }

static CUresult async_take(struct held *h, size_t bytes) {
	CUresult r = CU(cuMemAllocAsync, &h->pointer, bytes, NULL);
	return r ? r : CU(cuStreamSynchronize, NULL);
}

static CUresult async_give(struct held *h) {
	CUresult r = CU(cuMemFreeAsync, h->pointer, NULL);
	return r ? r : CU(cuStreamSynchronize, NULL);
}

// pool_take uses a pool of this process's own, made once.
static CUresult pool_take(struct held *h, size_t bytes) {
	static CUmemoryPool pool;
	if (!pool) {
		CUmemPoolProps props;
		memset(&props, 0, sizeof props);
		props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
		props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
		props.location.id = options.device;
		CUresult r = CU(cuMemPoolCreate, &pool, &props);
		if (r)
			return r;
	}
	CUresult r = CU(cuMemAllocFromPoolAsync, &h->pointer, bytes, pool, NULL);
	return r ? r : CU(cuStreamSynchronize, NULL);
}

// vmm_take makes physical memory, and maps it where the program can use it.
static CUresult vmm_take(struct held *h, size_t bytes) {
	CUmemAllocationProp prop;
	memset(&prop, 0, sizeof prop);
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.location.id = options.device;
	CUresult r = CU(cuMemCreate, &h->handle, bytes, &prop, 0);
	if (r)
		return r;
	CUmemAccessDesc access;
	memset(&access, 0, sizeof access);
	access.location = prop.location;
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	r = CU(cuMemAddressReserve, &h->pointer, bytes, 0, 0, 0);
	if (!r) {
		r = CU(cuMemMap, h->pointer, bytes, 0, h->handle, 0);
		if (!r) {
			r = CU(cuMemSetAccess, h->pointer, bytes, &access, 1);
			if (!r)
				return r;
			CU(cuMemUnmap, h->pointer, bytes);
		}
		CU(cuMemAddressFree, h->pointer, bytes);
	}
	CU(cuMemRelease, h->handle);
	return r;
}

// vmm_give releases the handle first, as PyTorch does: the memory lives until it is unmapped.
static CUresult vmm_give(struct held *h) {
	CUresult r = CU(cuMemRelease, h->handle);
	if (!r)
		r = CU(cuMemUnmap, h->pointer, h->bytes);
	return r ? r : CU(cuMemAddressFree, h->pointer, h->bytes);
}

// Texels of 4 bytes in rows of 64 KiB.
static CUresult array_take(struct held *h, size_t bytes) {
	CUDA_ARRAY_DESCRIPTOR d;
	memset(&d, 0, sizeof d);
	d.Format = CU_AD_FORMAT_FLOAT;
	d.NumChannels = 1;
	d.Width = bytes < 65536 ? (bytes + 3) / 4 : 16384;
	d.Height = bytes < 65536 ? 1 : bytes / 65536;
	return CU(cuArrayCreate, &h->array, &d);
}
static CUresult array_give(struct held *h) { return CU(cuArrayDestroy, h->array); }

static CUresult mipmap_take(struct held *h, size_t bytes) {
	CUDA_ARRAY3D_DESCRIPTOR d;
	memset(&d, 0, sizeof d);
	d.Format = CU_AD_FORMAT_FLOAT;
	d.NumChannels = 1;
	d.Width = bytes < 65536 ? (bytes + 3) / 4 : 16384;
	d.Height = bytes < 65536 ? 1 : bytes / 65536;
	return CU(cuMipmappedArrayCreate, &h->mipmap, &d, 1);
}
static CUresult mipmap_give(struct held *h) { return CU(cuMipmappedArrayDestroy, h->mipmap); }

// graph_take runs a graph of one node, which allocates: its memory comes from the device's graph pool, when the graph
// is launched, and stays until it is freed.
static CUresult graph_take(struct held *h, size_t bytes) {
	CUDA_MEM_ALLOC_NODE_PARAMS p;
	memset(&p, 0, sizeof p);
	p.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	p.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	p.poolProps.location.id = options.device;
	p.bytesize = bytes;
	CUgraphNode node;
	CUresult r = CU(cuGraphCreate, &h->graph, 0);
	if (r)
		return r;
	r = CU(cuGraphAddMemAllocNode, &node, h->graph, NULL, 0, &p);
	if (!r)
		r = CU(cuGraphInstantiateWithFlags, &h->exec, h->graph, 0);
	if (!r) {
		h->pointer = p.dptr;
		r = CU(cuGraphLaunch, h->exec, NULL);
		if (!r)
			r = CU(cuStreamSynchronize, NULL);
		if (!r)
			return r;
		CU(cuGraphExecDestroy, h->exec);
	}
	CU(cuGraphDestroy, h->graph);
	return r;
}

static CUresult graph_give(struct held *h) {
	CUresult r = async_give(h);
	CUresult second = CU(cuGraphExecDestroy, h->exec);
	r = r ? r : second;
	second = CU(cuGraphDestroy, h->graph);
	r = r ? r : second;
	CUdevice device; // the pool keeps what was freed until it is trimmed
	second = CU(cuDeviceGet, &device, options.device);
	if (!second)
		second = CU(cuDeviceGraphMemTrim, device);
	return r ? r : second;
}

const struct family families[] = {
	{"malloc", 512, malloc_take, malloc_give},
	{"pitch", 512, pitch_take, malloc_give},
	{"async", 2 << 20, async_take, async_give},
	{"pool", 2 << 20, pool_take, async_give},
	{"vmm", 2 << 20, vmm_take, vmm_give},
	{"array", 64 << 10, array_take, array_give},
	{"mipmap", 64 << 10, mipmap_take, mipmap_give},
	{"managed", 512, managed_take, malloc_give},
	{"graph", 2 << 20, graph_take, graph_give},
};
const size_t family_count = sizeof families / sizeof *families;

const struct family *family(const char *word) {
	for (size_t i = 0; i < family_count; i++)
		if (!strcmp(families[i].name, word))
			return &families[i];
	return NULL;
}

CUresult take(const struct family *f, struct held *h, size_t bytes) {
	memset(h, 0, sizeof *h);
	CUresult r = attach();
	if (!r)
		r = f->take(h, bytes);
	if (!r) {
		h->family = f;
		h->bytes = bytes;
	}
	return r;
}

// give forgets only what the driver has taken back.
CUresult give(struct held *h) {
	CUresult r = h->family->give(h);
	if (!r)
		h->family = NULL;
	return r;
}

// What the commands alloc and free know by its id, the index here.
static struct held table[4096];

// forget is for a forked child: what its parent holds is not its own.
void forget(void) { memset(table, 0, sizeof table); }

int do_alloc(int count, char **words) {
	uint64_t bytes;
	const struct family *f = count < 2 ? NULL : family(words[0]);
	if (!f || !number(words[1], &bytes))
		return -1;
	size_t id = 0;
	while (id < sizeof table / sizeof *table && table[id].family)
		id++;
	if (id == sizeof table / sizeof *table) {
		say("alloc %s %s too-many-held", words[0], words[1]);
		failed = true;
		return 2;
	}
	CUresult r = take(f, &table[id], bytes);
	if (r)
		say("alloc %s %llu %s", f->name, (unsigned long long)bytes, name(r));
	else
		say("alloc %s %llu ok id %zu", f->name, (unsigned long long)bytes, id);
	return 2;
}

int do_free(int count, char **words) {
	size_t size = sizeof table / sizeof *table, first = 0, end = size;
	uint64_t id;
	if (count < 1)
		return -1;
	if (!strcmp(words[0], "last")) {
		while (end > 1 && !table[end - 1].family)
			end--;
		first = end - 1;
	} else if (strcmp(words[0], "all")) {
		if (!number(words[0], &id) || id >= size)
			return -1;
		first = id;
		end = id + 1;
	}
	CUresult worst = CUDA_SUCCESS;
	unsigned freed = 0;
	for (size_t i = end; i-- > first;) {
		if (!table[i].family)
			continue;
		CUresult r = give(&table[i]);
		if (r)
			worst = r;
		else
			freed++;
	}
	say("free %s %s freed %u", words[0], name(worst), freed);
	return 1;
}

// largest is the greatest power of two times granule that does not exceed bytes, or 0.
static size_t largest(size_t granule, size_t bytes) {
	size_t n = 0;
	for (size_t s = granule; s <= bytes; s <<= 1)
		n = s;
	return n;
}

int do_fill(int count, char **words) {
	const struct family *f = count < 1 ? NULL : family(words[0]);
	if (!f)
		return -1;
	size_t before = 0, after = 0, all = 0, got = 0;
	CUresult r = attach();
	if (!r)
		r = CU(cuMemGetInfo, &before, &all);
	if (r) {
		say("fill %s %s", f->name, name(r));
		return 1;
	}
	// Twice what is said to be free is tried first: a fence that only reports would be found out.
	size_t id = 0, refused = 0;
	CUresult why = CUDA_SUCCESS;
	for (size_t step = largest(f->granule, before) * 2; step >= f->granule && id < sizeof table / sizeof *table;) {
		if (table[id].family) {
			id++;
			continue;
		}
		why = take(f, &table[id], step);
		if (why) {
			refused = step;
			step >>= 1;
		} else {
			got += step;
		}
	}
	r = CU(cuMemGetInfo, &after, &all);
	struct held one;
	CUresult byte = take(&families[0], &one, f->granule > after ? f->granule : after + 1);
	if (!byte)
		give(&one);
	bool over = got > before || refused != f->granule || !byte;
	failed = failed || over || r;
	say("fill %s %s total %zu before %zu after %zu granule %zu next %s", f->name, over ? "OVER" : "ok", got, before, after, f->granule,
		name(why));
	return 1;
}

int do_alloclat(int count, char **words) {
	uint64_t n;
	if (count < 1 || !number(words[0], &n) || !n || n > 10000000)
		return -1;
	uint64_t *taking = calloc(n, sizeof *taking), *giving = calloc(n, sizeof *giving);
	CUresult r = taking && giving ? attach() : CUDA_ERROR_OUT_OF_MEMORY;
	for (uint64_t i = 0; i < n && !r; i++) {
		CUdeviceptr p;
		uint64_t a = now_ns();
		r = CU(cuMemAlloc, &p, 1 << 20);
		uint64_t b = now_ns();
		if (!r)
			r = CU(cuMemFree, p);
		giving[i] = now_ns() - b;
		taking[i] = b - a;
	}
	if (r) {
		say("alloclat %s", name(r));
	} else {
		percentiles("alloclat alloc", taking, n);
		percentiles("alloclat free", giving, n);
	}
	free(taking);
	free(giving);
	return 1;
}

int do_free_unknown(int count, char **words) {
	(void)count, (void)words;
	CUresult r = attach();
	if (r) {
		say("free-unknown %s", name(r));
		return 0;
	}
	static char host[64];
	struct held h;
	say("free-unknown null %s", name(CU(cuMemFree, 0)));
	say("free-unknown foreign %s", name(CU(cuMemFree, (CUdeviceptr)0xdeadbeef000)));
	say("free-unknown host %s", name(CU(cuMemFree, (CUdeviceptr)(uintptr_t)host)));
	r = take(&families[0], &h, 1 << 20);
	if (r) {
		say("free-unknown alloc %s", name(r));
		return 0;
	}
	say("free-unknown inside %s", name(CU(cuMemFree, h.pointer + 4096)));
	say("free-unknown first %s", name(CU(cuMemFree, h.pointer)));
	say("free-unknown twice %s", name(CU(cuMemFree, h.pointer)));
	say("free-unknown async %s", name(CU(cuMemFreeAsync, (CUdeviceptr)0xdeadbeef000, NULL)));
	return 0;
}

// churn_take allocates 1 to 16 granules of some family, or of 128 KiB where they are small.
static CUresult churn_take(struct held *h, uint64_t x) {
	const struct family *f = &families[x % family_count];
	size_t unit = f->granule < (128 << 10) ? 128 << 10 : f->granule;
	return take(f, h, unit * (1 + (x >> 8) % 16));
}

int do_churn(int count, char **words) {
	uint64_t seed;
	if (count < 1 || !number(words[0], &seed))
		return -1;
	CUresult r = attach();
	if (r) {
		say("churn %s", name(r));
		return 1;
	}
	say("churn running");
	for (;;) {
		uint64_t x = next_random(&seed);
		struct held *h = &table[x % 64];
		if (h->family)
			r = give(h);
		else
			r = churn_take(h, x >> 8);
		if (r && r != CUDA_ERROR_OUT_OF_MEMORY) {
			say("churn %s", name(r));
			failed = true;
			return 1;
		}
	}
}
