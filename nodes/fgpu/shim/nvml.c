//go:build ignore

// NVML as the job sees it, which is what nvidia-smi shows: the slice's devices, memory, time and processes. Where there is no
// region, nothing is told.
#include "shim.h"
#include "report.h"

#include <string.h>

#pragma GCC visibility push(default)
#include "../abi/nvml.h"

nvmlReturn_t nvmlDeviceGetCount(unsigned *count);
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count);
nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *bus, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *index);
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned length);
nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned *count);
nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned index, nvmlDevice_t *mig);
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory);
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory);
nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *memory);
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates);
nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *samples, unsigned *count, unsigned long long since);
nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device, nvmlProcessesUtilizationInfo_t *info);
#define LISTS(kind)                                                                                                   \
	nvmlReturn_t nvmlDeviceGet##kind##RunningProcesses(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v1_t *list); \
	nvmlReturn_t nvmlDeviceGet##kind##RunningProcesses_v2(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_t *list); \
	nvmlReturn_t nvmlDeviceGet##kind##RunningProcesses_v3(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_t *list);
LISTS(Compute)
LISTS(Graphics)
LISTS(MPSCompute)
#undef LISTS
#pragma GCC visibility pop

#define NREAL(name) REAL_OF(LIBNVML, name)
#define NCALL(name, ...)                                                         \
	({                                                                       \
		__typeof__(&name) f_ = NREAL(name);                              \
		f_ ? f_(__VA_ARGS__) : NVML_ERROR_FUNCTION_NOT_FOUND;            \
	})

static const struct wrapped {
	const char *name;
	void *wrapper;
} wrapped[] = {
#define FGPU_NVML(name) { #name, (void *)name },
#include "nvml.def"
#undef FGPU_NVML
};

void *nvml_wrapper(const char *name) {
	for (size_t i = 0; i < sizeof wrapped / sizeof *wrapped; i++)
		if (!strcmp(wrapped[i].name, name))
			return wrapped[i].wrapper;
	return NULL;
}

// ---- which devices there are ----

static int by_name(const char *uuid) {
	for (unsigned d = 0, n = devices(); d < n; d++)
		if (!strcmp(device(d)->uuid, uuid))
			return (int)d;
	return NO_DEVICE;
}

// slice_of returns the index in the slice of a device. A GPU of which the job has a MIG instance is its to see, too.
static int slice_of(nvmlDevice_t gpu) {
	char uuid[96];
	unsigned parts = 0;
	if (!fenced() || NCALL(nvmlDeviceGetUUID, gpu, uuid, sizeof uuid) != NVML_SUCCESS)
		return NO_DEVICE;
	int d = by_name(uuid);
	if (d >= 0 || strncmp(uuid, "GPU-", 4) || NCALL(nvmlDeviceGetMaxMigDeviceCount, gpu, &parts) != NVML_SUCCESS)
		return d;
	for (unsigned i = 0; i < parts && d < 0; i++) {
		nvmlDevice_t part;
		if (NCALL(nvmlDeviceGetMigDeviceHandleByIndex, gpu, i, &part) == NVML_SUCCESS && NCALL(nvmlDeviceGetUUID, part, uuid, sizeof uuid) == NVML_SUCCESS)
			d = by_name(uuid);
	}
	return d;
}

static nvmlReturn_t real_count(unsigned *n) {
	return NREAL(nvmlDeviceGetCount_v2) ? NCALL(nvmlDeviceGetCount_v2, n) : NCALL(nvmlDeviceGetCount, n);
}

static nvmlReturn_t real_handle(unsigned i, nvmlDevice_t *gpu) {
	return NREAL(nvmlDeviceGetHandleByIndex_v2) ? NCALL(nvmlDeviceGetHandleByIndex_v2, i, gpu) : NCALL(nvmlDeviceGetHandleByIndex, i, gpu);
}

