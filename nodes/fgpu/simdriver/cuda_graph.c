//go:build ignore

// Graphs, as they are put together. cuda_graph_run.c runs them.

#include <stdlib.h>
#include <string.h>

#include "cuda_sim.h"

// ---- building ----

CUgraph graph_make(void)
{
	CUgraph g = make(GRAPH, sizeof *g);
	return g;
}

CUgraphNode graph_add(CUgraph g, CUgraphNodeType type)
{
	CUgraphNode n = make(NODE, sizeof *n);
	if (!n)
		return NULL;
	sim_lock();
	if (g->count == g->room) {
		size_t room = g->room ? 2 * g->room : 16;
		CUgraphNode *list = realloc(g->node, room * sizeof *list);
		if (!list) {
			sim_unlock();
			free(n);
			return NULL;
		}
		g->node = list;
		g->room = room;
	}
	g->node[g->count++] = n;
	sim_unlock();
	n->type = type;
	n->graph = g;
	return n;
}

// Where the checks that all calls that add a node share have passed, *node is new.
static CUresult add(CUgraphNode *node, CUgraph g, const CUgraphNode *dependencies, size_t count, CUgraphNodeType type)
{
	REQUIRE_INIT();
	if (!node || !is(g, GRAPH) || (count && !dependencies))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++)
		if (!is(dependencies[i], NODE) || dependencies[i]->graph != g)
			return CUDA_ERROR_INVALID_VALUE;
	*node = graph_add(g, type);
	return *node ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuGraphCreate(CUgraph *graph, unsigned int flags)
{
	REQUIRE_INIT();
	if (!graph || flags)
		return CUDA_ERROR_INVALID_VALUE;
	*graph = graph_make();
	return *graph ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuGraphDestroy(CUgraph graph)
{
	REQUIRE_INIT();
	if (!is(graph, GRAPH))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < graph->count; i++) {
		graph->node[i]->head.kind = 0;
		free(graph->node[i]);
	}
	graph->head.kind = 0;
	free(graph->node);
	free(graph);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphClone(CUgraph *clone, CUgraph graph)
{
	CUgraphNode n;
	REQUIRE_INIT();
	if (!clone || !is(graph, GRAPH))
		return CUDA_ERROR_INVALID_VALUE;
	if (!(*clone = graph_make()))
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (size_t i = 0; i < graph->count; i++) {
		if (graph->node[i]->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || graph->node[i]->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
			return CUDA_ERROR_NOT_SUPPORTED; // two graphs cannot own one address
		if (!(n = graph_add(*clone, graph->node[i]->type)))
			return CUDA_ERROR_OUT_OF_MEMORY;
		*n = *graph->node[i];
		n->graph = *clone;
	}
	return CUDA_SUCCESS;
}

int graph_valid_kernel(const CUDA_KERNEL_NODE_PARAMS_v2 *p)
{
	const void *f = p->func ? (const void *)p->func : p->kern;
	return is(f, FUNCTION) && valid_grid(p->gridDimX, p->gridDimY, p->gridDimZ, p->blockDimX, p->blockDimY, p->blockDimZ);
}

CUDA_KERNEL_NODE_PARAMS_v2 graph_widen(const CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
	CUDA_KERNEL_NODE_PARAMS_v2 out = {0};
	memcpy(&out, p, sizeof *p); // the new members are behind the old
	return out;
}

EXPORT CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count, const CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
	CUresult r;
	REQUIRE_INIT();
	if (!params || !graph_valid_kernel(params))
		return CUDA_ERROR_INVALID_VALUE;
	r = add(node, graph, dependencies, count, CU_GRAPH_NODE_TYPE_KERNEL);
	if (r == CUDA_SUCCESS)
		(*node)->kernel = *params;
	return r;
}

EXPORT CUresult cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count, const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
	CUDA_KERNEL_NODE_PARAMS_v2 wide;
	if (!params)
		return CUDA_ERROR_INVALID_VALUE;
	wide = graph_widen(params);
	return cuGraphAddKernelNode_v2(node, graph, dependencies, count, &wide);
}

