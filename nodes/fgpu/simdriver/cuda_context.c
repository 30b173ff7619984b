//go:build ignore

// Contexts: each costs memory, primary ones once for each process and device.

#include <stdlib.h>
#include <string.h>

#include "cuda_sim.h"

#define STACK 32

static __thread struct {
	uint32_t generation;
	unsigned depth;
	CUcontext stack[STACK];
} thread;

static unsigned depth(void)
{
	if (thread.generation != sim.generation) {
		thread.generation = sim.generation;
		thread.depth = 0;
	}
	return thread.depth;
}

CUcontext current_context(CUresult *why)
{
	CUcontext c;
	*why = initialised();
	if (*why != CUDA_SUCCESS)
		return NULL;
	*why = CUDA_ERROR_INVALID_CONTEXT;
	if (depth() == 0 || !(c = thread.stack[thread.depth - 1]))
		return NULL;
	if (!c->references) {
		*why = CUDA_ERROR_CONTEXT_IS_DESTROYED;
		return NULL;
	}
	*why = CUDA_SUCCESS;
	return c;
}

// A context stays in memory when it is destroyed: threads that have it as their current one must see that.
static CUresult make_context(CUcontext *out, struct sim_device *d, unsigned flags, int primary)
{
	CUcontext c = make(CONTEXT, sizeof *c);
	CUresult r;
	if (!c || !(c->legacy = make(STREAM, sizeof *c->legacy)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = device_charge(d, sim.conf.context_bytes);
	if (r != CUDA_SUCCESS)
		return r;
	c->device = d;
	c->flags = flags;
	c->primary = primary;
	c->references = 1;
	c->legacy->context = c;
	c->legacy->is_default = 1;
	*out = c;
	return CUDA_SUCCESS;
}

// The lock is held.
static void end_context(CUcontext c)
{
	c->references = 0;
	if (c->green)
		return;
	forget_of_context(c);
	if (c->primary) {
		pools_empty(c->device);
		graph_pool_trim(c->device);
	}
	device_release(c->device, sim.conf.context_bytes);
}

// ---- primary contexts ----

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	struct sim_device *d;
	CUresult r = CUDA_SUCCESS;
	REQUIRE_INIT();
	if (!context)
		return CUDA_ERROR_INVALID_VALUE;
	if (!(d = device_of(device)))
		return CUDA_ERROR_INVALID_DEVICE;
	sim_lock();
	if (d->primary && d->primary->references)
		d->primary->references++;
	else
		r = make_context(&d->primary, d, d->primary_flags, 1);
	if (r == CUDA_SUCCESS)
		*context = d->primary;
	sim_unlock();
	return r;
}

EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	struct sim_device *d;
	CUresult r = CUDA_SUCCESS;
	REQUIRE_INIT();
	if (!(d = device_of(device)))
		return CUDA_ERROR_INVALID_DEVICE;
	sim_lock();
	if (!d->primary || !d->primary->references)
		r = CUDA_ERROR_INVALID_CONTEXT;
	else if (d->primary->references > 1)
		d->primary->references--;
	else
		end_context(d->primary);
	sim_unlock();
	return r;
}
EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice device) { return cuDevicePrimaryCtxRelease_v2(device); }

EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
	struct sim_device *d;
	REQUIRE_INIT();
	if (!(d = device_of(device)))
		return CUDA_ERROR_INVALID_DEVICE;
	sim_lock();
	if (d->primary && d->primary->references)
		end_context(d->primary);
	sim_unlock();
	return CUDA_SUCCESS;
}
EXPORT CUresult cuDevicePrimaryCtxReset(CUdevice device) { return cuDevicePrimaryCtxReset_v2(device); }

EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags)
{
	struct sim_device *d;
	REQUIRE_INIT();
	if (!(d = device_of(device)))
		return CUDA_ERROR_INVALID_DEVICE;
	d->primary_flags = flags;
	return CUDA_SUCCESS;
}
EXPORT CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags) { return cuDevicePrimaryCtxSetFlags_v2(device, flags); }

EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
	struct sim_device *d;
	REQUIRE_INIT();
	if (!flags || !active)
		return CUDA_ERROR_INVALID_VALUE;
	if (!(d = device_of(device)))
		return CUDA_ERROR_INVALID_DEVICE;
	*flags = d->primary_flags;
	*active = d->primary && d->primary->references;
	return CUDA_SUCCESS;
}

// ---- others ----

