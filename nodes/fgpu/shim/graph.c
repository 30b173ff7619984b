//go:build ignore

// Graphs. A launch counts as its kernels at the gate. Memory nodes take from a pool of the device that grows when a graph is first launched
// or uploaded; it is charged by what the driver says is reserved, like any pool (pool.c).
//
// EXEC.other: kernel nodes. EXEC.context: bytes of its allocation nodes. EXEC.refs: the generation of the pool in which it
// has run; run again in the same generation it needs nothing new. GRAPH_MEMORY (key: device) is the pool.
#include "shim.h"

#include <string.h>

enum { DEPTH = 8, GRANULE = 2 << 20 };

struct contents {
	uint64_t kernels, bytes;
	int device;
};

static void count(CUgraph graph, struct contents *c, int depth) {
	size_t n = 0;
	if (depth == DEPTH || CALL(cuGraphGetNodes, graph, NULL, &n) != CUDA_SUCCESS || !n)
		return;
	CUgraphNode *node = map_pages(n * sizeof *node);
	if (!node)
		return;
	size_t got = n;
	if (CALL(cuGraphGetNodes, graph, node, &got) != CUDA_SUCCESS)
		got = 0;
	for (size_t i = 0; i < got && i < n; i++) {
		CUgraphNodeType type;
		CUgraph child;
		CUDA_MEM_ALLOC_NODE_PARAMS a;
		if (CALL(cuGraphNodeGetType, node[i], &type) != CUDA_SUCCESS)
			continue;
		if (type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
			c->kernels++;
		else if (type == CU_GRAPH_NODE_TYPE_GRAPH && CALL(cuGraphChildGraphNodeGetGraph, node[i], &child) == CUDA_SUCCESS)
			count(child, c, depth + 1);
		else if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && CALL(cuGraphMemAllocNodeGetParams, node[i], &a) == CUDA_SUCCESS) {
			c->bytes += round_up(a.bytesize, GRANULE);
			c->device = device_of(a.poolProps.location.id);
		}
	}
	unmap_pages(node, n * sizeof *node);
}

// ---- the pool ----

static CUdevice ordinal_of(unsigned d) {
	int n = 0;
	CALL(cuDeviceGetCount, &n);
	for (CUdevice i = 0; i < n; i++)
		if (device_of(i) == (int)d)
			return i;
	return 0;
}

static uint64_t attribute(unsigned d, CUgraphMem_attribute a) {
	cuuint64_t n = 0;
	return CALL(cuDeviceGetGraphMemAttribute, ordinal_of(d), a, &n) == CUDA_SUCCESS ? n : 0;
}

static uint64_t charged(unsigned d) {
	struct entry e;
	return entries_get(GRAPH_MEMORY, d, &e) ? e.bytes : 0;
}

static void set_bytes(struct entry *e, void *with) { e->bytes = *(uint64_t *)with; }

static void enter(unsigned d, uint64_t bytes) {
	struct entry e = { .key = d, .bytes = bytes, .kind = GRAPH_MEMORY, .device = d };
	if (!entries_change(GRAPH_MEMORY, d, set_bytes, &bytes))
		entries_put(&e);
}

// settle enters what the pool has reserved after a call for which c was claimed. False: more than the job may hold.
static bool settle(struct charge *c, unsigned d, uint64_t had) {
	uint64_t reserved = attribute(d, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT);
	bool fits = true;
	if (reserved <= had) {
		charge_cancel(c);
		release(d, had - reserved);
	} else if (!(fits = charge_settle(c, reserved - had))) {
		charge_unasked(d, reserved - had - c->bytes);
	}
	enter(d, reserved);
	return fits;
}

// The caller holds process.pools.
static void reread(unsigned d) {
	struct charge none = { (int)d, 0 };
	settle(&none, d, charged(d));
}

void graph_memory_reread(unsigned d) {
	struct process *p = process();
	lock(&p->pools);
	reread(d);
	unlock(&p->pools);
}

// ---- instantiation ----