EXPORT CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count)
{
	return add(node, graph, dependencies, count, CU_GRAPH_NODE_TYPE_EMPTY);
}

EXPORT CUresult cuGraphAddHostNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count, const CUDA_HOST_NODE_PARAMS *params)
{
	CUresult r = params && params->fn ? add(node, graph, dependencies, count, CU_GRAPH_NODE_TYPE_HOST) : CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		(*node)->host = *params;
	return r;
}

EXPORT CUresult cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count, const CUDA_MEMSET_NODE_PARAMS_v1 *params, CUcontext context)
{
	if (!params || !is(context, CONTEXT))
		return CUDA_ERROR_INVALID_VALUE;
	return add(node, graph, dependencies, count, CU_GRAPH_NODE_TYPE_MEMSET);
}

EXPORT CUresult cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count, CUgraph child)
{
	CUgraph copy;
	CUresult r;
	if ((r = cuGraphClone(&copy, child)) != CUDA_SUCCESS)
		return r;
	if ((r = add(node, graph, dependencies, count, CU_GRAPH_NODE_TYPE_GRAPH)) == CUDA_SUCCESS)
		(*node)->child = copy;
	return r;
}

EXPORT CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *graph)
{
	REQUIRE_INIT();
	if (!is(node, NODE) || node->type != CU_GRAPH_NODE_TYPE_GRAPH || !graph)
		return CUDA_ERROR_INVALID_VALUE;
	*graph = node->child;
	return CUDA_SUCCESS;
}

// ---- memory nodes ----

// The address is there from now on, the memory from the launch on.
CUresult graph_add_alloc(CUgraphNode n, struct sim_device *d, uint64_t bytes)
{
	struct allocation a = {.bytes = bytes, .mapped = round_up(bytes, 4096), .origin = GRAPHED, .device = d, .node = n, .fd = -1};
	CUresult r = CUDA_SUCCESS;
	if (bytes > 1ull << 46)
		return CUDA_ERROR_OUT_OF_MEMORY;
	sim_lock();
	if (!(a.base = map_memory(a.mapped, 0)) || remember(&a) != 0)
		r = CUDA_ERROR_OUT_OF_MEMORY;
	sim_unlock();
	n->alloc.bytesize = bytes;
	n->alloc.dptr = a.base;
	n->alloc.poolProps.location = (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, (int)d->number};
	return r;
}

EXPORT CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
	struct sim_device *d;
	CUresult r;
	REQUIRE_INIT();
	if (!params || !params->bytesize || params->poolProps.allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
	    params->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE || params->poolProps.handleTypes)
		return CUDA_ERROR_INVALID_VALUE;
	if (!(d = device_of(params->poolProps.location.id)))
		return CUDA_ERROR_INVALID_DEVICE;
	if ((r = add(node, graph, dependencies, count, CU_GRAPH_NODE_TYPE_MEM_ALLOC)) != CUDA_SUCCESS)
		return r;
	(*node)->alloc = *params;
	r = graph_add_alloc(*node, d, params->bytesize);
	params->dptr = (*node)->alloc.dptr;
	return r;
}

EXPORT CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
	REQUIRE_INIT();
	if (!is(node, NODE) || node->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC || !params)
		return CUDA_ERROR_INVALID_VALUE;
	*params = node->alloc;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphAddMemFreeNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count, CUdeviceptr ptr)
{
	struct allocation *a;
	CUresult r;
	REQUIRE_INIT();
	sim_lock();
	a = find_allocation(ptr);
	r = a && a->base == ptr && a->origin == GRAPHED ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	sim_unlock();
	if (r == CUDA_SUCCESS && (r = add(node, graph, dependencies, count, CU_GRAPH_NODE_TYPE_MEM_FREE)) == CUDA_SUCCESS)
		(*node)->freed = ptr;
	return r;
}

