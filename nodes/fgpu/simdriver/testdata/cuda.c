// A program of the simulated CUDA driver, for cuda_test.go: cuda CHECK. Prints what is wrong and exits 1, or "ok".
#define _GNU_SOURCE
#include "../../abi/cuda.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../abi/nvml.h"

#define MIB (1ull << 20)
#define LINE(x) LINE_(x)
#define LINE_(x) #x
#define IS(want, call)                                                                                            \
	do {                                                                                                      \
		long long got_ = (long long)(call), want_ = (long long)(want);                                    \
		if (got_ != want_) {                                                                              \
			printf("line " LINE(__LINE__) ": %s: got %lld, want %lld\n", #call, got_, want_);        \
			exit(1);                                                                                  \
		}                                                                                                 \
	} while (0)
#define OK(call) IS(CUDA_SUCCESS, call)

static CUcontext context;
static CUfunction kernel;

static void begin(void)
{
	CUmodule m;
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	OK(cuModuleLoadData(&m, "any image"));
	OK(cuModuleGetFunction(&kernel, m, "any"));
}

static size_t used(void)
{
	size_t f, t;
	OK(cuMemGetInfo_v2(&f, &t));
	return t - f;
}

static CUresult launch(unsigned blocks, CUstream s) { return cuLaunchKernel(kernel, blocks, 1, 1, 32, 1, 1, 0, s, NULL, NULL); }

// ---- what things cost ----

static uint64_t pool(CUmemoryPool p, CUmemPool_attribute a)
{
	cuuint64_t v;
	OK(cuMemPoolGetAttribute(p, a, &v));
	return v;
}

static void check_pools(size_t base)
{
	CUdeviceptr p, q;
	CUmemoryPool own, def;
	cuuint64_t keep = 64 * MIB;
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	OK(cuDeviceGetDefaultMemPool(&def, 0));
	OK(cuMemAllocAsync(&p, 1000, NULL));
	IS(32 * MIB, used() - base);
	IS(32 * MIB, pool(def, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
	IS(1024, pool(def, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
	OK(cuMemAllocAsync_ptsz(&q, 31 * MIB, NULL)); // fits what is reserved
	IS(32 * MIB, used() - base);
	OK(cuMemFreeAsync(q, NULL));
	IS(32 * MIB, used() - base); // until a synchronisation
	OK(cuStreamSynchronize(NULL));
	IS(2 * MIB, used() - base);
	OK(cuMemAllocAsync(&q, 35 * MIB, NULL)); // lacks more than a chunk: that much, in 2 MiB
	IS(36 * MIB, used() - base);
	OK(cuMemFree_v2(q));
	OK(cuMemFreeAsync(p, NULL));
	OK(cuCtxSynchronize());
	IS(0, used() - base);

	OK(cuMemPoolCreate(&own, &props));
	OK(cuMemPoolSetAttribute(own, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	OK(cuDeviceSetMemPool(0, own));
	OK(cuMemAllocAsync(&p, 100 * MIB, NULL));
	OK(cuMemFreeAsync(p, NULL));
	OK(cuStreamSynchronize(NULL));
	IS(64 * MIB, used() - base); // the threshold
	OK(cuMemPoolTrimTo(own, 10 * MIB));
	IS(10 * MIB, used() - base);
	IS(100 * MIB, pool(own, CU_MEMPOOL_ATTR_USED_MEM_HIGH));
	OK(cuMemPoolDestroy(own));
	IS(0, used() - base);
	IS(CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy(def));
}

static void check_vmm(size_t base)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle h, again;
	CUdeviceptr at;
	size_t granule;
	char text[8];
	OK(cuMemGetAllocationGranularity(&granule, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	IS(2 * MIB, granule);
	IS(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&h, granule + 1, &prop, 0));
	OK(cuMemAddressReserve(&at, 8 * MIB, 0, 0, 0));
	IS(0, used() - base); // addresses cost nothing
	OK(cuMemCreate(&h, 2 * MIB, &prop, 0));
	IS(2 * MIB, used() - base);
	OK(cuMemMap(at, 2 * MIB, 0, h, 0));
	OK(cuMemMap(at + 4 * MIB, 2 * MIB, 0, h, 0));
	IS(CUDA_ERROR_INVALID_VALUE, cuMemMap(at, 2 * MIB, 0, h, 0)); // is mapped already
	IS(2 * MIB, used() - base);
	OK(cuMemSetAccess(at, 2 * MIB, &access, 1));
	IS(CUDA_ERROR_INVALID_VALUE, cuMemSetAccess(at, 4 * MIB, &access, 1));
	OK(cuMemcpyHtoD_v2(at, "shared", 7));
	OK(cuMemcpyDtoH_v2(text, at + 4 * MIB, 7)); // the same memory
	IS(0, strcmp(text, "shared"));
	IS(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH_v2(text, at + 2 * MIB, 7)); // nothing is there
	OK(cuMemRelease(h));
	IS(2 * MIB, used() - base); // still mapped
	OK(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)at));
	IS(h, again);
	OK(cuMemUnmap(at, 2 * MIB));
	OK(cuMemUnmap(at + 4 * MIB, 2 * MIB));
	IS(2 * MIB, used() - base); // still held
	OK(cuMemRelease(again));
	IS(0, used() - base);
	IS(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(at, 2 * MIB));
	OK(cuMemAddressFree(at, 8 * MIB));
	prop.location.type = CU_MEM_LOCATION_TYPE_HOST;
	OK(cuMemCreate(&h, 64 * MIB, &prop, 0));
	IS(0, used() - base); // of the host
	OK(cuMemRelease(h));
}

static void check_arrays(size_t base)
{
	CUDA_ARRAY_DESCRIPTOR flat = {100, 100, CU_AD_FORMAT_FLOAT, 4};
	CUDA_ARRAY3D_DESCRIPTOR sparse = {1024, 1024, 0, CU_AD_FORMAT_UNSIGNED_INT8, 4, CUDA_ARRAY3D_SPARSE};
	CUDA_ARRAY_MEMORY_REQUIREMENTS need;
	CUmipmappedArray m;
	CUarray a, level;
	OK(cuArrayCreate_v2(&a, &flat)); // rows of 1600 bytes, 104 of them: 166400
	IS(3 * 65536, used() - base);
	IS(CUDA_ERROR_INVALID_VALUE, cuArrayGetMemoryRequirements(&need, a, 0));
	OK(cuArrayDestroy(a));
	OK(cuArray3DCreate_v2(&a, &sparse));
	IS(0, used() - base);
	OK(cuArrayDestroy(a));
	sparse.Flags = CUDA_ARRAY3D_DEFERRED_MAPPING;
	OK(cuArray3DCreate_v2(&a, &sparse));
	OK(cuArrayGetMemoryRequirements(&need, a, 0));
	IS(4 * MIB, need.size);
	IS(0, used() - base);
	OK(cuArrayDestroy(a));
	sparse.Flags = 0;
	OK(cuMipmappedArrayCreate(&m, &sparse, 2)); // 4 MiB and 1 MiB
	IS(5 * MIB, used() - base);
	OK(cuMipmappedArrayGetLevel(&level, m, 1));
	IS(CUDA_ERROR_INVALID_VALUE, cuArrayDestroy(level));
	IS(CUDA_ERROR_INVALID_VALUE, cuMipmappedArrayGetLevel(&level, m, 2));
	OK(cuMipmappedArrayDestroy(m));
	flat.Format = 77;
	IS(CUDA_ERROR_INVALID_VALUE, cuArrayCreate_v2(&a, &flat));
	IS(0, used() - base);
}

static void check_graph_memory(size_t base)
{
	CUDA_MEM_ALLOC_NODE_PARAMS p = {.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}}, .bytesize = 3 * MIB};
	CUgraphNode alloc, free;
	CUgraphExec e;
	CUgraph g;
	cuuint64_t v;
	OK(cuGraphCreate(&g, 0));
	OK(cuGraphAddMemAllocNode(&alloc, g, NULL, 0, &p));
	OK(cuGraphInstantiateWithFlags(&e, g, 0));
	IS(0, used() - base);
	OK(cuGraphLaunch(e, NULL));
	IS(4 * MIB, used() - base);
	IS(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(e, NULL)); // not freed since
	OK(cuDeviceGraphMemTrim(0));
	IS(4 * MIB, used() - base); // in use
	OK(cuMemFree_v2(p.dptr));
	OK(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &v));
	IS(0, v);
	IS(4 * MIB, used() - base); // kept for the next launch
	OK(cuGraphLaunch(e, NULL));
	OK(cuMemFreeAsync(p.dptr, NULL));
	OK(cuDeviceGraphMemTrim(0));
	IS(0, used() - base);
	OK(cuGraphExecDestroy(e));
	OK(cuGraphAddMemFreeNode(&free, g, &alloc, 1, p.dptr));
	OK(cuGraphInstantiateWithFlags(&e, g, 0));
	OK(cuGraphLaunch(e, NULL));
	OK(cuGraphLaunch(e, NULL));
	IS(4 * MIB, used() - base);
	OK(cuDeviceGraphMemTrim(0));
	IS(0, used() - base);
}

static void check_sizes(void)
{
	CUdeviceptr p;
	CUcontext second;
	size_t base, free, total, pitch, n;
	begin();
	IS(64 * MIB, base = used());
	OK(cuCtxCreate_v2(&second, 0, 0));
	IS(128 * MIB, used()); // a context of its own costs again
	OK(cuMemAlloc_v2(&p, MIB));
	OK(cuCtxDestroy_v2(second)); // with all that was allocated in it
	IS(base, used());
	IS(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(p));
	OK(cuDevicePrimaryCtxRetain(&second, 0));
	OK(cuCtxSetCurrent(second));
	IS(base, used()); // a primary one does not
	OK(cuDevicePrimaryCtxRelease_v2(0));

	OK(cuMemAlloc_v2(&p, 1));
	IS(512, used() - base);
	OK(cuMemFree_v2(p));
	OK(cuMemAlloc_v2(&p, 513));
	IS(1024, used() - base);
	OK(cuMemFree_v2(p));
	OK(cuMemAllocPitch_v2(&p, &pitch, 100, 3, 4));
	IS(512, pitch);
	IS(1536, used() - base);
	OK(cuMemFree_v2(p));
	OK(cuMemAllocManaged(&p, 4096, CU_MEM_ATTACH_GLOBAL));
	IS(4096, used() - base);
	OK(cuMemFree_v2(p));
	IS(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(p)); // twice
	IS(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(4096));
	OK(cuMemFree_v2(0));
	IS(CUDA_ERROR_INVALID_VALUE, cuMemAlloc_v2(&p, 0));
	OK(cuMemGetInfo_v2(&free, &total));
	IS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&p, free + 1));
	IS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&p, ~0ull - 100));
	IS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocPitch_v2(&p, &pitch, ~0ull / 2, 3, 4));
	OK(cuMemAlloc_v2(&p, free)); // and costs no memory of this machine
	IS(total, used());
	OK(cuMemGetAddressRange_v2(NULL, &n, p + free - 1));
	IS(free, n);
	OK(cuMemcpyHtoD_v2(p + free - 5, "last", 5));
	IS(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(p + free - 4, "last", 5));
	OK(cuMemsetD8_v2(p, 0, free));
	OK(cuMemFree_v2(p));
	check_pools(base);
	check_vmm(base);
	check_arrays(base);
	check_graph_memory(base);
	IS(base, used());
	OK(cuDevicePrimaryCtxRelease_v2(0));
	IS(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemAlloc_v2(&p, 1));
}

