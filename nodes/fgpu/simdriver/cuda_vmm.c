//go:build ignore

// Virtual memory management: address ranges, physical memory in multiples of 2 MiB, and the mappings between them.
// Physical memory lives, and stays charged, until its last handle is released and its last mapping is gone.

#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cuda_sim.h"

struct memory { // behind a CUmemGenericAllocationHandle
	struct head head;
	struct sim_device *device;
	CUmemAllocationProp properties;
	uint64_t bytes, charged;
	unsigned handles, mapped;
	char *base; // of its contents; NULL until it is mapped for the first time
	int fd;     // of shareable memory; else -1
	int multicast;
};

struct mapping {
	struct mapping *next;
	CUdeviceptr at;
	uint64_t bytes, offset;
	struct memory *memory;
};

#define MEMORY_OF(h) ((struct memory *)(uintptr_t)(h))

// ---- physical memory ----

static struct memory *make_memory(struct sim_device *d, uint64_t bytes, int fd)
{
	struct memory *m = make(MEMORY, sizeof *m);
	if (m) {
		m->device = d;
		m->bytes = bytes;
		m->handles = 1;
		m->fd = fd;
	}
	return m;
}

// The lock is held.
static void drop_if_unused(struct memory *m)
{
	if (m->handles || m->mapped)
		return;
	if (m->base)
		munmap(m->base, m->bytes);
	if (m->fd >= 0)
		close(m->fd);
	device_release(m->device, m->charged);
	m->head.kind = 0;
	free(m);
}

