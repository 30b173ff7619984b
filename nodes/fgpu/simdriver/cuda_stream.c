//go:build ignore

// Streams, events, and capture. All work of a process on a device is one queue (ledger.h), in the order in which
// it was launched; a stream is a mark in that queue. Streams of one process thus never overtake each other.

#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cuda_sim.h"

// ---- streams ----

#define OWN_STREAMS 8 // contexts of which a thread has a default stream of its own

static __thread struct {
	uint32_t generation;
	CUstream stream[OWN_STREAMS];
} own;

static CUstream own_stream(CUcontext c)
{
	CUstream s;
	if (own.generation != sim.generation) {
		memset(&own, 0, sizeof own);
		own.generation = sim.generation;
	}
	for (int i = 0; i < OWN_STREAMS; i++) {
		s = own.stream[i];
		if (s && s->context == c)
			return s;
		if (s && s->context->references)
			continue;
		if (!(s = make(STREAM, sizeof *s)))
			return NULL;
		s->context = c;
		return own.stream[i] = s;
	}
	return c->legacy; // a thread with so many contexts loses only some concurrency
}

CUstream stream_of(CUstream handle, int per_thread, CUcontext c)
{
	if (handle == CU_STREAM_PER_THREAD || (!handle && per_thread))
		return own_stream(c);
	if (!handle || handle == CU_STREAM_LEGACY)
		return c->legacy;
	return is(handle, STREAM) ? handle : NULL;
}