// ---- streams, events, graphs ----

static void check_order(void)
{
	CUstream a, b;
	CUevent first, last;
	CUgraph g;
	CUgraphExec e;
	CUgraphNode nodes[4];
	CUstreamCaptureStatus status;
	CUdeviceptr p;
	float ms;
	size_t n;
	begin();
	OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&b, 0));
	OK(cuEventCreate(&first, 0));
	OK(cuEventCreate(&last, 0));
	OK(cuEventRecord(first, a));
	for (int i = 0; i < 20; i++)
		OK(launch(1000, a)); // 20 ms in all
	OK(cuEventRecord(last, a));
	IS(CUDA_ERROR_NOT_READY, cuEventQuery(last));
	IS(CUDA_ERROR_NOT_READY, cuStreamQuery(a));
	IS(CUDA_ERROR_NOT_READY, cuEventElapsedTime(&ms, first, last));
	OK(cuStreamQuery(b)); // has nothing to wait for
	OK(cuStreamWaitEvent(b, last, 0));
	IS(CUDA_ERROR_NOT_READY, cuStreamQuery(b));
	OK(cuStreamSynchronize(b));
	OK(cuEventQuery(last));
	OK(cuEventElapsedTime(&ms, first, last));
	if (ms < 19.9f) // device time is exact; what else the machine does can only make it longer
		IS(20, (int)ms);

	OK(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
	OK(launch(100, a));
	OK(launch(100, a));
	OK(cuEventRecord(first, a));
	OK(cuStreamWaitEvent(b, first, 0)); // joins
	OK(launch(100, b));
	OK(cuStreamIsCapturing(b, &status));
	IS(CU_STREAM_CAPTURE_STATUS_ACTIVE, status);
	OK(cuStreamEndCapture(a, &g));
	OK(cuStreamIsCapturing(b, &status));
	IS(CU_STREAM_CAPTURE_STATUS_NONE, status);
	OK(cuGraphGetNodes(g, NULL, &n));
	IS(3, n);
	n = 4;
	OK(cuGraphGetNodes(g, nodes, &n));
	IS(3, n);
	OK(cuGraphInstantiate_v2(&e, g, NULL, NULL, 0));
	OK(cuStreamQuery(a)); // captured work was not done
	OK(cuGraphLaunch(e, a));
	IS(CUDA_ERROR_NOT_READY, cuStreamQuery(a));
	OK(cuCtxSynchronize());

	OK(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
	IS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemAlloc_v2(&p, 1)); // forbidden, and ends the capture
	IS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, launch(1, a));
	IS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(a, &g));
	OK(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuMemAlloc_v2(&p, 1));
	IS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(a));
	IS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(a, &g));
	IS(CUDA_ERROR_INVALID_VALUE, launch(0, a));
	IS(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel((CUfunction)context, 1, 1, 1, 1, 1, 1, 0, a, NULL, NULL));
	IS(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, cuLaunchCooperativeKernel(kernel, 1000, 1, 1, 1024, 1, 1, 0, a, NULL));
	OK(cuLaunchCooperativeKernel(kernel, 200, 1, 1, 1024, 1, 1, 0, a, NULL));
	for (int i = 0; i < 3000; i++) // more than the queue holds: the launch waits, and loses nothing
		OK(launch(1, a));
	OK(cuCtxSynchronize());
}