EXPORT CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr *ptr)
{
	REQUIRE_INIT();
	if (!is(node, NODE) || node->type != CU_GRAPH_NODE_TYPE_MEM_FREE || !ptr)
		return CUDA_ERROR_INVALID_VALUE;
	*ptr = node->freed;
	return CUDA_SUCCESS;
}

// An allocation of a graph has a context exactly while a launch has the memory and nobody has freed it.
void graph_free_memory(struct allocation *a)
{
	if (!a->context)
		return;
	a->device->graph_used -= round_up(a->bytes, VMM_GRANULE);
	a->context = NULL;
}

// ---- the one call for all kinds ----

EXPORT CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *params)
{
	(void)edges; // only orders of a kind that is not simulated
	if (!params)
		return CUDA_ERROR_INVALID_VALUE;
	switch (params->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL: return cuGraphAddKernelNode_v2(node, graph, dependencies, count, &params->kernel);
	case CU_GRAPH_NODE_TYPE_HOST: return cuGraphAddHostNode(node, graph, dependencies, count, &params->host);
	case CU_GRAPH_NODE_TYPE_GRAPH: return cuGraphAddChildGraphNode(node, graph, dependencies, count, params->graph.graph);
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC: return cuGraphAddMemAllocNode(node, graph, dependencies, count, &params->alloc);
	case CU_GRAPH_NODE_TYPE_MEM_FREE: return cuGraphAddMemFreeNode(node, graph, dependencies, count, params->free.dptr);
	case CU_GRAPH_NODE_TYPE_EMPTY:
	case CU_GRAPH_NODE_TYPE_MEMCPY:
	case CU_GRAPH_NODE_TYPE_MEMSET:
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD: return add(node, graph, dependencies, count, params->type);
	default: return CUDA_ERROR_NOT_SUPPORTED;
	}
}

EXPORT CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count, CUgraphNodeParams *params)
{
	return cuGraphAddNode_v2(node, graph, dependencies, NULL, count, params);
}

// ---- looking at one ----

EXPORT CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
	REQUIRE_INIT();
	if (!is(graph, GRAPH) || !count)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; nodes && i < *count; i++)
		nodes[i] = i < graph->count ? graph->node[i] : NULL;
	if (!nodes || *count > graph->count)
		*count = graph->count;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type)
{
	REQUIRE_INIT();
	if (!is(node, NODE) || !type)
		return CUDA_ERROR_INVALID_VALUE;
	*type = node->type;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphDestroyNode(CUgraphNode node)
{
	CUgraph g;
	size_t i = 0;
	REQUIRE_INIT();
	if (!is(node, NODE))
		return CUDA_ERROR_INVALID_VALUE;
	if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || node->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
		return CUDA_ERROR_NOT_SUPPORTED; // as the real one refuses
	g = node->graph;
	sim_lock();
	while (g->node[i] != node)
		i++;
	memmove(&g->node[i], &g->node[i + 1], (--g->count - i) * sizeof *g->node);
	sim_unlock();
	node->head.kind = 0;
	free(node);
	return CUDA_SUCCESS;
}

static int is_kernel(CUgraphNode node) { return is(node, NODE) && node->type == CU_GRAPH_NODE_TYPE_KERNEL; }

EXPORT CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
	REQUIRE_INIT();
	if (!is_kernel(node) || !params)
		return CUDA_ERROR_INVALID_VALUE;
	*params = node->kernel;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
	REQUIRE_INIT();
	if (!is_kernel(node) || !params)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(params, &node->kernel, sizeof *params);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
	REQUIRE_INIT();
	if (!is_kernel(node) || !params || !graph_valid_kernel(params))
		return CUDA_ERROR_INVALID_VALUE;
	node->kernel = *params;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
	CUDA_KERNEL_NODE_PARAMS_v2 wide;
	if (!params)
		return CUDA_ERROR_INVALID_VALUE;
	wide = graph_widen(params);
	return cuGraphKernelNodeSetParams_v2(node, &wide);
}
