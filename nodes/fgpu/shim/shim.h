// What the files of libfgpu.so share. Read order: README.md, ../abi/region.h, resolve.c, region.c, then any other.
//
// Rules for every file here:
//   - nothing happens before the first CUDA or NVML function is asked for: no constructor, no thread;
//   - no malloc: the tenant may be inside its own. Memory comes from mmap, or is fixed;
//   - state that a forked child must not inherit lives in struct process, on a page that fork wipes;
//   - only symbols of glibc 2.17 or older, found by name (a test looks).
#ifndef FAIRSLICE_SHIM_H
#define FAIRSLICE_SHIM_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// What cuda.h declares and we define is what programs are to find; all else is hidden.
#pragma GCC visibility push(default)
#include "../abi/cuda.h"
#pragma GCC visibility pop
#include "../abi/region.h"

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

// ---- libc.c: the little that is needed of the C library ----

struct lock { // a futex: 0 free, 1 taken, 2 taken and waited for
	uint32_t word;
};
void lock(struct lock *l);
void unlock(struct lock *l);
uint64_t clock_now(void);                // CLOCK_MONOTONIC, nanoseconds
void sleep_until(uint64_t when);         // the same clock
void say(const char *what, const char *more); // one line on standard error
void *map_pages(size_t bytes);           // zeroed, private, wiped by fork; NULL when there are none
void unmap_pages(void *p, size_t bytes);
void *libc_symbol(const char *name);     // dlsym and the like of the loaded C library, whatever its version

// ---- resolve.c: the real functions ----

enum library { LIBCUDA, LIBNVML };

// driver_symbol returns the driver's own function, NULL where the loaded driver has none.
void *driver_symbol(enum library which, const char *name);