// made enters an executable graph. Some drivers reserve its memory already here.
static CUresult made(CUgraph graph, CUgraphExec *exec, CUresult r) {
	if (r != CUDA_SUCCESS || !fenced() || !exec)
		return r;
	struct contents c = { 0, 0, NO_DEVICE };
	count(graph, &c, 0);
	struct entry e = { .key = (uint64_t)(uintptr_t)*exec, .kind = EXEC, .other = c.kernels, .context = c.bytes, .device = (uint32_t)(c.device < 0 ? 0 : c.device) };
	bool fits = entries_put(&e) && (!c.bytes || c.device >= 0);
	if (fits && c.bytes) {
		struct process *p = process();
		struct charge none = { c.device, 0 };
		lock(&p->pools);
		fits = settle(&none, (unsigned)c.device, charged((unsigned)c.device));
		unlock(&p->pools);
	}
	if (fits)
		return r;
	cuGraphExecDestroy(*exec);
	*exec = NULL;
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *error, char *log, size_t bytes) {
	return made(graph, exec, CALL(cuGraphInstantiate, exec, graph, error, log, bytes));
}

CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *error, char *log, size_t bytes) {
	return made(graph, exec, CALL(cuGraphInstantiate_v2, exec, graph, error, log, bytes));
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
	return made(graph, exec, CALL(cuGraphInstantiateWithFlags, exec, graph, flags));
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params) {
	return made(graph, exec, CALL(cuGraphInstantiateWithParams, exec, graph, params));
}

CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params) {
	return made(graph, exec, CALL(cuGraphInstantiateWithParams_ptsz, exec, graph, params));
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
	struct entry e;
	bool known = entries_take(EXEC, (uint64_t)(uintptr_t)exec, &e);
	CUresult r = CALL(cuGraphExecDestroy, exec);
	if (known && r != CUDA_SUCCESS)
		entries_put(&e);
	else if (known && e.context)
		graph_memory_reread(e.device);
	return r;
}

CUresult cuDeviceGraphMemTrim(CUdevice ordinal) {
	CUresult r = CALL(cuDeviceGraphMemTrim, ordinal);
	struct process *p = process();
	int d = fenced() ? device_of(ordinal) : NO_DEVICE;
	if (r == CUDA_SUCCESS && d >= 0) {
		lock(&p->pools);
		p->graphs_used++; // a new generation
		reread((unsigned)d);
		unlock(&p->pools);
	}
	return r;
}

// ---- launch and upload ----

typedef CUresult run(CUgraphExec exec, CUstream stream);

static void set_refs(struct entry *e, void *with) { e->refs = *(uint32_t *)with; }

// with_memory runs a graph that has allocation nodes: its growth is claimed first and corrected after.
static CUresult with_memory(const struct entry *e, run *call, CUgraphExec exec, CUstream stream) {
	struct process *p = process();
	unsigned d = e->device;
	struct charge c = { (int)d, 0 };
	lock(&p->pools);
	uint32_t generation = p->graphs_used + 1;
	uint64_t had = charged(d);
	bool may = e->refs == generation || charge_begin_on(&c, (int)d, e->context);
	if (!may) { // what the pool has idle may do
		uint64_t reserved = attribute(d, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), used = attribute(d, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT);
		uint64_t idle = reserved > used ? reserved - used : 0;
		may = charge_begin_on(&c, (int)d, e->context > idle ? e->context - idle : 0);
	}
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;
	if (may) {
		r = call(exec, stream);
		settle(&c, d, had); // what runs cannot be taken back: it is charged, and the next claim refused
		if (r == CUDA_SUCCESS)
			entries_change(EXEC, e->key, set_refs, &generation);
	}
	unlock(&p->pools);
	return r;
}

#define GRAPH(suffix, perthread)                                                                                      \
	static CUresult launch##suffix(CUgraphExec exec, CUstream stream) { return CALL(cuGraphLaunch##suffix, exec, stream); } \
	static CUresult upload##suffix(CUgraphExec exec, CUstream stream) { return CALL(cuGraphUpload##suffix, exec, stream); } \
	CUresult cuGraphLaunch##suffix(CUgraphExec exec, CUstream stream) {                                            \
		struct entry e = { .other = 1, .context = 0 };                                                         \
		entries_get(EXEC, (uint64_t)(uintptr_t)exec, &e);                                                      \
		CUresult refused = gate(stream, (unsigned)e.other, perthread);                                         \
		if (refused)                                                                                           \
			return refused;                                                                                \
		return e.context ? with_memory(&e, launch##suffix, exec, stream) : launch##suffix(exec, stream);       \
	}                                                                                                              \
	CUresult cuGraphUpload##suffix(CUgraphExec exec, CUstream stream) {                                            \
		struct entry e = { .context = 0 };                                                                     \
		entries_get(EXEC, (uint64_t)(uintptr_t)exec, &e);                                                      \
		return e.context ? with_memory(&e, upload##suffix, exec, stream) : upload##suffix(exec, stream);       \
	}
GRAPH(, false)
GRAPH(_ptsz, true)
