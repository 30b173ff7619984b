//go:build ignore

// The gate: kernels start only in the job's window of each frame, which noded sets (region.h: frame_us, frame_start, phase, open).
//
// Launches are asynchronous: what was queued in the window may run beyond it. So
//   - at most about 2.5 ms of work is queued at a time: after every `batch` launches on a stream an event is recorded and
//     the one before it waited for. batch doubles while that is quick and halves when it is slow; a kernel that takes longer than that
//     is waited for by itself;
//   - when the window has closed, the next launch waits for what its stream still runs and compares clocks. Time beyond the
//     window is a debt, taken off the windows that follow, whole ones if need be: the mean share is kept by kernels of any length.
// A window that is not used is gone: it is no credit, it only pays a debt off.
//
// A wait never ends in a deadlock: work that waits for something the program does later (a value in memory, a kernel of
// another GPU) is given up after a while and let pass. No launch is ever held while its stream is captured: nothing runs then.
#include "shim.h"

#include <string.h>

#define MS 1000000ull
#define FULL 10000u        // open, share: no throttle
#define AHEAD (5 * MS / 4) // device time of one batch; two are in flight
#define LATEST (5 * MS)    // that a window's beginning is put off for a program that wakes late
#define GIVE_UP (2000 * MS)
enum { LARGEST = 2048 };

// ---- the driver, without disturbing a capture ----

// Calls that could disturb another thread's capture are allowed where the thread says that it knows what it does.
static void relax(CUstreamCaptureMode *mode) { CALL(cuThreadExchangeStreamCaptureMode, mode); }

static bool capturing(CUstream stream, bool perthread) {
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	CUresult r = perthread ? CALL(cuStreamIsCapturing_ptsz, stream, &status) : CALL(cuStreamIsCapturing, stream, &status);
	if (r == CUDA_ERROR_NOT_SUPPORTED)
		return false;
	return r != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE; // error: implicitly part of a capture, or no stream at all
}

