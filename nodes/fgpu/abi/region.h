// The two files through which noded and the shim speak about one attempt's slices. Both are mapped; every
// number is in the machine's byte order, naturally aligned, at a fixed offset. nodes/fgpu/region.go is the
// same layout in Go, and a test there compares the two.
//
//   slice   written by noded only, mapped read-only in the container: what the job may use, and what noded
//           has measured. A tenant cannot raise its limits, for it cannot write here.
//   usage   written by the job's processes: what they hold. A tenant can write nonsense here; it then harms
//           its own accounting only, for the watchdog decides by what the driver says, never by this file.
//
// Memory held on device d is the sum of slot[i].used[d] over all slots, and nothing else: there is no
// separate total that a kill could leave wrong. A process claims an amount by adding it to its own slot, and only then
// looks at the sum: of any set of claims that stand, the one added last has seen all the others, so that
// they never exceed the limit. One that sees too much takes its claim back (and tries again while the
// excess may be a claim of others that is about to be taken back: see slot.claim). A process killed at any
// instruction leaves a slot whose key names a dead process: others leave it out of the sum, noded alone clears it.
#ifndef FAIRSLICE_FGPU_REGION_H
#define FAIRSLICE_FGPU_REGION_H

#include <stddef.h>
#include <stdint.h>

#define FGPU_DIR "/.fairslice/fgpu" // in the container; elsewhere $FAIRSLICE_FGPU_DIR, which this path, where it exists, overrides
#define FGPU_SLICE_MAGIC "FSslice\0"
#define FGPU_USAGE_MAGIC "FSusage\0"
#define FGPU_VERSION 1
#define FGPU_DEVICES 16
#define FGPU_SLOTS 1024
#define FGPU_PROCESSES 256
#define FGPU_HISTORY 600 // samples, one each second

enum { FGPU_HARD = 0, FGPU_BURST = 1 }; // policy: never more than the share, or more while nobody else wants it

struct fgpu_device {
	char uuid[48];             // as NVML and CUDA name it ("GPU-…"), ending in NUL
	uint64_t limit_bytes;      // what the job may hold, its contexts included
	uint64_t physical_bytes;   // of the whole GPU
	uint64_t context_bytes;    // what one context costs here, measured by noded; charged until noded knows better
	uint64_t untracked_bytes;  // atomic: what the driver says the job holds beyond what its slots say
	uint64_t driver_bytes;     // atomic: what the driver says the job holds
	uint32_t share;            // of the GPU's time, in 1/100 percent: 2500 is a quarter. 10000: no throttle
	uint32_t open;             // atomic: part of each frame in which launches pass, in 1/100 percent
	uint32_t phase;            // atomic: where in the frame it begins, in 1/100 percent
	uint32_t index;            // as the driver counts on this node
	uint32_t utilization;      // atomic: the job's part of the GPU's time lately, in 1/100 percent
	uint32_t lost;             // atomic: 1 once the driver no longer answers for this GPU
	uint32_t mode;             // 0 count, 1 shim, 2 mps, 3 mig
	uint32_t fgpu;             // the slice in 1/100 fGPU, for display
	uint64_t history_next;     // atomic: samples ever written; the last is at (history_next-1) % FGPU_HISTORY
	char model[64];            // for display, ending in NUL
	uint64_t reserved[8];
};

struct fgpu_process { // for the process lists of NVML
	uint32_t pid;    // on the host; containers here have no PID namespace of their own
	uint32_t device; // index into device[]
	uint64_t bytes;
};

struct fgpu_sample { // one second of one device
	uint32_t mib;         // the job's memory by the driver
	uint16_t utilization; // 1/100 percent of the GPU's time
	uint16_t throttled;   // 1/100 percent of the second in which a launch waited
};

struct fgpu_slice {
	char magic[8];
	uint32_t version;
	uint32_t size;          // of the file: sizeof(struct fgpu_slice)
	uint32_t devices;       // at most FGPU_DEVICES
	uint32_t policy;        // FGPU_HARD or FGPU_BURST
	uint32_t frame_us;      // length of a throttle frame
	uint32_t owner;         // user id of noded, 0 where it is root
	uint64_t frame_start;   // CLOCK_MONOTONIC nanoseconds at which some frame began; the same for all jobs of a node
	uint64_t heartbeat;     // atomic: CLOCK_MONOTONIC nanoseconds of noded's last look
	char job[64];           // for display: job id, "12[3]"
	uint32_t process_seq;   // seqlock of the list below: odd while noded writes it
	uint32_t processes;     // entries in process[]
	uint64_t reserved[17];
	struct fgpu_device device[FGPU_DEVICES];
	struct fgpu_process process[FGPU_PROCESSES];
	struct fgpu_sample history[FGPU_DEVICES][FGPU_HISTORY];
};

struct fgpu_slot {
	// Who: process id in the upper 22 bits and, below, the lower 42 bits of its start time in clock ticks since
	// boot (field 22 of /proc/PID/stat), so that a recycled id is another key. 0: free. Taken by one compare-and-swap.
	uint64_t key;
	// Bit d: an amount on device d has been added to used[d] whose fate is not decided yet (see above).
	uint64_t claim;
	uint64_t used[FGPU_DEVICES]; // bytes, claims included
	uint64_t contexts[2];        // contexts of the process, for display: 8 bits for each device
	uint64_t reserved[4];
};

struct fgpu_counters { // of all processes together, atomic adds
	uint64_t denied;       // allocations refused
	uint64_t launches;     // kernels launched; a graph counts its kernel nodes
	uint64_t throttled_ns; // time that launches waited at the gate
	uint64_t peak_bytes;   // greatest sum seen by an allocation
	uint64_t reserved[4];
};

struct fgpu_usage {
	char magic[8];
	uint32_t version;
	uint32_t size;    // of the file: sizeof(struct fgpu_usage)
	uint32_t slots_used; // atomic: slots at and above this index were never taken
	uint32_t reserved0;
	uint64_t reserved[5];
	struct fgpu_counters counters[FGPU_DEVICES];
	struct fgpu_slot slot[FGPU_SLOTS];
};

_Static_assert(sizeof(struct fgpu_device) == 256, "fgpu_device");
_Static_assert(sizeof(struct fgpu_process) == 16, "fgpu_process");
_Static_assert(sizeof(struct fgpu_sample) == 8, "fgpu_sample");
_Static_assert(sizeof(struct fgpu_slot) == 192, "fgpu_slot");
_Static_assert(sizeof(struct fgpu_counters) == 64, "fgpu_counters");
_Static_assert(offsetof(struct fgpu_slice, device) == 256, "fgpu_slice.device");
_Static_assert(offsetof(struct fgpu_slice, process) == 256 + 16 * 256, "fgpu_slice.process");
_Static_assert(offsetof(struct fgpu_slice, history) == 256 + 16 * 256 + 4096, "fgpu_slice.history");
_Static_assert(offsetof(struct fgpu_usage, counters) == 64, "fgpu_usage.counters");
_Static_assert(offsetof(struct fgpu_usage, slot) == 64 + 16 * 64, "fgpu_usage.slot");

#endif
