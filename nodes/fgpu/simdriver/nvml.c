//go:build ignore

// The simulated NVML driver. Programs load it by the real library's name, so its names, numbers and
// struct layouts are the real library's; everything a person reads says "simulated".
// (The first line keeps the Go tool from compiling this file: it belongs to build.sh.)

#include "../abi/nvml.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "conf.h"
#include "ledger.h"
#include "nvml_mig.h"

#define SM_COUNT 100 // one SM is one percent: a slice's share can be read off
#define CORES_PER_SM 128
#define EXPORT __attribute__((visibility("default")))
// Answers under the older name of the same call.
#define ALIAS(old, current) \
	EXPORT __typeof__(current) old __attribute__((alias(#current)))

// lock guards the words below it; devices is written only while users is 0, so a call that has seen
// users > 0 may read it without the lock as long as its caller does not shut down beneath it.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned users;
static struct sim_conf conf;
static struct sim_spec spec;
static struct nvml_device devices[SIM_MAX_GPUS];
static char refused[320]; // why the last init failed for its settings, for nvmlErrorString; "" it did not

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
	if (nvml_mig_is(d))
		return ledger_lost(d->index) ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
	return NVML_ERROR_INVALID_ARGUMENT;
}

int nvml_usable(const struct nvml_device *d, const void *result) { return usable((nvmlDevice_t)d, result); }
struct nvml_device *nvml_gpu(unsigned index) { return &devices[index]; }
unsigned long long nvml_gpu_bytes(void) { return spec.bytes; }

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

// Learns what hardware there is. Returns 0, or -1 with a line in why.
static int configure(char why[256])
{
	static char directory[SIM_VALUE_SIZE];
	char host[256] = "simulated";
	const char *node;

	sim_own_directory(directory);
	if (sim_load_conf(directory, &conf, why) != 0 || ledger_open(conf.value[SIM_STATE], conf.spec.count, why) != 0)
		return -1;
	spec = conf.spec;
	node = conf.value[SIM_NODE];
	if (!*node) {
		gethostname(host, sizeof host - 1);
		node = host;
	}
	for (unsigned i = 0; i < spec.count; i++) {
		devices[i].index = i;
		sim_uuid(node, i, devices[i].uuid);
	}
	if (nvml_mig_open(conf.value[SIM_MIG], &spec, node) != 0) {
		snprintf(why, 256, "FAIRSLICE_SIM_MIG must be GPU:PROFILE,PROFILE;GPU:..., such as 0:3g.4gb,3g.4gb, and fit the GPUs");
		return -1;
	}
	return 0;
}

EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned flags)
{
	nvmlReturn_t ret = NVML_SUCCESS;
	(void)flags; // they say what is no failure (no GPU, no attach): nothing here fails for these
	pthread_mutex_lock(&lock);
	if (users == 0) {
		if (configure(refused + sizeof "Invalid Argument (simulated driver: " - 1) == 0) {
			*refused = 0;
		} else {
			memcpy(refused, "Invalid Argument (simulated driver: ", sizeof "Invalid Argument (simulated driver: " - 1);
			strcat(refused, ")");
			ret = NVML_ERROR_INVALID_ARGUMENT;
		}
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
	int settings = *refused && users == 0;
	pthread_mutex_unlock(&lock);
	switch (r) {
	case NVML_SUCCESS: return "Success";
	case NVML_ERROR_UNINITIALIZED: return "Uninitialized";
	case NVML_ERROR_INVALID_ARGUMENT:
		return settings ? refused : "Invalid Argument";
	case NVML_ERROR_NO_PERMISSION: return "Insufficient Permissions";
	case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
	case NVML_ERROR_NOT_FOUND: return "Not Found";
	case NVML_ERROR_INSUFFICIENT_SIZE: return "Insufficient Size";
	case NVML_ERROR_DRIVER_NOT_LOADED: return "Driver Not Loaded";
	case NVML_ERROR_FUNCTION_NOT_FOUND: return "Function Not Found";
	case NVML_ERROR_UNKNOWN: break;
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
	*version = initialised() ? (int)conf.cuda : 13000; // 1000 * major + 10 * minor
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
	if ((*device = nvml_mig_by_uuid(uuid)))
		return NVML_SUCCESS;
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
	if (d->instance)
		snprintf(value, sizeof value, "Fairslice Simulated GPU MIG %s", d->instance->profile);
	else if (mib % 1024 == 0)
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
	*index = d->instance ? d->instance->index : d->index;
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
	unsigned long long total, used; // used is never above total
	unsigned sm_percent;            // likewise, 100
};

// since is of the clock that the ledger uses; 0: one second ago.
static void measure(nvmlDevice_t d, struct load *l, uint64_t since)
{
	unsigned n = ledger_processes(d->index, l->list, LEDGER_MAX_PROCESSES, since);
	l->total = d->instance ? d->instance->bytes : spec.bytes;
	l->count = 0;
	l->used = 0;
	l->sm_percent = 0;
	for (unsigned i = 0; i < n; i++) {
		struct ledger_process p = l->list[i];
		if (d->instance && p.instance != d->instance->gpu_instance)
			continue;
		if (p.bytes > l->total - l->used)
			p.bytes = l->total - l->used;
		l->used += p.bytes;
		l->sm_percent += p.sm_percent;
		l->list[l->count++] = p;
	}
	if (l->sm_percent > 100)
		l->sm_percent = 100;
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t d, nvmlMemory_t *memory)
{
	struct load l;
	REQUIRE(d, memory);
	measure(d, &l, 0);
	*memory = (nvmlMemory_t){.total = l.total, .used = l.used, .free = l.total - l.used};
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t d, nvmlMemory_v2_t *memory)
{
	struct load l;
	REQUIRE(d, memory);
	if (memory->version != (sizeof *memory | 2u << 24))
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	measure(d, &l, 0);
	memory->total = l.total;
	memory->reserved = 0; // nothing kept back: 8 GiB asked for are 8 GiB to give out
	memory->used = l.used;
	memory->free = l.total - l.used;
	return NVML_SUCCESS;
}

// The window through which the CPU sees the GPU's memory: all of it, as on the data center cards.
EXPORT nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t d, nvmlBAR1Memory_t *bar1)
{
	REQUIRE(d, bar1);
	*bar1 = (nvmlBAR1Memory_t){.bar1Total = spec.bytes, .bar1Free = spec.bytes};
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t d, nvmlUtilization_t *utilization)
{
	struct load l;
	REQUIRE(d, utilization);
	if (nvml_mig_enabled(d->index))
		return NVML_ERROR_NOT_SUPPORTED;
	measure(d, &l, 0);
	utilization->gpu = l.sm_percent;
	utilization->memory = l.sm_percent / 2; // memory traffic is not simulated: a rule of thumb
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t d, unsigned *milliwatts)
{
	struct load l;
	REQUIRE(d, milliwatts);
	measure(d, &l, 0);
	*milliwatts = 50000 + 3000 * l.sm_percent;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t d, int sensor, unsigned *celsius)
{
	struct load l;
	REQUIRE(d, celsius);
	if (sensor != 0) // the die is the only sensor there is
		return NVML_ERROR_INVALID_ARGUMENT;
	measure(d, &l, 0);
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
		measure(d, &l, 0);                                                               \
		*count = l.count;                                                             \
		if (l.count > room)                                                           \
			return NVML_ERROR_INSUFFICIENT_SIZE;                                  \
		if (l.count && !infos)                                                        \
			return NVML_ERROR_INVALID_ARGUMENT;                                   \
		for (unsigned i = 0; i < l.count; i++)                                        \
			infos[i] = (info_type){l.list[i].pid, l.list[i].bytes extra(l.list[i])}; \
		return NVML_SUCCESS;                                                          \
	}
#define INSTANCE(p) , (p).instance ? (p).instance : 0xffffffff, (p).instance ? 0 : 0xffffffff
#define NOTHING(p)

RUNNING_PROCESSES(nvmlDeviceGetComputeRunningProcesses, nvmlProcessInfo_v1_t, NOTHING)
RUNNING_PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, nvmlProcessInfo_t, INSTANCE)
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

static unsigned long long now_us(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return (unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000;
}

// What each process did since a time (microseconds since 1970), or in the last second where that is 0. Like the real
// library it lists only those that did something: l->list[0..count).
static nvmlReturn_t work_since(nvmlDevice_t d, struct load *l, unsigned long long since_us)
{
	unsigned long long us = now_us(CLOCK_REALTIME), ago = us - since_us;
	unsigned n = 0;
	if (nvml_mig_enabled(d->index))
		return NVML_ERROR_NOT_SUPPORTED;
	if (since_us >= us)
		return NVML_ERROR_NOT_FOUND;
	// The shortest period of the real library's own samples is about a sixth of a second.
	if (ago < 166667)
		ago = 166667;
	measure(d, l, since_us && ago < ledger_now() / 1000 ? ledger_now() - ago * 1000 : 0);
	for (unsigned i = 0; i < l->count; i++)
		if (l->list[i].sm_percent)
			l->list[n++] = l->list[i];
	l->count = n;
	return n ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

EXPORT nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t d, nvmlProcessUtilizationSample_t *samples,
						    unsigned *count, unsigned long long last_seen_us)
{
	struct load l;
	unsigned room;
	nvmlReturn_t ret;

	REQUIRE(d, count);
	room = *count;
	*count = 0;
	if ((ret = work_since(d, &l, last_seen_us)) != NVML_SUCCESS)
		return ret;
	*count = l.count;
	if (!samples || l.count > room)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	for (unsigned i = 0; i < l.count; i++)
		samples[i] = (nvmlProcessUtilizationSample_t){
			.pid = l.list[i].pid, .timeStamp = now_us(CLOCK_REALTIME), .smUtil = l.list[i].sm_percent};
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t d, nvmlProcessesUtilizationInfo_t *info)
{
	struct load l;
	unsigned room;
	nvmlReturn_t ret;

	REQUIRE(d, info);
	if (info->version != (sizeof *info | 1u << 24))
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	room = info->processSamplesCount;
	info->processSamplesCount = 0;
	if ((ret = work_since(d, &l, info->lastSeenTimeStamp)) != NVML_SUCCESS)
		return ret;
	info->processSamplesCount = l.count;
	if (!info->procUtilArray || l.count > room)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	for (unsigned i = 0; i < l.count; i++)
		info->procUtilArray[i] = (nvmlProcessUtilizationInfo_v1_t){
			.timeStamp = now_us(CLOCK_REALTIME), .pid = l.list[i].pid, .smUtil = l.list[i].sm_percent};
	return NVML_SUCCESS;
}
