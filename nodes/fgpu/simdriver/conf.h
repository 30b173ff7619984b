// What a simulated node is told about its hardware: the variables FAIRSLICE_SIM_*, from the file simulated.conf
// beside the library, or, where there is no such file, from the environment. The file wins: a job must not change
// the node's hardware by its environment.
#ifndef FAIRSLICE_SIM_CONF_H
#define FAIRSLICE_SIM_CONF_H

#include <stdint.h>

#include "spec.h"

#define SIM_CONF_FILE "simulated.conf"
#define SIM_CONF_SIZE 65536 // a longer file is refused
#define SIM_VALUE_SIZE 4096

enum sim_name { SIM_GPUS, SIM_NODE, SIM_STATE, SIM_MIG, SIM_CONTEXT, SIM_BLOCK, SIM_CUDA, SIM_NAMES };

struct sim_conf {
	char value[SIM_NAMES][SIM_VALUE_SIZE]; // as written; "" where not given
	struct sim_spec spec;    // FAIRSLICE_SIM_GPUS
	uint64_t context_bytes;  // FAIRSLICE_SIM_CONTEXT: SIZE as in GPUS, or 0; default 64MiB
	uint64_t block_ns;       // FAIRSLICE_SIM_BLOCK: nanoseconds that a block keeps one SM busy, 1 to 999999999; default 100000
	unsigned cuda;           // FAIRSLICE_SIM_CUDA: 1000*major + 10*minor, 9000 to 99990; default 13000
};

extern const char *const sim_names[SIM_NAMES]; // "FAIRSLICE_SIM_GPUS"...

// Reads the text of simulated.conf: lines NAME=value, empty lines, and lines that begin with #. Each name at most
// once, GPUS always; a value is printable ASCII. Returns 0, or the number of the line that is wrong (one past
// the last when GPUS is missing); *why then says how. ParseConf in conf.go is the same grammar: change both.
int sim_parse_conf(const char *text, unsigned long length, struct sim_conf *out, const char **why);

// Fills *out from simulated.conf in directory, or from the environment when that file does not exist. Returns 0,
// or -1 with one line of explanation in why.
int sim_load_conf(const char *directory, struct sim_conf *out, char why[256]);

// The directory of the file from which this code was loaded; of the program where it is a part of that.
void sim_own_directory(char out[SIM_VALUE_SIZE]);

#endif
