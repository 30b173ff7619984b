// What the parts of the simulated libcuda.so.1 share: the objects behind the handles, and the few questions that
// every call asks first. The device computes nothing: its memory is host memory that appears when it is touched, its
// kernels only take time (ledger.h).
//
// Handles are pointers to structs that begin with their kind and the process generation that made them, so that a
// handle of another kind, a destroyed one, and one from before a fork are told apart. A child of fork has to call
// cuInit again and then begins with nothing, which is more than the real driver allows it: a fence must hold there too.
#ifndef FAIRSLICE_SIM_CUDA_H
#define FAIRSLICE_SIM_CUDA_H

#include <stdint.h>

#include "../abi/cuda.h"
#include "conf.h"
#include "ledger.h"
#include "mig.h"

#define EXPORT __attribute__((visibility("default")))
#define SIM_SMS 100
#define SIM_QUEUE 1024         // outstanding launches; then a launch waits
#define SIM_QUEUE_DRAIN 128    // for that many to end, so that it does not wait for each
#define LINEAR_GRANULE 512ull  // of cuMemAlloc, in bytes
#define VMM_GRANULE (2ull << 20)
#define POOL_CHUNK (32ull << 20)
#define ARRAY_GRANULE (64ull << 10)

static inline uint64_t round_up(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

// ---- objects ----

enum kind { CONTEXT = 0x53494d01, MODULE, FUNCTION, LIBRARY, STREAM, EVENT, POOL, GRAPH, NODE, EXEC, ARRAY, MIPMAP, EXTERNAL, GREEN, MEMORY };

struct head {
	uint32_t kind; // 0 once destroyed
	uint32_t generation;
};

struct sim_device {
	unsigned number; // the CUdevice
	unsigned gpu;
	const struct sim_instance *instance; // of a GPU in MIG mode
	char uuid[SIM_UUID_SIZE];
	struct ledger_slot *slot; // NULL until the first context
	struct ledger_limits limits;
	uint64_t lost_checked;
	int lost;
	uint64_t launches;          // atomic: ever
	uint64_t target[SIM_QUEUE]; // of launch n in [n % SIM_QUEUE]
	CUcontext primary;
	unsigned primary_flags;
	CUmemoryPool default_pool, pool;
	uint64_t graph_reserved, graph_used, graph_reserved_high, graph_used_high;
};

struct CUctx_st {
	struct head head;
	struct sim_device *device;
	unsigned flags, references; // references of a primary context; else 1 while it lives
	int primary, green;
	CUstream legacy;
};

struct CUstream_st {
	struct head head;
	CUcontext context;
	unsigned flags;
	int priority, is_default;
	uint64_t last; // what it waits for
	struct capture *capture;
};

struct CUevent_st {
	struct head head;
	struct sim_device *device;
	unsigned flags;
	int recorded;
	uint64_t target, at; // at: when it was recorded
	struct capture *capture;
};

struct CUfunc_st { // also a CUkernel
	struct head head;
	struct CUfunc_st *next;
	CUmodule module;
	unsigned block[3]; // of the launch calls of CUDA 2
	char name[];
};

struct CUmod_st { // also a CUlibrary
	struct head head;
	struct sim_device *device;
	struct CUfunc_st *functions;
};

// How a graph's work is remembered; see cuda_graph.c.
struct CUgraphNode_st {
	struct head head;
	CUgraphNodeType type;
	CUgraph graph;
	CUDA_KERNEL_NODE_PARAMS_v2 kernel;
	CUDA_HOST_NODE_PARAMS host;
	CUDA_MEM_ALLOC_NODE_PARAMS alloc;
	CUdeviceptr freed;
	CUgraph child;
};

struct CUgraph_st {
	struct head head;
	CUgraphNode *node;
	size_t count, room;
	struct CUgraph_st *next;
};

struct CUmemPoolHandle_st {
	struct head head;
	struct sim_device *device;
	int is_default, is_host;
	uint64_t reserved, used, reserved_high, used_high, threshold;
	CUmemPoolProps properties;
};

// ---- device memory (cuda_memory.c) ----

enum origin { LINEAR, MANAGED, POOLED, GRAPHED, RESERVED_RANGE, IMPORTED, PINNED };

struct allocation {
	CUdeviceptr base;
	uint64_t bytes;   // as asked for
	uint64_t mapped;  // bytes of address space
	uint64_t charged; // in the ledger; 0 where a pool or another process holds it
	enum origin origin;
	struct sim_device *device; // NULL: pinned host memory
	CUcontext context;
	CUmemoryPool pool;
	CUgraphNode node;
	int fd;           // of shared memory, once it was exported; else -1
	uint64_t id;
	struct mapping *mappings; // of a RESERVED_RANGE, see cuda_vmm.c
};

// The allocation that holds an address, or NULL. The caller holds sim.lock.
struct allocation *find_allocation(CUdeviceptr ptr);

// Reserves address space, backed when touched; 0 on failure.
CUdeviceptr map_memory(uint64_t bytes, int low);

// Adds an allocation of which base, bytes, mapped and the rest are set, and gives it an id. The lock is held.
int remember(const struct allocation *a);
void forget(struct allocation *a); // unmaps it and releases what it charged. The lock is held.
void forget_of_context(CUcontext c);

// Whether all of a part of a RESERVED_RANGE is mapped (cuda_vmm.c). The lock is held.
int range_mapped(const struct allocation *a, CUdeviceptr ptr, uint64_t bytes);

// ---- the process (cuda_init.c) ----

struct sim {
	struct sim_conf conf;
	struct sim_mig mig;
	char node[SIM_VALUE_SIZE];
	unsigned count;
	struct sim_device device[SIM_MAX_GPUS];
	uint32_t generation;
	void *mutex;
	CUgraph graphs;
};
extern struct sim sim;

void sim_lock(void);
void sim_unlock(void);

// CUDA_SUCCESS, or NOT_INITIALIZED: before cuInit, and in a child after fork.
CUresult initialised(void);

static inline int is(const void *handle, enum kind kind)
{
	const struct head *h = handle;
	return h && ((uintptr_t)h & 7) == 0 && h->kind == (uint32_t)kind && h->generation == sim.generation;
}
void *make(enum kind kind, size_t size); // zeroed; NULL when out of memory

struct sim_device *device_of(CUdevice number); // NULL: there is none
CUresult device_usable(struct sim_device *d);  // looks whether it is lost and whether MPS still serves us; system calls
CUresult device_usable_fast(struct sim_device *d, uint64_t now); // the same as of at most 10 ms ago
CUresult device_attach(struct sim_device *d);  // makes d->slot
CUresult device_charge(struct sim_device *d, uint64_t bytes);
void device_release(struct sim_device *d, uint64_t bytes);
unsigned device_sms(struct sim_device *d);

// What a program gets from a GPU that has fallen off the bus (Xid 79), from the call that notices it on: "unknown error",
// as programs report of real ones (github.com/wilicc/gpu-burn issue 1, github.com/proteneer/timemachine pull 1203).
#define LOST CUDA_ERROR_UNKNOWN

#define REQUIRE_INIT()                        \
	do {                                  \
		CUresult r_ = initialised();  \
		if (r_ != CUDA_SUCCESS)       \
			return r_;            \
	} while (0)

// ---- contexts (cuda_context.c) ----

// The current context of this thread; NULL and an error when there is none, or it was destroyed.
CUcontext current_context(CUresult *why);

#define REQUIRE_CONTEXT(c)                              \
	CUresult why_;                                  \
	CUcontext c = current_context(&why_);           \
	if (!c)                                         \
	return why_

// ---- streams (cuda_stream.c) ----

struct capture {
	CUgraph graph;
	CUstream origin;
	CUstreamCaptureStatus status;
	CUstreamCaptureMode mode;
	int thread;
	cuuint64_t id;
};

// The stream behind a handle, NULL and the default ones included, or NULL when it is none. per_thread says
// what NULL stands for.
CUstream stream_of(CUstream handle, int per_thread, CUcontext c);

// Whether a capture in progress forbids a call like cuMemAlloc to this thread; if so the capture is invalidated.
CUresult capture_permits(void);

// What a graph gains instead of the device, while the stream is capturing; NULL when it is not.
CUgraphNode capture_node(CUstream s, CUgraphNodeType type, CUresult *why);

void pools_settle(struct sim_device *d); // cuda_pool.c: what a synchronisation gives back
void pools_empty(struct sim_device *d);  // all that is not in use. The lock is held.
void graph_pool_trim(struct sim_device *d); // cuda_graph_run.c: the same. The lock is held.

// Queues work of a stream; waits while the device's queue is full.
CUresult stream_work(CUstream s, uint64_t work);
void device_drain(struct sim_device *d); // waits for all that this process has queued

// ---- graphs (cuda_graph.c, cuda_graph_run.c) ----

CUgraph graph_make(void);
CUgraphNode graph_add(CUgraph g, CUgraphNodeType type);
CUresult graph_add_alloc(CUgraphNode n, struct sim_device *d, uint64_t bytes);
int graph_valid_kernel(const CUDA_KERNEL_NODE_PARAMS_v2 *p);
CUDA_KERNEL_NODE_PARAMS_v2 graph_widen(const CUDA_KERNEL_NODE_PARAMS_v1 *p);
void graph_free_memory(struct allocation *a); // a pointer of a graph is freed. The lock is held.
uint64_t grid_work(unsigned x, unsigned y, unsigned z); // device time of a kernel with that grid
int valid_grid(unsigned x, unsigned y, unsigned z, unsigned blockX, unsigned blockY, unsigned blockZ);

// ---- pools (cuda_pool.c) ----

CUresult pool_allocate(CUmemoryPool p, size_t bytes, CUdeviceptr *out);
void pool_take_back(struct allocation *a); // the lock is held

#endif
