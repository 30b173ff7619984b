//go:build ignore

// The MIG part of the simulated NVML: which instances exist. Like the real library without root, it can list them; they
// are made by FAIRSLICE_SIM_MIG alone.

#include "nvml_mig.h"

#include <string.h>

#include "../abi/nvml.h"

#define EXPORT __attribute__((visibility("default")))

static struct sim_mig mig;
static struct nvml_device devices[SIM_MIG_MAX_INSTANCES]; // beside mig.instance

// Layout of NVML's own: the copy engines and codecs of an instance are not simulated.
struct attributes {
	unsigned multiprocessorCount, sharedCopyEngineCount, sharedDecoderCount, sharedEncoderCount, sharedJpegCount, sharedOfaCount;
	unsigned gpuInstanceSliceCount, computeInstanceSliceCount;
	unsigned long long memorySizeMB;
};
_Static_assert(sizeof(struct attributes) == 40, "nvmlDeviceAttributes_t");

int nvml_mig_open(const char *text, const struct sim_spec *spec, const char *node)
{
	if (sim_parse_mig(text, spec, node, &mig) != 0)
		return -1;
	for (unsigned i = 0; i < mig.count; i++) {
		devices[i].index = mig.instance[i].gpu;
		devices[i].instance = &mig.instance[i];
		memcpy(devices[i].uuid, mig.instance[i].uuid, SIM_UUID_SIZE);
	}
	return 0;
}

int nvml_mig_is(const struct nvml_device *d)
{
	for (unsigned i = 0; i < mig.count; i++)
		if (d == &devices[i])
			return 1;
	return 0;
}

struct nvml_device *nvml_mig_by_uuid(const char *uuid)
{
	for (unsigned i = 0; i < mig.count; i++)
		if (strcmp(devices[i].uuid, uuid) == 0)
			return &devices[i];
	return NULL;
}

int nvml_mig_enabled(unsigned gpu) { return gpu < SIM_MAX_GPUS && mig.enabled[gpu]; }

EXPORT nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t d, unsigned *current, unsigned *pending)
{
	nvmlReturn_t ret = (nvmlReturn_t)nvml_usable(d, current && pending ? current : NULL);
	if (ret != NVML_SUCCESS)
		return ret;
	if (d->instance)
		return NVML_ERROR_INVALID_ARGUMENT;
	*current = *pending = (unsigned)nvml_mig_enabled(d->index);
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t d, unsigned *count)
{
	nvmlReturn_t ret = (nvmlReturn_t)nvml_usable(d, count);
	if (ret != NVML_SUCCESS)
		return ret;
	if (d->instance)
		return NVML_ERROR_INVALID_ARGUMENT;
	*count = nvml_mig_enabled(d->index) ? SIM_MIG_SLICES : 0;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t d, unsigned index, nvmlDevice_t *device)
{
	const struct sim_instance *it;
	nvmlReturn_t ret = (nvmlReturn_t)nvml_usable(d, device);
	if (ret != NVML_SUCCESS)
		return ret;
	if (d->instance || index >= SIM_MIG_SLICES)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (!nvml_mig_enabled(d->index))
		return NVML_ERROR_NOT_SUPPORTED;
	if (!(it = sim_mig_instance(&mig, d->index, index)))
		return NVML_ERROR_NOT_FOUND;
	*device = &devices[it - mig.instance];
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t d, unsigned *is)
{
	nvmlReturn_t ret = (nvmlReturn_t)nvml_usable(d, is);
	if (ret != NVML_SUCCESS)
		return ret;
	*is = d->instance != NULL;
	return NVML_SUCCESS;
}

// The calls below are for instances alone.
static nvmlReturn_t instance(nvmlDevice_t d, const void *result)
{
	nvmlReturn_t ret = (nvmlReturn_t)nvml_usable(d, result);
	if (ret == NVML_SUCCESS && !d->instance)
		return NVML_ERROR_NOT_SUPPORTED;
	return ret;
}

EXPORT nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t d, nvmlDevice_t *parent)
{
	nvmlReturn_t ret = instance(d, parent);
	if (ret == NVML_SUCCESS)
		*parent = nvml_gpu(d->index);
	return ret;
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t d, unsigned *id)
{
	nvmlReturn_t ret = instance(d, id);
	if (ret == NVML_SUCCESS)
		*id = d->instance->gpu_instance;
	return ret;
}

EXPORT nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t d, unsigned *id)
{
	nvmlReturn_t ret = instance(d, id);
	if (ret == NVML_SUCCESS)
		*id = d->instance->compute_instance;
	return ret;
}

EXPORT nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t d, nvmlDeviceAttributes_t *out)
{
	nvmlReturn_t ret = instance(d, out);
	if (ret != NVML_SUCCESS)
		return ret;
	*(struct attributes *)out = (struct attributes){
		.multiprocessorCount = d->instance->sms,
		.gpuInstanceSliceCount = d->instance->gpu_slices,
		.computeInstanceSliceCount = d->instance->compute_slices,
		.memorySizeMB = d->instance->bytes >> 20,
	};
	return NVML_SUCCESS;
}
EXPORT __typeof__(nvmlDeviceGetAttributes_v2) nvmlDeviceGetAttributes __attribute__((alias("nvmlDeviceGetAttributes_v2")));
