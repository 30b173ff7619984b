//go:build ignore

// Stream-ordered memory. A pool reserves device memory in chunks of 32 MiB (bigger allocations: of their size, rounded
// up to 2 MiB), hands it out, and gives whole 2 MiB back at a synchronisation, down to its release threshold, or
// when it is trimmed. Holes between allocations are not simulated: what is free can always be used.

#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cuda_sim.h"

static CUmemoryPool make_pool(struct sim_device *d)
{
	CUmemoryPool p = make(POOL, sizeof *p);
	if (p) {
		p->device = d;
		p->properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
		p->properties.location = (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, (int)d->number};
	}
	return p;
}

// The lock is held.
static CUmemoryPool default_pool(struct sim_device *d)
{
	if (!is(d->default_pool, POOL)) {
		d->default_pool = make_pool(d);
		if (d->default_pool)
			d->default_pool->is_default = 1;
	}
	return d->default_pool;
}

static CUmemoryPool current_pool(struct sim_device *d)
{
	CUmemoryPool p;
	sim_lock();
	p = is(d->pool, POOL) ? d->pool : default_pool(d);
	sim_unlock();
	return p;
}

// Gives back what is free, as long as keep bytes stay reserved. The lock is held.
static void trim(CUmemoryPool p, uint64_t keep)
{
	uint64_t least = round_up(p->used, VMM_GRANULE);
	if (keep > least)
		least = keep >= p->reserved ? p->reserved : round_up(keep, VMM_GRANULE);
	if (least >= p->reserved)
		return;
	if (!p->is_host)
		device_release(p->device, p->reserved - least);
	p->reserved = least;
}

void pools_settle(struct sim_device *d)
{
	CUmemoryPool both[2] = {d->default_pool, d->pool};
	if (!both[0] && !both[1])
		return;
	sim_lock();
	for (int i = 0; i < 2; i++)
		if (is(both[i], POOL) && both[i]->reserved > both[i]->threshold)
			trim(both[i], both[i]->threshold);
	sim_unlock();
}

void pools_empty(struct sim_device *d)
{
	if (is(d->default_pool, POOL))
		trim(d->default_pool, 0);
	if (is(d->pool, POOL))
		trim(d->pool, 0);
}

// Reserves enough for so much more. The lock is held.
static CUresult grow(CUmemoryPool p, uint64_t bytes)
{
	uint64_t lacking = p->used + bytes > p->reserved ? p->used + bytes - p->reserved : 0;
	uint64_t chunk = lacking <= POOL_CHUNK ? POOL_CHUNK : round_up(lacking, VMM_GRANULE);
	uint64_t max = p->properties.maxSize;
	CUresult r = CUDA_SUCCESS;
	if (!lacking)
		return r;
	if (max && p->used + bytes > max)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!p->is_host)
		r = device_charge(p->device, chunk);
	if (r == CUDA_ERROR_OUT_OF_MEMORY && chunk > round_up(lacking, VMM_GRANULE)) { // near the end of the card in smaller steps
		chunk = round_up(lacking, VMM_GRANULE);
		r = device_charge(p->device, chunk);
	}
	if (r != CUDA_SUCCESS)
		return r;
	p->reserved += chunk;
	if (p->reserved > p->reserved_high)
		p->reserved_high = p->reserved;
	return CUDA_SUCCESS;
}

CUresult pool_allocate(CUmemoryPool p, size_t bytes, CUdeviceptr *out)
{
	struct allocation a = {.bytes = bytes, .mapped = round_up(bytes, 4096), .origin = POOLED, .device = p->device, .pool = p, .fd = -1};
	uint64_t size = round_up(bytes, LINEAR_GRANULE);
	CUresult r;

	if (bytes > 1ull << 46)
		return CUDA_ERROR_OUT_OF_MEMORY;
	sim_lock();
	r = grow(p, size);
	if (r == CUDA_SUCCESS && (!(a.base = map_memory(a.mapped, 0)) || remember(&a) != 0))
		r = CUDA_ERROR_OUT_OF_MEMORY;
	if (r == CUDA_SUCCESS) {
		p->used += size;
		if (p->used > p->used_high)
			p->used_high = p->used;
		*out = a.base;
	}
	sim_unlock();
	return r;
}

void pool_take_back(struct allocation *a)
{
	CUmemoryPool p = a->pool;
	if (!is(p, POOL) && p->head.kind != (uint32_t)~POOL)
		return;
	p->used -= round_up(a->bytes, LINEAR_GRANULE);
	if (p->head.kind != (uint32_t)~POOL)
		return;
	// Destroyed while it was in use: it ends with its last allocation.
	trim(p, 0);
}

