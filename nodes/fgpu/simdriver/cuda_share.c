//go:build ignore

// Memory of other processes (IPC handles) and of other libraries (external memory). It stays charged to whoever
// allocated it.

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "alive.h"
#include "cuda_sim.h"

struct ticket { // in a CUipcMemHandle
	uint64_t magic, key, bytes;
	int32_t fd;
	uint32_t gpu;
};
#define TICKET 0x3170696d69735346ull
_Static_assert(sizeof(struct ticket) <= sizeof(CUipcMemHandle), "ticket");

// Gives private memory a file that others can map, with what it holds now. The lock is held.
static int make_shared(struct allocation *a)
{
	unsigned char resident;
	int fd = (int)syscall(SYS_memfd_create, "fairslice-simulated-ipc", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, (off_t)a->mapped) != 0)
		goto failed;
	for (uint64_t at = 0; at < a->mapped; at += 4096) {
		void *page = (void *)(uintptr_t)(a->base + at);
		if (mincore(page, 4096, &resident) == 0 && (resident & 1) && pwrite(fd, page, 4096, (off_t)at) != 4096)
			goto failed;
	}
	if (mmap((void *)(uintptr_t)a->base, a->mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
		goto failed;
	return a->fd = fd;
failed:
	if (fd >= 0)
		close(fd);
	return -1;
}

EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr ptr)
{
	struct ticket t = {.magic = TICKET};
	struct allocation *a;
	CUresult r = CUDA_ERROR_INVALID_VALUE;
	REQUIRE_INIT();
	if (!handle)
		return r;
	sim_lock();
	a = find_allocation(ptr);
	if (a && a->base == ptr && a->origin == LINEAR) {
		r = a->fd >= 0 || make_shared(a) >= 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
		t.key = alive_own_key();
		t.bytes = a->bytes;
		t.fd = a->fd;
		t.gpu = a->device->gpu;
	}
	sim_unlock();
	memset(handle, 0, sizeof *handle);
	memcpy(handle, &t, sizeof t);
	return r;
}

EXPORT CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *ptr, CUipcMemHandle handle, unsigned int flags)
{
	struct allocation a = {.origin = IMPORTED, .fd = -1};
	struct ticket t;
	char path[64];
	void *at;
	CUresult r = CUDA_SUCCESS;
	REQUIRE_CONTEXT(c);
	memcpy(&t, &handle, sizeof t);
	if (!ptr || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || t.magic != TICKET || !t.bytes || t.bytes > 1ull << 46)
		return CUDA_ERROR_INVALID_VALUE;
	if (t.key == alive_own_key())
		return CUDA_ERROR_INVALID_CONTEXT; // not in the process that made it
	for (unsigned i = 0; i < sim.count; i++)
		if (sim.device[i].gpu == t.gpu)
			a.device = &sim.device[i];
	if (!a.device)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!alive(t.key))
		return CUDA_ERROR_INVALID_VALUE;
	a.bytes = t.bytes;
	a.mapped = round_up(t.bytes, 4096);
	a.context = c;
	snprintf(path, sizeof path, "/proc/%u/fd/%d", KEY_PID(t.key), t.fd);
	a.fd = open(path, O_RDWR | O_CLOEXEC);
	if (a.fd < 0)
		return CUDA_ERROR_MAP_FAILED; // another user's, or freed
	at = mmap(NULL, a.mapped, PROT_READ | PROT_WRITE, MAP_SHARED, a.fd, 0);
	if (at == MAP_FAILED) {
		close(a.fd);
		return CUDA_ERROR_MAP_FAILED;
	}
	a.base = (CUdeviceptr)(uintptr_t)at;
	sim_lock();
	if (remember(&a) != 0)
		r = CUDA_ERROR_OUT_OF_MEMORY;
	sim_unlock();
	*ptr = a.base;
	return r;
}
EXPORT CUresult cuIpcOpenMemHandle(CUdeviceptr *ptr, CUipcMemHandle handle, unsigned int flags) { return cuIpcOpenMemHandle_v2(ptr, handle, flags); }

static CUresult close_imported(CUdeviceptr ptr)
{
	struct allocation *a;
	CUresult r = CUDA_ERROR_INVALID_VALUE;
	REQUIRE_INIT();
	sim_lock();
	a = find_allocation(ptr);
	if (a && a->base == ptr && a->origin == IMPORTED) {
		forget(a);
		r = CUDA_SUCCESS;
	}
	sim_unlock();
	return r;
}
EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr ptr) { return close_imported(ptr); }

