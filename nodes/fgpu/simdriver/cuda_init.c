//go:build ignore

// Starting, and what a device is.

#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cuda_sim.h"
#include "memory_limits.h"
#include "mps.h"

struct sim sim;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;
static volatile uint32_t *here; // a page that a child finds zeroed: 1 while this process is initialised

void sim_lock(void) { pthread_mutex_lock(&mutex); }
void sim_unlock(void) { pthread_mutex_unlock(&mutex); }

CUresult initialised(void) { return here && *here ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED; }

void *make(enum kind kind, size_t size)
{
	struct head *h = calloc(1, size);
	if (h)
		*h = (struct head){kind, sim.generation};
	return h;
}

// A caller of this name knows that the GPUs are not real, whatever they are called.
EXPORT const char fairsliceSimulated[] = "1";

// ---- which devices this process sees ----

static void add_device(unsigned gpu, const struct sim_instance *instance)
{
	struct sim_device *d = &sim.device[sim.count];
	for (unsigned i = 0; i < sim.count; i++)
		if (sim.device[i].gpu == gpu)
			return;
	memset(d, 0, sizeof *d);
	d->number = sim.count++;
	d->gpu = gpu;
	d->instance = instance;
	if (instance)
		snprintf(d->uuid, sizeof d->uuid, "%s", instance->uuid);
	else
		sim_uuid(sim.node, gpu, d->uuid);
}

// A GPU in MIG mode is used through an instance: without more words, through its first.
static void add_gpu(unsigned gpu)
{
	const struct sim_instance *first = sim_mig_instance(&sim.mig, gpu, 0);
	if (!sim.mig.enabled[gpu] || first)
		add_device(gpu, first);
}

// One word of CUDA_VISIBLE_DEVICES: a number, the beginning of a GPU's UUID, or an instance's UUID.
static int add_word(const char *word)
{
	char uuid[SIM_UUID_SIZE], *end;
	const struct sim_instance *instance = sim_mig_find(&sim.mig, word);
	unsigned long n = strtoul(word, &end, 10);
	unsigned found = 0, match = 0;

	if (instance) {
		add_device(instance->gpu, instance);
		return 1;
	}
	if (*word >= '0' && *word <= '9' && !*end && n < sim.conf.spec.count) {
		add_gpu((unsigned)n);
		return 1;
	}
	for (unsigned i = 0; strncmp(word, "GPU-", 4) == 0 && i < sim.conf.spec.count; i++) {
		sim_uuid(sim.node, i, uuid);
		if (strncmp(word, uuid, strlen(word)) == 0)
			found++, match = i;
	}
	if (found == 1)
		add_gpu(match);
	return found == 1;
}

static void find_devices(void)
{
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");
	char text[4096], *save = NULL, *word;

	sim.count = 0;
	if (!visible) {
		for (unsigned i = 0; i < sim.conf.spec.count; i++)
			add_gpu(i);
		return;
	}
	// The list ends at the first word that names no device, as the real driver reads it.
	snprintf(text, sizeof text, "%s", visible);
	for (word = strtok_r(text, ",", &save); word; word = strtok_r(NULL, ",", &save))
		if (!add_word(word))
			break;
}

// ---- starting ----

static int configure(char why[256])
{
	static char directory[SIM_VALUE_SIZE];
	sim_own_directory(directory);
	if (sim_load_conf(directory, &sim.conf, why) != 0 ||
	    ledger_open(sim.conf.value[SIM_STATE], sim.conf.spec.count, why) != 0)
		return -1;
	strcpy(sim.node, sim.conf.value[SIM_NODE]);
	if (!*sim.node) {
		strcpy(sim.node, "simulated");
		gethostname(sim.node, 255);
	}
	if (sim_parse_mig(sim.conf.value[SIM_MIG], &sim.conf.spec, sim.node, &sim.mig) != 0) {
		snprintf(why, 256, "FAIRSLICE_SIM_MIG must be GPU:PROFILE,PROFILE;GPU:..., such as 0:3g.4gb,3g.4gb, and fit the GPUs");
		return -1;
	}
	return 0;
}

