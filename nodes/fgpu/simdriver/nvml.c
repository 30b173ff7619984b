//go:build ignore

// The simulated NVML driver. Programs load it by the real library's name, so its names, numbers and
// struct layouts are the real library's; everything a person reads says "simulated".
// (The first line keeps the Go tool from compiling this file: it belongs to build.sh.)

#include "nvml.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ledger.h"
#include "spec.h"

#define SM_COUNT 100 // one SM is one percent: a slice's share can be read off
#define CORES_PER_SM 128
#define EXPORT __attribute__((visibility("default")))
// Answers under the older name of the same call.
#define ALIAS(old, current) \
	EXPORT __typeof__(current) old __attribute__((alias(#current)))

struct nvml_device {
	unsigned index;
	char uuid[SIM_UUID_SIZE];
};

// lock guards the words below it; devices is written only while users is 0, so a call that has seen
// users > 0 may read it without the lock as long as its caller does not shut down beneath it.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned users;
static struct sim_spec spec;
static struct nvml_device devices[SIM_MAX_GPUS];
static int refused; // the last init failed for its settings: nvmlErrorString explains

// A caller of this name knows that the GPUs are not real, whatever they are called.
EXPORT const char fairsliceSimulated[] = "1";

static int initialised(void)
{
	pthread_mutex_lock(&lock);
	int yes = users > 0;
	pthread_mutex_unlock(&lock);
	return yes;
}

// The check at the head of every call on a device. A handle is compared, never followed, before it
// is known to be ours.
static nvmlReturn_t usable(nvmlDevice_t d, const void *result)
{
	if (!initialised())
		return NVML_ERROR_UNINITIALIZED;
	if (!result)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (unsigned i = 0; i < spec.count; i++)
		if (d == &devices[i])
			return ledger_lost(i) ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
	return NVML_ERROR_INVALID_ARGUMENT;
}

#define REQUIRE(d, result)                                  \
	do {                                                \
		nvmlReturn_t ret_ = usable((d), (result));  \
		if (ret_ != NVML_SUCCESS)                   \
			return ret_;                        \
	} while (0)

static nvmlReturn_t text(char *out, unsigned size, const char *value)
{
	if (!out)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (strlen(value) >= size)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	strcpy(out, value);
	return NVML_SUCCESS;
}

// ---- the library ----

EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned flags)
{
	nvmlReturn_t ret = NVML_SUCCESS;
	(void)flags; // they say what is no failure (no GPU, no attach): nothing here fails for these
	pthread_mutex_lock(&lock);
	if (users == 0) {
		const char *node = getenv("FAIRSLICE_SIM_NODE");
		char host[256] = "simulated";
		if (!node || !*node) {
			gethostname(host, sizeof host - 1);
			node = host;
		}
		if (sim_parse_spec(getenv("FAIRSLICE_SIM_GPUS"), &spec) != 0 ||
		    ledger_open(getenv("FAIRSLICE_SIM_STATE")) != 0)
			ret = NVML_ERROR_INVALID_ARGUMENT;
		for (unsigned i = 0; ret == NVML_SUCCESS && i < spec.count; i++) {
			devices[i].index = i;
			sim_uuid(node, i, devices[i].uuid);
		}
		refused = ret != NVML_SUCCESS;
	}
	if (ret == NVML_SUCCESS)
		users++;
	pthread_mutex_unlock(&lock);
	return ret;
}

EXPORT nvmlReturn_t nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
ALIAS(nvmlInit, nvmlInit_v2);

EXPORT nvmlReturn_t nvmlShutdown(void)
{
	nvmlReturn_t ret = NVML_ERROR_UNINITIALIZED;
	pthread_mutex_lock(&lock);
	if (users > 0) {
		users--;
		ret = NVML_SUCCESS;
	}
	pthread_mutex_unlock(&lock);
	return ret;
}

EXPORT const char *nvmlErrorString(nvmlReturn_t r)
{
	pthread_mutex_lock(&lock);
	int settings = refused && users == 0;
	pthread_mutex_unlock(&lock);
	switch (r) {
	case NVML_SUCCESS: return "Success";
	case NVML_ERROR_UNINITIALIZED: return "Uninitialized";
	case NVML_ERROR_INVALID_ARGUMENT:
		return settings ? "Invalid Argument (simulated driver: FAIRSLICE_SIM_GPUS must be COUNTxSIZE, such "
				  "as 2x8GiB: at most 64 GPUs of 1MiB to 16384GiB)"
				: "Invalid Argument";
	case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
	case NVML_ERROR_NOT_FOUND: return "Not Found";
	case NVML_ERROR_INSUFFICIENT_SIZE: return "Insufficient Size";
	case NVML_ERROR_GPU_IS_LOST: return "GPU is lost (simulated)";
	case NVML_ERROR_ARGUMENT_VERSION_MISMATCH: return "Argument version mismatch";
	}
	return "Unknown Error";
}

EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned length)
{
	return initialised() ? text(version, length, "simulated-1.0") : NVML_ERROR_UNINITIALIZED;
}

EXPORT nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned length)
{
	return initialised() ? text(version, length, "13.simulated-1.0") : NVML_ERROR_UNINITIALIZED;
}

EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
	if (!version)
		return NVML_ERROR_INVALID_ARGUMENT;
	*version = 13000; // 1000 * major + 10 * minor
	return NVML_SUCCESS;
}
ALIAS(nvmlSystemGetCudaDriverVersion, nvmlSystemGetCudaDriverVersion_v2);

// ---- finding a device ----

EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count)
{
	if (!initialised())
		return NVML_ERROR_UNINITIALIZED;
	if (!count)
		return NVML_ERROR_INVALID_ARGUMENT;
	*count = spec.count; // lost ones too, as the real library counts
	return NVML_SUCCESS;
}
ALIAS(nvmlDeviceGetCount, nvmlDeviceGetCount_v2);

EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device)
{
	if (!initialised())
		return NVML_ERROR_UNINITIALIZED;
	if (!device || index >= spec.count)
		return NVML_ERROR_INVALID_ARGUMENT;
	REQUIRE(&devices[index], device);
	*device = &devices[index];
	return NVML_SUCCESS;
}
ALIAS(nvmlDeviceGetHandleByIndex, nvmlDeviceGetHandleByIndex_v2);

EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
	if (!initialised())
		return NVML_ERROR_UNINITIALIZED;
	if (!uuid || !device)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (unsigned i = 0; i < spec.count; i++) {
		// The real library too fails this search for any lost GPU it meets on its way.
		REQUIRE(&devices[i], device);
		if (strcmp(uuid, devices[i].uuid) == 0) {
			*device = &devices[i];
			return NVML_SUCCESS;
		}
	}
	return NVML_ERROR_NOT_FOUND;
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *device)
{
	unsigned domain, bus, slot, function;
	int end = 0;
	if (!initialised())
		return NVML_ERROR_UNINITIALIZED;
	if (!bus_id || !device)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (sscanf(bus_id, "%8x:%2x:%2x.%1x%n", &domain, &bus, &slot, &function, &end) != 4 || bus_id[end])
		return NVML_ERROR_INVALID_ARGUMENT;
	if (domain || slot || function || bus == 0 || bus > spec.count)
		return NVML_ERROR_NOT_FOUND;
	return nvmlDeviceGetHandleByIndex_v2(bus - 1, device);
}
ALIAS(nvmlDeviceGetHandleByPciBusId, nvmlDeviceGetHandleByPciBusId_v2);

// ---- what a device is ----

EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t d, char *name, unsigned length)
{
	char value[64];
	unsigned long long mib = spec.bytes >> 20;
	REQUIRE(d, name);
	if (mib % 1024 == 0)
		snprintf(value, sizeof value, "Fairslice Simulated GPU %lluGiB", mib / 1024);
	else
		snprintf(value, sizeof value, "Fairslice Simulated GPU %lluMiB", mib);
	return text(name, length, value);
}

EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t d, char *uuid, unsigned length)
{
	REQUIRE(d, uuid);
	return text(uuid, length, d->uuid);
}

EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t d, unsigned *index)
{
	REQUIRE(d, index);
	*index = d->index;
	return NVML_SUCCESS;
}
ALIAS(nvmlDeviceGetMinorNumber, nvmlDeviceGetIndex);

EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t d, nvmlPciInfo_t *pci)
{
	REQUIRE(d, pci);
	memset(pci, 0, sizeof *pci); // device id 0: no PCI database can mistake it for a product
	pci->bus = d->index + 1;
	snprintf(pci->busId, sizeof pci->busId, "00000000:%02X:00.0", pci->bus);
	snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "0000:%02X:00.0", pci->bus);
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t d, int *major, int *minor)
{
	REQUIRE(d, major && minor ? major : NULL);
	*major = 9;
	*minor = 0;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetNumGpuCores(nvmlDevice_t d, unsigned *cores)
{
	REQUIRE(d, cores);
	*cores = SM_COUNT * CORES_PER_SM;
	return NVML_SUCCESS;
}

// The real library answers this for MIG devices only, and there are none here.
EXPORT nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t d, nvmlDeviceAttributes_t *attributes)
{
	REQUIRE(d, attributes);
	return NVML_ERROR_NOT_SUPPORTED;
}

EXPORT nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t d, unsigned *current, unsigned *pending)
{
	REQUIRE(d, current && pending ? current : NULL);
	return NVML_ERROR_NOT_SUPPORTED;
}

EXPORT nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t d, int *mode)
{
	REQUIRE(d, mode);
	*mode = 0; // default: any number of processes
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t d, int *mode)
{
	REQUIRE(d, mode);
	*mode = 1;
	return NVML_SUCCESS;
}

// ---- what a device does ----

struct load {
	struct ledger_process list[LEDGER_MAX_PROCESSES];
	unsigned count;
	unsigned long long used; // never above the GPU's memory
	unsigned sm_percent;     // likewise, 100
};