static CUresult allocate(CUdeviceptr *out, size_t bytes, CUmemoryPool p, CUstream stream, int per_thread)
{
	REQUIRE_CONTEXT(c);
	CUstream s = stream_of(stream, per_thread, c);
	CUgraphNode n;
	CUresult r;
	if (!s)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!out || !bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (!p)
		p = current_pool(c->device);
	if (!is(p, POOL))
		return CUDA_ERROR_INVALID_VALUE;
	if (!s->capture)
		return pool_allocate(p, bytes, out);
	if (!(n = capture_node(s, CU_GRAPH_NODE_TYPE_MEM_ALLOC, &r)))
		return r;
	r = graph_add_alloc(n, c->device, bytes);
	*out = n->alloc.dptr;
	return r;
}

static CUresult give_back(CUdeviceptr ptr, CUstream stream, int per_thread)
{
	struct allocation *a;
	CUgraphNode n;
	REQUIRE_CONTEXT(c);
	CUstream s = stream_of(stream, per_thread, c);
	CUresult r = CUDA_SUCCESS;
	if (!s)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!ptr)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	a = find_allocation(ptr);
	if (!a || a->base != ptr || (a->origin != POOLED && a->origin != GRAPHED && a->origin != LINEAR && a->origin != MANAGED)) {
		r = CUDA_ERROR_INVALID_VALUE;
	} else if (s->capture) {
		sim_unlock();
		if (!(n = capture_node(s, CU_GRAPH_NODE_TYPE_MEM_FREE, &r)))
			return r;
		n->freed = ptr;
		return CUDA_SUCCESS;
	} else if (a->origin == GRAPHED) {
		graph_free_memory(a);
	} else {
		if (a->pool)
			pool_take_back(a);
		forget(a);
	}
	sim_unlock();
	return r;
}

#define ASYNC(suffix, per)                                                                                              \
	EXPORT CUresult cuMemAllocAsync##suffix(CUdeviceptr *ptr, size_t n, CUstream s) { return allocate(ptr, n, NULL, s, per); } \
	EXPORT CUresult cuMemFreeAsync##suffix(CUdeviceptr ptr, CUstream s) { return give_back(ptr, s, per); }          \
	EXPORT CUresult cuMemAllocFromPoolAsync##suffix(CUdeviceptr *ptr, size_t n, CUmemoryPool pool, CUstream s)      \
	{                                                                                                               \
		return pool ? allocate(ptr, n, pool, s, per) : CUDA_ERROR_INVALID_VALUE;                                \
	}
ASYNC(, 0)
ASYNC(_ptsz, 1)

// ---- pools ----

EXPORT CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties)
{
	struct sim_device *d;
	CUmemoryPool p;
	REQUIRE_INIT();
	if (!pool || !properties ||
	    (properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED && properties->allocType != CU_MEM_ALLOCATION_TYPE_MANAGED))
		return CUDA_ERROR_INVALID_VALUE;
	d = properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? device_of(properties->location.id) : device_of(0);
	if (!d)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!(p = make_pool(d)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	p->properties = *properties;
	p->is_host = properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE;
	*pool = p;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
	REQUIRE_INIT();
	if (!is(pool, POOL) || pool->is_default)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	if (pool->device->pool == pool)
		pool->device->pool = NULL;
	trim(pool, 0);
	pool->head.kind = (uint32_t)~POOL;
	sim_unlock();
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
	REQUIRE_INIT();
	if (!is(pool, POOL))
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	trim(pool, keep);
	sim_unlock();
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
	CUresult r = CUDA_SUCCESS;
	REQUIRE_INIT();
	if (!is(pool, POOL) || !value)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	switch (attribute) {
	case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: break; // free memory is always reused here
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: pool->threshold = *(cuuint64_t *)value; break;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		if (*(cuuint64_t *)value) // can only be reset
			r = CUDA_ERROR_INVALID_VALUE;
		else if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)
			pool->reserved_high = pool->reserved;
		else
			pool->used_high = pool->used;
		break;
	default: r = CUDA_ERROR_INVALID_VALUE;
	}
	sim_unlock();
	return r;
}

EXPORT CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
	CUresult r = CUDA_SUCCESS;
	REQUIRE_INIT();
	if (!is(pool, POOL) || !value)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	switch (attribute) {
	case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: *(int *)value = 1; break;
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: *(cuuint64_t *)value = pool->threshold; break;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT: *(cuuint64_t *)value = pool->reserved; break;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: *(cuuint64_t *)value = pool->reserved_high; break;
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: *(cuuint64_t *)value = pool->used; break;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH: *(cuuint64_t *)value = pool->used_high; break;
	default: r = CUDA_ERROR_INVALID_VALUE;
	}
	sim_unlock();
	return r;
}