// A file's name says what it is to the process that imports it.
static int make_file(struct sim_device *d, uint64_t bytes)
{
	char name[96];
	int fd;
	snprintf(name, sizeof name, "fairslice-simulated-memory-%s", d ? d->uuid : "host");
	fd = (int)syscall(SYS_memfd_create, name, MFD_CLOEXEC);
	if (fd >= 0 && ftruncate(fd, (off_t)bytes) != 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *p, unsigned long long flags)
{
	struct sim_device *d = NULL;
	struct memory *m;
	int fd = -1;
	CUresult r = CUDA_SUCCESS;
	REQUIRE_INIT();
	if (!handle || !p || flags || !bytes || bytes % VMM_GRANULE || p->type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	if (p->location.type == CU_MEM_LOCATION_TYPE_DEVICE && !(d = device_of(p->location.id)))
		return CUDA_ERROR_INVALID_DEVICE;
	if (p->location.type < CU_MEM_LOCATION_TYPE_DEVICE || p->location.type > CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT)
		return CUDA_ERROR_INVALID_VALUE;
	if (p->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (bytes > 1ull << 46)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (d && (r = device_charge(d, bytes)) != CUDA_SUCCESS)
		return r;
	if (p->requestedHandleTypes && (fd = make_file(d, bytes)) < 0)
		r = CUDA_ERROR_OPERATING_SYSTEM;
	if (r != CUDA_SUCCESS || !(m = make_memory(d, bytes, fd))) {
		device_release(d, bytes);
		return r != CUDA_SUCCESS ? r : CUDA_ERROR_OUT_OF_MEMORY;
	}
	m->charged = d ? bytes : 0;
	m->properties = *p;
	*handle = (CUmemGenericAllocationHandle)(uintptr_t)m;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	struct memory *m = MEMORY_OF(handle);
	CUresult r = CUDA_ERROR_INVALID_VALUE;
	REQUIRE_INIT();
	sim_lock();
	if (is(m, MEMORY) && m->handles) {
		m->handles--;
		drop_if_unused(m);
		r = CUDA_SUCCESS;
	}
	sim_unlock();
	return r;
}

EXPORT CUresult cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *p, CUmemAllocationGranularity_flags option)
{
	REQUIRE_INIT();
	if (!bytes || !p || (unsigned)option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
		return CUDA_ERROR_INVALID_VALUE;
	*bytes = VMM_GRANULE;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *p, CUmemGenericAllocationHandle handle)
{
	REQUIRE_INIT();
	if (!p || !is(MEMORY_OF(handle), MEMORY))
		return CUDA_ERROR_INVALID_VALUE;
	*p = MEMORY_OF(handle)->properties;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type, unsigned long long flags)
{
	struct memory *m = MEMORY_OF(handle);
	int fd;
	REQUIRE_INIT();
	if (!shareable || !is(m, MEMORY) || flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || m->fd < 0)
		return CUDA_ERROR_NOT_SUPPORTED;
	if ((fd = dup(m->fd)) < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	*(int *)shareable = fd;
	return CUDA_SUCCESS;
}

// Which device a shared file is memory of; -1 when it is none of ours. Whoever created it goes on being charged.
static int device_of_file(int fd, struct sim_device **d)
{
	char path[40], name[128];
	const char *uuid;
	long n;
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	n = readlink(path, name, sizeof name - 1);
	name[n > 0 ? n : 0] = 0;
	if (!(uuid = strstr(name, "fairslice-simulated-memory-")))
		return -1;
	uuid += strlen("fairslice-simulated-memory-");
	*d = NULL;
	for (unsigned i = 0; i < sim.count; i++)
		if (strncmp(uuid, sim.device[i].uuid, strlen(sim.device[i].uuid)) == 0)
			*d = &sim.device[i];
	return *d || strncmp(uuid, "host", 4) == 0 ? 0 : -1;
}

EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shareable, CUmemAllocationHandleType type)
{
	struct sim_device *d;
	struct memory *m;
	int fd = (int)(intptr_t)shareable, own;
	off_t bytes;
	REQUIRE_INIT();
	if (!handle)
		return CUDA_ERROR_INVALID_VALUE;
	if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (device_of_file(fd, &d) != 0 || (bytes = lseek(fd, 0, SEEK_END)) <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	if ((own = dup(fd)) < 0 || !(m = make_memory(d, (uint64_t)bytes, own)))
		return CUDA_ERROR_OPERATING_SYSTEM;
	m->properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	m->properties.requestedHandleTypes = type;
	m->properties.location = d ? (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, (int)d->number} : (CUmemLocation){CU_MEM_LOCATION_TYPE_HOST, 0};
	*handle = (CUmemGenericAllocationHandle)(uintptr_t)m;
	return CUDA_SUCCESS;
}

// ---- address ranges ----

EXPORT CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t bytes, size_t alignment, CUdeviceptr address, unsigned long long flags)
{
	struct allocation a = {.bytes = bytes, .mapped = bytes, .origin = RESERVED_RANGE, .fd = -1};
	size_t align = alignment > VMM_GRANULE ? alignment : VMM_GRANULE, over;
	char *at, *start;
	REQUIRE_INIT();
	if (!ptr || !bytes || bytes % VMM_GRANULE || (align & (align - 1)) || flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (bytes > 1ull << 46 || align > 1ull << 40)
		return CUDA_ERROR_OUT_OF_MEMORY;
	at = mmap((void *)(uintptr_t)address, bytes + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	start = (char *)(uintptr_t)round_up((uintptr_t)at, align);
	over = align - (size_t)(start - at);
	if (start > at)
		munmap(at, (size_t)(start - at));
	if (over)
		munmap(start + bytes, over);
	a.base = (CUdeviceptr)(uintptr_t)start;
	sim_lock();
	if (remember(&a) != 0) {
		munmap(start, bytes);
		a.base = 0;
	}
	sim_unlock();
	*ptr = a.base;
	return a.base ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuMemAddressFree(CUdeviceptr ptr, size_t bytes)
{
	struct allocation *a;
	CUresult r = CUDA_ERROR_INVALID_VALUE;
	REQUIRE_INIT();
	sim_lock();
	a = find_allocation(ptr);
	if (a && a->origin == RESERVED_RANGE && a->base == ptr && a->bytes == bytes && !a->mappings) {
		forget(a);
		r = CUDA_SUCCESS;
	}
	sim_unlock();
	return r;
}

// ---- mappings ----

static struct allocation *range(CUdeviceptr ptr, size_t bytes)
{
	struct allocation *a = find_allocation(ptr);
	return a && a->origin == RESERVED_RANGE && bytes && bytes <= a->bytes && ptr - a->base <= a->bytes - bytes ? a : NULL;
}

static int free_of_mappings(const struct allocation *a, CUdeviceptr ptr, size_t bytes)
{
	for (const struct mapping *m = a->mappings; m; m = m->next)
		if (ptr < m->at + m->bytes && m->at < ptr + bytes)
			return 0;
	return 1;
}

int range_mapped(const struct allocation *a, CUdeviceptr ptr, uint64_t bytes)
{
	uint64_t found = 0;
	for (const struct mapping *m = a->mappings; m; m = m->next) {
		CUdeviceptr from = m->at > ptr ? m->at : ptr, to = m->at + m->bytes < ptr + bytes ? m->at + m->bytes : ptr + bytes;
		if (from < to)
			found += to - from;
	}
	return found == bytes;
}

// Puts the memory's contents at an address. Several mappings of one memory show the same bytes.
static int show(struct memory *m, CUdeviceptr at, uint64_t bytes, uint64_t offset)
{
	void *to = (void *)(uintptr_t)at;
	if (m->fd >= 0)
		return mmap(to, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, m->fd, (off_t)offset) == to ? 0 : -1;
	if (!m->base) {
		char *base = mmap(NULL, m->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (base == MAP_FAILED)
			return -1;
		m->base = base;
	}
	return mremap(m->base + offset, 0, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to ? 0 : -1;
}

EXPORT CUresult cuMemMap(CUdeviceptr ptr, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	struct memory *m = MEMORY_OF(handle);
	struct mapping *new;
	struct allocation *a;
	CUresult r = CUDA_ERROR_INVALID_VALUE;
	REQUIRE_INIT();
	if (!(new = malloc(sizeof *new)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	sim_lock();
	// The real one allows no offset either.
	if (is(m, MEMORY) && m->handles && !flags && offset == 0 && bytes <= m->bytes && bytes % VMM_GRANULE == 0 &&
	    ptr % VMM_GRANULE == 0 && (a = range(ptr, bytes)) && free_of_mappings(a, ptr, bytes)) {
		r = show(m, ptr, bytes, offset) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
		if (r == CUDA_SUCCESS) {
			*new = (struct mapping){a->mappings, ptr, bytes, offset, m};
			a->mappings = new;
			a->device = m->device;
			m->mapped++;
			new = NULL;
		}
	}
	sim_unlock();
	free(new);
	return r;
}

EXPORT CUresult cuMemUnmap(CUdeviceptr ptr, size_t bytes)
{
	struct allocation *a;
	uint64_t found = 0;
	CUresult r = CUDA_ERROR_INVALID_VALUE;
	REQUIRE_INIT();
	sim_lock();
	a = range(ptr, bytes);
	for (struct mapping *m = a ? a->mappings : NULL; m; m = m->next)
		if (m->at >= ptr && m->at + m->bytes <= ptr + bytes)
			found += m->bytes;
	if (a && found == bytes) { // whole mappings only, and no gap
		for (struct mapping **at = &a->mappings, *m; (m = *at);) {
			if (m->at < ptr || m->at + m->bytes > ptr + bytes) {
				at = &m->next;
				continue;
			}
			*at = m->next;
			m->memory->mapped--;
			drop_if_unused(m->memory);
			free(m);
		}
		mmap((void *)(uintptr_t)ptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
		r = CUDA_SUCCESS;
	}
	sim_unlock();
	return r;
}

EXPORT CUresult cuMemSetAccess(CUdeviceptr ptr, size_t bytes, const CUmemAccessDesc *map, size_t count)
{
	struct allocation *a;
	uint64_t found = 0;
	REQUIRE_INIT();
	if (!map || !count)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++)
		if (map[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE && !device_of(map[i].location.id))
			return CUDA_ERROR_INVALID_DEVICE;
	sim_lock();
	a = range(ptr, bytes);
	for (struct mapping *m = a ? a->mappings : NULL; m; m = m->next)
		if (m->at >= ptr && m->at + m->bytes <= ptr + bytes)
			found += m->bytes;
	sim_unlock();
	return found == bytes && found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr)
{
	struct allocation *a;
	REQUIRE_INIT();
	if (!flags || !location)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	a = range(ptr, 1);
	*flags = a && !free_of_mappings(a, ptr, 1) ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
	sim_unlock();
	return a ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
	CUdeviceptr ptr = (CUdeviceptr)(uintptr_t)address;
	struct allocation *a;
	CUresult r = CUDA_ERROR_INVALID_VALUE;
	REQUIRE_INIT();
	if (!handle)
		return r;
	sim_lock();
	a = range(ptr, 1);
	for (struct mapping *m = a ? a->mappings : NULL; m; m = m->next)
		if (ptr >= m->at && ptr < m->at + m->bytes) {
			m->memory->handles++;
			*handle = (CUmemGenericAllocationHandle)(uintptr_t)m->memory;
			r = CUDA_SUCCESS;
		}
	sim_unlock();
	return r;
}

// ---- multicast: an object that holds no memory of its own; what is bound to it is not simulated ----

EXPORT CUresult cuMulticastGetGranularity(size_t *bytes, const CUmulticastObjectProp *p, int option)
{
	REQUIRE_INIT();
	if (!bytes || !p || option < 0 || option > 1)
		return CUDA_ERROR_INVALID_VALUE;
	*bytes = VMM_GRANULE;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMulticastCreate(CUmemGenericAllocationHandle *handle, const CUmulticastObjectProp *p)
{
	struct memory *m;
	REQUIRE_INIT();
	if (!handle || !p || !p->size || p->size % VMM_GRANULE || p->numDevices == 0 || p->numDevices > sim.count)
		return CUDA_ERROR_INVALID_VALUE;
	if (!(m = make_memory(NULL, p->size, -1)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	m->multicast = 1;
	*handle = (CUmemGenericAllocationHandle)(uintptr_t)m;
	return CUDA_SUCCESS;
}

static CUresult multicast(CUmemGenericAllocationHandle handle, uint64_t offset, uint64_t bytes)
{
	struct memory *m = MEMORY_OF(handle);
	REQUIRE_INIT();
	if (!is(m, MEMORY) || !m->multicast)
		return CUDA_ERROR_INVALID_VALUE;
	return bytes <= m->bytes && offset <= m->bytes - bytes && (offset | bytes) % VMM_GRANULE == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle handle, CUdevice device)
{
	CUresult r = multicast(handle, 0, 0);
	return r == CUDA_SUCCESS && !device_of(device) ? CUDA_ERROR_INVALID_DEVICE : r;
}

EXPORT CUresult cuMulticastBindMem(CUmemGenericAllocationHandle handle, size_t offset, CUmemGenericAllocationHandle memory, size_t memoryOffset, size_t bytes, unsigned long long flags)
{
	struct memory *m = MEMORY_OF(memory);
	CUresult r = multicast(handle, offset, bytes);
	if (r == CUDA_SUCCESS && (flags || !is(m, MEMORY) || bytes > m->bytes || memoryOffset > m->bytes - bytes))
		r = CUDA_ERROR_INVALID_VALUE;
	return r;
}

EXPORT CUresult cuMulticastBindMem_v2(CUmemGenericAllocationHandle handle, CUdevice device, size_t offset, CUmemGenericAllocationHandle memory, size_t memoryOffset, size_t bytes, unsigned long long flags)
{
	return device_of(device) ? cuMulticastBindMem(handle, offset, memory, memoryOffset, bytes, flags) : CUDA_ERROR_INVALID_DEVICE;
}

EXPORT CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle handle, size_t offset, CUdeviceptr ptr, size_t bytes, unsigned long long flags)
{
	struct allocation *a;
	CUresult r = multicast(handle, offset, bytes);
	if (r != CUDA_SUCCESS)
		return r;
	sim_lock();
	a = range(ptr, bytes);
	sim_unlock();
	return a && !flags ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMulticastBindAddr_v2(CUmemGenericAllocationHandle handle, CUdevice device, size_t offset, CUdeviceptr ptr, size_t bytes, unsigned long long flags)
{
	return device_of(device) ? cuMulticastBindAddr(handle, offset, ptr, bytes, flags) : CUDA_ERROR_INVALID_DEVICE;
}

EXPORT CUresult cuMulticastUnbind(CUmemGenericAllocationHandle handle, CUdevice device, size_t offset, size_t bytes)
{
	CUresult r = multicast(handle, offset, bytes);
	return r == CUDA_SUCCESS && !device_of(device) ? CUDA_ERROR_INVALID_DEVICE : r;
}
