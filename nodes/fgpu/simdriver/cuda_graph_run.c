//go:build ignore

// Graphs that are ready to run. A launch takes the time of its kernels together. The memory of allocation nodes comes from the
// device's graph pool: it is reserved, in steps of 2 MiB, when a graph that needs it is launched (or uploaded), and kept for the
// next launch until cuDeviceGraphMemTrim.

#include <stdlib.h>
#include <string.h>

#include "cuda_sim.h"

struct CUgraphExec_st {
	struct head head;
	unsigned long long flags;
	struct exec_node {
		CUgraphNode of; // as a name only: the graph may be gone
		struct CUgraphNode_st copy;
		uint64_t work;
	} *node;
	size_t count, room;
	uint64_t work;
	uint64_t memory;   // bytes of its allocation nodes
	uint64_t unfreed;  // of these, what no node of it frees
	struct sim_device *device; // of that memory
};
// ---- instantiating ----

static CUresult flatten(CUgraphExec e, CUgraph g)
{
	for (size_t i = 0; i < g->count; i++) {
		CUgraphNode n = g->node[i];
		struct exec_node *list;
		if (n->type == CU_GRAPH_NODE_TYPE_GRAPH) {
			CUresult r = flatten(e, n->child);
			if (r != CUDA_SUCCESS)
				return r;
			continue;
		}
		if (e->count == e->room) {
			e->room = e->room ? 2 * e->room : 16;
			if (!(list = realloc(e->node, e->room * sizeof *list)))
				return CUDA_ERROR_OUT_OF_MEMORY;
			e->node = list;
		}
		e->node[e->count] = (struct exec_node){.of = n, .copy = *n};
		if (n->type == CU_GRAPH_NODE_TYPE_KERNEL)
			e->node[e->count].work = grid_work(n->kernel.gridDimX, n->kernel.gridDimY, n->kernel.gridDimZ);
		e->count++;
	}
	return CUDA_SUCCESS;
}

static void add_up(CUgraphExec e)
{
	e->work = e->memory = e->unfreed = 0;
	for (size_t i = 0; i < e->count; i++) {
		CUgraphNode n = &e->node[i].copy;
		int freed = 0;
		e->work += e->node[i].work;
		if (n->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC)
			continue;
		e->device = device_of(n->alloc.poolProps.location.id);
		for (size_t j = 0; j < e->count; j++)
			freed |= e->node[j].copy.type == CU_GRAPH_NODE_TYPE_MEM_FREE && e->node[j].copy.freed == n->alloc.dptr;
		e->memory += round_up(n->alloc.bytesize, VMM_GRANULE);
		e->unfreed += freed ? 0 : round_up(n->alloc.bytesize, VMM_GRANULE);
	}
}

static CUresult instantiate(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
	CUgraphExec e;
	CUresult r;
	REQUIRE_INIT();
	if (!exec || !is(graph, GRAPH) || flags > 15)
		return CUDA_ERROR_INVALID_VALUE;
	if (!(e = make(EXEC, sizeof *e)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	if ((r = flatten(e, graph)) != CUDA_SUCCESS)
		return r;
	e->flags = flags;
	add_up(e);
	*exec = e;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) { return instantiate(exec, graph, flags); }

EXPORT CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *errorNode, char *log, size_t bytes)
{
	if (errorNode)
		*errorNode = NULL;
	if (log && bytes)
		*log = 0;
	return instantiate(exec, graph, 0);
}

EXPORT CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *errorNode, char *log, size_t bytes)
{
	return cuGraphInstantiate_v2(exec, graph, errorNode, log, bytes);
}