// ---- finding functions ----

static void found(const char *name, int version, cuuint64_t flags, const char *want)
{
	CUdriverProcAddressQueryResult status;
	void *p;
	OK(cuGetProcAddress_v2(name, &p, version, flags, &status));
	if (p != (want ? dlsym(RTLD_DEFAULT, want) : NULL)) {
		printf("%s of version %d, flags %d: not %s\n", name, version, (int)flags, want ? want : "missing");
		exit(1);
	}
	IS(want == NULL, status != CU_GET_PROC_ADDRESS_SUCCESS);
}

static void check_versions(void)
{
	CUdriverProcAddressQueryResult status;
	int version;
	void *p;
	OK(cuDriverGetVersion(&version));
	found("cuMemAlloc", 2000, 0, "cuMemAlloc");
	found("cuMemAlloc", 3010, 0, "cuMemAlloc");
	found("cuMemAlloc", 3020, 0, "cuMemAlloc_v2");
	found("cuMemAlloc", version, 0, "cuMemAlloc_v2");
	found("cuLaunchKernel", version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, "cuLaunchKernel");
	found("cuLaunchKernel", version, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, "cuLaunchKernel_ptsz");
	found("cuLaunchKernel", 4000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, "cuLaunchKernel"); // had no such variant
	found("cuMemcpyHtoD", version, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, "cuMemcpyHtoD_v2_ptds");
	found("cuMemFree", version, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, "cuMemFree_v2");
	found("cuCtxCreate", 11030, 0, "cuCtxCreate_v2");
	found("cuGraphInstantiate", 11000, 0, "cuGraphInstantiate_v2");
	found("cuGetProcAddress", 11030, 0, "cuGetProcAddress");
	found("cuMemAlloc_v2", version, 0, NULL); // only by the name without suffix
	found("cuLaunchKernel_ptsz", version, 0, NULL);
	found("cuNothing", version, 0, NULL);
	found("cuLaunchKernel", 3000, 0, NULL);
	OK(cuGetProcAddress_v2("cuLaunchKernel", &p, 3000, 0, &status));
	IS(CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT, status);
	OK(cuGetProcAddress_v2("cuNothing", &p, 3000, 0, &status));
	IS(CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, status);
	IS(CUDA_ERROR_NOT_FOUND, cuGetProcAddress("cuNothing", &p, version, 0));
	IS(CUDA_ERROR_INVALID_VALUE, cuGetProcAddress_v2("cuMemAlloc", &p, version + 10, 0, NULL));
	IS(CUDA_ERROR_INVALID_VALUE, cuGetProcAddress_v2("cuMemAlloc", &p, version, 3, NULL));
	if (version >= 12050) {
		found("cuCtxCreate", 12050, 0, "cuCtxCreate_v4");
		found("cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2");
		found("cuGraphInstantiate", 12000, 0, "cuGraphInstantiateWithFlags");
	} else if (version == 11030) { // what came later is unknown to it
		OK(cuGetProcAddress_v2("cuLaunchKernelEx", &p, 11030, 0, &status));
		IS(CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, status);
	}
}