static CUresult start(void)
{
	char why[256];
	CUresult mps;

	if (!here) {
		void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (page == MAP_FAILED || madvise(page, 4096, MADV_WIPEONFORK) != 0)
			return CUDA_ERROR_OPERATING_SYSTEM;
		here = page;
	}
	if (configure(why) != 0) {
		fprintf(stderr, "simulated CUDA driver: %s\n", why);
		return CUDA_ERROR_INVALID_VALUE;
	}
	sim.generation++;
	sim.graphs = NULL;
	pthread_mutex_init(&mutex, NULL); // in a child another thread of the parent may have held it
	find_devices();
	if (sim.count == 0)
		return CUDA_ERROR_NO_DEVICE;
	mps = (CUresult)sim_mps_attach();
	if (mps != CUDA_SUCCESS)
		return mps;
	for (unsigned i = 0; i < sim.count; i++) {
		struct sim_device *d = &sim.device[i];
		d->limits.total = sim.conf.spec.bytes;
		d->limits.instance_total = d->instance ? d->instance->bytes : ~0ull;
		d->limits.own_limit = sim_mps_memory_limit(i, d->uuid);
	}
	*here = 1;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuInit(unsigned int flags)
{
	CUresult r;
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (initialised() == CUDA_SUCCESS)
		return CUDA_SUCCESS;
	if (here && sim.generation) // a child; only this thread came along
		pthread_mutex_init(&starting, NULL);
	pthread_mutex_lock(&starting);
	r = initialised() == CUDA_SUCCESS ? CUDA_SUCCESS : start();
	pthread_mutex_unlock(&starting);
	return r;
}

EXPORT CUresult cuDriverGetVersion(int *version)
{
	struct sim_conf *c;
	static char directory[SIM_VALUE_SIZE];
	char why[256];

	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	if (initialised() == CUDA_SUCCESS) {
		*version = (int)sim.conf.cuda;
		return CUDA_SUCCESS;
	}
	if (!(c = malloc(sizeof *c))) // may be asked before cuInit
		return CUDA_ERROR_OUT_OF_MEMORY;
	sim_own_directory(directory);
	*version = sim_load_conf(directory, c, why) == 0 ? (int)c->cuda : 13000;
	free(c);
	return CUDA_SUCCESS;
}

// ---- the device and the ledger ----

struct sim_device *device_of(CUdevice number)
{
	return number >= 0 && (unsigned)number < sim.count ? &sim.device[number] : NULL;
}

CUresult device_usable(struct sim_device *d)
{
	d->lost = ledger_lost(d->gpu);
	return d->lost ? LOST : (CUresult)sim_mps_check();
}

CUresult device_usable_fast(struct sim_device *d, uint64_t now)
{
	if (now - d->lost_checked > 10000000) {
		d->lost_checked = now;
		return device_usable(d);
	}
	return d->lost ? LOST : CUDA_SUCCESS;
}

unsigned device_sms(struct sim_device *d) { return d->instance ? d->instance->sms : sim_mps_sms(SIM_SMS); }

CUresult device_attach(struct sim_device *d)
{
	CUresult r = device_usable(d);
	if (r != CUDA_SUCCESS || d->slot)
		return r;
	d->slot = ledger_attach(d->gpu);
	if (!d->slot)
		return CUDA_ERROR_OUT_OF_MEMORY;
	d->limits.key = d->slot->key;
	if (d->instance)
		d->slot->instance = d->instance->gpu_instance;
	d->slot->cap = device_sms(d) * (LEDGER_WHOLE / SIM_SMS);
	return CUDA_SUCCESS;
}

CUresult device_charge(struct sim_device *d, uint64_t bytes)
{
	struct sim_limits_lock group = {-1};
	CUresult r = device_attach(d);
	if (r != CUDA_SUCCESS)
		return r;
	if (*sim.conf.value[SIM_STATE] && sim_limits_enter(sim.conf.value[SIM_STATE], d->gpu, bytes, &group) != 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	switch (ledger_charge(d->gpu, d->slot, bytes, &d->limits)) {
	case 0: break;
	case -1: r = CUDA_ERROR_OUT_OF_MEMORY; break;
	default:
		fprintf(stderr, "simulated CUDA driver: another process took this one for dead (have they the same process ids?)\n");
		r = CUDA_ERROR_UNKNOWN;
	}
	sim_limits_leave(&group);
	return r;
}

void device_release(struct sim_device *d, uint64_t bytes)
{
	if (d && d->slot)
		ledger_release(d->slot, bytes);
}

// ---- what a device is ----

EXPORT CUresult cuDeviceGetCount(int *count)
{
	REQUIRE_INIT();
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	*count = (int)sim.count;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	REQUIRE_INIT();
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_of(ordinal))
		return CUDA_ERROR_INVALID_DEVICE;
	*device = ordinal;
	return CUDA_SUCCESS;
}

#define REQUIRE_DEVICE(d, number, out)          \
	struct sim_device *d;                   \
	REQUIRE_INIT();                         \
	if (!(out))                             \
		return CUDA_ERROR_INVALID_VALUE; \
	if (!(d = device_of(number)))           \
	return CUDA_ERROR_INVALID_DEVICE

EXPORT CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
	unsigned long long mib = sim.conf.spec.bytes >> 20;
	REQUIRE_DEVICE(d, device, name && length > 0);
	if (d->instance)
		snprintf(name, (size_t)length, "Fairslice Simulated GPU MIG %s", d->instance->profile);
	else if (mib % 1024 == 0)
		snprintf(name, (size_t)length, "Fairslice Simulated GPU %lluGiB", mib / 1024);
	else
		snprintf(name, (size_t)length, "Fairslice Simulated GPU %lluMiB", mib);
	return CUDA_SUCCESS;
}

