// A driver for the tests of resolution alone: each function returns a number that says which it is. STUB in the environment:
//   inner    cuGetProcAddress gives out addresses that are not exported, for the same functions
//   future   cuGetProcAddress answers with variants of a version that nobody knows yet
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "../../abi/cuda.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

// The other tests need a device with this name: GPU-00000000-0000-0000-0000-000000000000.
CUresult cuInit(unsigned flags) { return CUDA_SUCCESS; }
CUresult cuCtxGetDevice(CUdevice *d) { return *d = 0, CUDA_SUCCESS; }
CUresult cuDeviceGetUuid_v2(CUuuid *u, CUdevice d) { return memset(u, 0, sizeof *u), CUDA_SUCCESS; }

// Launches return who they are.
CUresult cuLaunchKernel(CUfunction f, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned g, unsigned h, CUstream s, void **p, void **x) { return (CUresult)1001; }
CUresult cuLaunchKernel_ptsz(CUfunction f, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned g, unsigned h, CUstream s, void **p, void **x) { return (CUresult)1002; }
static CUresult inner(CUfunction f, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned g, unsigned h, CUstream s, void **p, void **x) { return (CUresult)1001; }
static CUresult inner_ptsz(CUfunction f, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned g, unsigned h, CUstream s, void **p, void **x) { return (CUresult)1002; }
CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t bytes) { return (CUresult)1003; }
CUresult cuMemAlloc_v3(CUdeviceptr *p, size_t bytes, int new_argument);
CUresult cuMemAlloc_v3(CUdeviceptr *p, size_t bytes, int new_argument) { return (CUresult)1004; }
CUresult cuMemGetInfo_v3(size_t *f, size_t *t, int new_argument);
CUresult cuMemGetInfo_v3(size_t *f, size_t *t, int new_argument) { return (CUresult)1005; }

static int is(const char *what) {
	const char *s = getenv("STUB");
	return s && !strcmp(s, what);
}

static CUresult get(const char *symbol, void **p, int version, cuuint64_t flags, int second) {
	int per_thread = (flags & 2) != 0, future = is("future") && version > 13000;
	*p = NULL;
	if (!strcmp(symbol, "cuInit"))
		*p = (void *)cuInit;
	else if (!strcmp(symbol, "cuLaunchKernel") && version >= 4000 && is("inner"))
		*p = per_thread && version >= 7000 ? (void *)inner_ptsz : (void *)inner;
	else if (!strcmp(symbol, "cuLaunchKernel") && version >= 4000)
		*p = per_thread && version >= 7000 ? (void *)cuLaunchKernel_ptsz : (void *)cuLaunchKernel;
	else if (!strcmp(symbol, "cuMemAlloc") && future)
		*p = (void *)cuMemAlloc_v3;
	else if (!strcmp(symbol, "cuMemAlloc") && version >= 3020)
		*p = (void *)cuMemAlloc_v2;
	else if (!strcmp(symbol, "cuMemGetInfo") && future)
		*p = (void *)cuMemGetInfo_v3;
	else if (!strcmp(symbol, "cuGetProcAddress"))
		*p = version >= 12000 ? (void *)cuGetProcAddress_v2 : (void *)cuGetProcAddress;
	return *p ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetProcAddress(const char *symbol, void **p, int version, cuuint64_t flags) { return get(symbol, p, version, flags, 0); }

CUresult cuGetProcAddress_v2(const char *symbol, void **p, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status) {
	CUresult r = get(symbol, p, version, flags, 1);
	if (status)
		*status = r ? CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND : CU_GET_PROC_ADDRESS_SUCCESS;
	return r;
}
