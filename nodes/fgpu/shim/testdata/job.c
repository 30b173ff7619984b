// A job on a simulated GPU for the tests of the shim: does its words one after another and prints a line for each.
//
//   uuid                the name of the first GPU
//   context             makes a context                      info           free and total, by CUDA and by NVML
//   alloc N             allocates N bytes                    free           frees the oldest
//   race T N            T threads allocate N bytes each time until they are refused; prints how many were given
//   fork                allocates in a child that goes on after a fork, prints by its exit code
//   exec                starts itself anew with the words that follow
//   steps N             makes and frees memory of every family N times, prints what is held after
//   launch N            launches N empty kernels and waits    wait          waits for a line on standard input
//   latency N           nanoseconds a launch takes, median of N
//   busy MS BLOCKS      launches kernels without waiting for MS milliseconds; prints how many were done
//   sync MS BLOCKS      the same, waiting for each by an event
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../abi/cuda.h"
#include "../../abi/nvml.h"

static CUdeviceptr held[1 << 16];
static int first, next;
static CUfunction kernel;

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void must(CUresult r, const char *what) {
	if (r) {
		printf("%s failed %d\n", what, r);
		exit(3);
	}
}

static void make_context(void) {
	static CUcontext c;
	must(cuInit(0), "cuInit");
	if (!c)
		must(cuCtxCreate_v2(&c, 0, 0), "context");
	must(cuCtxSetCurrent(c), "cuCtxSetCurrent");
}

static void make_kernel(void) {
	CUmodule m;
	make_context();
	if (kernel)
		return;
	must(cuModuleLoadData(&m, ".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry nothing() { ret; }\n"), "module");
	must(cuModuleGetFunction(&kernel, m, "nothing"), "function");
}

static void launch(unsigned blocks) { must(cuLaunchKernel(kernel, blocks, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), "launch"); }

static void info(void) {
	size_t free = 0, total = 0, all = 0;
	CUresult r = cuMemGetInfo_v2(&free, &total), r2 = cuDeviceTotalMem_v2(&all, 0);
	printf("info %d cuda free %zu total %zu device %zu", r | r2, free, total, all);
	void *lib = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	nvmlDevice_t d;
	nvmlMemory_t m = { 0, 0, 0 };
	nvmlMemory_v2_t m2 = { .version = sizeof m2 | 2 << 24 };
	unsigned n = 0;
	nvmlReturn_t e = lib ? ((nvmlReturn_t(*)(void))dlsym(lib, "nvmlInit_v2"))() : NVML_ERROR_UNKNOWN;
	if (!e)
		e = ((nvmlReturn_t(*)(unsigned *))dlsym(lib, "nvmlDeviceGetCount_v2"))(&n);
	if (!e)
		e = ((nvmlReturn_t(*)(unsigned, nvmlDevice_t *))dlsym(lib, "nvmlDeviceGetHandleByIndex_v2"))(0, &d);
	if (!e)
		e = ((nvmlReturn_t(*)(nvmlDevice_t, nvmlMemory_t *))dlsym(lib, "nvmlDeviceGetMemoryInfo"))(d, &m);
	if (!e)
		e = ((nvmlReturn_t(*)(nvmlDevice_t, nvmlMemory_v2_t *))dlsym(lib, "nvmlDeviceGetMemoryInfo_v2"))(d, &m2);
	printf(" nvml %d devices %u free %llu total %llu used %llu v2 %d\n", e, n, m.free, m.total, m.used, m.free == m2.free && m.total == m2.total && m.used == m2.used && !m2.reserved);
}

static size_t each;
static CUcontext shared;
static int given;

static void *racer(void *unused) {
	CUdeviceptr p;
	cuCtxSetCurrent(shared);
	while (cuMemAlloc_v2(&p, each) == CUDA_SUCCESS)
		__atomic_fetch_add(&given, 1, __ATOMIC_RELAXED);
	return unused;
}

static void race(int threads, size_t bytes) {
	pthread_t t[256];
	make_context();
	each = bytes;
	cuCtxGetCurrent(&shared);
	for (int i = 0; i < threads; i++)
		pthread_create(&t[i], NULL, racer, NULL);
	for (int i = 0; i < threads; i++)
		pthread_join(t[i], NULL);
	printf("race given %d\n", given);
}

