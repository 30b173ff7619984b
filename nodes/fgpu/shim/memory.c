//go:build ignore

// Linear memory: cuMemAlloc, cuMemAllocPitch, cuMemAllocManaged, cuMemFree. The driver's unit is 512 bytes.
// Managed memory is charged in full: all of it may come to live on the device.
#include "shim.h"

enum { UNIT = 512 };

// Every allocation ends so: keep the charge under the pointer, or give it back.
static CUresult end(struct charge *c, CUresult r, CUdeviceptr *p) {
	if (r != CUDA_SUCCESS) {
		charge_cancel(c);
		return r;
	}
	if (charge_keep(c, LINEAR, *p))
		return r;
	CALL(cuMemFree_v2, *p);
	charge_cancel(c);
	*p = 0;
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t bytes) {
	struct charge c;
	if (!charge_begin(&c, round_up(bytes, UNIT)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	return end(&c, CALL(cuMemAlloc_v2, p, bytes), p);
}

CUresult cuMemAlloc(CUdeviceptr_v1 *p, unsigned int bytes) {
	struct charge c;
	if (!charge_begin(&c, round_up(bytes, UNIT)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult r = CALL(cuMemAlloc, p, bytes);
	CUdeviceptr wide = r == CUDA_SUCCESS ? *p : 0;
	return end(&c, r, &wide);
}

CUresult cuMemAllocManaged(CUdeviceptr *p, size_t bytes, unsigned int flags) {
	struct charge c;
	if (!charge_begin(&c, round_up(bytes, UNIT)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	return end(&c, CALL(cuMemAllocManaged, p, bytes, flags), p);
}

// The pitch is the driver's choice: claim what it is at least, then what it is.
static CUresult pitched(struct charge *c, CUresult r, CUdeviceptr *p, uint64_t pitch, uint64_t height) {
	if (r == CUDA_SUCCESS && !charge_settle(c, round_up(times(pitch, height), UNIT))) {
		CALL(cuMemFree_v2, *p);
		*p = 0;
		r = CUDA_ERROR_OUT_OF_MEMORY;
	}
	return end(c, r, p);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *p, size_t *pitch, size_t width, size_t height, unsigned int element) {
	struct charge c;
	if (!charge_begin(&c, times(round_up(width, UNIT), height)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult r = CALL(cuMemAllocPitch_v2, p, pitch, width, height, element);
	return pitched(&c, r, p, r == CUDA_SUCCESS ? *pitch : 0, height);
}

CUresult cuMemAllocPitch(CUdeviceptr_v1 *p, unsigned int *pitch, unsigned int width, unsigned int height, unsigned int element) {
	struct charge c;
	if (!charge_begin(&c, times(round_up(width, UNIT), height)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult r = CALL(cuMemAllocPitch, p, pitch, width, height, element);
	CUdeviceptr wide = r == CUDA_SUCCESS ? *p : 0;
	r = pitched(&c, r, &wide, r == CUDA_SUCCESS ? *pitch : 0, height);
	return r;
}

// What is not in the table is not ours to judge: null, memory of other processes, of pools, of libraries that found the driver before us.
static bool take(CUdeviceptr p, struct entry *e) { return p && entries_take(LINEAR, p, e); }

static CUresult freed(bool known, const struct entry *e, CUresult r) {
	if (known && r == CUDA_SUCCESS)
		release(e->device, e->bytes);
	else if (known)
		entries_put(e);
	else if (r == CUDA_SUCCESS)
		pools_reread(); // it may have come from one
	return r;
}

CUresult cuMemFree_v2(CUdeviceptr p) {
	struct entry e;
	bool known = take(p, &e);
	return freed(known, &e, CALL(cuMemFree_v2, p));
}

CUresult cuMemFree(CUdeviceptr_v1 p) {
	struct entry e;
	bool known = take(p, &e);
	return freed(known, &e, CALL(cuMemFree, p));
}