EXPORT CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority)
{
	CUstream s;
	REQUIRE_CONTEXT(c);
	if (!stream || flags > CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	if (!(s = make(STREAM, sizeof *s)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	s->context = c;
	s->flags = flags;
	s->priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
	*stream = s;
	return CUDA_SUCCESS;
}
EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned int flags) { return cuStreamCreateWithPriority(stream, flags, 0); }

EXPORT CUresult cuStreamDestroy_v2(CUstream stream)
{
	REQUIRE_INIT();
	if (!is(stream, STREAM) || stream->is_default)
		return CUDA_ERROR_INVALID_HANDLE;
	stream->head.kind = 0; // its work is done all the same
	free(stream);
	return CUDA_SUCCESS;
}
EXPORT CUresult cuStreamDestroy(CUstream stream) { return cuStreamDestroy_v2(stream); }

// What a stream has to wait for: the legacy default stream, for all streams.
static uint64_t target_of(CUstream s)
{
	struct sim_device *d = s->context->device;
	if (!s->is_default)
		return s->last;
	return d->slot ? __atomic_load_n(&d->slot->queued, __ATOMIC_ACQUIRE) : 0;
}

void device_drain(struct sim_device *d)
{
	if (d->slot)
		ledger_wait(d->gpu, d->slot, __atomic_load_n(&d->slot->queued, __ATOMIC_ACQUIRE));
}

CUresult stream_work(CUstream s, uint64_t work)
{
	struct sim_device *d = s->context->device;
	uint64_t n = __atomic_fetch_add(&d->launches, 1, __ATOMIC_RELAXED);
	uint64_t *mine = &d->target[n % SIM_QUEUE], oldest = __atomic_load_n(mine, __ATOMIC_RELAXED);

	// Room for one more is where the launch before the last SIM_QUEUE is done. Once it is full, a caller sleeps
	// until there is room for many: it would else be woken for each.
	if (n >= SIM_QUEUE && __atomic_load_n(&d->slot->served, __ATOMIC_ACQUIRE) < oldest && !ledger_done(d->gpu, d->slot, oldest))
		ledger_wait(d->gpu, d->slot, __atomic_load_n(&d->target[(n + SIM_QUEUE_DRAIN) % SIM_QUEUE], __ATOMIC_RELAXED));
	s->last = ledger_queue(d->gpu, d->slot, work);
	__atomic_store_n(mine, s->last, __ATOMIC_RELAXED);
	return CUDA_SUCCESS;
}

// ---- capture ----

static int global_captures; // atomic: in this process, of the mode that forbids all threads unsafe calls
static __thread CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
static __thread int thread_captures; // of modes other than relaxed, begun by this thread
static __thread struct capture *thread_capture; // the last of them

static int thread_id(void) { return (int)syscall(SYS_gettid); }

CUresult capture_permits(void)
{
	if (!__atomic_load_n(&global_captures, __ATOMIC_RELAXED) && !thread_captures)
		return CUDA_SUCCESS;
	if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED ||
	    (thread_mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL && !thread_captures))
		return CUDA_SUCCESS;
	if (thread_capture)
		thread_capture->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
	return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	CUstreamCaptureMode before = thread_mode;
	REQUIRE_INIT();
	if (!mode || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	thread_mode = *mode;
	*mode = before;
	return CUDA_SUCCESS;
}

CUgraphNode capture_node(CUstream s, CUgraphNodeType type, CUresult *why)
{
	CUgraphNode n;
	if (s->capture->status == CU_STREAM_CAPTURE_STATUS_INVALIDATED) {
		*why = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
		return NULL;
	}
	n = graph_add(s->capture->graph, type);
	*why = n ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	return n;
}

static CUresult begin_capture(CUstream stream, int per_thread, CUstreamCaptureMode mode)
{
	static cuuint64_t next_id;
	struct capture *k;
	REQUIRE_CONTEXT(c);
	CUstream s = stream_of(stream, per_thread, c);
	if (!s)
		return CUDA_ERROR_INVALID_HANDLE;
	if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	if (s->is_default)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (s->capture)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (!(k = calloc(1, sizeof *k)) || !(k->graph = graph_make()))
		return CUDA_ERROR_OUT_OF_MEMORY;
	k->origin = s;
	k->status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
	k->mode = mode;
	k->thread = thread_id();
	k->id = __atomic_add_fetch(&next_id, 1, __ATOMIC_RELAXED);
	if (mode == CU_STREAM_CAPTURE_MODE_GLOBAL)
		__atomic_fetch_add(&global_captures, 1, __ATOMIC_RELAXED);
	if (mode != CU_STREAM_CAPTURE_MODE_RELAXED) {
		thread_captures++;
		thread_capture = k;
	}
	s->capture = k;
	return CUDA_SUCCESS;
}

static CUresult end_capture(CUstream stream, int per_thread, CUgraph *graph)
{
	struct capture *k;
	REQUIRE_CONTEXT(c);
	CUstream s = stream_of(stream, per_thread, c);
	int valid;
	if (!s)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!graph)
		return CUDA_ERROR_INVALID_VALUE;
	if (!(k = s->capture))
		return CUDA_ERROR_ILLEGAL_STATE;
	if (k->origin != s)
		return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
	if (k->mode != CU_STREAM_CAPTURE_MODE_RELAXED && k->thread != thread_id())
		return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
	if (k->mode == CU_STREAM_CAPTURE_MODE_GLOBAL)
		__atomic_fetch_sub(&global_captures, 1, __ATOMIC_RELAXED);
	if (k->mode != CU_STREAM_CAPTURE_MODE_RELAXED && --thread_captures == 0)
		thread_capture = NULL;
	// Streams that joined it notice by its origin, so it stays in memory.
	k->origin = NULL;
	s->capture = NULL;
	valid = k->status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
	*graph = valid ? k->graph : NULL;
	return valid ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

// A stream's capture, or NULL; one that another stream has ended is over for those that had joined it, too.
static struct capture *capture_of(CUstream s)
{
	if (s->capture && !s->capture->origin)
		s->capture = NULL;
	return s->capture;
}

static CUresult capture_info(CUstream stream, int per_thread, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
			     const CUgraphNode **nodes, const CUgraphEdgeData **edges, size_t *count)
{
	struct capture *k;
	REQUIRE_CONTEXT(c);
	CUstream s = stream_of(stream, per_thread, c);
	if (!s)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!status)
		return CUDA_ERROR_INVALID_VALUE;
	k = capture_of(s);
	*status = k ? k->status : CU_STREAM_CAPTURE_STATUS_NONE;
	if (k && id)
		*id = k->id;
	if (k && graph)
		*graph = k->graph;
	if (k && count) // what comes next depends on what came last
		*count = k->graph->count ? 1 : 0;
	if (k && nodes)
		*nodes = k->graph->count ? &k->graph->node[k->graph->count - 1] : NULL;
	if (k && edges)
		*edges = NULL;
	return CUDA_SUCCESS;
}

// ---- waiting ----

static CUresult synchronize(CUstream stream, int per_thread, int wait)
{
	REQUIRE_CONTEXT(c);
	CUstream s = stream_of(stream, per_thread, c);
	struct sim_device *d;
	uint64_t target;
	CUresult r;
	if (!s)
		return CUDA_ERROR_INVALID_HANDLE;
	if (capture_of(s)) {
		s->capture->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	if (s->is_default && (r = capture_permits()) != CUDA_SUCCESS)
		return r;
	d = s->context->device;
	if ((r = device_usable(d)) != CUDA_SUCCESS)
		return r;
	target = target_of(s);
	if (!d->slot)
		return CUDA_SUCCESS;
	if (!wait)
		return ledger_done(d->gpu, d->slot, target) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
	ledger_wait(d->gpu, d->slot, target);
	pools_settle(d);
	return device_usable(d);
}

// ---- events ----

EXPORT CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
	CUevent e;
	REQUIRE_CONTEXT(c);
	if (!event || flags > 7 || (flags & (CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING)) == CU_EVENT_INTERPROCESS)
		return CUDA_ERROR_INVALID_VALUE;
	if (!(e = make(EVENT, sizeof *e)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	e->device = c->device;
	e->flags = flags;
	*event = e;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuEventDestroy_v2(CUevent event)
{
	REQUIRE_INIT();
	if (!is(event, EVENT))
		return CUDA_ERROR_INVALID_HANDLE;
	event->head.kind = 0;
	free(event);
	return CUDA_SUCCESS;
}
EXPORT CUresult cuEventDestroy(CUevent event) { return cuEventDestroy_v2(event); }

static CUresult record(CUevent e, CUstream stream, int per_thread)
{
	REQUIRE_CONTEXT(c);
	CUstream s = stream_of(stream, per_thread, c);
	CUresult r;
	if (!is(e, EVENT) || !s)
		return CUDA_ERROR_INVALID_HANDLE;
	if (e->device != s->context->device)
		return CUDA_ERROR_INVALID_HANDLE;
	e->capture = capture_of(s);
	if (e->capture)
		return e->capture->status == CU_STREAM_CAPTURE_STATUS_ACTIVE ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	e->at = ledger_now();
	if ((r = device_usable_fast(e->device, e->at)) != CUDA_SUCCESS)
		return r;
	e->target = target_of(s);
	e->recorded = 1;
	return CUDA_SUCCESS;
}

static CUresult look_at(CUevent e, int wait)
{
	CUresult r;
	REQUIRE_INIT();
	if (!is(e, EVENT))
		return CUDA_ERROR_INVALID_HANDLE;
	if (e->capture && e->capture->origin) {
		e->capture->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
		return CUDA_ERROR_CAPTURED_EVENT;
	}
	if ((r = capture_permits()) != CUDA_SUCCESS || (r = device_usable(e->device)) != CUDA_SUCCESS)
		return r;
	if (!e->recorded || !e->device->slot)
		return CUDA_SUCCESS; // as if it was done long ago
	if (!wait)
		return ledger_done(e->device->gpu, e->device->slot, e->target) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
	ledger_wait(e->device->gpu, e->device->slot, e->target);
	pools_settle(e->device);
	return device_usable(e->device);
}

EXPORT CUresult cuEventQuery(CUevent event) { return look_at(event, 0); }
EXPORT CUresult cuEventSynchronize(CUevent event) { return look_at(event, 1); }

// When it happened: when the work before it was done, but not before it was recorded.
static uint64_t happened(CUevent e)
{
	uint64_t at = e->device->slot ? ledger_done_at(e->device->gpu, e->device->slot, e->target) : 0;
	return at > e->at ? at : e->at;
}

EXPORT CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
	CUresult r;
	REQUIRE_INIT();
	if (!is(start, EVENT) || !is(end, EVENT) || !start->recorded || !end->recorded ||
	    ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!milliseconds)
		return CUDA_ERROR_INVALID_VALUE;
	if ((r = look_at(start, 0)) != CUDA_SUCCESS || (r = look_at(end, 0)) != CUDA_SUCCESS)
		return r;
	*milliseconds = (float)((double)(int64_t)(happened(end) - happened(start)) / 1e6);
	return CUDA_SUCCESS;
}
EXPORT CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end) { return cuEventElapsedTime(milliseconds, start, end); }

static CUresult wait_event(CUstream stream, CUevent e, unsigned flags, int per_thread)
{
	REQUIRE_CONTEXT(c);
	CUstream s = stream_of(stream, per_thread, c);
	if (!s || !is(e, EVENT))
		return CUDA_ERROR_INVALID_HANDLE;
	if (flags > 1)
		return CUDA_ERROR_INVALID_VALUE;
	if (e->capture && e->capture->origin) { // the stream joins the capture
		if (capture_of(s) && s->capture != e->capture)
			return CUDA_ERROR_STREAM_CAPTURE_MERGE;
		if (s->is_default)
			return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
		s->capture = e->capture;
		return CUDA_SUCCESS;
	}
	if (capture_of(s))
		return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
	if (e->recorded && e->device == s->context->device && e->target > s->last)
		s->last = e->target;
	return CUDA_SUCCESS;
}

// ---- host functions: there is no thread that could call them later, so the caller waits and calls ----

static CUresult host_function(CUstream stream, int per_thread, CUhostFn fn, CUstreamCallback callback, void *data)
{
	REQUIRE_CONTEXT(c);
	CUstream s = stream_of(stream, per_thread, c);
	CUgraphNode n;
	CUresult r;
	if (!s)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!fn && !callback)
		return CUDA_ERROR_INVALID_VALUE;
	if (capture_of(s)) {
		if (callback) {
			s->capture->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
			return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
		}
		if ((n = capture_node(s, CU_GRAPH_NODE_TYPE_HOST, &r)))
			n->host = (CUDA_HOST_NODE_PARAMS){fn, data};
		return r;
	}
	if ((r = synchronize(stream, per_thread, 1)) != CUDA_SUCCESS && !callback)
		return r;
	if (fn)
		fn(data);
	else
		callback(stream, r, data);
	return CUDA_SUCCESS;
}

// ---- both spellings of what takes a stream ----

static CUresult is_capturing(CUstream s, int per, CUstreamCaptureStatus *status) { return capture_info(s, per, status, NULL, NULL, NULL, NULL, NULL); }

#define STREAM_CALLS(suffix, per)                                                                                               \
	EXPORT CUresult cuStreamSynchronize##suffix(CUstream s) { return synchronize(s, per, 1); }                              \
	EXPORT CUresult cuStreamQuery##suffix(CUstream s) { return synchronize(s, per, 0); }                                    \
	EXPORT CUresult cuStreamWaitEvent##suffix(CUstream s, CUevent e, unsigned int flags) { return wait_event(s, e, flags, per); } \
	EXPORT CUresult cuEventRecord##suffix(CUevent e, CUstream s) { return record(e, s, per); }                              \
	EXPORT CUresult cuEventRecordWithFlags##suffix(CUevent e, CUstream s, unsigned int flags) { return flags > 1 ? CUDA_ERROR_INVALID_VALUE : record(e, s, per); } \
	EXPORT CUresult cuLaunchHostFunc##suffix(CUstream s, CUhostFn fn, void *data) { return host_function(s, per, fn, NULL, data); } \
	EXPORT CUresult cuStreamAddCallback##suffix(CUstream s, CUstreamCallback fn, void *data, unsigned int flags)            \
	{                                                                                                                       \
		return flags ? CUDA_ERROR_INVALID_VALUE : host_function(s, per, NULL, fn, data);                                \
	}                                                                                                                       \
	EXPORT CUresult cuStreamBeginCapture##suffix(CUstream s) { return begin_capture(s, per, CU_STREAM_CAPTURE_MODE_GLOBAL); } \
	EXPORT CUresult cuStreamBeginCapture_v2##suffix(CUstream s, CUstreamCaptureMode mode) { return begin_capture(s, per, mode); } \
	EXPORT CUresult cuStreamEndCapture##suffix(CUstream s, CUgraph *graph) { return end_capture(s, per, graph); }           \
	EXPORT CUresult cuStreamIsCapturing##suffix(CUstream s, CUstreamCaptureStatus *status) { return is_capturing(s, per, status); } \
	EXPORT CUresult cuStreamGetCaptureInfo##suffix(CUstream s, CUstreamCaptureStatus *status, cuuint64_t *id)               \
	{                                                                                                                       \
		return capture_info(s, per, status, id, NULL, NULL, NULL, NULL);                                                \
	}                                                                                                                       \
	EXPORT CUresult cuStreamGetCaptureInfo_v2##suffix(CUstream s, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph, const CUgraphNode **nodes, size_t *count) \
	{                                                                                                                       \
		return capture_info(s, per, status, id, graph, nodes, NULL, count);                                             \
	}                                                                                                                       \
	EXPORT CUresult cuStreamGetCaptureInfo_v3##suffix(CUstream s, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph, const CUgraphNode **nodes, const CUgraphEdgeData **edges, size_t *count) \
	{                                                                                                                       \
		return capture_info(s, per, status, id, graph, nodes, edges, count);                                            \
	}                                                                                                                       \
	EXPORT CUresult cuStreamGetFlags##suffix(CUstream s, unsigned int *flags)                                               \
	{                                                                                                                       \
		REQUIRE_CONTEXT(c);                                                                                             \
		CUstream t = stream_of(s, per, c);                                                                              \
		if (!t)                                                                                                         \
			return CUDA_ERROR_INVALID_HANDLE;                                                                       \
		if (!flags)                                                                                                     \
			return CUDA_ERROR_INVALID_VALUE;                                                                        \
		*flags = t->flags;                                                                                              \
		return CUDA_SUCCESS;                                                                                            \
	}                                                                                                                       \
	EXPORT CUresult cuStreamGetPriority##suffix(CUstream s, int *priority)                                                  \
	{                                                                                                                       \
		REQUIRE_CONTEXT(c);                                                                                             \
		CUstream t = stream_of(s, per, c);                                                                              \
		if (!t)                                                                                                         \
			return CUDA_ERROR_INVALID_HANDLE;                                                                       \
		if (!priority)                                                                                                  \
			return CUDA_ERROR_INVALID_VALUE;                                                                        \
		*priority = t->priority;                                                                                        \
		return CUDA_SUCCESS;                                                                                            \
	}                                                                                                                       \
	EXPORT CUresult cuStreamGetCtx##suffix(CUstream s, CUcontext *context)                                                  \
	{                                                                                                                       \
		REQUIRE_CONTEXT(c);                                                                                             \
		CUstream t = stream_of(s, per, c);                                                                              \
		if (!t)                                                                                                         \
			return CUDA_ERROR_INVALID_HANDLE;                                                                       \
		if (!context)                                                                                                   \
			return CUDA_ERROR_INVALID_VALUE;                                                                        \
		*context = t->context;                                                                                          \
		return CUDA_SUCCESS;                                                                                            \
	}
STREAM_CALLS(, 0)
STREAM_CALLS(_ptsz, 1)