EXPORT CUresult cuCtxPushCurrent_v2(CUcontext context)
{
	REQUIRE_INIT();
	if (!is(context, CONTEXT))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (depth() == STACK)
		return CUDA_ERROR_INVALID_VALUE;
	thread.stack[thread.depth++] = context;
	return CUDA_SUCCESS;
}
EXPORT CUresult cuCtxPushCurrent(CUcontext context) { return cuCtxPushCurrent_v2(context); }

EXPORT CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device)
{
	struct sim_device *d;
	CUresult r;
	REQUIRE_INIT();
	if (!context)
		return CUDA_ERROR_INVALID_VALUE;
	if (!(d = device_of(device)))
		return CUDA_ERROR_INVALID_DEVICE;
	sim_lock();
	r = make_context(context, d, flags, 0);
	sim_unlock();
	return r == CUDA_SUCCESS ? cuCtxPushCurrent_v2(*context) : r;
}
EXPORT CUresult cuCtxCreate(CUcontext *context, unsigned int flags, CUdevice device) { return cuCtxCreate_v2(context, flags, device); }

EXPORT CUresult cuCtxCreate_v3(CUcontext *context, CUexecAffinityParam *affinity, int count, unsigned int flags, CUdevice device)
{
	if (count < 0 || (count && !affinity))
		return CUDA_ERROR_INVALID_VALUE;
	return cuCtxCreate_v2(context, flags, device);
}

EXPORT CUresult cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *params, unsigned int flags, CUdevice device)
{
	(void)params; // affinity means something under MPS only, and is then the site's to set
	return cuCtxCreate_v2(context, flags, device);
}

EXPORT CUresult cuCtxDestroy_v2(CUcontext context)
{
	CUresult r = CUDA_SUCCESS;
	REQUIRE_INIT();
	if (!is(context, CONTEXT) || context->primary)
		return CUDA_ERROR_INVALID_CONTEXT;
	sim_lock();
	if (context->references)
		end_context(context);
	else
		r = CUDA_ERROR_CONTEXT_IS_DESTROYED;
	sim_unlock();
	if (depth() && thread.stack[thread.depth - 1] == context)
		thread.depth--;
	return r;
}
EXPORT CUresult cuCtxDestroy(CUcontext context) { return cuCtxDestroy_v2(context); }
EXPORT CUresult cuCtxDetach(CUcontext context) { return cuCtxDestroy_v2(context); }

