// The memory limits of control groups that the simulated kernel driver keeps, as NVIDIA's does from 615 on. They are in
// the file "limits" of the node's state directory, one line "GPU SOFT HARD PATH" for each limited group: bytes, and
// the group's path from the root of cgroup v2. Without the file this driver is one that has no such limits.
//
// Groups do not nest here, as with the real driver's own accounting: the nearest limited group above a process, or its
// own, limits it, together with everyone below that group.
#ifndef FAIRSLICE_SIM_MEMORY_LIMITS_H
#define FAIRSLICE_SIM_MEMORY_LIMITS_H

#include <stdint.h>

#define SIM_LIMITS_FILE "limits"
#define SIM_NO_LIMIT (~0ull)

struct sim_limits {
	uint64_t soft, hard, used; // bytes; hard may be SIM_NO_LIMIT
};

// The errors of these calls, beside 0.
enum {
	SIM_LIMITS_UNSUPPORTED = -1, // the driver has no such limits
	SIM_LIMITS_NO_GROUP = -2,    // no directory of cgroup v2
	SIM_LIMITS_NOT_FOUND = -3,   // the group has no limits
	SIM_LIMITS_FAILED = -4,      // the file cannot be read or written
};

// state is the node's state directory, group the full path of a directory. A soft limit of 0 with SIM_NO_LIMIT as the
// hard one removes a group's limits.
int sim_limits_set(const char *state, unsigned gpu, const char *group, uint64_t soft, uint64_t hard);
int sim_limits_get(const char *state, unsigned gpu, const char *group, struct sim_limits *out);

// Around a charge of this process's memory on a GPU by libcuda: sim_limits_enter says whether bytes more fit its
// group's hard limit; while it has not been left, nobody else of the node charges under a limit. Returns 0, or -1 where
// they do not fit (then there is nothing to leave). Without limits it costs one failing system call.
struct sim_limits_lock {
	int fd; // -1: there is no limit, and nothing is locked
};
int sim_limits_enter(const char *state, unsigned gpu, uint64_t bytes, struct sim_limits_lock *lock);
void sim_limits_leave(struct sim_limits_lock *lock);

#endif
