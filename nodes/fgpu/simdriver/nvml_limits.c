//go:build ignore

// The memory limits of control groups, as NVML has them from driver 615 on.

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../abi/nvml.h"
#include "conf.h"
#include "memory_limits.h"
#include "nvml_mig.h"

#define EXPORT __attribute__((visibility("default")))
#define OPERATING_SYSTEM ((nvmlReturn_t)17)

struct set_limits {
	const char *name_space; // full path of the group's directory
	unsigned long long soft, hard; // bytes
};
struct get_limits {
	const char *name_space;
	unsigned long long soft, hard, used; // filled
};
_Static_assert(sizeof(struct set_limits) == 24 && sizeof(struct get_limits) == 32, "nvmlSetMemoryLimits_v1_t");

static nvmlReturn_t result(int ret)
{
	switch (ret) {
	case 0: return NVML_SUCCESS;
	case SIM_LIMITS_UNSUPPORTED: return NVML_ERROR_NOT_SUPPORTED;
	case SIM_LIMITS_NOT_FOUND: return NVML_ERROR_NOT_FOUND;
	}
	return OPERATING_SYSTEM;
}

static nvmlReturn_t check(nvmlDevice_t d, const void *limits, const char *name_space)
{
	nvmlReturn_t ret = (nvmlReturn_t)nvml_usable(d, limits);
	if (ret != NVML_SUCCESS)
		return ret;
	if (!name_space)
		return NVML_ERROR_INVALID_ARGUMENT;
	return d->instance || nvml_mig_enabled(d->index) ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
}

// The node's state directory. It is asked for seldom, so it is read anew; "" where there is none.
static void state_directory(char out[SIM_VALUE_SIZE])
{
	char why[256];
	struct sim_conf *conf = malloc(sizeof *conf);
	*out = 0;
	sim_own_directory(out);
	if (conf && sim_load_conf(out, conf, why) == 0)
		memcpy(out, conf->value[SIM_STATE], SIM_VALUE_SIZE);
	else
		*out = 0;
	free(conf);
}

EXPORT nvmlReturn_t nvmlDeviceSetMemoryLimits_v1(nvmlDevice_t d, struct set_limits *l)
{
	char state[SIM_VALUE_SIZE];
	nvmlReturn_t ret = check(d, l, l ? l->name_space : NULL);
	if (ret != NVML_SUCCESS)
		return ret;
	if (geteuid() != 0)
		return NVML_ERROR_NO_PERMISSION;
	if (l->soft > l->hard || l->soft > nvml_gpu_bytes() || (l->hard != SIM_NO_LIMIT && l->hard > nvml_gpu_bytes()))
		return NVML_ERROR_INVALID_ARGUMENT;
	state_directory(state);
	return result(sim_limits_set(state, d->index, l->name_space, l->soft, l->hard));
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryLimits_v1(nvmlDevice_t d, struct get_limits *l)
{
	char state[SIM_VALUE_SIZE];
	struct sim_limits got;
	nvmlReturn_t ret = check(d, l, l ? l->name_space : NULL);
	if (ret != NVML_SUCCESS)
		return ret;
	state_directory(state);
	ret = result(sim_limits_get(state, d->index, l->name_space, &got));
	if (ret == NVML_SUCCESS) {
		l->soft = got.soft;
		l->hard = got.hard;
		l->used = got.used;
	}
	return ret;
}
