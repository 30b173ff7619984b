// What a simulated node is made of: the grammar of FAIRSLICE_SIM_GPUS and the identity of its GPUs.
// Shared by every simulated library, so that all of them see the same hardware.
#ifndef FAIRSLICE_SIM_SPEC_H
#define FAIRSLICE_SIM_SPEC_H

#include <stdint.h>

#define SIM_MAX_GPUS 64
#define SIM_MAX_MIB (16ULL * 1024 * 1024) // 16 TiB: far above real hardware, far below overflow
#define SIM_UUID_SIZE 41                  // "GPU-" and 36 characters and the final NUL

struct sim_spec {
	unsigned count;
	unsigned long long bytes; // memory of each GPU
};

// Reads "COUNTxSIZE". Returns 0, or -1 for text outside the grammar (then *out is untouched).
// NULL is outside the grammar. ParseSpec in simdriver.go is the same grammar: change both.
int sim_parse_spec(const char *text, struct sim_spec *out);

// Reads "0", or a SIZE as in "COUNTxSIZE" (which may be 0 too). Returns 0, or -1 with *bytes untouched.
int sim_parse_size(const char *text, uint64_t *bytes);

// Writes the UUID of a node's GPU: the same for the same node name and index on every machine and
// in every run, different for different ones.
void sim_uuid(const char *node, unsigned index, char out[SIM_UUID_SIZE]);

#endif
