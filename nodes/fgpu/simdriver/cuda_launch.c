//go:build ignore

// Launches. A kernel computes nothing: each of its blocks keeps one SM busy for FAIRSLICE_SIM_BLOCK nanoseconds.

#include "cuda_sim.h"

int valid_grid(unsigned x, unsigned y, unsigned z, unsigned blockX, unsigned blockY, unsigned blockZ)
{
	return x && y && z && blockX && blockY && blockZ && x <= 0x7fffffff && y <= 65535 && z <= 65535 && blockX <= 1024 &&
	       blockY <= 1024 && blockZ <= 64 && (uint64_t)blockX * blockY * blockZ <= 1024;
}

uint64_t grid_work(unsigned x, unsigned y, unsigned z)
{
	unsigned __int128 ns = (unsigned __int128)x * y * z * sim.conf.block_ns / SIM_SMS;
	return ns > 1ull << 50 ? 1ull << 50 : (uint64_t)ns; // thirteen days are as good as for ever
}

static CUresult launch(CUfunction f, unsigned x, unsigned y, unsigned z, unsigned blockX, unsigned blockY, unsigned blockZ,
		       unsigned shared, CUstream stream, int per_thread, void **params, void **extra)
{
	CUgraphNode n;
	CUresult r;
	REQUIRE_CONTEXT(c);
	CUstream s = stream_of(stream, per_thread, c);
	if (!is(f, FUNCTION) || !s)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!valid_grid(x, y, z, blockX, blockY, blockZ) || (params && extra))
		return CUDA_ERROR_INVALID_VALUE;
	if (s->capture && s->capture->origin) {
		if ((n = capture_node(s, CU_GRAPH_NODE_TYPE_KERNEL, &r)))
			n->kernel = (CUDA_KERNEL_NODE_PARAMS_v2){f, x, y, z, blockX, blockY, blockZ, shared, params, extra, NULL, c};
		return r;
	}
	if ((r = device_usable_fast(c->device, ledger_now())) != CUDA_SUCCESS)
		return r;
	return stream_work(s, grid_work(x, y, z));
}

static int fits_at_once(CUcontext c, unsigned x, unsigned y, unsigned z, unsigned threads)
{
	unsigned per_sm = threads ? 2048 / threads : 0;
	return (uint64_t)x * y * z <= (uint64_t)(per_sm < 32 ? per_sm : 32) * device_sms(c->device);
}

static CUresult cooperative(CUfunction f, unsigned x, unsigned y, unsigned z, unsigned blockX, unsigned blockY, unsigned blockZ,
			    unsigned shared, CUstream stream, int per_thread, void **params)
{
	REQUIRE_CONTEXT(c);
	if (valid_grid(x, y, z, blockX, blockY, blockZ) && !fits_at_once(c, x, y, z, blockX * blockY * blockZ))
		return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
	return launch(f, x, y, z, blockX, blockY, blockZ, shared, stream, per_thread, params, NULL);
}

static CUresult launch_ex(const CUlaunchConfig *k, CUfunction f, int per_thread, void **params, void **extra)
{
	if (!k || (k->numAttrs && !k->attrs))
		return CUDA_ERROR_INVALID_VALUE;
	return launch(f, k->gridDimX, k->gridDimY, k->gridDimZ, k->blockDimX, k->blockDimY, k->blockDimZ, k->sharedMemBytes,
		      k->hStream, per_thread, params, extra);
}

#define LAUNCHES(suffix, per)                                                                                                \
	EXPORT CUresult cuLaunchKernel##suffix(CUfunction f, unsigned int x, unsigned int y, unsigned int z,                 \
					       unsigned int blockX, unsigned int blockY, unsigned int blockZ,                \
					       unsigned int shared, CUstream s, void **params, void **extra)                 \
	{                                                                                                                    \
		return launch(f, x, y, z, blockX, blockY, blockZ, shared, s, per, params, extra);                            \
	}                                                                                                                    \
	EXPORT CUresult cuLaunchKernelEx##suffix(const CUlaunchConfig *config, CUfunction f, void **params, void **extra)    \
	{                                                                                                                    \
		return launch_ex(config, f, per, params, extra);                                                             \
	}                                                                                                                    \
	EXPORT CUresult cuLaunchCooperativeKernel##suffix(CUfunction f, unsigned int x, unsigned int y, unsigned int z,      \
							  unsigned int blockX, unsigned int blockY, unsigned int blockZ,     \
							  unsigned int shared, CUstream s, void **params)                    \
	{                                                                                                                    \
		return cooperative(f, x, y, z, blockX, blockY, blockZ, shared, s, per, params);                              \
	}
LAUNCHES(, 0)
LAUNCHES(_ptsz, 1)

EXPORT CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *l, unsigned int count, unsigned int flags)
{
	CUresult r = CUDA_SUCCESS;
	if (!l || !count || flags > 3)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; r == CUDA_SUCCESS && i < count; i++) {
		if (!is(l[i].hStream, STREAM))
			return CUDA_ERROR_INVALID_HANDLE;
		r = cooperative(l[i].function, l[i].gridDimX, l[i].gridDimY, l[i].gridDimZ, l[i].blockDimX, l[i].blockDimY,
				l[i].blockDimZ, l[i].sharedMemBytes, l[i].hStream, 0, l[i].kernelParams);
	}
	return r;
}

// ---- the launches of CUDA 2, whose blocks have the shape set before ----

static CUresult launch_old(CUfunction f, int width, int height, CUstream stream)
{
	if (!is(f, FUNCTION))
		return initialised() == CUDA_SUCCESS ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_NOT_INITIALIZED;
	if (width < 1 || height < 1)
		return CUDA_ERROR_INVALID_VALUE;
	return launch(f, (unsigned)width, (unsigned)height, 1, f->block[0], f->block[1], f->block[2], 0, stream, 0, NULL, NULL);
}

EXPORT CUresult cuLaunch(CUfunction f) { return launch_old(f, 1, 1, NULL); }
EXPORT CUresult cuLaunchGrid(CUfunction f, int width, int height) { return launch_old(f, width, height, NULL); }
EXPORT CUresult cuLaunchGridAsync(CUfunction f, int width, int height, CUstream stream) { return launch_old(f, width, height, stream); }