// walk counts the job's devices in the driver's order; where the wanted one or its place is met, it stops.
static nvmlReturn_t walk(unsigned wanted, nvmlDevice_t *at, nvmlDevice_t until, unsigned *passed) {
	unsigned all = 0, seen = 0;
	nvmlReturn_t r = fenced() ? real_count(&all) : NVML_ERROR_NO_PERMISSION;
	if (r != NVML_SUCCESS)
		return r;
	for (unsigned i = 0; i < all; i++) {
		nvmlDevice_t gpu;
		if (real_handle(i, &gpu) != NVML_SUCCESS || slice_of(gpu) < 0)
			continue;
		if (at && seen == wanted)
			return *at = gpu, NVML_SUCCESS;
		if (until && gpu == until)
			return *passed = seen, NVML_SUCCESS;
		seen++;
	}
	if (at || until)
		return at ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_NOT_FOUND;
	return *passed = seen, NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount(unsigned *count) {
	return count ? walk(0, NULL, NULL, count) : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count) { return nvmlDeviceGetCount(count); }

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *gpu) {
	return gpu ? walk(index, gpu, NULL, NULL) : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *gpu) { return nvmlDeviceGetHandleByIndex(index, gpu); }

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t gpu, unsigned *index) {
	if (!gpu || !index)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (walk(0, NULL, gpu, index) == NVML_SUCCESS)
		return NVML_SUCCESS;
	return NCALL(nvmlDeviceGetIndex, gpu, index); // a MIG instance has its own numbers
}

// Found by another name: shown if it is the job's.
static nvmlReturn_t found(nvmlReturn_t r, nvmlDevice_t *gpu) {
	if (r != NVML_SUCCESS || slice_of(*gpu) >= 0)
		return r;
	*gpu = NULL;
	return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *gpu) { return found(NCALL(nvmlDeviceGetHandleByUUID, uuid, gpu), gpu); }
nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *gpu) { return found(NCALL(nvmlDeviceGetHandleBySerial, serial, gpu), gpu); }
nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *bus, nvmlDevice_t *gpu) { return found(NCALL(nvmlDeviceGetHandleByPciBusId, bus, gpu), gpu); }
nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus, nvmlDevice_t *gpu) { return found(NCALL(nvmlDeviceGetHandleByPciBusId_v2, bus, gpu), gpu); }

// ---- memory and time ----

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t gpu, nvmlMemory_t *memory) {
	nvmlReturn_t r = NCALL(nvmlDeviceGetMemoryInfo, gpu, memory);
	if (r != NVML_SUCCESS)
		return r;
	int d = slice_of(gpu);
	if (d < 0)
		return memset(memory, 0, sizeof *memory), NVML_ERROR_NO_PERMISSION;
	struct memory m = slice_memory((unsigned)d, memory->total, memory->free);
	*memory = (nvmlMemory_t){ m.total, m.free, m.used };
	return r;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t gpu, nvmlMemory_v2_t *memory) {
	nvmlReturn_t r = NCALL(nvmlDeviceGetMemoryInfo_v2, gpu, memory);
	if (r != NVML_SUCCESS)
		return r;
	int d = slice_of(gpu);
	unsigned version = memory->version;
	if (d < 0)
		return *memory = (nvmlMemory_v2_t){ .version = version }, NVML_ERROR_NO_PERMISSION;
	struct memory m = slice_memory((unsigned)d, memory->total, memory->free);
	*memory = (nvmlMemory_v2_t){ version, m.total, 0, m.free, m.used };
	return r;
}

nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t gpu, nvmlBAR1Memory_t *memory) {
	nvmlReturn_t r = NCALL(nvmlDeviceGetBAR1MemoryInfo, gpu, memory);
	int d = r == NVML_SUCCESS ? slice_of(gpu) : NO_DEVICE;
	if (d < 0)
		return r == NVML_SUCCESS ? NVML_ERROR_NO_PERMISSION : r;
	uint64_t limit = device((unsigned)d)->limit_bytes;
	if (memory->bar1Total > limit)
		memory->bar1Total = limit;
	if (memory->bar1Used > memory->bar1Total)
		memory->bar1Used = memory->bar1Total;
	memory->bar1Free = memory->bar1Total - memory->bar1Used;
	return r;
}

// Percent of the slice: 100 is all of the share.
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t gpu, nvmlUtilization_t *rates) {
	nvmlReturn_t r = NCALL(nvmlDeviceGetUtilizationRates, gpu, rates);
	int d = r == NVML_SUCCESS ? slice_of(gpu) : NO_DEVICE;
	if (d < 0)
		return r == NVML_SUCCESS ? NVML_ERROR_NO_PERMISSION : r;
	const struct fgpu_device *dev = device((unsigned)d);
	uint64_t share = dev->share ? dev->share : 10000, percent = __atomic_load_n(&dev->utilization, __ATOMIC_RELAXED) * 100ull / share;
	rates->gpu = percent < 100 ? (unsigned)percent : 100;
	if (rates->memory > rates->gpu) // the rest is others'
		rates->memory = rates->gpu;
	return r;
}

// ---- processes ----

