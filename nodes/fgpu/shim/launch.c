//go:build ignore

// Kernel launches, under every spelling: each passes the gate (gate.c). Graph launches are in graph.c.
#include "shim.h"

#define PASS(stream, n, perthread)                                               \
	CUresult refused = gate(stream, n, perthread);                           \
	if (UNLIKELY(refused))                                                   \
		return refused

#define KERNEL(suffix, perthread)                                                                                     \
	CUresult cuLaunchKernel##suffix(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by, \
					unsigned int bz, unsigned int shared, CUstream stream, void **params, void **extra) {  \
		PASS(stream, 1, perthread);                                                                            \
		return CALL(cuLaunchKernel##suffix, f, gx, gy, gz, bx, by, bz, shared, stream, params, extra);         \
	}                                                                                                              \
	CUresult cuLaunchKernelEx##suffix(const CUlaunchConfig *config, CUfunction f, void **params, void **extra) {   \
		PASS(config ? config->hStream : NULL, 1, perthread);                                                   \
		return CALL(cuLaunchKernelEx##suffix, config, f, params, extra);                                       \
	}                                                                                                              \
	CUresult cuLaunchCooperativeKernel##suffix(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, \
						   unsigned int by, unsigned int bz, unsigned int shared, CUstream stream, void **params) { \
		PASS(stream, 1, perthread);                                                                            \
		return CALL(cuLaunchCooperativeKernel##suffix, f, gx, gy, gz, bx, by, bz, shared, stream, params);     \
	}
KERNEL(, false)
KERNEL(_ptsz, true)

// On several devices at once: it waits for the window of the current one; a job's windows are the same on all its devices.
CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *launches, unsigned int count, unsigned int flags) {
	PASS(launches && count ? launches->hStream : NULL, count, false);
	return CALL(cuLaunchCooperativeKernelMultiDevice, launches, count, flags);
}

CUresult cuLaunch(CUfunction f) {
	PASS(NULL, 1, false);
	return CALL(cuLaunch, f);
}

CUresult cuLaunchGrid(CUfunction f, int width, int height) {
	PASS(NULL, 1, false);
	return CALL(cuLaunchGrid, f, width, height);
}

CUresult cuLaunchGridAsync(CUfunction f, int width, int height, CUstream stream) {
	PASS(stream, 1, false);
	return CALL(cuLaunchGridAsync, f, width, height, stream);
}
