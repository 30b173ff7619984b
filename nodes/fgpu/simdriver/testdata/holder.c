// A program that uses device 0 of the simulated CUDA driver as it is told, one command on a line of stdin, and answers
// with one line for each. It begins with what cuInit says; the other calls give their CUresult where it is not 0.
//
//   sms         the SM count attribute        total      bytes of the device's memory, in MiB
//   fill MIB    allocates blocks of MIB until one is refused, and says how many MiB it got
//   sync        waits for the device
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../abi/cuda.h"

static void *library;

#define CALL(name, ...) ((__typeof__(name) *)symbol(#name))(__VA_ARGS__)

static void *symbol(const char *name)
{
	void *p = dlsym(library, name);
	if (!p) {
		printf("no %s\n", name);
		exit(1);
	}
	return p;
}

static int with_context(void)
{
	static CUcontext context;
	CUresult r = CUDA_SUCCESS;
	if (!context && !(r = CALL(cuDevicePrimaryCtxRetain, &context, 0)))
		r = CALL(cuCtxSetCurrent, context);
	return r;
}

static long long answer(const char *line)
{
	size_t block, bytes, sum = 0;
	CUdeviceptr p;
	int value, r;
	if (strncmp(line, "sms", 3) == 0)
		return (r = CALL(cuDeviceGetAttribute, &value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0)) ? r : value;
	if (strncmp(line, "total", 5) == 0)
		return (r = CALL(cuDeviceTotalMem_v2, &bytes, 0)) ? r : (long long)(bytes >> 20);
	if ((r = with_context()))
		return r;
	if (strncmp(line, "sync", 4) == 0)
		return CALL(cuCtxSynchronize);
	block = strncmp(line, "fill ", 5) == 0 ? (size_t)atoi(line + 5) : 0;
	while (block && CALL(cuMemAlloc_v2, &p, block << 20) == CUDA_SUCCESS)
		sum += block;
	return (long long)sum;
}

int main(int argc, char **argv)
{
	char line[64];
	library = dlopen(argc > 1 ? argv[1] : "libcuda.so.1", RTLD_LAZY);
	if (!library) {
		printf("%s\n", dlerror());
		return 1;
	}
	printf("%d\n", CALL(cuInit, 0));
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		printf("%lld\n", answer(line));
		fflush(stdout);
	}
	return 0;
}
