//go:build ignore

// Linear device memory, managed and pinned host memory, copies, and what a pointer is.

#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cuda_sim.h"
#include "mps.h"

// ---- the table of allocations: by address, ascending ----

static struct {
	struct allocation **list;
	size_t count, room;
	uint32_t generation;
	uint64_t next_id;
} table;

// The first entry that ends above ptr.
static size_t position(CUdeviceptr ptr)
{
	size_t low = 0, high;
	if (table.generation != sim.generation) { // what a parent had is none of a child's
		table.generation = sim.generation;
		table.count = 0;
	}
	for (high = table.count; low < high;) {
		size_t middle = (low + high) / 2;
		if (table.list[middle]->base + table.list[middle]->mapped <= ptr)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct allocation *find_allocation(CUdeviceptr ptr)
{
	size_t i = position(ptr);
	return i < table.count && table.list[i]->base <= ptr ? table.list[i] : NULL;
}

int remember(const struct allocation *a)
{
	size_t i = position(a->base);
	struct allocation *copy = malloc(sizeof *copy);
	if (table.count == table.room) {
		size_t room = table.room ? 2 * table.room : 256;
		struct allocation **list = realloc(table.list, room * sizeof *list);
		if (!list) {
			free(copy);
			return -1;
		}
		table.list = list;
		table.room = room;
	}
	if (!copy)
		return -1;
	*copy = *a;
	copy->id = ++table.next_id;
	memmove(&table.list[i + 1], &table.list[i], (table.count - i) * sizeof *table.list);
	table.list[i] = copy;
	table.count++;
	return 0;
}

void forget(struct allocation *a)
{
	size_t i = position(a->base);
	memmove(&table.list[i], &table.list[i + 1], (--table.count - i) * sizeof *table.list);
	munmap((void *)a->base, a->mapped);
	if (a->fd >= 0)
		close(a->fd);
	device_release(a->device, a->charged);
	free(a);
}

void forget_of_context(CUcontext c)
{
	for (size_t i = position(0); i < table.count;) {
		struct allocation *a = table.list[i];
		int of_pool = c->primary && a->pool && a->device == c->device;
		if ((a->context != c && !of_pool) || a->origin == RESERVED_RANGE) {
			i++;
			continue;
		}
		if (a->origin == GRAPHED) { // its address belongs to the graph
			graph_free_memory(a);
			continue;
		}
		if (a->pool)
			pool_take_back(a);
		forget(a);
	}
}

CUdeviceptr map_memory(uint64_t bytes, int low)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (low ? MAP_32BIT : 0), -1, 0);
	return at == MAP_FAILED ? 0 : (CUdeviceptr)(uintptr_t)at;
}

static uint64_t pages(uint64_t bytes) { return round_up(bytes, 4096); }

// ---- allocating ----

#define MOST (1ull << 46) // more than any simulated GPU has, and no sum with it overflows

static CUresult allocate(CUdeviceptr *out, uint64_t bytes, enum origin origin, int low)
{
	struct allocation a = {.bytes = bytes, .origin = origin, .fd = -1};
	REQUIRE_CONTEXT(c);
	CUresult r = capture_permits();
	if (r != CUDA_SUCCESS)
		return r;
	if (!out || bytes == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (bytes > MOST)
		return CUDA_ERROR_OUT_OF_MEMORY;
	a.device = c->device;
	a.context = c;
	a.charged = round_up(bytes, LINEAR_GRANULE);
	a.mapped = pages(bytes);
	if ((r = device_charge(c->device, a.charged)) != CUDA_SUCCESS)
		return r;
	sim_lock();
	if (!(a.base = map_memory(a.mapped, low)) || remember(&a) != 0) {
		device_release(a.device, a.charged);
		r = CUDA_ERROR_OUT_OF_MEMORY;
	}
	sim_unlock();
	*out = a.base;
	return r;
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *ptr, size_t bytes) { return allocate(ptr, bytes, LINEAR, 0); }

EXPORT CUresult cuMemAlloc(CUdeviceptr_v1 *ptr, unsigned int bytes)
{
	CUdeviceptr p;
	CUresult r = ptr ? allocate(&p, bytes, LINEAR, 1) : CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		*ptr = (CUdeviceptr_v1)p;
	return r;
}

EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr *ptr, size_t *pitch, size_t width, size_t height, unsigned int elementBytes)
{
	size_t row;
	CUresult r;
	if (!ptr || !pitch || !width || !height || (elementBytes != 4 && elementBytes != 8 && elementBytes != 16))
		return CUDA_ERROR_INVALID_VALUE;
	if (width > MOST || height > MOST || (row = round_up(width, 512)) > MOST / height)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = allocate(ptr, row * height, LINEAR, 0);
	if (r == CUDA_SUCCESS)
		*pitch = row;
	return r;
}