EXPORT CUresult cuGraphExecGetFlags(CUgraphExec exec, cuuint64_t *flags)
{
	REQUIRE_INIT();
	if (!is(exec, EXEC) || !flags)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = exec->flags;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec)
{
	REQUIRE_INIT();
	if (!is(exec, EXEC))
		return CUDA_ERROR_INVALID_VALUE;
	exec->head.kind = 0; // what it allocated and nobody freed stays, as in the real one
	free(exec->node);
	free(exec);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *result)
{
	struct CUgraphExec_st fresh = {0};
	int same;
	REQUIRE_INIT();
	if (!is(exec, EXEC) || !is(graph, GRAPH) || !result)
		return CUDA_ERROR_INVALID_VALUE;
	*result = (CUgraphExecUpdateResultInfo){0};
	if (flatten(&fresh, graph) != CUDA_SUCCESS)
		return CUDA_ERROR_OUT_OF_MEMORY;
	same = fresh.count == exec->count;
	for (size_t i = 0; same && i < fresh.count; i++)
		same = fresh.node[i].copy.type == exec->node[i].copy.type && fresh.node[i].copy.type != CU_GRAPH_NODE_TYPE_MEM_ALLOC;
	if (!same) {
		free(fresh.node);
		result->result = 2; // the topology has changed
		return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
	}
	free(exec->node);
	exec->node = fresh.node;
	exec->room = fresh.room;
	add_up(exec);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *errorNode, int *result)
{
	CUgraphExecUpdateResultInfo info;
	CUresult r = cuGraphExecUpdate_v2(exec, graph, &info);
	if (errorNode)
		*errorNode = NULL;
	if (result)
		*result = r == CUDA_SUCCESS || r == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE ? info.result : 1;
	return r;
}

EXPORT CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
	REQUIRE_INIT();
	if (!is(exec, EXEC) || !params || !graph_valid_kernel(params))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < exec->count; i++) {
		struct exec_node *n = &exec->node[i];
		if (n->of != node || n->copy.type != CU_GRAPH_NODE_TYPE_KERNEL)
			continue;
		n->copy.kernel = *params;
		n->work = grid_work(params->gridDimX, params->gridDimY, params->gridDimZ);
		add_up(exec);
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
	CUDA_KERNEL_NODE_PARAMS_v2 wide;
	if (!params)
		return CUDA_ERROR_INVALID_VALUE;
	wide = graph_widen(params);
	return cuGraphExecKernelNodeSetParams_v2(exec, node, &wide);
}

// ---- launching ----

static void highest(struct sim_device *d, uint64_t used)
{
	if (d->graph_reserved > d->graph_reserved_high)
		d->graph_reserved_high = d->graph_reserved;
	if (used > d->graph_used_high)
		d->graph_used_high = used;
}

// Makes the pool large enough for one more launch. The lock is held.
static CUresult reserve(CUgraphExec e)
{
	struct sim_device *d = e->device;
	uint64_t lacking;
	CUresult r;
	if (!e->memory || d->graph_used + e->memory <= d->graph_reserved)
		return CUDA_SUCCESS;
	lacking = d->graph_used + e->memory - d->graph_reserved;
	if ((r = device_charge(d, lacking)) != CUDA_SUCCESS)
		return r;
	d->graph_reserved += lacking;
	highest(d, d->graph_used);
	return CUDA_SUCCESS;
}

// The memory nodes of a launch: it has what it allocates until one of its nodes, or somebody later, frees it.
static CUresult allocate_nodes(CUgraphExec e, CUcontext c)
{
	struct allocation *a;
	CUresult r = CUDA_SUCCESS;
	if (!e->memory)
		return CUDA_SUCCESS;
	sim_lock();
	for (size_t i = 0; i < e->count && r == CUDA_SUCCESS; i++) {
		CUgraphNode n = &e->node[i].copy;
		if (n->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC || !(a = find_allocation(n->alloc.dptr)) || !a->context)
			continue;
		if (e->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH)
			graph_free_memory(a);
		else
			r = CUDA_ERROR_INVALID_VALUE; // the last launch's memory was not freed
	}
	if (r == CUDA_SUCCESS)
		r = reserve(e);
	for (size_t i = 0; i < e->count && r == CUDA_SUCCESS; i++) {
		CUgraphNode n = &e->node[i].copy;
		if (n->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && (a = find_allocation(n->alloc.dptr))) {
			a->context = c;
			e->device->graph_used += round_up(a->bytes, VMM_GRANULE);
			highest(e->device, e->device->graph_used);
		}
	}
	for (size_t i = 0; i < e->count && r == CUDA_SUCCESS; i++)
		if (e->node[i].copy.type == CU_GRAPH_NODE_TYPE_MEM_FREE && (a = find_allocation(e->node[i].copy.freed)))
			graph_free_memory(a);
	sim_unlock();
	return r;
}