// The 16 bytes that the text "GPU-01020304-..." names.
static void uuid_bytes(const char *text, CUuuid *out)
{
	unsigned n = 0, value;
	for (text += 4; *text && n < 16; text += 2) {
		if (*text == '-')
			text++;
		sscanf(text, "%2x", &value);
		out->bytes[n++] = (char)value;
	}
}

EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
	REQUIRE_DEVICE(d, device, uuid);
	uuid_bytes(d->uuid, uuid);
	return CUDA_SUCCESS;
}

// The older call knows whole GPUs only.
EXPORT CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
	char text[SIM_UUID_SIZE];
	REQUIRE_DEVICE(d, device, uuid);
	sim_uuid(sim.node, d->gpu, text);
	uuid_bytes(text, uuid);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
	REQUIRE_DEVICE(d, device, bytes);
	*bytes = d->instance ? d->instance->bytes : sim.conf.spec.bytes;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice device)
{
	size_t all;
	CUresult r = bytes ? cuDeviceTotalMem_v2(&all, device) : CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		*bytes = all > 0xffffffff ? 0xffffffff : (unsigned)all;
	return r;
}

EXPORT CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	REQUIRE_DEVICE(d, device, value);
	switch (attribute) {
	case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
	case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
	case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y: *value = 1024; break;
	case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z: *value = 64; break;
	case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: *value = 0x7fffffff; break;
	case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
	case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
	case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
	case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR: *value = 65535; break;
	case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: *value = 48 << 10; break;
	case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
	case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: *value = 227 << 10; break;
	case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY: *value = 64 << 10; break;
	case CU_DEVICE_ATTRIBUTE_WARP_SIZE: *value = 32; break;
	case CU_DEVICE_ATTRIBUTE_MAX_PITCH: *value = 0x7fffffff; break;
	case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
	case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: *value = 1000000; break;
	case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT: *value = 512; break;
	case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = (int)device_sms(d); break;
	case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: *value = 5120; break;
	case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *value = 50 << 20; break;
	case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: *value = 2048; break;
	case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR: *value = 32; break;
	case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT: *value = 2; break;
	case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: *value = (int)d->gpu + 1; break;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = 9; break;
	case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP:
	case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
	case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
	case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
	case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
	case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
	case CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
	case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES:
	case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED: *value = 1; break;
	default:
		if ((int)attribute < 1 || (int)attribute > 150)
			return CUDA_ERROR_INVALID_VALUE;
		*value = 0; // a property that this device does not have
	}
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetProperties(CUdevprop *properties, CUdevice device)
{
	REQUIRE_DEVICE(d, device, properties);
	(void)d;
	*properties = (CUdevprop){1024, {1024, 1024, 64}, {0x7fffffff, 65535, 65535}, 48 << 10, 64 << 10, 32, 0x7fffffff, 65536, 1000000, 512};
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
{
	REQUIRE_DEVICE(d, device, major && minor);
	(void)d;
	*major = 9;
	*minor = 0;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetPCIBusId(char *text, int length, CUdevice device)
{
	REQUIRE_DEVICE(d, device, text && length > 0);
	return snprintf(text, (size_t)length, "0000:%02X:00.0", d->gpu + 1) < length ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *text)
{
	unsigned domain, bus, slot, function;
	REQUIRE_INIT();
	if (!device || !text || sscanf(text, "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < sim.count; i++)
		if (sim.device[i].gpu + 1 == bus && !domain && !slot && !function) {
			*device = (int)i;
			return CUDA_SUCCESS;
		}
	return CUDA_ERROR_INVALID_DEVICE;
}

EXPORT CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
	REQUIRE_DEVICE(d, device, can);
	if (!device_of(peer))
		return CUDA_ERROR_INVALID_DEVICE;
	*can = d != device_of(peer) && !d->instance;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource *resource, CUdevResourceType type)
{
	REQUIRE_DEVICE(d, device, resource);
	if (type != CU_DEV_RESOURCE_TYPE_SM)
		return CUDA_ERROR_INVALID_RESOURCE_TYPE;
	memset(resource, 0, sizeof *resource);
	resource->type = type;
	resource->sm.smCount = device_sms(d);
	return CUDA_SUCCESS;
}