// REAL(cuMemAlloc_v2) is the driver's function, with its type. CALL calls it, or says that the driver has none.
#define REAL_OF(which, name)                                                     \
	({                                                                       \
		static void *found_;                                             \
		void *p_ = __atomic_load_n(&found_, __ATOMIC_ACQUIRE);           \
		if (UNLIKELY(!p_)) {                                             \
			p_ = driver_symbol(which, #name);                        \
			__atomic_store_n(&found_, p_, __ATOMIC_RELEASE);         \
		}                                                                \
		(__typeof__(&name))p_;                                           \
	})
#define REAL(name) REAL_OF(LIBCUDA, name)
#define CALL(name, ...)                                                          \
	({                                                                       \
		__typeof__(&name) f_ = REAL(name);                               \
		f_ ? f_(__VA_ARGS__) : CUDA_ERROR_NOT_SUPPORTED;                 \
	})

void *nvml_wrapper(const char *name); // ours for an NVML name, or NULL

// ---- region.c: what the job may use, and what it holds ----

// fenced attaches this process at first use. False: there is no region to count in; refuse.
bool fenced(void);
unsigned devices(void);                            // of the slice; 0 where not fenced
const struct fgpu_device *device(unsigned d);      // d < devices()
const struct fgpu_slice *slice_file(void);         // NULL where not fenced
struct fgpu_counters *counters(unsigned d);        // shared with all processes of the job: atomic adds only

// claim takes bytes of device d for this process, or says no; nothing of the driver has been called then.
// The sum of all claims that stand never exceeds the limit.
bool claim(unsigned d, uint64_t bytes);
void release(unsigned d, uint64_t bytes);
void charge_unasked(unsigned d, uint64_t bytes);   // what the driver has taken already
uint64_t held(unsigned d);                         // by all processes of the job, with what noded measured beyond it
void count_context(unsigned d, int change);

enum { NO_CONTEXT = -2, NO_DEVICE = -1 };
bool same_uuid(const char *name, const CUuuid *u);   // uuid.c
int device_of(CUdevice ordinal);                   // index into the slice; NO_DEVICE: not the job's
int current_device(void);                          // of the current context; NO_CONTEXT: there is none

// ---- pointers.c: what this process holds, by the driver's handle ----

enum held_kind { LINEAR = 1, ARRAY, MIPMAP, CONTEXT, GREEN, PRIMARY, POOL, MEMORY, HANDLE, MAPPING, EXEC, GRAPH_MEMORY };

struct entry {
	uint64_t key;      // pointer or handle
	uint64_t bytes;    // charged to device; of a MAPPING: mapped
	uint64_t context;  // LINEAR, ARRAY, MIPMAP: the context it ends with
	uint64_t other;    // by kind
	uint32_t kind;
	uint32_t device;
	uint32_t refs, maps; // MEMORY
};

bool entries_put(const struct entry *e);           // an older one of the same kind and key was stale: its bytes are released
bool entries_take(enum held_kind kind, uint64_t key, struct entry *out); // removes
bool entries_get(enum held_kind kind, uint64_t key, struct entry *out);
// entries_change calls change under the table's lock; it must not call the driver. False: no such entry.
bool entries_change(enum held_kind kind, uint64_t key, void (*change)(struct entry *, void *), void *with);
// entries_next walks: it returns the first entry of a kind at or after *at, and moves *at. What changes meanwhile may be missed.
bool entries_next(enum held_kind kind, size_t *at, struct entry *out);
// A context's memory ends with it: mark before, then drop (and release) or unmark.
void entries_mark(uint64_t context, bool marked);
void entries_drop(uint64_t context);

// ---- charge.c: claim, call the driver, keep or give back ----

struct charge {
	int device;     // NO_CONTEXT: not counted; the driver will say what is wrong
	uint64_t bytes;
};
// charge_begin claims on the current context's device. False: refuse with CUDA_ERROR_OUT_OF_MEMORY.
bool charge_begin(struct charge *c, uint64_t bytes);
bool charge_begin_on(struct charge *c, int device, uint64_t bytes);
// charge_settle sets the charge to what the driver really took. False: that is more than the job may hold; undo the call.
bool charge_settle(struct charge *c, uint64_t bytes);
void charge_cancel(struct charge *c);
// charge_keep enters the charge under a handle. False: no memory for the table; undo the call.
bool charge_keep(struct charge *c, enum held_kind kind, uint64_t key);
uint64_t round_up(uint64_t n, uint64_t to);        // saturates
uint64_t times(uint64_t a, uint64_t b);            // saturates

// ---- pool.c, graph.c, gate.c ----

void pools_reread(void);                           // what the driver has given back is released
void graph_memory_reread(unsigned d);

// gate lets a launch of n kernels pass in the job's time. Not CUDA_SUCCESS: refuse with it.
CUresult gate(CUstream stream, unsigned n, bool perthread);
enum synced { SYNCED_ALL, SYNCED_STREAM, SYNCED_EVENT };
uint64_t gate_sync_begins(void);                   // before the program waits for the device
void gate_synced(uint64_t begun, enum synced what, CUstream stream);
void gate_forget(int device);                      // a context is about to end, its events with it

struct tracker { // of one stream, see gate.c
	uint64_t stream, owner; // owner: context or thread where the handle alone does not tell
	CUevent event[2];
	uint64_t boundary;
	uint32_t count, batch;
	uint8_t pending[2], turn, busy, slow;
};
#define TRACKERS 16

struct gate_state {
	struct lock lock;
	uint64_t window, until;     // the last window looked at; launches pass until then
	uint64_t charged, finished; // overrun is counted up to there; when work was last seen to end
	uint64_t debt;              // time used beyond windows, not yet taken off a later one
	uint64_t over, shared;      // since the window's end; of that, what is spent beside a neighbour
	uint64_t outstanding;       // launches since work was last seen to end
	uint32_t next;
	struct tracker tracker[TRACKERS];
};

// What belongs to this process and not to its children.
struct process {
	uint32_t state; // 0: not attached yet
	uint32_t pid;   // used only where the kernel cannot wipe on fork
	struct lock attaching, claiming, table, contexts, pools;
	struct fgpu_slot *slot;
	uint64_t key;
	struct entry *entries;
	size_t room, filled;
	uint64_t serial;
	uint32_t pools_used, graphs_used;
	struct gate_state gate[FGPU_DEVICES];
};
struct process *process(void); // NULL where no page could be had

#endif