static CUresult launch(CUgraphExec e, CUstream stream, int per_thread)
{
	REQUIRE_CONTEXT(c);
	CUstream s = stream_of(stream, per_thread, c);
	CUresult r;
	if (!is(e, EXEC))
		return CUDA_ERROR_INVALID_VALUE;
	if (!s)
		return CUDA_ERROR_INVALID_HANDLE;
	if (s->capture && s->capture->origin) {
		CUgraphNode n = capture_node(s, CU_GRAPH_NODE_TYPE_KERNEL, &r); // as one kernel of the same length
		if (n)
			n->kernel.gridDimX = (unsigned)(e->work * SIM_SMS / sim.conf.block_ns), n->kernel.gridDimY = n->kernel.gridDimZ = 1;
		return r;
	}
	if ((r = device_usable_fast(c->device, ledger_now())) != CUDA_SUCCESS || (r = allocate_nodes(e, c)) != CUDA_SUCCESS)
		return r;
	if ((r = stream_work(s, e->work)) != CUDA_SUCCESS)
		return r;
	for (size_t i = 0; i < e->count; i++)
		if (e->node[i].copy.type == CU_GRAPH_NODE_TYPE_HOST) { // see host_function in cuda_stream.c
			device_drain(c->device);
			e->node[i].copy.host.fn(e->node[i].copy.host.userData);
		}
	return CUDA_SUCCESS;
}

static CUresult upload(CUgraphExec e, CUstream stream, int per_thread)
{
	REQUIRE_CONTEXT(c);
	CUresult r;
	if (!is(e, EXEC))
		return CUDA_ERROR_INVALID_VALUE;
	if (!stream_of(stream, per_thread, c))
		return CUDA_ERROR_INVALID_HANDLE;
	sim_lock();
	r = reserve(e);
	sim_unlock();
	return r;
}

static CUresult with_params(CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *p, int per_thread)
{
	CUresult r;
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	p->hErrNode_out = NULL;
	r = instantiate(exec, graph, p->flags);
	if (r == CUDA_SUCCESS && (p->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD))
		r = upload(*exec, p->hUploadStream, per_thread);
	p->result_out = r == CUDA_SUCCESS ? 0 : 1;
	return r;
}

#define GRAPH_CALLS(suffix, per)                                                                              \
	EXPORT CUresult cuGraphLaunch##suffix(CUgraphExec e, CUstream s) { return launch(e, s, per); }        \
	EXPORT CUresult cuGraphUpload##suffix(CUgraphExec e, CUstream s) { return upload(e, s, per); }        \
	EXPORT CUresult cuGraphInstantiateWithParams##suffix(CUgraphExec *e, CUgraph g, CUDA_GRAPH_INSTANTIATE_PARAMS *p) \
	{                                                                                                     \
		return with_params(e, g, p, per);                                                             \
	}
GRAPH_CALLS(, 0)
GRAPH_CALLS(_ptsz, 1)

// ---- the pool ----

EXPORT CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void *value)
{
	struct sim_device *d;
	cuuint64_t *out = value;
	REQUIRE_INIT();
	if (!(d = device_of(device)))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!value || (unsigned)attribute > CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	switch (attribute) {
	case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT: *out = d->graph_used; break;
	case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH: *out = d->graph_used_high; break;
	case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT: *out = d->graph_reserved; break;
	case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH: *out = d->graph_reserved_high; break;
	}
	sim_unlock();
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void *value)
{
	struct sim_device *d;
	REQUIRE_INIT();
	if (!(d = device_of(device)))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!value || *(cuuint64_t *)value)
		return CUDA_ERROR_INVALID_VALUE;
	if (attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)
		d->graph_used_high = d->graph_used;
	else if (attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
		d->graph_reserved_high = d->graph_reserved;
	else
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

void graph_pool_trim(struct sim_device *d)
{
	if (d->graph_reserved > d->graph_used) {
		device_release(d, d->graph_reserved - d->graph_used);
		d->graph_reserved = d->graph_used;
	}
}

EXPORT CUresult cuDeviceGraphMemTrim(CUdevice device)
{
	struct sim_device *d;
	REQUIRE_INIT();
	if (!(d = device_of(device)))
		return CUDA_ERROR_INVALID_DEVICE;
	sim_lock();
	graph_pool_trim(d);
	sim_unlock();
	return CUDA_SUCCESS;
}