// ---- others ----

static void check_fork(void)
{
	CUdeviceptr p;
	int status;
	begin();
	OK(cuMemAlloc_v2(&p, MIB));
	if (fork() == 0) {
		IS(CUDA_ERROR_NOT_INITIALIZED, cuMemAlloc_v2(&p, MIB));
		IS(CUDA_ERROR_NOT_INITIALIZED, launch(1, NULL));
		OK(cuInit(0));
		IS(CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc_v2(&p, MIB));
		IS(CUDA_ERROR_INVALID_CONTEXT, cuCtxSetCurrent(context)); // the parent's
		begin();
		IS(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(p));
		IS(129 * MIB, used());
		_exit(0);
	}
	wait(&status);
	IS(0, status);
	IS(65 * MIB, used());
	OK(cuMemFree_v2(p));
}

static void check_ipc(void)
{
	CUipcMemHandle h;
	CUdeviceptr p, q;
	int to[2], back[2], status;
	char text[8] = "";
	if (pipe(to) || pipe(back))
		exit(2);
	if (fork() == 0) {
		begin();
		if (read(to[0], &h, sizeof h) != sizeof h)
			_exit(2);
		OK(cuIpcOpenMemHandle_v2(&q, h, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
		OK(cuMemcpyDtoH_v2(text, q, 6));
		IS(0, strcmp(text, "hello"));
		OK(cuMemcpyHtoD_v2(q, "world", 6));
		IS(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(q)); // not this way
		OK(cuIpcCloseMemHandle(q));
		_exit(0);
	}
	begin();
	OK(cuMemAlloc_v2(&p, 100000));
	OK(cuMemcpyHtoD_v2(p, "hello", 6));
	OK(cuIpcGetMemHandle(&h, p));
	IS(CUDA_ERROR_INVALID_CONTEXT, cuIpcOpenMemHandle_v2(&q, h, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	if (write(to[1], &h, sizeof h) != sizeof h)
		exit(2);
	wait(&status);
	IS(0, status);
	OK(cuMemcpyDtoH_v2(text, p, 6));
	IS(0, strcmp(text, "world"));
	memset(&h, 7, sizeof h);
	IS(CUDA_ERROR_INVALID_VALUE, cuIpcOpenMemHandle_v2(&q, h, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
}

// Eight threads allocate and free, each up to the whole card: at no time is more in use than the card has, and what is
// held is there. All of it belongs to somebody, so that the sum never leaves the card's size.
static void *racer(void *seed)
{
	unsigned x = (unsigned)(uintptr_t)seed + 1, refused = 0;
	CUdeviceptr held[16] = {0};
	size_t f, t;
	OK(cuCtxSetCurrent(context));
	for (int i = 0; i < 2000; i++) {
		CUdeviceptr *p = &held[rand_r(&x) % 16];
		if (*p) {
			OK(cuMemFree_v2(*p));
			*p = 0;
		} else {
			CUresult r = cuMemAlloc_v2(p, 300 * MIB);
			if (r != CUDA_SUCCESS)
				IS(CUDA_ERROR_OUT_OF_MEMORY, r);
			refused += r != CUDA_SUCCESS;
			if (r != CUDA_SUCCESS)
				*p = 0;
		}
		if (i % 50 == 0) {
			uint64_t mine = 0;
			for (int j = 0; j < 16; j++)
				mine += held[j] ? 300 * MIB : 0;
			OK(cuMemGetInfo_v2(&f, &t));
			IS(1, mine <= t - f);
		}
	}
	IS(1, refused > 0); // else there was no race
	return NULL;
}

static void check_race(unsigned seed)
{
	CUresult r;
	OK(cuInit(0));
	while ((r = cuDevicePrimaryCtxRetain(&context, 0)) == CUDA_ERROR_OUT_OF_MEMORY)
		sched_yield(); // others have begun, and left no room for a context
	OK(r);
	pthread_t id[8];
	begin();
	for (unsigned i = 0; i < 8; i++)
		IS(0, pthread_create(&id[i], NULL, racer, (void *)(uintptr_t)(seed * 8 + i)));
	for (unsigned i = 0; i < 8; i++)
		IS(0, pthread_join(id[i], NULL));
}

static void check_lost(void)
{
	CUdeviceptr p;
	begin();
	OK(launch(1, NULL));
	printf("running\n");
	fflush(stdout);
	if (getchar() == EOF)
		exit(2);
	IS(CUDA_ERROR_UNKNOWN, cuMemAlloc_v2(&p, 1));
	IS(CUDA_ERROR_UNKNOWN, cuCtxSynchronize());
	IS(CUDA_ERROR_UNKNOWN, launch(1, NULL)); // the look just before it has noticed
}

// Allocates and frees at random until it is killed.
static void churn(unsigned seed)
{
	CUdeviceptr held[16] = {0};
	begin();
	printf("running\n");
	fflush(stdout);
	srand(seed);
	for (;;) {
		CUdeviceptr *p = &held[rand() % 16];
		if (*p)
			OK(cuMemFree_v2(*p));
		if (cuMemAlloc_v2(p, 1 + (size_t)rand() % (200 * MIB)) != CUDA_SUCCESS)
			*p = 0;
		OK(launch(1 + (unsigned)rand() % 100, NULL));
	}
}

// Launches until stdin ends; then prints how many kernels were done by that time.
static void greedy(unsigned blocks)
{
	CUevent done[64];
	unsigned long long n = 0;
	begin();
	for (int i = 0; i < 64; i++)
		OK(cuEventCreate(&done[i], CU_EVENT_DISABLE_TIMING));
	for (unsigned i = 0;; i++) { // 64 launches are outstanding
		if (i >= 64) {
			OK(cuEventSynchronize(done[i % 64]));
			n++;
		}
		if (i == 64) {
			printf("running\n");
			fflush(stdout);
		}
		OK(launch(blocks, NULL));
		OK(cuEventRecord(done[i % 64], NULL));
		if (n && n % 16 == 0) {
			fd_set set;
			struct timeval now = {0, 0};
			FD_ZERO(&set);
			FD_SET(0, &set);
			if (select(1, &set, NULL, NULL, &now) == 1)
				break;
		}
	}
	printf("%llu\n", n);
	exit(0);
}

// Prints what NVML says: "USED PROCESSES", or the UUID and memory of the device that CUDA sees.
static void nvml(void)
{
	void *lib = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	if (!lib)
		exit(2);
	nvmlReturn_t (*init)(void) = dlsym(lib, "nvmlInit_v2");
	nvmlReturn_t (*handle)(unsigned, nvmlDevice_t *) = dlsym(lib, "nvmlDeviceGetHandleByIndex_v2");
	nvmlReturn_t (*memory)(nvmlDevice_t, nvmlMemory_t *) = dlsym(lib, "nvmlDeviceGetMemoryInfo");
	nvmlReturn_t (*processes)(nvmlDevice_t, unsigned *, nvmlProcessInfo_t *) = dlsym(lib, "nvmlDeviceGetComputeRunningProcesses_v3");
	static nvmlProcessInfo_t list[1024];
	unsigned count = 1024;
	unsigned long long sum = 0;
	nvmlDevice_t d;
	nvmlMemory_t m;
	IS(NVML_SUCCESS, init());
	IS(NVML_SUCCESS, handle(0, &d));
	IS(NVML_SUCCESS, processes(d, &count, list));
	IS(NVML_SUCCESS, memory(d, &m));
	for (unsigned i = 0; i < count; i++)
		sum += list[i].usedGpuMemory;
	printf("%llu %u %llu\n", m.used, count, sum);
	exit(0);
}

static void devices(void)
{
	int n;
	size_t bytes;
	char name[64];
	CUuuid u;
	CUresult r = cuInit(0);
	if (r != CUDA_SUCCESS) {
		const char *text;
		OK(cuGetErrorName(r, &text));
		printf("%s\n", text);
		exit(0);
	}
	OK(cuDeviceGetCount(&n));
	for (int i = 0; i < n; i++) {
		OK(cuDeviceGetUuid_v2(&u, i));
		OK(cuDeviceGetName(name, sizeof name, i));
		OK(cuDeviceTotalMem_v2(&bytes, i));
		printf("%02x%02x %s %zu\n", (unsigned char)u.bytes[0], (unsigned char)u.bytes[1], name, bytes);
	}
	exit(0);
}

int main(int argc, char **argv)
{
	const char *check = argc > 1 ? argv[1] : "";
	unsigned number = argc > 2 ? (unsigned)atoi(argv[2]) : 0;
	if (strcmp(check, "sizes") == 0)
		check_sizes();
	else if (strcmp(check, "order") == 0)
		check_order();
	else if (strcmp(check, "versions") == 0)
		check_versions();
	else if (strcmp(check, "fork") == 0)
		check_fork();
	else if (strcmp(check, "ipc") == 0)
		check_ipc();
	else if (strcmp(check, "lost") == 0)
		check_lost();
	else if (strcmp(check, "race") == 0)
		check_race(number);
	else if (strcmp(check, "churn") == 0)
		churn(number);
	else if (strcmp(check, "greedy") == 0)
		greedy(number);
	else if (strcmp(check, "nvml") == 0)
		nvml();
	else if (strcmp(check, "devices") == 0)
		devices();
	else
		return 2;
	printf("ok\n");
	return 0;
}
