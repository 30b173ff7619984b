//go:build ignore

// Contexts. The quota includes them: each charges what noded has measured one to cost on this device. What was
// allocated in a context ends with it.
#include "shim.h"

static uint64_t cost(int d) { return d >= 0 ? __atomic_load_n(&device((unsigned)d)->context_bytes, __ATOMIC_ACQUIRE) : 0; }

static bool begin(struct charge *c, CUdevice ordinal) {
	int d = fenced() ? device_of(ordinal) : NO_DEVICE;
	return charge_begin_on(c, d, cost(d));
}

// made enters a context that the driver has made. A table that cannot grow loses count of it: it stays charged.
static CUresult made(struct charge *c, CUresult r, enum held_kind kind, uint64_t key) {
	if (r != CUDA_SUCCESS) {
		charge_cancel(c);
		return r;
	}
	charge_keep(c, kind, key);
	count_context((unsigned)c->device, 1);
	return r;
}

#define CREATE(context, device, call)                                            \
	struct charge c;                                                         \
	if (!begin(&c, device))                                                  \
		return CUDA_ERROR_OUT_OF_MEMORY;                                 \
	CUresult r = call;                                                       \
	return made(&c, r, CONTEXT, r == CUDA_SUCCESS ? (uint64_t)(uintptr_t)*context : 0)

CUresult cuCtxCreate(CUcontext *context, unsigned int flags, CUdevice device) {
	CREATE(context, device, CALL(cuCtxCreate, context, flags, device));
}

CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device) {
	CREATE(context, device, CALL(cuCtxCreate_v2, context, flags, device));
}

CUresult cuCtxCreate_v3(CUcontext *context, CUexecAffinityParam *affinity, int count, unsigned int flags, CUdevice device) {
	CREATE(context, device, CALL(cuCtxCreate_v3, context, affinity, count, flags, device));
}

CUresult cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *params, unsigned int flags, CUdevice device) {
	CREATE(context, device, CALL(cuCtxCreate_v4, context, params, flags, device));
}

static void gone(const struct entry *e) {
	release(e->device, e->bytes);
	count_context(e->device, -1);
	pools_reread();
}

// ending and ended surround the driver's call that destroys a context.
static bool ending(CUcontext context, struct entry *e) {
	bool known = context && entries_take(CONTEXT, (uint64_t)(uintptr_t)context, e);
	entries_mark((uint64_t)(uintptr_t)context, true);
	if (known)
		gate_forget((int)e->device);
	return known;
}

static CUresult ended(CUcontext context, bool known, const struct entry *e, CUresult r) {
	if (r != CUDA_SUCCESS) {
		entries_mark((uint64_t)(uintptr_t)context, false);
		if (known)
			entries_put(e);
		return r;
	}
	entries_drop((uint64_t)(uintptr_t)context);
	if (known)
		gone(e);
	return r;
}

#define DESTROY(function)                                                        \
	CUresult function(CUcontext context) {                                   \
		struct entry e;                                                  \
		bool known = ending(context, &e);                                \
		return ended(context, known, &e, CALL(function, context));       \
	}
DESTROY(cuCtxDestroy)
DESTROY(cuCtxDestroy_v2)

// cuCtxDetach takes back one use; the context ends with the last. Whether it did, the driver tells by not knowing it any more.
CUresult cuCtxDetach(CUcontext context) {
	CUresult r = CALL(cuCtxDetach, context);
	unsigned int version;
	struct entry e;
	if (r == CUDA_SUCCESS && CALL(cuCtxGetApiVersion, context, &version) == CUDA_ERROR_INVALID_CONTEXT) {
		bool known = ending(context, &e);
		ended(context, known, &e, r);
	}
	return r;
}

// ---- primary contexts: one for each device and process, used by the runtime ----

