// Between nvml.c, which answers for whole GPUs, and the files that add to it: nvml_mig.c (MIG instances) and nvml_limits.c
// (memory limits of control groups).
#ifndef FAIRSLICE_SIM_NVML_MIG_H
#define FAIRSLICE_SIM_NVML_MIG_H

#include "mig.h"

// What an nvmlDevice_t points to: a GPU, or a MIG instance of one.
struct nvml_device {
	unsigned index;                      // of the GPU
	char uuid[SIM_UUID_SIZE];            // of the GPU or of the instance
	const struct sim_instance *instance; // NULL: a whole GPU
};

// ---- answered by nvml.c ----

// What stands at the head of every call: NVML_SUCCESS where d is a GPU or an instance, the library is initialised, the
// GPU is not lost, and result is not NULL.
int nvml_usable(const struct nvml_device *d, const void *result);

// The GPU of that index, which must exist.
struct nvml_device *nvml_gpu(unsigned index);

// Bytes of memory of each GPU, and its SMs.
unsigned long long nvml_gpu_bytes(void);

// ---- answered by nvml_mig.c ----

// Reads FAIRSLICE_SIM_MIG (text; NULL: unset) for a node. Returns 0, or -1 where it is outside the grammar. To be called
// under the lock of nvmlInit, before the first device is handed out.
int nvml_mig_open(const char *text, const struct sim_spec *spec, const char *node);

// Whether d is one of the instances: compared, not followed.
int nvml_mig_is(const struct nvml_device *d);

// The instance of that UUID as a device, or NULL.
struct nvml_device *nvml_mig_by_uuid(const char *uuid);

// Whether a GPU is in MIG mode: it then has no utilisation, and the processes on it are those of its instances.
int nvml_mig_enabled(unsigned gpu);

#endif