static bool record(CUevent *event, CUstream stream, bool perthread) {
	if (!*event && CALL(cuEventCreate, event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) {
		*event = NULL;
		return false;
	}
	return (perthread ? CALL(cuEventRecord_ptsz, *event, stream) : CALL(cuEventRecord, *event, stream)) == CUDA_SUCCESS;
}

// await waits for an event without burning a core. *waited: it was not over at once. False: an error, or given up.
static bool await(CUevent event, bool *waited) {
	uint64_t begun = clock_now(), nap = 20000;
	*waited = false;
	for (;;) {
		CUresult r = CALL(cuEventQuery, event);
		if (r != CUDA_ERROR_NOT_READY)
			return r == CUDA_SUCCESS;
		*waited = true;
		uint64_t now = clock_now();
		if (now - begun > GIVE_UP)
			return false;
		sleep_until(now + nap);
		if (now - begun > 4 * MS && nap < 200000)
			nap *= 2;
	}
}

// ---- windows ----

struct frame {
	uint64_t start, end, length; // of the window that began last, and of the frame
};

static struct frame frame_at(const struct fgpu_device *dev, uint64_t now) {
	const struct fgpu_slice *s = slice_file();
	uint64_t length = s->frame_us >= 1000 && s->frame_us <= 10000000 ? s->frame_us * 1000ull : 100 * MS;
	uint64_t open = __atomic_load_n(&dev->open, __ATOMIC_RELAXED), phase = __atomic_load_n(&dev->phase, __ATOMIC_RELAXED) % FULL;
	uint64_t begin = (s->frame_start % length + length * phase / FULL) % length; // windows begin here, modulo length
	uint64_t into = (now % length + length - begin) % length;
	struct frame f = { now - into, 0, length };
	f.end = f.start + length * (open < FULL ? open : FULL) / FULL;
	return f;
}

// price is what time beyond a window costs. The first of it is spent beside the neighbour whose window begins there, at half the speed: the
// clock shows twice what was taken. Where there is no neighbour that is too little, by at most a tenth of the window.
static uint64_t price(uint64_t over, uint64_t shared) { return over < shared ? over / 2 : over - shared / 2; }

// overran counts device time up to when, once.
static void overran(struct gate_state *g, uint64_t when) {
	if (g->outstanding && when > g->charged) {
		uint64_t more = when - g->charged;
		g->debt += price(g->over + more, g->shared) - price(g->over, g->shared);
		g->over += more;
		g->charged = when;
	}
	if (when > g->finished)
		g->finished = when;
}

// look decides about the window of now, once for each window. It returns when to look again; 0: launches pass. awaited is the beginning that
// the caller has slept for: a window begins for it when it wakes, for that it was late is this machine's doing.
static uint64_t look(struct gate_state *g, const struct fgpu_device *dev, uint64_t now, uint64_t awaited) {
	struct frame f = frame_at(dev, now);
	uint64_t grant = f.end - f.start;
	if (f.start > g->window || f.start + f.length < g->window) {
		// Each window that began since paid off what it would have granted; the one of now is first reduced, then opened.
		uint64_t missed = g->window && f.start > g->window ? (f.start - g->window + f.length / 2) / f.length : 1;
		uint64_t paid = grant * (missed ? missed - 1 : 0);
		g->debt = g->debt > paid ? g->debt - paid : 0;
		g->window = f.start;
		if (g->debt >= grant) {
			g->debt -= grant;
			g->until = f.start;
		} else {
			uint64_t late = awaited == f.start ? now - f.start : 0;
			if (late > grant / 2 || late > LATEST)
				late = grant / 2 < LATEST ? grant / 2 : LATEST;
			uint64_t begin = f.start + late, from = g->finished > begin ? g->finished : begin, until = from + grant - g->debt;
			g->until = until < f.end + late ? until : f.end + late;
			g->debt = 0;
		}
		g->charged = g->until > now ? g->until : now;
		g->over = 0;
		g->shared = grant / 5 < 5 * MS ? grant / 5 : 5 * MS;
	}
	return now < g->until ? 0 : f.start + f.length;
}

// ---- streams ----

// tracker_of finds a stream's tracker. 0, 1 and 2 are names for the default stream of a context, or of a thread.
static struct tracker *tracker_of(struct gate_state *g, CUstream stream, bool perthread) {
	uint64_t owner = 0;
	if ((uintptr_t)stream <= 2) {
		CUcontext context = NULL;
		CALL(cuCtxGetCurrent, &context);
		owner = (uint64_t)(uintptr_t)context;
		if (stream == CU_STREAM_PER_THREAD || (perthread && !stream))
			owner ^= (uint64_t)(uintptr_t)__builtin_thread_pointer();
	}
	for (int i = 0; i < TRACKERS; i++)
		if (g->tracker[i].batch && g->tracker[i].stream == (uintptr_t)stream && g->tracker[i].owner == owner)
			return &g->tracker[i];
	for (int i = 0; i < TRACKERS; i++) { // take a place in turn
		struct tracker *t = &g->tracker[g->next++ % TRACKERS];
		if (t->busy)
			continue;
		for (int e = 0; e < 2; e++)
			if (t->event[e]) // of a context that lives: gate_forget
				CALL(cuEventDestroy_v2, t->event[e]);
		*t = (struct tracker){ .stream = (uintptr_t)stream, .owner = owner, .batch = 1 };
		return t;
	}
	return NULL;
}

// boundary ends a batch: it marks what was launched so far and waits for the batch before, or with `all` for what it
// marked. The tracker is busy: ours alone.
static void boundary(struct gate_state *g, struct tracker *t, CUstream stream, bool perthread, bool all) {
	bool waited = false;
	int now = t->turn, before = now ^ 1;
	bool ok = record(&t->event[now], stream, perthread);
	t->pending[now] = ok;
	int wanted = all || t->slow ? now : before;
	bool over = !ok || !t->pending[wanted] || await(t->event[wanted], &waited);
	uint64_t end = clock_now();
	lock(&g->lock);
	if (!ok) { // its events are of another context, or of one that has ended: begin anew
		*t = (struct tracker){ .batch = 0 };
		unlock(&g->lock);
		return;
	}
	t->pending[wanted] = !over;
	t->turn = (uint8_t)before;
	t->count = all ? 0 : 1; // the launch that brought us here
	if (waited) // our work ran until now
		overran(g, end);
	if (all) {
		t->boundary = 0;
	} else {
		uint64_t took = t->boundary ? end - t->boundary : 0;
		t->boundary = end;
		t->slow = t->batch == 1 && took > AHEAD;
		if (took && took < AHEAD / 2 && t->batch < LARGEST)
			t->batch *= 2;
		else if (took > AHEAD && t->batch > 1)
			t->batch /= 2;
	}
	t->busy = 0;
	unlock(&g->lock);
}

// drain waits for what is queued: on this stream for all, on others for what was marked (they may be gone: only events are safe to ask).
static void drain(struct gate_state *g, struct tracker *t, CUstream stream, bool perthread) {
	boundary(g, t, stream, perthread, true);
	for (int i = 0; i < TRACKERS; i++) {
		struct tracker *o = &g->tracker[i];
		bool waited = false;
		lock(&g->lock);
		int newest = o->turn ^ 1;
		bool wait = o->batch && !o->busy && o->pending[newest];
		o->busy |= wait;
		unlock(&g->lock);
		if (!wait)
			continue;
		await(o->event[newest], &waited);
		uint64_t end = clock_now();
		lock(&g->lock);
		o->pending[0] = o->pending[1] = o->busy = 0;
		if (waited)
			overran(g, end);
		unlock(&g->lock);
	}
	lock(&g->lock);
	g->outstanding = 0;
	unlock(&g->lock);
}

// ---- the gate ----

static void wait_for(unsigned d, struct gate_state *g, uint64_t until, uint64_t now) {
	unlock(&g->lock);
	sleep_until(until);
	__atomic_fetch_add(&counters(d)->throttled_ns, clock_now() - now, __ATOMIC_RELAXED);
}

__attribute__((noinline)) static CUresult wait_turn(unsigned d, CUstream stream, unsigned n, bool perthread) {
	struct gate_state *g = &process()->gate[d];
	const struct fgpu_device *dev = device(d);
	bool counted = false, asked = false;
	uint64_t awaited = 0;
	while (__atomic_load_n(&dev->open, __ATOMIC_RELAXED) < FULL) {
		uint64_t now = clock_now();
		lock(&g->lock);
		bool open = now < g->until && now >= g->window;
		struct tracker *t = open || g->outstanding ? tracker_of(g, stream, perthread) : NULL;
		if (open && !counted) {
			g->outstanding += n;
			if (t)
				t->count += n;
			counted = true;
		}
		bool due = t && !t->busy && t->count > t->batch;
		if (open && !due) {
			unlock(&g->lock);
			return CUDA_SUCCESS;
		}
		if (!asked) { // once, and only here: it is the driver's time
			unlock(&g->lock);
			if (capturing(stream, perthread))
				return CUDA_SUCCESS;
			asked = true;
			continue;
		}
		CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
		if (open) {
			t->busy = 1;
			unlock(&g->lock);
			relax(&mode);
			boundary(g, t, stream, perthread, false);
			relax(&mode);
		} else if (g->outstanding && t && !t->busy) {
			t->busy = 1;
			unlock(&g->lock);
			relax(&mode);
			drain(g, t, stream, perthread);
			relax(&mode);
			counted = false;
		} else if (g->outstanding) { // another thread is draining
			counted = false;
			wait_for(d, g, now + MS, now);
		} else {
			uint64_t again = look(g, dev, now, awaited);
			if (again)
				wait_for(d, g, awaited = again, now);
			else
				unlock(&g->lock);
		}
	}
	return CUDA_SUCCESS;
}

CUresult gate(CUstream stream, unsigned n, bool perthread) {
	if (UNLIKELY(!fenced()))
		return CUDA_ERROR_NOT_PERMITTED;
	unsigned count = devices();
	int d = LIKELY(count == 1) ? 0 : current_device(); // of one device there is no doubt: contexts on others are refused
	if (UNLIKELY(d < 0))
		return d == NO_CONTEXT ? CUDA_SUCCESS : CUDA_ERROR_NOT_PERMITTED; // without a context the driver says so itself
	const struct fgpu_device *dev = device((unsigned)d);
	__atomic_fetch_add(&counters((unsigned)d)->launches, n, __ATOMIC_RELAXED);
	if (LIKELY(__atomic_load_n(&dev->open, __ATOMIC_RELAXED) >= FULL || dev->share >= FULL))
		return CUDA_SUCCESS;
	return wait_turn((unsigned)d, stream, n, perthread);
}

// The program waits for the device itself: that tells when work ended, if the wait took time, and costs nothing.
uint64_t gate_sync_begins(void) {
	struct process *p = process();
	for (unsigned d = 0, n = devices(); d < n; d++)
		if (__atomic_load_n(&p->gate[d].outstanding, __ATOMIC_RELAXED))
			return clock_now();
	return 0;
}

void gate_synced(uint64_t begun, enum synced what, CUstream stream) {
	struct process *p = process();
	uint64_t now = begun ? clock_now() : 0;
	for (unsigned d = 0, n = begun ? devices() : 0; d < n; d++) {
		struct gate_state *g = &p->gate[d];
		lock(&g->lock);
		if (now - begun > 20000)
			overran(g, now);
		bool alone = true;
		for (int i = 0; i < TRACKERS; i++)
			alone &= !g->tracker[i].batch || g->tracker[i].stream == (uintptr_t)stream;
		if (what == SYNCED_ALL || (what == SYNCED_STREAM && alone))
			g->outstanding = 0;
		unlock(&g->lock);
	}
}

void gate_forget(int d) {
	struct process *p = process();
	if (!p || d < 0)
		return;
	struct gate_state *g = &p->gate[d];
	lock(&g->lock);
	for (int i = 0; i < TRACKERS; i++)
		if (!g->tracker[i].busy)
			g->tracker[i] = (struct tracker){ .batch = 0 };
	unlock(&g->lock);
}
