//go:build ignore

// fence-probe: says whether the fence stands. In a container, before the job's program:
//
//	fence-probe                  exit 0: libfgpu.so is loaded, comes first and has its files; 1 after one line of reason on standard output
//
// On the node, by noded, without the fence:
//
//	fence-probe --context UUID   prints "UUID bytes": what the driver says one context of one process costs on the GPU
//
// It must start in any image with a glibc since 2.17, so it starts without the C library's start files, whose symbols are as new as
// the machine it is built on.
#include "shim.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#include "../abi/nvml.h"

extern int fgpu_probe(int fd) __attribute__((weak));

static void put(const char *s) {
	ssize_t ignored = write(1, s, strlen(s));
	(void)ignored;
}

static int fail(const char *why, const char *more) {
	put(why);
	put(more);
	put("\n");
	return 1;
}

static bool mapped(void) {
	// libfgpu.so is the only one to define it; weak, so that the program starts without.
	return fgpu_probe != NULL;
}

// ---- what a context costs ----

static void *library(const char *name) {
	void *(*open)(const char *, int) = libc_symbol("dlopen");
	return open ? open(name, RTLD_NOW) : NULL;
}

#define FROM(lib, type, name, function) __typeof__(type) *name = (__typeof__(type) *)find(lib, function)

// own_bytes is what NVML says this process holds on a GPU.
static unsigned long long own_bytes(nvmlReturn_t (*list)(nvmlDevice_t, unsigned *, nvmlProcessInfo_t *), nvmlDevice_t gpu) {
	static nvmlProcessInfo_t all[1024];
	unsigned n = 1024;
	if (list(gpu, &n, all) != NVML_SUCCESS)
		return 0;
	for (unsigned i = 0; i < n; i++)
		if (all[i].pid == (unsigned)getpid())
			return all[i].usedGpuMemory;
	return 0;
}

static int context_cost(const char *uuid) {
	void *(*find)(void *, const char *) = libc_symbol("dlsym");
	void *cuda = library("libcuda.so.1"), *nvml = library("libnvidia-ml.so.1");
	if (!find || !cuda || !nvml)
		return fail(uuid, ": the driver's libraries cannot be loaded");
	FROM(cuda, cuInit, init, "cuInit");
	FROM(cuda, cuDeviceGetCount, count, "cuDeviceGetCount");
	FROM(cuda, cuDeviceGetUuid, name, "cuDeviceGetUuid_v2");
	FROM(cuda, cuDeviceGetUuid, old_name, "cuDeviceGetUuid");
	FROM(cuda, cuDevicePrimaryCtxRetain, retain, "cuDevicePrimaryCtxRetain");
	FROM(nvml, nvmlReturn_t(void), nvml_init, "nvmlInit_v2");
	FROM(nvml, nvmlReturn_t(const char *, nvmlDevice_t *), by_uuid, "nvmlDeviceGetHandleByUUID");
	FROM(nvml, nvmlReturn_t(nvmlDevice_t, unsigned *, nvmlProcessInfo_t *), processes, "nvmlDeviceGetComputeRunningProcesses_v3");
	if (!name)
		name = old_name;
	if (!init || !count || !name || !retain || !nvml_init || !by_uuid || !processes)
		return fail(uuid, ": the driver is too old to be asked");
	nvmlDevice_t gpu;
	int devices = 0;
	if (nvml_init() || by_uuid(uuid, &gpu))
		return fail(uuid, ": NVML knows no such GPU");
	if (init(0) || count(&devices))
		return fail(uuid, ": CUDA does not start");
	for (CUdevice i = 0; i < devices; i++) {
		CUuuid u;
		if (name(&u, i) || !same_uuid(uuid, &u))
			continue;
		unsigned long long before = own_bytes(processes, gpu);
		CUcontext context;
		if (retain(&context, i))
			return fail(uuid, ": no context can be made");
		unsigned long long bytes = own_bytes(processes, gpu);
		if (bytes == ~0ull || bytes <= before)
			return fail(uuid, ": NVML does not say what this process holds");
		char digits[24], *p = digits + sizeof digits;
		*--p = 0;
		*--p = '\n';
		for (bytes -= before; bytes; bytes /= 10)
			*--p = (char)('0' + bytes % 10);
		put(uuid);
		put(" ");
		put(p);
		return 0;
	}
	return fail(uuid, ": CUDA shows no such GPU; is it hidden by CUDA_VISIBLE_DEVICES?");
}

__attribute__((used)) static int start(int argc, char **argv) {
	if (argc == 3 && !strcmp(argv[1], "--context"))
		return context_cost(argv[2]);
	if (argc != 1)
		return put("usage: fence-probe [--context UUID]\n"), 2;
	if (!mapped())
		return fail("libfgpu.so is not loaded: the image's loader has ignored /etc/ld.so.preload, or is not glibc's", "");
	return fgpu_probe(1);
}

#if defined __x86_64__
// What the C library's own start file does, by the symbol that it has had since 2.2.5.
__asm__(".symver __libc_start_main, __libc_start_main@GLIBC_2.2.5\n"
	".globl _start\n"
	"_start:\n"
	"	xor %ebp, %ebp\n"
	"	mov %rdx, %r9\n"   // the loader's function for the end
	"	pop %rsi\n"        // argc
	"	mov %rsp, %rdx\n"  // argv
	"	and $-16, %rsp\n"
	"	push %rax\n"
	"	push %rsp\n"       // end of the stack
	"	xor %r8d, %r8d\n"
	"	xor %ecx, %ecx\n"
	"	lea start(%rip), %rdi\n"
	"	call *__libc_start_main@GOTPCREL(%rip)\n"
	"	hlt\n");
#else
int main(int argc, char **argv) { return start(argc, argv); }
#endif