EXPORT CUresult cuMemAllocPitch(CUdeviceptr_v1 *ptr, unsigned int *pitch, unsigned int width, unsigned int height, unsigned int elementBytes)
{
	CUdeviceptr p;
	CUresult r;
	uint64_t row = round_up(width, 512);
	if (!ptr || !pitch || !width || !height || (elementBytes != 4 && elementBytes != 8 && elementBytes != 16))
		return CUDA_ERROR_INVALID_VALUE;
	r = allocate(&p, row * height, LINEAR, 1);
	if (r == CUDA_SUCCESS) {
		*ptr = (CUdeviceptr_v1)p;
		*pitch = (unsigned)row;
	}
	return r;
}

// Managed memory is counted where it is allocated: it is as if all of it had been moved to the device.
EXPORT CUresult cuMemAllocManaged(CUdeviceptr *ptr, size_t bytes, unsigned int flags)
{
	if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)
		return CUDA_ERROR_INVALID_VALUE;
	return allocate(ptr, bytes, MANAGED, 0);
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr ptr)
{
	struct allocation *a;
	struct sim_device *d;
	CUresult r;
	REQUIRE_INIT();
	if (!ptr)
		return CUDA_SUCCESS;
	if ((r = capture_permits()) != CUDA_SUCCESS)
		return r;
	sim_lock();
	a = find_allocation(ptr);
	if (!a || a->base != ptr || (a->origin != LINEAR && a->origin != MANAGED && a->origin != POOLED && a->origin != GRAPHED)) {
		sim_unlock();
		return CUDA_ERROR_INVALID_VALUE;
	}
	d = a->device;
	if (a->pool)
		pool_take_back(a);
	if (a->origin == GRAPHED)
		graph_free_memory(a);
	else
		forget(a);
	sim_unlock();
	device_drain(d); // it waits for all work, as the real one does
	pools_settle(d);
	return CUDA_SUCCESS;
}
EXPORT CUresult cuMemFree(CUdeviceptr_v1 ptr) { return cuMemFree_v2(ptr); }

EXPORT CUresult cuMemGetInfo_v2(size_t *free, size_t *total)
{
	uint64_t all, used, own;
	REQUIRE_CONTEXT(c);
	struct sim_device *d = c->device;
	CUresult r = device_attach(d);
	if (r != CUDA_SUCCESS)
		return r;
	if (!free || !total)
		return CUDA_ERROR_INVALID_VALUE;
	all = d->instance ? d->instance->bytes : sim.conf.spec.bytes;
	used = ledger_used(d->gpu, d->instance ? d->instance->gpu_instance : 0);
	used = used > all ? all : used;
	*free = all - used;
	*total = all;
	if (d->limits.own_limit < all) { // of an MPS client
		own = __atomic_load_n(&d->slot->bytes, __ATOMIC_ACQUIRE);
		*total = d->limits.own_limit;
		own = own > *total ? 0 : *total - own;
		*free = *free < own ? *free : own;
	}
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetInfo(unsigned int *free, unsigned int *total)
{
	size_t f, t;
	CUresult r = free && total ? cuMemGetInfo_v2(&f, &t) : CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS) {
		*free = f > 0xffffffff ? 0xffffffff : (unsigned)f;
		*total = t > 0xffffffff ? 0xffffffff : (unsigned)t;
	}
	return r;
}

// ---- pinned host memory: not the device's ----

