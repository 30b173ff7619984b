//go:build ignore

// How much memory there is: the slice's, in place of the GPU's. NVML (nvml.c) tells the same numbers.
#include "shim.h"
#include "report.h"

struct memory slice_memory(unsigned d, uint64_t real_total, uint64_t real_free) {
	struct memory m = { device(d)->limit_bytes, 0, held(d) };
	if (m.total > real_total)
		m.total = real_total;
	if (m.used > m.total) // by what noded measured, or after a smaller estimate
		m.used = m.total;
	m.free = m.total - m.used;
	if (m.free > real_free)
		m.free = real_free;
	return m;
}

CUresult cuMemGetInfo_v2(size_t *available, size_t *total) {
	CUresult r = CALL(cuMemGetInfo_v2, available, total);
	if (r != CUDA_SUCCESS)
		return r;
	int d = fenced() ? current_device() : NO_DEVICE;
	if (d < 0)
		return *available = *total = 0, CUDA_ERROR_NOT_PERMITTED;
	struct memory m = slice_memory((unsigned)d, *total, *available);
	*available = m.free;
	*total = m.total;
	return r;
}

// The 32-bit spelling of CUDA 2.
CUresult cuMemGetInfo(unsigned int *available, unsigned int *total) {
	CUresult r = CALL(cuMemGetInfo, available, total);
	if (r != CUDA_SUCCESS)
		return r;
	int d = fenced() ? current_device() : NO_DEVICE;
	if (d < 0)
		return *available = *total = 0, CUDA_ERROR_NOT_PERMITTED;
	struct memory m = slice_memory((unsigned)d, *total, *available);
	*available = (unsigned)m.free;
	*total = (unsigned)m.total;
	return r;
}

// A device that is not the job's has nothing for it.
CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice ordinal) {
	CUresult r = CALL(cuDeviceTotalMem_v2, bytes, ordinal);
	int d = r == CUDA_SUCCESS && fenced() ? device_of(ordinal) : NO_DEVICE;
	if (r == CUDA_SUCCESS)
		*bytes = d < 0 ? 0 : slice_memory((unsigned)d, *bytes, *bytes).total;
	return r;
}

CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice ordinal) {
	CUresult r = CALL(cuDeviceTotalMem, bytes, ordinal);
	int d = r == CUDA_SUCCESS && fenced() ? device_of(ordinal) : NO_DEVICE;
	if (r == CUDA_SUCCESS)
		*bytes = d < 0 ? 0 : (unsigned)slice_memory((unsigned)d, *bytes, *bytes).total;
	return r;
}
