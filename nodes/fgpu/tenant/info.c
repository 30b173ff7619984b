//go:build ignore

// What the program is told about its GPU, by CUDA and by NVML.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "nvml.h"
#include "tenant.h"

// uuid_text writes a UUID as NVML does.
static void uuid_text(const CUuuid *u, char out[48]) {
	const unsigned char *b = (const unsigned char *)u->bytes;
	snprintf(out, 48, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2], b[3], b[4], b[5], b[6],
		b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

static CUresult own_uuid(char out[48]) {
	CUdevice device;
	CUuuid u;
	CUresult r = attach();
	if (!r)
		r = CU(cuDeviceGet, &device, options.device);
	if (!r)
		r = CU(cuDeviceGetUuid, &u, device);
	if (!r)
		uuid_text(&u, out);
	return r;
}

// nvml finds a function. What went wrong in one is a number.
static void *nvml(const char *function) {
	static void *lib;
	if (!lib)
		lib = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	return lib ? dlsym(lib, function) : NULL;
}

typedef nvmlReturn_t init_f(void);
typedef nvmlReturn_t count_f(unsigned *);
typedef nvmlReturn_t index_f(unsigned, nvmlDevice_t *);
typedef nvmlReturn_t memory_f(nvmlDevice_t, nvmlMemory_t *);
typedef nvmlReturn_t memory2_f(nvmlDevice_t, nvmlMemory_v2_t *);
typedef nvmlReturn_t uuid_f(nvmlDevice_t, char *, unsigned);
typedef nvmlReturn_t processes_f(nvmlDevice_t, unsigned *, nvmlProcessInfo_t *);

// own_device is NVML's device number options.device: no context is made for it.
static nvmlReturn_t own_device(nvmlDevice_t *device) {
	init_f *init = (init_f *)nvml("nvmlInit_v2");
	index_f *find = (index_f *)nvml("nvmlDeviceGetHandleByIndex_v2");
	if (!init || !find)
		return NVML_ERROR_NOT_FOUND;
	nvmlReturn_t r = init();
	return r ? r : find((unsigned)options.device, device);
}

int do_nvml(int count, char **words) {
	(void)count, (void)words;
	nvmlDevice_t device;
	unsigned devices = 0;
	char uuid[96] = "";
	nvmlMemory_t m = {0};
	nvmlMemory_v2_t m2 = {.version = sizeof m2 | 2 << 24};
	count_f *all = (count_f *)nvml("nvmlDeviceGetCount_v2");
	uuid_f *id = (uuid_f *)nvml("nvmlDeviceGetUUID");
	memory_f *memory = (memory_f *)nvml("nvmlDeviceGetMemoryInfo");
	memory2_f *memory2 = (memory2_f *)nvml("nvmlDeviceGetMemoryInfo_v2");
	nvmlReturn_t r = own_device(&device);
	if (!r)
		r = all && id && memory && memory2 ? all(&devices) : NVML_ERROR_NOT_SUPPORTED;
	if (!r)
		r = id(device, uuid, sizeof uuid);
	if (!r)
		r = memory(device, &m);
	if (!r)
		r = memory2(device, &m2);
	if (r) {
		say("nvml error %d", (int)r);
		return 0;
	}
	say("nvml device %s devices %u", uuid, devices);
	say("nvml memory total %llu free %llu used %llu", m.total, m.free, m.used);
	say("nvml memory2 total %llu free %llu used %llu reserved %llu", m2.total, m2.free, m2.used, m2.reserved);
	return 0;
}

int do_info(int count, char **words) {
	(void)count, (void)words;
	CUdevice device;
	char uuid[48] = "", model[96] = "";
	int version = 0, sms = 0;
	size_t total = 0, free = 0, all = 0;
	CUresult r = own_uuid(uuid);
	if (!r)
		r = CU(cuDriverGetVersion, &version);
	if (!r)
		r = CU(cuDeviceGet, &device, options.device);
	if (!r)
		r = CU(cuDeviceGetName, model, sizeof model, device);
	if (!r)
		r = CU(cuDeviceGetAttribute, &sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
	if (!r)
		r = CU(cuDeviceTotalMem, &total, device);
	if (!r)
		r = CU(cuMemGetInfo, &free, &all);
	if (r) {
		say("info %s", name(r));
		return 0;
	}
	say("info device %s cuda %d sms %d total %zu name %s", uuid, version, sms, total, model);
	say("info memory total %zu free %zu used %zu", all, free, all - free);
	return 0;
}

int do_processes(int count, char **words) {
	(void)count, (void)words;
	nvmlDevice_t device;
	nvmlProcessInfo_t list[256];
	unsigned n = sizeof list / sizeof *list;
	processes_f *processes = (processes_f *)nvml("nvmlDeviceGetComputeRunningProcesses_v3");
	nvmlReturn_t r = own_device(&device);
	if (!r)
		r = processes ? processes(device, &n, list) : NVML_ERROR_NOT_SUPPORTED;
	if (r) {
		say("processes error %d", (int)r);
		return 0;
	}
	for (unsigned i = 0; i < n; i++)
		say("process %u %llu", list[i].pid, list[i].usedGpuMemory);
	say("processes %u ok", n);
	return 0;
}