EXPORT CUresult cuCtxAttach(CUcontext *context, unsigned int flags)
{
	REQUIRE_CONTEXT(c);
	if (!context || flags)
		return CUDA_ERROR_INVALID_VALUE;
	*context = c;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
	REQUIRE_INIT();
	if (depth() == 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	thread.depth--;
	if (context)
		*context = thread.stack[thread.depth];
	return CUDA_SUCCESS;
}
EXPORT CUresult cuCtxPopCurrent(CUcontext *context) { return cuCtxPopCurrent_v2(context); }

EXPORT CUresult cuCtxSetCurrent(CUcontext context)
{
	REQUIRE_INIT();
	if (context && !is(context, CONTEXT))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (depth() == 0)
		thread.depth = 1;
	thread.stack[thread.depth - 1] = context;
	if (!context)
		thread.depth--;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetCurrent(CUcontext *context)
{
	REQUIRE_INIT();
	if (!context)
		return CUDA_ERROR_INVALID_VALUE;
	*context = depth() ? thread.stack[thread.depth - 1] : NULL;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetDevice(CUdevice *device)
{
	REQUIRE_CONTEXT(c);
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	*device = (CUdevice)c->device->number;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext context)
{
	REQUIRE_INIT();
	if (!context)
		return cuCtxGetDevice(device);
	if (!is(context, CONTEXT))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	*device = (CUdevice)context->device->number;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetFlags(unsigned int *flags)
{
	REQUIRE_CONTEXT(c);
	if (!flags)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = c->flags;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetApiVersion(CUcontext context, unsigned int *version)
{
	REQUIRE_INIT();
	if (context && !is(context, CONTEXT))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = 3020;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetLimit(size_t *value, CUlimit limit)
{
	REQUIRE_CONTEXT(c);
	(void)c;
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	switch (limit) {
	case CU_LIMIT_STACK_SIZE: *value = 1024; return CUDA_SUCCESS;
	case CU_LIMIT_PRINTF_FIFO_SIZE: *value = 1 << 20; return CUDA_SUCCESS;
	case CU_LIMIT_MALLOC_HEAP_SIZE: *value = 8 << 20; return CUDA_SUCCESS;
	}
	return CUDA_ERROR_UNSUPPORTED_LIMIT;
}

EXPORT CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
	size_t before;
	(void)value; // accepted, as the real driver does, and without a meaning where nothing computes
	return cuCtxGetLimit(&before, limit);
}

EXPORT CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	REQUIRE_CONTEXT(c);
	(void)c;
	if (least)
		*least = 0;
	if (greatest)
		*greatest = -5;
	return CUDA_SUCCESS;
}

static CUresult synchronize(CUcontext c)
{
	CUresult r = capture_permits();
	if (r == CUDA_SUCCESS)
		r = device_usable(c->device);
	if (r != CUDA_SUCCESS)
		return r;
	device_drain(c->device);
	pools_settle(c->device);
	return device_usable(c->device);
}

EXPORT CUresult cuCtxSynchronize(void)
{
	REQUIRE_CONTEXT(c);
	return synchronize(c);
}

EXPORT CUresult cuCtxSynchronize_v2(CUcontext context)
{
	REQUIRE_INIT();
	if (!context)
		return cuCtxSynchronize();
	if (!is(context, CONTEXT))
		return CUDA_ERROR_INVALID_CONTEXT;
	return context->references ? synchronize(context) : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

// ---- green contexts: parts of the SMs of the primary context; only their bookkeeping is simulated ----

struct CUgreenCtx_st {
	struct head head;
	CUcontext context;
};

struct CUdevResourceDesc_st {
	unsigned sms;
};

EXPORT CUresult cuDevSmResourceSplitByCount(CUdevResource *result, unsigned int *groups, const CUdevResource *input,
					    CUdevResource *remaining, unsigned int flags, unsigned int minCount)
{
	unsigned size, n;
	REQUIRE_INIT();
	if (!groups || !input || input->type != CU_DEV_RESOURCE_TYPE_SM || flags)
		return CUDA_ERROR_INVALID_VALUE;
	size = (unsigned)round_up(minCount ? minCount : 1, 8); // the unit from compute capability 9 on
	n = input->sm.smCount / size;
	if (n == 0)
		return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
	if (result && *groups < n)
		n = *groups;
	for (unsigned i = 0; result && i < n; i++) {
		result[i] = *input;
		result[i].sm.smCount = size;
	}
	if (remaining) {
		*remaining = *input;
		remaining->sm.smCount = input->sm.smCount - n * size;
	}
	*groups = n;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDevResourceGenerateDesc(CUdevResourceDesc *description, CUdevResource *resources, unsigned int count)
{
	REQUIRE_INIT();
	if (!description || !resources || count == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (!(*description = calloc(1, sizeof **description)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (unsigned i = 0; i < count; i++)
		(*description)->sms += resources[i].sm.smCount;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuGreenCtxCreate(CUgreenCtx *context, CUdevResourceDesc description, CUdevice device, unsigned int flags)
{
	CUgreenCtx g;
	CUcontext primary;
	CUresult r;
	REQUIRE_INIT();
	if (!context || !description || flags != 1) // CU_GREEN_CTX_DEFAULT_STREAM is not optional
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_of(device))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!(g = make(GREEN, sizeof *g)) || !(g->context = make(CONTEXT, sizeof *g->context)) ||
	    !(g->context->legacy = make(STREAM, sizeof *g->context->legacy)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	if ((r = cuDevicePrimaryCtxRetain(&primary, device)) != CUDA_SUCCESS)
		return r;
	g->context->device = primary->device;
	g->context->green = 1;
	g->context->references = 1;
	g->context->legacy->context = g->context;
	g->context->legacy->is_default = 1;
	*context = g;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuGreenCtxDestroy(CUgreenCtx context)
{
	REQUIRE_INIT();
	if (!is(context, GREEN))
		return CUDA_ERROR_INVALID_HANDLE;
	context->head.kind = 0;
	context->context->references = 0;
	return cuDevicePrimaryCtxRelease_v2((CUdevice)context->context->device->number);
}

EXPORT CUresult cuCtxFromGreenCtx(CUcontext *context, CUgreenCtx green)
{
	REQUIRE_INIT();
	if (!context || !is(green, GREEN))
		return CUDA_ERROR_INVALID_VALUE;
	*context = green->context;
	return CUDA_SUCCESS;
}
