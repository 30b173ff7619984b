// Which of a simulated node's GPUs are in MIG mode, and into which instances they are divided: the grammar of
// FAIRSLICE_SIM_MIG. Shared by every simulated library, as spec.h is.
//
//   GPU:PROFILE,PROFILE*COUNT;GPU:...      "0:3g.4gb,3g.4gb;1:1g.1gb*7"
//
// A PROFILE is named as NVIDIA names them: "3g.4gb" is 3 of a GPU's 7 slices with 4 GiB, used by one compute
// instance. "1c.3g.4gb" is a compute instance of 1 slice inside such a GPU instance; neighbours in the list that
// have the same "3g.4gb" share one GPU instance, and with it its memory, while it has slices left. "0:" alone is
// a GPU in MIG mode that nobody has divided yet. A GPU that is not named is not in MIG mode.
#ifndef FAIRSLICE_SIM_MIG_H
#define FAIRSLICE_SIM_MIG_H

#include "spec.h"

#define SIM_MIG_SLICES 7         // of a GPU, as on the A100 and everything since
#define SIM_MIG_SLICE_SMS 14     // 98 of the simulated GPU's 100 SMs can be used: MIG always leaves some out
#define SIM_MIG_MAX_INSTANCES 448 // SIM_MIG_SLICES on each of SIM_MAX_GPUS
#define SIM_MIG_PROFILE_SIZE 24

struct sim_instance {
	unsigned gpu;             // index of the GPU it is a part of
	unsigned index;           // of the instance among those of its GPU
	unsigned gpu_instance;    // id, from 1
	unsigned compute_instance; // id inside its GPU instance, from 0
	unsigned gpu_slices, compute_slices;
	unsigned sms;
	unsigned long long bytes;            // of the GPU instance
	char profile[SIM_MIG_PROFILE_SIZE];  // "3g.4gb", "1c.3g.4gb"
	char uuid[SIM_UUID_SIZE];            // "MIG-" and 36 characters
};

struct sim_mig {
	unsigned char enabled[SIM_MAX_GPUS]; // 1: MIG mode is on
	unsigned count;
	struct sim_instance instance[SIM_MIG_MAX_INSTANCES];
};

// Reads the grammar above for a node of that name and hardware. NULL and "" mean: no GPU is in MIG mode.
// Returns 0, or -1 for text outside the grammar, a GPU that the node lacks or that is named twice, and instances
// that do not fit their GPU (then *out is undefined). ParseMIG in mig.go is the same grammar: change both.
int sim_parse_mig(const char *text, const struct sim_spec *spec, const char *node, struct sim_mig *out);

// The index-th instance of a GPU, or NULL.
const struct sim_instance *sim_mig_instance(const struct sim_mig *mig, unsigned gpu, unsigned index);

// The instance of that UUID, or NULL.
const struct sim_instance *sim_mig_find(const struct sim_mig *mig, const char *uuid);

#endif