static void measure(nvmlDevice_t d, struct load *l)
{
	l->count = ledger_processes(d->index, l->list, LEDGER_MAX_PROCESSES);
	l->used = 0;
	l->sm_percent = 0;
	for (unsigned i = 0; i < l->count; i++) {
		if (l->list[i].bytes > spec.bytes - l->used)
			l->list[i].bytes = spec.bytes - l->used;
		l->used += l->list[i].bytes;
		l->sm_percent += l->list[i].sm_percent;
	}
	if (l->sm_percent > 100)
		l->sm_percent = 100;
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t d, nvmlMemory_t *memory)
{
	struct load l;
	REQUIRE(d, memory);
	measure(d, &l);
	memory->total = spec.bytes;
	memory->used = l.used;
	memory->free = spec.bytes - l.used;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t d, nvmlMemory_v2_t *memory)
{
	struct load l;
	REQUIRE(d, memory);
	if (memory->version != (sizeof *memory | 2u << 24))
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	measure(d, &l);
	memory->total = spec.bytes;
	memory->reserved = 0; // nothing kept back: 8 GiB asked for are 8 GiB to give out
	memory->used = l.used;
	memory->free = spec.bytes - l.used;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t d, nvmlUtilization_t *utilization)
{
	struct load l;
	REQUIRE(d, utilization);
	measure(d, &l);
	utilization->gpu = l.sm_percent;
	utilization->memory = l.sm_percent / 2; // memory traffic is not simulated: a rule of thumb
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t d, unsigned *milliwatts)
{
	struct load l;
	REQUIRE(d, milliwatts);
	measure(d, &l);
	*milliwatts = 50000 + 3000 * l.sm_percent;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t d, int sensor, unsigned *celsius)
{
	struct load l;
	REQUIRE(d, celsius);
	if (sensor != 0) // the die is the only sensor there is
		return NVML_ERROR_INVALID_ARGUMENT;
	measure(d, &l);
	*celsius = 30 + l.sm_percent / 2;
	return NVML_SUCCESS;
}

// The older call fills a shorter struct, and a caller's array is strided by the one it asked for.
#define RUNNING_PROCESSES(name, info_type, extra)                                             \
	EXPORT nvmlReturn_t name(nvmlDevice_t d, unsigned *count, info_type *infos)           \
	{                                                                                     \
		struct load l;                                                                \
		unsigned room;                                                                \
		REQUIRE(d, count);                                                            \
		room = *count;                                                                \
		measure(d, &l);                                                               \
		*count = l.count;                                                             \
		if (l.count > room)                                                           \
			return NVML_ERROR_INSUFFICIENT_SIZE;                                  \
		if (l.count && !infos)                                                        \
			return NVML_ERROR_INVALID_ARGUMENT;                                   \
		for (unsigned i = 0; i < l.count; i++)                                        \
			infos[i] = (info_type){l.list[i].pid, l.list[i].bytes extra};         \
		return NVML_SUCCESS;                                                          \
	}
#define NOT_MIG , 0xffffffff, 0xffffffff
#define NOTHING

RUNNING_PROCESSES(nvmlDeviceGetComputeRunningProcesses, nvmlProcessInfo_v1_t, NOTHING)
RUNNING_PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, nvmlProcessInfo_t, NOT_MIG)
ALIAS(nvmlDeviceGetComputeRunningProcesses_v2, nvmlDeviceGetComputeRunningProcesses_v3);

// Nothing draws here, and there is no MPS server.
EXPORT nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t d, unsigned *count, nvmlProcessInfo_t *infos)
{
	(void)infos;
	REQUIRE(d, count);
	*count = 0;
	return NVML_SUCCESS;
}
ALIAS(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlDeviceGetGraphicsRunningProcesses_v3);
ALIAS(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlDeviceGetGraphicsRunningProcesses_v3);
ALIAS(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlDeviceGetGraphicsRunningProcesses_v3);

EXPORT nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t d, nvmlProcessUtilizationSample_t *samples,
						    unsigned *count, unsigned long long last_seen_us)
{
	struct load l;
	struct timespec now;
	unsigned room, n = 0;
	unsigned long long us;

	REQUIRE(d, count);
	room = *count;
	measure(d, &l);
	clock_gettime(CLOCK_REALTIME, &now);
	us = (unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000;
	for (unsigned i = 0; i < l.count && us > last_seen_us; i++)
		if (l.list[i].sm_percent) // the real library too lists only those that did something
			l.list[n++] = l.list[i];
	*count = n;
	if (n == 0)
		return NVML_ERROR_NOT_FOUND;
	if (!samples || n > room)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	for (unsigned i = 0; i < n; i++)
		samples[i] = (nvmlProcessUtilizationSample_t){
			.pid = l.list[i].pid, .timeStamp = us, .smUtil = l.list[i].sm_percent};
	return NVML_SUCCESS;
}