static CUresult pin(void **out, uint64_t bytes)
{
	struct allocation a = {.bytes = bytes, .mapped = pages(bytes), .origin = PINNED, .fd = -1};
	REQUIRE_CONTEXT(c);
	CUresult r = capture_permits();
	if (r != CUDA_SUCCESS)
		return r;
	if (!out || !bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (bytes > MOST)
		return CUDA_ERROR_OUT_OF_MEMORY;
	a.context = c;
	sim_lock();
	if (!(a.base = map_memory(a.mapped, 0)) || remember(&a) != 0)
		r = CUDA_ERROR_OUT_OF_MEMORY;
	sim_unlock();
	*out = (void *)(uintptr_t)a.base;
	return r;
}

EXPORT CUresult cuMemAllocHost_v2(void **ptr, size_t bytes) { return pin(ptr, bytes); }
EXPORT CUresult cuMemAllocHost(void **ptr, unsigned int bytes) { return pin(ptr, bytes); }
EXPORT CUresult cuMemHostAlloc(void **ptr, size_t bytes, unsigned int flags) { return flags > 7 ? CUDA_ERROR_INVALID_VALUE : pin(ptr, bytes); }

EXPORT CUresult cuMemFreeHost(void *ptr)
{
	struct allocation *a;
	CUresult r = CUDA_ERROR_INVALID_VALUE;
	REQUIRE_INIT();
	sim_lock();
	a = find_allocation((CUdeviceptr)(uintptr_t)ptr);
	if (a && a->base == (CUdeviceptr)(uintptr_t)ptr && a->origin == PINNED) {
		forget(a);
		r = CUDA_SUCCESS;
	}
	sim_unlock();
	return r;
}

// Registering changes nothing where device memory is host memory.
EXPORT CUresult cuMemHostRegister_v2(void *ptr, size_t bytes, unsigned int flags)
{
	REQUIRE_CONTEXT(c);
	(void)c;
	return ptr && bytes && flags < 16 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
EXPORT CUresult cuMemHostRegister(void *ptr, size_t bytes, unsigned int flags) { return cuMemHostRegister_v2(ptr, bytes, flags); }

EXPORT CUresult cuMemHostUnregister(void *ptr)
{
	REQUIRE_CONTEXT(c);
	(void)c;
	return ptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *ptr, void *host, unsigned int flags)
{
	REQUIRE_CONTEXT(c);
	(void)c;
	if (!ptr || !host || flags)
		return CUDA_ERROR_INVALID_VALUE;
	*ptr = (CUdeviceptr)(uintptr_t)host;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemHostGetDevicePointer(CUdeviceptr_v1 *ptr, void *host, unsigned int flags)
{
	(void)ptr, (void)host, (void)flags;
	return CUDA_ERROR_NOT_SUPPORTED; // host addresses do not fit
}

EXPORT CUresult cuMemHostGetFlags(unsigned int *flags, void *host)
{
	REQUIRE_CONTEXT(c);
	(void)c;
	if (!flags || !host)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = CU_MEMHOSTALLOC_DEVICEMAP;
	return CUDA_SUCCESS;
}

// ---- copies ----

// Whether the range is device memory of this process, from one allocation. NULL bytes are everywhere.
static int on_device(CUdeviceptr ptr, size_t bytes)
{
	struct allocation *a;
	int yes;
	sim_lock();
	a = find_allocation(ptr);
	yes = a && a->bytes >= bytes && ptr - a->base <= a->bytes - bytes &&
	      (a->origin != RESERVED_RANGE || range_mapped(a, ptr, bytes));
	sim_unlock();
	return yes || !bytes;
}

#define DST 1
#define SRC 2

// device says which ends must be device memory. A copy takes no device time. Only a synchronous one waits for what
// is before it: nothing that is still queued writes memory.
static CUresult copy(void *dst, const void *src, size_t bytes, int device, CUstream stream, int per_thread, int sync)
{
	REQUIRE_CONTEXT(c);
	CUresult r = sync ? capture_permits() : CUDA_SUCCESS;
	CUstream s = stream_of(stream, per_thread, c);
	if (r != CUDA_SUCCESS)
		return r;
	if (!s)
		return CUDA_ERROR_INVALID_HANDLE;
	if (bytes && (!dst || !src || ((device & DST) && !on_device((CUdeviceptr)(uintptr_t)dst, bytes)) ||
		      ((device & SRC) && !on_device((CUdeviceptr)(uintptr_t)src, bytes))))
		return CUDA_ERROR_INVALID_VALUE;
	if (s->capture)
		return capture_node(s, CU_GRAPH_NODE_TYPE_MEMCPY, &r) ? CUDA_SUCCESS : r;
	if ((r = device_usable(c->device)) != CUDA_SUCCESS)
		return r;
	if (sync)
		device_drain(c->device);
	memmove(dst, src, bytes);
	return CUDA_SUCCESS;
}

static CUresult set(CUdeviceptr dst, unsigned value, size_t count, size_t width, CUstream stream, int per_thread, int sync)
{
	REQUIRE_CONTEXT(c);
	CUresult r = sync ? capture_permits() : CUDA_SUCCESS;
	CUstream s = stream_of(stream, per_thread, c);
	size_t bytes;
	if (r != CUDA_SUCCESS)
		return r;
	if (!s)
		return CUDA_ERROR_INVALID_HANDLE;
	if (count > MOST || dst % width || !on_device(dst, bytes = count * width))
		return CUDA_ERROR_INVALID_VALUE;
	if (s->capture)
		return capture_node(s, CU_GRAPH_NODE_TYPE_MEMSET, &r) ? CUDA_SUCCESS : r;
	if ((r = device_usable(c->device)) != CUDA_SUCCESS)
		return r;
	if (sync)
		device_drain(c->device);
	if (value == 0 && bytes >= 1 << 20) { // whole pages of zeros need not be there at all
		uintptr_t from = round_up(dst, 4096), to = (dst + bytes) / 4096 * 4096;
		if (madvise((void *)from, to - from, MADV_DONTNEED) == 0) {
			memset((void *)(uintptr_t)dst, 0, from - dst);
			memset((void *)to, 0, dst + bytes - to);
			return CUDA_SUCCESS;
		}
	}
	for (size_t i = 0; i < count && width == 2; i++)
		((uint16_t *)(uintptr_t)dst)[i] = (uint16_t)value;
	for (size_t i = 0; i < count && width == 4; i++)
		((uint32_t *)(uintptr_t)dst)[i] = value;
	if (width == 1)
		memset((void *)(uintptr_t)dst, (int)value, count);
	return CUDA_SUCCESS;
}

#define P(x) ((void *)(uintptr_t)(x))

#define COPIES(suffix, per)                                                                                                    \
	EXPORT CUresult cuMemcpy##suffix(CUdeviceptr dst, CUdeviceptr src, size_t n) { return copy(P(dst), P(src), n, 0, NULL, per, 1); } \
	EXPORT CUresult cuMemcpyHtoD_v2##suffix(CUdeviceptr dst, const void *src, size_t n) { return copy(P(dst), src, n, DST, NULL, per, 1); } \
	EXPORT CUresult cuMemcpyDtoH_v2##suffix(void *dst, CUdeviceptr src, size_t n) { return copy(dst, P(src), n, SRC, NULL, per, 1); } \
	EXPORT CUresult cuMemcpyDtoD_v2##suffix(CUdeviceptr dst, CUdeviceptr src, size_t n) { return copy(P(dst), P(src), n, DST | SRC, NULL, per, 1); } \
	EXPORT CUresult cuMemsetD8_v2##suffix(CUdeviceptr dst, unsigned char v, size_t n) { return set(dst, v, n, 1, NULL, per, 1); }   \
	EXPORT CUresult cuMemsetD16_v2##suffix(CUdeviceptr dst, unsigned short v, size_t n) { return set(dst, v, n, 2, NULL, per, 1); } \
	EXPORT CUresult cuMemsetD32_v2##suffix(CUdeviceptr dst, unsigned int v, size_t n) { return set(dst, v, n, 4, NULL, per, 1); }
COPIES(, 0)
COPIES(_ptds, 1)

#define ASYNC_COPIES(suffix, per)                                                                                              \
	EXPORT CUresult cuMemcpyAsync##suffix(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream s) { return copy(P(dst), P(src), n, 0, s, per, 0); } \
	EXPORT CUresult cuMemcpyHtoDAsync_v2##suffix(CUdeviceptr dst, const void *src, size_t n, CUstream s) { return copy(P(dst), src, n, DST, s, per, 0); } \
	EXPORT CUresult cuMemcpyDtoHAsync_v2##suffix(void *dst, CUdeviceptr src, size_t n, CUstream s) { return copy(dst, P(src), n, SRC, s, per, 0); } \
	EXPORT CUresult cuMemcpyDtoDAsync_v2##suffix(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream s) { return copy(P(dst), P(src), n, DST | SRC, s, per, 0); } \
	EXPORT CUresult cuMemsetD8Async##suffix(CUdeviceptr dst, unsigned char v, size_t n, CUstream s) { return set(dst, v, n, 1, s, per, 0); }   \
	EXPORT CUresult cuMemsetD16Async##suffix(CUdeviceptr dst, unsigned short v, size_t n, CUstream s) { return set(dst, v, n, 2, s, per, 0); } \
	EXPORT CUresult cuMemsetD32Async##suffix(CUdeviceptr dst, unsigned int v, size_t n, CUstream s) { return set(dst, v, n, 4, s, per, 0); }   \
	EXPORT CUresult cuMemPrefetchAsync##suffix(CUdeviceptr ptr, size_t n, CUdevice device, CUstream s)                             \
	{                                                                                                                              \
		REQUIRE_CONTEXT(c);                                                                                                    \
		if (!stream_of(s, per, c))                                                                                             \
			return CUDA_ERROR_INVALID_HANDLE;                                                                              \
		if (device != -1 && !device_of(device)) /* -1: the host */                                                             \
			return CUDA_ERROR_INVALID_DEVICE;                                                                              \
		return on_device(ptr, n) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;                                                    \
	}
ASYNC_COPIES(, 0)
ASYNC_COPIES(_ptsz, 1)

// ---- what a pointer is ----

EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr ptr)
{
	struct allocation *a;
	REQUIRE_INIT();
	sim_lock();
	a = find_allocation(ptr);
	if (a && base)
		*base = a->base;
	if (a && bytes)
		*bytes = a->bytes;
	sim_unlock();
	return a ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

EXPORT CUresult cuMemGetAddressRange(CUdeviceptr_v1 *base, unsigned int *bytes, CUdeviceptr_v1 ptr)
{
	CUdeviceptr b;
	size_t n;
	CUresult r = cuMemGetAddressRange_v2(&b, &n, ptr);
	if (r == CUDA_SUCCESS && base)
		*base = (CUdeviceptr_v1)b;
	if (r == CUDA_SUCCESS && bytes)
		*bytes = (unsigned)n;
	return r;
}

static CUresult attribute(void *value, CUpointer_attribute attribute, CUdeviceptr ptr, const struct allocation *a)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT: *(CUcontext *)value = a->context; break;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: *(unsigned *)value = a->device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST; break;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: *(CUdeviceptr *)value = ptr; break;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		if (a->origin != MANAGED && a->origin != PINNED)
			return CUDA_ERROR_INVALID_VALUE;
		*(void **)value = P(ptr);
		break;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID: *(unsigned long long *)value = a->id; break;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED: *(unsigned *)value = a->origin == MANAGED; break;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int *)value = a->device ? (int)a->device->number : 0; break;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE: *(unsigned *)value = a->origin == LINEAR; break;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: *(CUdeviceptr *)value = a->base; break;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *(size_t *)value = a->bytes; break;
	case CU_POINTER_ATTRIBUTE_MAPPED: *(unsigned *)value = 1; break;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: *(unsigned *)value = 0; break;
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: *(unsigned *)value = CU_MEM_ACCESS_FLAGS_PROT_READWRITE; break;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: *(CUmemoryPool *)value = a->pool; break;
	default: return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

EXPORT CUresult cuPointerGetAttribute(void *value, CUpointer_attribute which, CUdeviceptr ptr)
{
	struct allocation *a;
	CUresult r = CUDA_ERROR_INVALID_VALUE; // as of a pointer that CUDA has never seen
	REQUIRE_INIT();
	if (!value)
		return r;
	sim_lock();
	if ((a = find_allocation(ptr)))
		r = attribute(value, which, ptr, a);
	sim_unlock();
	return r;
}

// Unlike the call above this one answers zeros for a pointer that CUDA has never seen.
EXPORT CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes, void **values, CUdeviceptr ptr)
{
	static const struct allocation nowhere = {.origin = LINEAR};
	struct allocation *a;
	REQUIRE_INIT();
	if (!count || !attributes || !values)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	a = find_allocation(ptr);
	for (unsigned i = 0; i < count; i++) {
		if (!a && attributes[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
			*(unsigned *)values[i] = 0;
		else if (!a && attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
			*(int *)values[i] = -2;
		else if (attribute(values[i], attributes[i], a ? ptr : 0, a ? a : &nowhere) != CUDA_SUCCESS)
			*(void **)values[i] = NULL;
	}
	sim_unlock();
	return CUDA_SUCCESS;
}

EXPORT CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute which, CUdeviceptr ptr)
{
	int known;
	REQUIRE_INIT();
	sim_lock();
	known = find_allocation(ptr) != NULL;
	sim_unlock();
	return known && value && which == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