static CUresult all_families(void) {
	CUdeviceptr p;
	size_t pitch;
	CUresult r = cuMemAlloc_v2(&p, 1000);
	r |= cuMemFree_v2(p);
	r |= cuMemAllocPitch_v2(&p, &pitch, 1000, 33, 4);
	r |= cuMemFree_v2(p);
	r |= cuMemAllocManaged(&p, 5000, CU_MEM_ATTACH_GLOBAL);
	r |= cuMemFree_v2(p);
	r |= cuMemAllocAsync(&p, 40 << 20, NULL);
	r |= cuMemFreeAsync(p, NULL);
	r |= cuStreamSynchronize(NULL);
	CUmemoryPool pool;
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	r |= cuMemPoolCreate(&pool, &props);
	r |= cuMemAllocFromPoolAsync(&p, 3 << 20, pool, NULL);
	r |= cuMemFreeAsync(p, NULL);
	r |= cuStreamSynchronize(NULL);
	r |= cuMemPoolDestroy(pool);
	CUmemGenericAllocationHandle h, again;
	CUmemAllocationProp where = { .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	r |= cuMemCreate(&h, 4 << 20, &where, 0);
	r |= cuMemAddressReserve(&p, 4 << 20, 0, 0, 0);
	r |= cuMemMap(p, 4 << 20, 0, h, 0);
	r |= cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)p);
	r |= cuMemRelease(h);
	r |= cuMemRelease(again);
	r |= cuMemUnmap(p, 4 << 20);
	r |= cuMemAddressFree(p, 4 << 20);
	CUarray a;
	CUDA_ARRAY_DESCRIPTOR flat = { .Width = 300, .Height = 300, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 2 };
	r |= cuArrayCreate_v2(&a, &flat);
	r |= cuArrayDestroy(a);
	CUmipmappedArray m;
	CUDA_ARRAY3D_DESCRIPTOR deep = { .Width = 64, .Height = 64, .Depth = 64, .Format = CU_AD_FORMAT_HALF, .NumChannels = 4 };
	r |= cuMipmappedArrayCreate(&m, &deep, 5);
	r |= cuMipmappedArrayDestroy(m);
	return r;
}

static int by_number(const void *a, const void *b) { return *(const double *)a > *(const double *)b ? 1 : -1; }

static void latency(int n) {
	double *t = calloc((size_t)n, sizeof *t);
	make_kernel();
	for (int i = 0; i < n; i++) {
		double before = now();
		launch(1);
		t[i] = (now() - before) * 1e6;
		if (i % 64 == 0)
			cuCtxSynchronize();
	}
	qsort(t, (size_t)n, sizeof *t, by_number);
	printf("latency p50 %.0f p99 %.0f ns\n", t[n / 2], t[n * 99 / 100]);
}

static void busy(double ms, unsigned blocks, int wait) {
	CUevent e;
	make_kernel();
	must(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING), "event");
	int n = 0;
	for (double begin = now(); now() - begin < ms; n++) {
		launch(blocks);
		if (wait) {
			must(cuEventRecord(e, NULL), "record");
			must(cuEventSynchronize(e), "wait");
		}
	}
	must(cuCtxSynchronize(), "wait");
	printf("busy done %d\n", n);
}

int main(int argc, char **argv) {
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int i = 1; i < argc; i++) {
		const char *w = argv[i];
		long a = i + 1 < argc ? atol(argv[i + 1]) : 0, b = i + 2 < argc ? atol(argv[i + 2]) : 0;
		if (!strcmp(w, "uuid")) {
			CUuuid u;
			must(cuInit(0), "cuInit");
			must(cuDeviceGetUuid_v2(&u, 0), "uuid");
			printf("GPU-");
			for (int k = 0; k < 16; k++)
				printf("%s%02x", k == 4 || k == 6 || k == 8 || k == 10 ? "-" : "", (unsigned char)u.bytes[k]);
			puts("");
		} else if (!strcmp(w, "context")) {
			make_context();
			puts("context made");
		} else if (!strcmp(w, "info")) {
			info();
		} else if (!strcmp(w, "alloc")) {
			make_context();
			CUresult r = cuMemAlloc_v2(&held[next], (size_t)a);
			next += r == CUDA_SUCCESS;
			printf("alloc %d\n", r);
			i++;
		} else if (!strcmp(w, "free")) {
			printf("free %d\n", cuMemFree_v2(held[first++]));
		} else if (!strcmp(w, "race")) {
			race((int)a, (size_t)b);
			i += 2;
		} else if (!strcmp(w, "fork")) {
			fflush(stdout);
			pid_t child = fork();
			if (!child) { // the driver does not work in a child of a process that uses it; one that did not may
				CUdeviceptr p;
				CUcontext c;
				CUresult r = cuInit(0);
				r = r ? r : cuCtxCreate_v2(&c, 0, 0);
				r = r ? r : cuMemAlloc_v2(&p, 1 << 20);
				printf("child %d\n", r);
				fflush(stdout);
				getchar();
				_exit(0);
			}
			int status;
			waitpid(child, &status, 0);
		} else if (!strcmp(w, "exec")) {
			argv[i] = argv[0];
			execv("/proc/self/exe", argv + i);
			return 4;
		} else if (!strcmp(w, "steps")) {
			make_context();
			CUresult r = CUDA_SUCCESS;
			for (long n = 0; n < a; n++)
				r |= all_families();
			printf("steps %d\n", r);
			i++;
		} else if (!strcmp(w, "launch")) {
			make_kernel();
			for (long n = 0; n < a; n++)
				launch(1);
			printf("launch %d\n", cuCtxSynchronize());
			i++;
		} else if (!strcmp(w, "wait")) {
			if (getchar() == EOF)
				return 0;
		} else if (!strcmp(w, "latency")) {
			latency((int)a);
			i++;
		} else if (!strcmp(w, "busy") || !strcmp(w, "sync")) {
			busy((double)a, (unsigned)b, !strcmp(w, "sync"));
			i += 2;
		} else {
			fprintf(stderr, "job: %s: no such word\n", w);
			return 2;
		}
	}
	return 0;
}