EXPORT CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
	REQUIRE_INIT();
	return is(pool, POOL) && (map || !count) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool pool, CUmemLocation *location)
{
	REQUIRE_INIT();
	if (!flags || !is(pool, POOL) || !location)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device)
{
	struct sim_device *d;
	REQUIRE_INIT();
	if (!pool)
		return CUDA_ERROR_INVALID_VALUE;
	if (!(d = device_of(device)))
		return CUDA_ERROR_INVALID_DEVICE;
	sim_lock();
	*pool = default_pool(d);
	sim_unlock();
	return *pool ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device)
{
	struct sim_device *d;
	REQUIRE_INIT();
	if (!pool)
		return CUDA_ERROR_INVALID_VALUE;
	if (!(d = device_of(device)))
		return CUDA_ERROR_INVALID_DEVICE;
	*pool = current_pool(d);
	return *pool ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
	struct sim_device *d;
	REQUIRE_INIT();
	if (!(d = device_of(device)))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!is(pool, POOL) || pool->device != d || pool->is_host)
		return CUDA_ERROR_INVALID_VALUE;
	d->pool = pool;
	return CUDA_SUCCESS;
}

static CUresult of_location(CUmemLocation *location, CUmemAllocationType type, CUdevice *device)
{
	if (!location || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	*device = location->id;
	return type == CU_MEM_ALLOCATION_TYPE_PINNED ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

EXPORT CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
	CUdevice device;
	CUresult r = of_location(location, type, &device);
	return r == CUDA_SUCCESS ? cuDeviceGetDefaultMemPool(pool, device) : r;
}

EXPORT CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
	CUdevice device;
	CUresult r = of_location(location, type, &device);
	return r == CUDA_SUCCESS ? cuDeviceGetMemPool(pool, device) : r;
}

EXPORT CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
	CUdevice device;
	CUresult r = of_location(location, type, &device);
	return r == CUDA_SUCCESS ? cuDeviceSetMemPool(device, pool) : r;
}

// ---- pools of other processes: the memory stays charged to the exporter, and its contents are not shared ----

EXPORT CUresult cuMemPoolExportToShareableHandle(void *handle, CUmemoryPool pool, CUmemAllocationHandleType type, unsigned long long flags)
{
	char name[64] = "fairslice-simulated-pool";
	int fd;
	REQUIRE_INIT();
	if (!handle || !is(pool, POOL) || flags || pool->is_default || pool->properties.handleTypes != type)
		return CUDA_ERROR_INVALID_VALUE;
	if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_NOT_SUPPORTED;
	if ((fd = (int)syscall(SYS_memfd_create, name, MFD_CLOEXEC)) < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	if (write(fd, &pool->properties, sizeof pool->properties) != sizeof pool->properties) {
		close(fd);
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
	*(int *)handle = fd;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *handle, CUmemAllocationHandleType type, unsigned long long flags)
{
	CUmemPoolProps properties;
	REQUIRE_INIT();
	if (!pool || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
	    pread((int)(intptr_t)handle, &properties, sizeof properties, 0) != sizeof properties)
		return CUDA_ERROR_INVALID_VALUE;
	return cuMemPoolCreate(pool, &properties);
}

EXPORT CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *data, CUdeviceptr ptr)
{
	struct allocation *a;
	REQUIRE_INIT();
	if (!data)
		return CUDA_ERROR_INVALID_VALUE;
	memset(data, 0, sizeof *data);
	sim_lock();
	a = find_allocation(ptr);
	if (a && a->base == ptr && a->pool)
		memcpy(data->reserved, &a->bytes, sizeof a->bytes);
	else
		a = NULL;
	sim_unlock();
	return a ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemPoolImportPointer(CUdeviceptr *ptr, CUmemoryPool pool, CUmemPoolPtrExportData *data)
{
	struct allocation a = {.origin = POOLED, .fd = -1};
	CUresult r = CUDA_SUCCESS;
	REQUIRE_INIT();
	if (!ptr || !data || !is(pool, POOL))
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&a.bytes, data->reserved, sizeof a.bytes);
	if (!a.bytes || a.bytes > 1ull << 46)
		return CUDA_ERROR_INVALID_VALUE;
	a.mapped = round_up(a.bytes, 4096);
	a.device = pool->device;
	sim_lock();
	if (!(a.base = map_memory(a.mapped, 0)) || remember(&a) != 0)
		r = CUDA_ERROR_OUT_OF_MEMORY;
	sim_unlock();
	*ptr = a.base;
	return r;
}
