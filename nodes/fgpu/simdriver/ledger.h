// The ledger says what the processes of this node hold and do on its simulated GPUs. It is kept in
// the directory FAIRSLICE_SIM_STATE, so that every process of the node, and every simulated library,
// reads the same truth. Without that directory the GPUs are idle and healthy.
//
//   gpuN        one line "PID BYTES SM_PERCENT" for each process on GPU N; replaced by rename
//   gpuN.lost   exists while GPU N has fallen off the bus
//
// This header is all that nvml.c knows of it: where the simulated CUDA driver needs a mapped file
// instead of text, ledger.c changes and nvml.c does not.
#ifndef FAIRSLICE_SIM_LEDGER_H
#define FAIRSLICE_SIM_LEDGER_H

#define LEDGER_MAX_PROCESSES 1024

struct ledger_process {
	unsigned pid;
	unsigned long long bytes;
	unsigned sm_percent; // 0 to 100
};

// Fixes the directory; NULL or "" for none. Returns 0, or -1 when the path is too long.
int ledger_open(const char *directory);

int ledger_lost(unsigned gpu);

// Lists the live processes on a GPU, at most max, and returns how many. A process that has died is
// left out whatever its line says, as a real driver frees what a killed process held. PIDs are those
// of the caller's PID namespace: a caller in another one sees too few.
unsigned ledger_processes(unsigned gpu, struct ledger_process *out, unsigned max);

#endif