// Charged once, when first retained: under a lock, so that two threads do not both claim it.
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice ordinal) {
	struct process *p = process();
	if (!fenced())
		return CUDA_ERROR_OUT_OF_MEMORY;
	struct entry e;
	struct charge c;
	lock(&p->contexts);
	bool charged = entries_get(PRIMARY, (uint64_t)ordinal, &e);
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;
	if (charged)
		r = CALL(cuDevicePrimaryCtxRetain, context, ordinal);
	else if (begin(&c, ordinal))
		r = made(&c, CALL(cuDevicePrimaryCtxRetain, context, ordinal), PRIMARY, (uint64_t)ordinal);
	unlock(&p->contexts);
	return r;
}

// left releases what the primary context held if it has ended, or was emptied. context is what memory was entered with.
static CUresult left(CUdevice ordinal, CUcontext context, bool emptied, CUresult r) {
	unsigned int flags;
	int active = 1;
	struct entry e;
	bool over = r == CUDA_SUCCESS && CALL(cuDevicePrimaryCtxGetState, ordinal, &flags, &active) == CUDA_SUCCESS && !active;
	if (over || (emptied && r == CUDA_SUCCESS))
		entries_drop((uint64_t)(uintptr_t)context);
	else
		entries_mark((uint64_t)(uintptr_t)context, false);
	if (over && entries_take(PRIMARY, (uint64_t)ordinal, &e))
		gone(&e);
	return r;
}

// primary returns the address of a device's primary context, NULL where there is none: retaining an active one gives it, and makes nothing.
static CUcontext primary(CUdevice ordinal) {
	CUcontext context = NULL;
	unsigned int flags;
	int active = 0;
	if (CALL(cuDevicePrimaryCtxGetState, ordinal, &flags, &active) != CUDA_SUCCESS || !active)
		return NULL;
	if (CALL(cuDevicePrimaryCtxRetain, &context, ordinal) != CUDA_SUCCESS)
		return NULL;
	if (REAL(cuDevicePrimaryCtxRelease_v2))
		CALL(cuDevicePrimaryCtxRelease_v2, ordinal);
	else
		CALL(cuDevicePrimaryCtxRelease, ordinal);
	return context;
}

#define LEAVE(function, emptied)                                                 \
	CUresult function(CUdevice ordinal) {                                    \
		struct process *p = process();                                   \
		if (!fenced())                                                   \
			return CALL(function, ordinal);                          \
		lock(&p->contexts);                                              \
		CUcontext context = primary(ordinal);                            \
		entries_mark((uint64_t)(uintptr_t)context, true);                \
		gate_forget(device_of(ordinal));                                 \
		CUresult r = left(ordinal, context, emptied, CALL(function, ordinal)); \
		unlock(&p->contexts);                                            \
		return r;                                                        \
	}
LEAVE(cuDevicePrimaryCtxRelease, false)
LEAVE(cuDevicePrimaryCtxRelease_v2, false)
LEAVE(cuDevicePrimaryCtxReset, true)
LEAVE(cuDevicePrimaryCtxReset_v2, true)

// ---- green contexts: charged as one each ----

CUresult cuGreenCtxCreate(CUgreenCtx *context, CUdevResourceDesc description, CUdevice ordinal, unsigned int flags) {
	struct charge c;
	if (!begin(&c, ordinal))
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult r = CALL(cuGreenCtxCreate, context, description, ordinal, flags);
	return made(&c, r, GREEN, r == CUDA_SUCCESS ? (uint64_t)(uintptr_t)*context : 0);
}

CUresult cuGreenCtxDestroy(CUgreenCtx context) {
	struct entry e;
	bool known = entries_take(GREEN, (uint64_t)(uintptr_t)context, &e);
	if (known)
		gate_forget((int)e.device);
	CUresult r = CALL(cuGreenCtxDestroy, context);
	if (known && r == CUDA_SUCCESS)
		gone(&e);
	else if (known)
		entries_put(&e);
	return r;
}