// ---- external memory: a file descriptor of another library, such as Vulkan's ----

struct CUextMemory_st {
	struct head head;
	struct sim_device *device;
	CUcontext context;
	int fd;
	uint64_t bytes;
};

EXPORT CUresult cuImportExternalMemory(CUexternalMemory *memory, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *d)
{
	CUexternalMemory m;
	REQUIRE_CONTEXT(c);
	if (!memory || !d || !d->size || d->flags > 1)
		return CUDA_ERROR_INVALID_VALUE;
	if (d->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (fcntl(d->handle.fd, F_GETFD) < 0)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!(m = make(EXTERNAL, sizeof *m)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	m->device = c->device;
	m->context = c;
	m->fd = d->handle.fd; // it is the driver's from now on
	m->bytes = d->size;
	*memory = m;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr *ptr, CUexternalMemory m, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *d)
{
	struct allocation a = {.origin = LINEAR, .fd = -1}; // freed by cuMemFree, charged to nobody here
	CUresult r = CUDA_SUCCESS;
	void *at;
	REQUIRE_INIT();
	if (!is(m, EXTERNAL))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!ptr || !d || d->flags || !d->size || d->size > m->bytes || d->offset > m->bytes - d->size || d->offset % 4096)
		return CUDA_ERROR_INVALID_VALUE;
	a.bytes = d->size;
	a.mapped = round_up(d->size, 4096);
	at = mmap(NULL, a.mapped, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, (off_t)d->offset);
	if (at == MAP_FAILED)
		return CUDA_ERROR_MAP_FAILED;
	a.base = (CUdeviceptr)(uintptr_t)at;
	a.device = m->device;
	a.context = m->context;
	sim_lock();
	if (remember(&a) != 0)
		r = CUDA_ERROR_OUT_OF_MEMORY;
	sim_unlock();
	*ptr = a.base;
	return r;
}

EXPORT CUresult cuExternalMemoryGetMappedMipmappedArray(CUmipmappedArray *array, CUexternalMemory m, const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *d)
{
	CUDA_ARRAY3D_DESCRIPTOR description;
	REQUIRE_INIT();
	if (!is(m, EXTERNAL))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!array || !d || d->offset >= m->bytes)
		return CUDA_ERROR_INVALID_VALUE;
	description = d->arrayDesc;
	description.Flags |= CUDA_ARRAY3D_DEFERRED_MAPPING; // its memory is there already
	return cuMipmappedArrayCreate(array, &description, d->numLevels);
}

EXPORT CUresult cuDestroyExternalMemory(CUexternalMemory m)
{
	REQUIRE_INIT();
	if (!is(m, EXTERNAL))
		return CUDA_ERROR_INVALID_HANDLE;
	m->head.kind = 0;
	close(m->fd);
	free(m);
	return CUDA_SUCCESS;
}

// ---- graphics: nothing draws here, so there are no resources ----

#define NO_RESOURCE()                              \
	do {                                       \
		REQUIRE_INIT();                    \
		return CUDA_ERROR_INVALID_HANDLE;  \
	} while (0)

#define GRAPHICS(suffix)                                                                                        \
	EXPORT CUresult cuGraphicsMapResources##suffix(unsigned int n, CUgraphicsResource *r, CUstream s) { (void)n, (void)r, (void)s; NO_RESOURCE(); } \
	EXPORT CUresult cuGraphicsUnmapResources##suffix(unsigned int n, CUgraphicsResource *r, CUstream s) { (void)n, (void)r, (void)s; NO_RESOURCE(); }
GRAPHICS()
GRAPHICS(_ptsz)

EXPORT CUresult cuGraphicsUnregisterResource(CUgraphicsResource r) { (void)r; NO_RESOURCE(); }
EXPORT CUresult cuGraphicsSubResourceGetMappedArray(CUarray *a, CUgraphicsResource r, unsigned int i, unsigned int l) { (void)a, (void)r, (void)i, (void)l; NO_RESOURCE(); }
EXPORT CUresult cuGraphicsResourceGetMappedPointer(CUdeviceptr_v1 *p, unsigned int *n, CUgraphicsResource r) { (void)p, (void)n, (void)r; NO_RESOURCE(); }
EXPORT CUresult cuGraphicsResourceGetMappedPointer_v2(CUdeviceptr *p, size_t *n, CUgraphicsResource r) { (void)p, (void)n, (void)r; NO_RESOURCE(); }
