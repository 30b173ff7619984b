// The ledger says what the processes of this node hold and do on its simulated GPUs. It is one file, "ledger" in the
// directory FAIRSLICE_SIM_STATE, mapped by every process that loads a simulated library, so that all read the
// same truth. Without that directory it is private to the process.
//
//   ledger      this header's structs, all zero where nothing has happened yet
//   gpuN        one line "PID BYTES SM_PERCENT" for each declared process on GPU N (see SetProcesses in simdriver.go)
//   gpuN.lost   exists while GPU N has fallen off the bus
//
// Nothing in it is a sum that a kill could leave wrong: a GPU's used memory is the sum over its slots, each slot is
// one process's, and a slot whose process is dead counts for nothing and is cleared by whoever looks next.
//
// Device time is a fluid: at any moment the processes that have work queued share the GPU equally, none above its
// cap. Nobody serves the queues in between; whoever looks (advance) works out what has been served since the last
// look. Times are nanoseconds of CLOCK_MONOTONIC, work is nanoseconds of the whole GPU.
#ifndef FAIRSLICE_SIM_LEDGER_H
#define FAIRSLICE_SIM_LEDGER_H

#include <stdint.h>

#include "spec.h"

#define LEDGER_MAGIC 0x31676c6d69735346ull // "FSsimlg1", little-endian
#define LEDGER_MAX_PROCESSES 1024
#define LEDGER_WHOLE 10000 // a cap of all the GPU, in 1/100 percent

#define LEDGER_BUCKET 100000000ull // ns: utilisation is known as of each such step of the clock
#define LEDGER_BUCKETS 64
#define LEDGER_RUNS 32

struct ledger_run { // a stretch of time in which a process was served at one rate
	uint64_t from, to, served_from, served_to;
};

struct ledger_slot {
	uint64_t key;     // process id << 42 | low 42 bits of its start time (field 22 of /proc/PID/stat); 0: free
	uint64_t bytes;   // atomic: held, contexts included
	uint64_t queued;  // atomic: work ever queued
	uint64_t served;  // atomic, written under the lock: work ever done
	uint64_t horizon; // atomic: until then the queued work lasts for certain
	uint32_t cap;     // atomic: the most of the GPU this process is served, in 1/100 percent
	uint32_t instance; // number of the MIG GPU instance it uses; 0: the whole GPU
	uint64_t fraction; // of a nanosecond of work served, in 1/2^30
	uint64_t buckets; // the number of the next step of the clock to be written into bucket[]
	uint64_t runs;    // ever written into run[]
	uint64_t rate;    // of the last run, in 1/2^30 of the GPU
	uint64_t reserved[6];
	uint64_t bucket[LEDGER_BUCKETS];
	struct ledger_run run[LEDGER_RUNS];
};

struct ledger_gpu {
	uint32_t lock;       // see ledger.c
	uint32_t slots_used; // atomic: slots from this index on are free
	uint64_t time;       // up to which the queues have been served
	uint64_t checked;    // when processes with work were last seen alive
	uint64_t tidied;     // when an attaching process last looked for slots of the dead
	uint64_t reserved[4];
	struct ledger_slot slot[LEDGER_MAX_PROCESSES];
};

_Static_assert(sizeof(struct ledger_slot) == 1664, "ledger_slot");
_Static_assert(sizeof(struct ledger_gpu) == 64 + LEDGER_MAX_PROCESSES * 1664, "ledger_gpu");

// Opens the ledger of a node with that many GPUs: the directory is made if it is missing (its parent is not);
// NULL or "" for one that is private to this process. An earlier one is closed; nobody may be using it. Returns
// 0, or -1 with one line in why.
int ledger_open(const char *directory, unsigned gpus, char why[256]);

// Whether the GPU has fallen off the bus. A system call.
int ledger_lost(unsigned gpu);

// This process's slot on a GPU, taken if need be; NULL when there are LEDGER_MAX_PROCESSES live ones. In a child
// after fork another one than the parent's.
struct ledger_slot *ledger_attach(unsigned gpu);

// Adds bytes to what the slot holds, if with them the GPU, of size total, is not exceeded, nor the MIG instance of
// size instance_total that the slot names, nor own_limit by the slot alone. Exact at any concurrency. Returns 0, or
// -1 when it does not fit, or -2 when the slot is not this process's any more (somebody took it for dead: never where
// all see the same process ids).
struct ledger_limits {
	uint64_t total, instance_total, own_limit; // ~0: no limit
	uint64_t key; // of the slot, as ledger_attach gave it
};
int ledger_charge(unsigned gpu, struct ledger_slot *slot, uint64_t bytes, const struct ledger_limits *limits);
void ledger_release(struct ledger_slot *slot, uint64_t bytes);

// Bytes that all live processes, or those of one MIG instance, hold now.
uint64_t ledger_used(unsigned gpu, uint32_t instance);

// ---- device time (device_time.c) ----

uint64_t ledger_now(void);

// Queues work; returns the value of served at which it is done.
uint64_t ledger_queue(unsigned gpu, struct ledger_slot *slot, uint64_t work);
int ledger_done(unsigned gpu, struct ledger_slot *slot, uint64_t target); // whether served has reached it
void ledger_wait(unsigned gpu, struct ledger_slot *slot, uint64_t target); // sleeps until then
uint64_t ledger_done_at(unsigned gpu, struct ledger_slot *slot, uint64_t target); // when; for targets of the last seconds

// ---- what a monitor sees ----

struct ledger_process {
	unsigned pid;
	unsigned long long bytes;
	unsigned sm_percent; // of the GPU's time, 0 to 100, from since until now
	uint32_t instance;
};

// Lists the live processes that hold or do something on a GPU, declared ones included, at most max, and returns
// how many. since is at most some seconds ago; 0 is one second ago. PIDs are those of the caller's PID
// namespace: a caller in another one sees too few.
unsigned ledger_processes(unsigned gpu, struct ledger_process *out, unsigned max, uint64_t since);

// ---- between ledger.c and device_time.c ----

struct ledger_gpu *ledger_gpu(unsigned gpu);
void ledger_lock(struct ledger_gpu *g);
void ledger_unlock(struct ledger_gpu *g);
int ledger_reap(struct ledger_gpu *g, int busy_only); // the lock is held; returns how many were cleared
void ledger_advance(struct ledger_gpu *g, uint64_t now); // the lock is held
unsigned ledger_percent(const struct ledger_gpu *g, struct ledger_slot *s, uint64_t since, uint64_t now); // the lock is held

#endif