// list copies the job's processes on device d as noded last saw them; between two writes of noded it is consistent.
static unsigned list(unsigned d, struct fgpu_process out[FGPU_PROCESSES]) {
	const struct fgpu_slice *s = slice_file();
	for (int attempt = 0; attempt < 1000; attempt++) {
		uint32_t before = __atomic_load_n(&s->process_seq, __ATOMIC_ACQUIRE);
		unsigned n = 0, all = s->processes < FGPU_PROCESSES ? s->processes : FGPU_PROCESSES;
		for (unsigned i = 0; i < all; i++)
			if (s->process[i].device == d)
				out[n++] = s->process[i];
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (!(before & 1) && __atomic_load_n(&s->process_seq, __ATOMIC_RELAXED) == before)
			return n;
	}
	return 0; // noded was stopped in the middle of it
}

enum list_of { COMPUTE, GRAPHICS, MPS };

// processes fills v1 or v2, whichever is not NULL; *count: room in, entries out.
static nvmlReturn_t processes(enum list_of what, nvmlDevice_t gpu, unsigned *count, nvmlProcessInfo_v1_t *v1, nvmlProcessInfo_t *v2) {
	struct fgpu_process all[FGPU_PROCESSES];
	if (!count)
		return NVML_ERROR_INVALID_ARGUMENT;
	int d = slice_of(gpu);
	if (d < 0)
		return NVML_ERROR_NO_PERMISSION;
	bool mps = device((unsigned)d)->mode == 2;
	unsigned n = what == (mps ? MPS : COMPUTE) ? list((unsigned)d, all) : 0, room = *count;
	*count = n;
	if (n > room || (n && !v1 && !v2))
		return NVML_ERROR_INSUFFICIENT_SIZE;
	for (unsigned i = 0; i < n; i++)
		if (v1)
			v1[i] = (nvmlProcessInfo_v1_t){ all[i].pid, all[i].bytes };
		else
			v2[i] = (nvmlProcessInfo_t){ all[i].pid, all[i].bytes, ~0u, ~0u };
	return NVML_SUCCESS;
}

#define LISTS(kind, what)                                                                                             \
	nvmlReturn_t nvmlDeviceGet##kind##RunningProcesses(nvmlDevice_t gpu, unsigned *count, nvmlProcessInfo_v1_t *l) { return processes(what, gpu, count, l, NULL); } \
	nvmlReturn_t nvmlDeviceGet##kind##RunningProcesses_v2(nvmlDevice_t gpu, unsigned *count, nvmlProcessInfo_t *l) { return processes(what, gpu, count, NULL, l); } \
	nvmlReturn_t nvmlDeviceGet##kind##RunningProcesses_v3(nvmlDevice_t gpu, unsigned *count, nvmlProcessInfo_t *l) { return processes(what, gpu, count, NULL, l); }
LISTS(Compute, COMPUTE)
LISTS(Graphics, GRAPHICS)
LISTS(MPSCompute, MPS)

static bool listed(unsigned pid, const struct fgpu_process *all, unsigned n) {
	for (unsigned i = 0; i < n; i++)
		if (all[i].pid == pid)
			return true;
	return false;
}

// The driver's samples without those of other jobs' processes.
nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t gpu, nvmlProcessUtilizationSample_t *samples, unsigned *count, unsigned long long since) {
	nvmlReturn_t r = NCALL(nvmlDeviceGetProcessUtilization, gpu, samples, count, since);
	struct fgpu_process all[FGPU_PROCESSES];
	int d = slice_of(gpu);
	if (d < 0)
		return r == NVML_SUCCESS ? NVML_ERROR_NO_PERMISSION : r;
	if (r != NVML_SUCCESS || !samples)
		return r;
	unsigned n = list((unsigned)d, all), kept = 0;
	for (unsigned i = 0; i < *count; i++)
		if (listed(samples[i].pid, all, n))
			samples[kept++] = samples[i];
	*count = kept;
	return kept ? r : NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t gpu, nvmlProcessesUtilizationInfo_t *info) {
	nvmlReturn_t r = NCALL(nvmlDeviceGetProcessesUtilizationInfo, gpu, info);
	struct fgpu_process all[FGPU_PROCESSES];
	int d = slice_of(gpu);
	if (d < 0)
		return r == NVML_SUCCESS ? NVML_ERROR_NO_PERMISSION : r;
	if (r != NVML_SUCCESS || !info->procUtilArray)
		return r;
	unsigned n = list((unsigned)d, all), kept = 0;
	for (unsigned i = 0; i < info->processSamplesCount; i++)
		if (listed(info->procUtilArray[i].pid, all, n))
			info->procUtilArray[kept++] = info->procUtilArray[i];
	info->processSamplesCount = kept;
	return kept ? r : NVML_ERROR_NOT_FOUND;
}
