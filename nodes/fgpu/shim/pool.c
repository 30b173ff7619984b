//go:build ignore

// Stream-ordered memory. A pool takes memory from the device in chunks of its own choice and keeps what is freed. So
// not pointers are charged but pools, by what the driver says each has reserved.
#include "shim.h"

#include <string.h>

enum { CHUNK = 32 << 20, GRANULE = 2 << 20 }; // what pools take at a time, and at least

static uint64_t attribute(CUmemoryPool pool, CUmemPool_attribute a) {
	cuuint64_t n = 0;
	return CALL(cuMemPoolGetAttribute, pool, a, &n) == CUDA_SUCCESS ? n : 0;
}

// ---- whose memory a pool's is ----

// A pool made by the program tells at once. POOL.other: 1 where its memory is the device's.
CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties) {
	CUresult r = CALL(cuMemPoolCreate, pool, properties);
	if (r != CUDA_SUCCESS || !fenced())
		return r;
	bool on_device = properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE || properties->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED;
	int d = on_device ? (properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? device_of(properties->location.id) : current_device()) : 0;
	if (d < 0) { // not the job's device, or none at all
		CALL(cuMemPoolDestroy, *pool);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	struct entry e = { .key = (uint64_t)(uintptr_t)*pool, .kind = POOL, .device = (uint32_t)d, .other = on_device };
	entries_put(&e);
	return r;
}

// stream_device is the device on which a stream's work runs. A stream may belong to another context than the current one.
static int stream_device(CUstream stream, bool perthread) {
	CUcontext of = NULL, current = NULL, popped;
	if ((uintptr_t)stream > 2 && CALL(cuCtxGetCurrent, &current) == CUDA_SUCCESS &&
	    (perthread ? CALL(cuStreamGetCtx_ptsz, stream, &of) : CALL(cuStreamGetCtx, stream, &of)) == CUDA_SUCCESS && of && of != current) {
		int d = NO_CONTEXT;
		if (CALL(cuCtxPushCurrent_v2, of) == CUDA_SUCCESS) {
			d = current_device();
			CALL(cuCtxPopCurrent_v2, &popped);
		}
		return d;
	}
	return current_device();
}

// default_of finds the device whose own pool this is: that one is made by nobody.
static int default_of(CUmemoryPool pool, int otherwise) {
	int count = 0;
	CALL(cuDeviceGetCount, &count);
	for (CUdevice i = 0; i < count; i++) {
		CUmemoryPool own = NULL;
		if (CALL(cuDeviceGetDefaultMemPool, &own, i) == CUDA_SUCCESS && own == pool)
			return device_of(i);
	}
	return otherwise;
}

// ---- charging ----

static void set_bytes(struct entry *e, void *with) { e->bytes = *(uint64_t *)with; }

// reread brings a pool's charge down to what it has reserved. The caller holds process.pools.
static void reread(const struct entry *e) {
	if (!e->other)
		return;
	uint64_t reserved = attribute((CUmemoryPool)(uintptr_t)e->key, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
	if (reserved >= e->bytes)
		return;
	if (entries_change(POOL, e->key, set_bytes, &reserved))
		release(e->device, e->bytes - reserved);
}

void pools_reread(void) {
	struct process *p = process();
	if (!p || !__atomic_load_n(&p->pools_used, __ATOMIC_RELAXED))
		return;
	struct entry e;
	lock(&p->pools);
	for (size_t at = 0; entries_next(POOL, &at, &e);)
		if (e.bytes)
			reread(&e);
	unlock(&p->pools);
}

// begin claims what the pool may take: a whole chunk, or all that is asked for. If there is no room for that, it may still do with what
// it has idle, or, where the GPU itself has no chunk left, with less; else the driver would take more than the job may hold, if only for a moment.
static bool begin(struct charge *c, const struct entry *e, uint64_t bytes) {
	int d = (int)e->device;
	CUmemoryPool pool = (CUmemoryPool)(uintptr_t)e->key;
	if (charge_begin_on(c, d, bytes <= CHUNK ? CHUNK : round_up(bytes, GRANULE)))
		return true;
	uint64_t reserved = attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), used = attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
	uint64_t idle = reserved > used ? reserved - used : 0, lacking = bytes > idle ? bytes - idle : 0;
	size_t available = 0, total = 0;
	if (lacking && lacking <= CHUNK && (CALL(cuMemGetInfo_v2, &available, &total) != CUDA_SUCCESS || available >= CHUNK))
		return false;
	return charge_begin_on(c, d, round_up(lacking, GRANULE));
}

typedef CUresult allocate(CUdeviceptr *p, size_t bytes, CUmemoryPool pool, CUstream stream);

// charged runs one allocation from a pool that is entered. The caller holds process.pools, so that growth is ascribed to one call.
static CUresult charged(CUdeviceptr *p, size_t bytes, CUmemoryPool pool, CUstream stream, bool perthread, allocate *call, struct entry *e) {
	struct charge c;
	if (!begin(&c, e, bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult r = call(p, bytes, pool, stream);
	uint64_t reserved = attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), had = e->bytes;
	if (reserved <= had) { // nothing new, or a capture: the graph is charged when it runs
		charge_cancel(&c);
		if (entries_change(POOL, e->key, set_bytes, &reserved))
			release(e->device, had - reserved);
		return r;
	}
	if (charge_settle(&c, reserved - had)) {
		entries_change(POOL, e->key, set_bytes, &reserved);
		return r;
	}
	// It took more than there is room for: back with it, and with what the pool keeps.
	if (r == CUDA_SUCCESS) {
		perthread ? CALL(cuMemFreeAsync_ptsz, *p, stream) : CALL(cuMemFreeAsync, *p, stream);
		perthread ? CALL(cuStreamSynchronize_ptsz, stream) : CALL(cuStreamSynchronize, stream);
		CALL(cuMemPoolTrimTo, pool, 0);
		*p = 0;
	}
	charge_cancel(&c);
	reserved = attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
	if (reserved > had)
		charge_unasked(e->device, reserved - had);
	else
		release(e->device, had - reserved);
	entries_change(POOL, e->key, set_bytes, &reserved);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult from_pool(CUdeviceptr *p, size_t bytes, CUmemoryPool pool, int d, CUstream stream, bool perthread, allocate *call) {
	struct process *own = process();
	struct entry e;
	lock(&own->pools);
	if (!entries_get(POOL, (uint64_t)(uintptr_t)pool, &e)) {
		e = (struct entry){ .key = (uint64_t)(uintptr_t)pool, .kind = POOL, .device = (uint32_t)d, .other = 1 };
		if (!entries_put(&e)) {
			unlock(&own->pools);
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
	}
	__atomic_store_n(&own->pools_used, 1, __ATOMIC_RELAXED);
	CUresult r = e.other ? charged(p, bytes, pool, stream, perthread, call, &e) : call(p, bytes, pool, stream);
	unlock(&own->pools);
	return r;
}

#define ALLOCATE(suffix, perthread)                                                                                   \
	static CUresult plain##suffix(CUdeviceptr *p, size_t bytes, CUmemoryPool pool, CUstream stream) {              \
		(void)pool;                                                                                            \
		return CALL(cuMemAllocAsync##suffix, p, bytes, stream);                                                \
	}                                                                                                              \
	static CUresult chosen##suffix(CUdeviceptr *p, size_t bytes, CUmemoryPool pool, CUstream stream) {             \
		return CALL(cuMemAllocFromPoolAsync##suffix, p, bytes, pool, stream);                                  \
	}                                                                                                              \
	CUresult cuMemAllocAsync##suffix(CUdeviceptr *p, size_t bytes, CUstream stream) {                              \
		int d = fenced() ? stream_device(stream, perthread) : NO_DEVICE;                                       \
		if (d == NO_CONTEXT)                                                                                   \
			return CALL(cuMemAllocAsync##suffix, p, bytes, stream);                                        \
		CUmemoryPool pool = d >= 0 ? pool_of(d) : NULL;                                                        \
		if (!pool)                                                                                             \
			return CUDA_ERROR_OUT_OF_MEMORY;                                                               \
		return from_pool(p, bytes, pool, d, stream, perthread, plain##suffix);                                 \
	}                                                                                                              \
	CUresult cuMemAllocFromPoolAsync##suffix(CUdeviceptr *p, size_t bytes, CUmemoryPool pool, CUstream stream) {   \
		struct entry known;                                                                                    \
		int d = fenced() ? stream_device(stream, perthread) : NO_DEVICE;                                       \
		if (d >= 0 && !entries_get(POOL, (uint64_t)(uintptr_t)pool, &known))                                   \
			d = default_of(pool, d);                                                                       \
		if (d == NO_DEVICE)                                                                                    \
			return CUDA_ERROR_OUT_OF_MEMORY;                                                               \
		if (d == NO_CONTEXT)                                                                                   \
			return CALL(cuMemAllocFromPoolAsync##suffix, p, bytes, pool, stream);                          \
		return from_pool(p, bytes, pool, d, stream, perthread, chosen##suffix);                                \
	}                                                                                                              \
	CUresult cuMemFreeAsync##suffix(CUdeviceptr p, CUstream stream) {                                              \
		struct entry e;                                                                                        \
		bool known = p && entries_take(LINEAR, p, &e); /* it may come from cuMemAlloc */                       \
		CUresult r = CALL(cuMemFreeAsync##suffix, p, stream);                                                  \
		if (known && r == CUDA_SUCCESS)                                                                        \
			release(e.device, e.bytes);                                                                    \
		else if (known)                                                                                        \
			entries_put(&e);                                                                               \
		return r;                                                                                              \
	}

// pool_of is the pool that cuMemAllocAsync takes from on a device of the slice.
static CUmemoryPool pool_of(int d) {
	int count = 0;
	CUmemoryPool pool = NULL;
	CALL(cuDeviceGetCount, &count);
	for (CUdevice i = 0; i < count; i++)
		if (device_of(i) == d)
			return CALL(cuDeviceGetMemPool, &pool, i) == CUDA_SUCCESS ? pool : NULL;
	return NULL;
}

ALLOCATE(, false)
ALLOCATE(_ptsz, true)

// ---- giving back ----

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep) {
	CUresult r = CALL(cuMemPoolTrimTo, pool, keep);
	pools_reread();
	return r;
}

// A destroyed pool lives on in the allocations that were made from it; nothing tells when the last is freed. What is
// used then stays charged, as an entry without a handle, until the process ends.
CUresult cuMemPoolDestroy(CUmemoryPool pool) {
	struct process *p = process();
	struct entry e;
	if (!fenced())
		return CALL(cuMemPoolDestroy, pool);
	lock(&p->pools);
	bool known = entries_take(POOL, (uint64_t)(uintptr_t)pool, &e);
	uint64_t used = known && e.other ? attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) : 0;
	CUresult r = CALL(cuMemPoolDestroy, pool);
	if (known && r != CUDA_SUCCESS)
		entries_put(&e);
	else if (known && e.bytes > used)
		release(e.device, e.bytes - used);
	unlock(&p->pools);
	return r;
}

// Waiting for the device lets pools give memory back; it is also when the gate learns that work has ended.
#define WAIT(call, what, stream)                                                 \
	uint64_t begun = gate_sync_begins();                                     \
	CUresult r = call;                                                       \
	gate_synced(begun, what, stream);                                        \
	pools_reread();                                                          \
	return r

CUresult cuCtxSynchronize(void) { WAIT(CALL(cuCtxSynchronize), SYNCED_ALL, NULL); }
CUresult cuCtxSynchronize_v2(CUcontext context) { WAIT(CALL(cuCtxSynchronize_v2, context), SYNCED_EVENT, NULL); }
CUresult cuStreamSynchronize(CUstream stream) { WAIT(CALL(cuStreamSynchronize, stream), SYNCED_STREAM, stream); }
CUresult cuStreamSynchronize_ptsz(CUstream stream) { WAIT(CALL(cuStreamSynchronize_ptsz, stream), SYNCED_STREAM, stream); }
CUresult cuEventSynchronize(CUevent event) { WAIT(CALL(cuEventSynchronize, event), SYNCED_EVENT, NULL); }
