//go:build ignore

// Device time: who is served how much, and when. See ledger.h for the model.

#define _GNU_SOURCE
#include <time.h>

#include "ledger.h"

#define load(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define store(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)

#define ONE (1u << 30) // a rate: the whole GPU
#define CHECK_EVERY 20000000 // ns between looks whether those with work are alive

uint64_t ledger_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

// Writes what was served as of each step of the clock up to time; nothing was since the last one.
static void fill_buckets(struct ledger_slot *s, uint64_t time, uint64_t served)
{
	uint64_t last = time / LEDGER_BUCKET;
	if (last >= LEDGER_BUCKETS && s->buckets < last - LEDGER_BUCKETS + 1)
		s->buckets = last - LEDGER_BUCKETS + 1;
	for (; s->buckets <= last; s->buckets++)
		s->bucket[s->buckets % LEDGER_BUCKETS] = served;
}

static uint64_t between(uint64_t a, uint64_t b, uint64_t part, uint64_t whole)
{
	return whole ? a + (uint64_t)((unsigned __int128)(b - a) * part / whole) : b;
}

static void serve(struct ledger_slot *s, uint64_t from, uint64_t to, uint64_t work, uint32_t rate)
{
	struct ledger_run *last = &s->run[(s->runs - 1) % LEDGER_RUNS];
	uint64_t before = s->served, after = before + work, step;

	fill_buckets(s, from, before);
	for (; (step = s->buckets * LEDGER_BUCKET) <= to; s->buckets++)
		s->bucket[s->buckets % LEDGER_BUCKETS] = between(before, after, step - from, to - from);
	if (s->runs && last->to == from && s->rate == rate) { // the same run goes on
		last->to = to;
		last->served_to = after;
	} else {
		s->run[s->runs++ % LEDGER_RUNS] = (struct ledger_run){from, to, before, after};
		s->rate = rate;
	}
	store(&s->served, after);
}

struct busy {
	struct ledger_slot *slot;
	uint64_t backlog;
	uint32_t cap, rate; // of ONE
};

// Gives each an equal part of the GPU; what the cap of one leaves goes to the others.
static void share(struct busy *b, unsigned n)
{
	uint32_t left = ONE;
	unsigned open = n, changed = 1;
	for (unsigned i = 0; i < n; i++)
		b[i].rate = 0;
	while (changed && open) {
		changed = 0;
		for (unsigned i = 0; i < n; i++) {
			if (b[i].rate || b[i].cap > left / open)
				continue;
			b[i].rate = b[i].cap;
			left -= b[i].cap;
			open--;
			changed = 1;
			if (!open)
				break;
		}
	}
	for (unsigned i = 0; i < n; i++)
		if (!b[i].rate)
			b[i].rate = left / open;
}

// The time in which one of them runs out of work, at most the given one.
static uint64_t shortest(const struct busy *b, unsigned n, uint64_t step)
{
	for (unsigned i = 0; i < n; i++) {
		uint64_t need = (uint64_t)((((unsigned __int128)b[i].backlog << 30) + b[i].rate - 1) / b[i].rate);
		if (need < step)
			step = need;
	}
	return step;
}

void ledger_advance(struct ledger_gpu *g, uint64_t now)
{
	struct busy b[LEDGER_MAX_PROCESSES];
	uint64_t at = g->time, step;
	unsigned n = 0;

	if (now <= at)
		return;
	g->time = now; // first: whoever is killed further down must not leave time to be served twice
	if (now - g->checked > CHECK_EVERY) {
		g->checked = now;
		ledger_reap(g, 1);
	}
	for (unsigned i = 0; i < g->slots_used; i++) {
		struct ledger_slot *s = &g->slot[i];
		uint64_t backlog = load(&s->queued) - s->served;
		uint32_t cap = load(&s->cap);
		if (load(&s->key) && backlog)
			b[n++] = (struct busy){s, backlog, cap < LEDGER_WHOLE && cap ? (uint32_t)((uint64_t)cap * ONE / LEDGER_WHOLE) : ONE, 0};
	}
	while (n && at < now) {
		share(b, n);
		step = shortest(b, n, now - at);
		for (unsigned i = 0; i < n; i++) {
			unsigned __int128 credit = (unsigned __int128)step * b[i].rate + b[i].slot->fraction;
			uint64_t work = (uint64_t)(credit >> 30);
			b[i].slot->fraction = (uint64_t)credit & (ONE - 1);
			if (work >= b[i].backlog) {
				work = b[i].backlog;
				b[i].slot->fraction = 0;
			}
			serve(b[i].slot, at, at + step, work, b[i].rate);
			b[i].backlog -= work;
		}
		at += step;
		for (unsigned i = 0; i < n;) {
			if (b[i].backlog)
				i++;
			else
				b[i] = b[--n];
		}
	}
	for (unsigned i = 0; i < n; i++)
		store(&b[i].slot->horizon, now + b[i].backlog);
}

uint64_t ledger_queue(unsigned gpu, struct ledger_slot *s, uint64_t work)
{
	struct ledger_gpu *g;
	uint64_t now = ledger_now(), target;

	// While there certainly is work, more of it only makes the queue longer: no need for the lock.
	if (now < load(&s->horizon))
		return __atomic_add_fetch(&s->queued, work, __ATOMIC_ACQ_REL);
	g = ledger_gpu(gpu);
	ledger_lock(g);
	ledger_advance(g, ledger_now());
	target = __atomic_add_fetch(&s->queued, work, __ATOMIC_ACQ_REL);
	store(&s->horizon, g->time + (target - s->served));
	ledger_unlock(g);
	return target;
}

static void look(unsigned gpu)
{
	struct ledger_gpu *g = ledger_gpu(gpu);
	ledger_lock(g);
	ledger_advance(g, ledger_now());
	ledger_unlock(g);
}

int ledger_done(unsigned gpu, struct ledger_slot *s, uint64_t target)
{
	if (load(&s->served) >= target)
		return 1;
	look(gpu);
	return load(&s->served) >= target;
}

void ledger_wait(unsigned gpu, struct ledger_slot *s, uint64_t target)
{
	while (!ledger_done(gpu, s, target)) {
		// No sooner than if it had the GPU to itself; then a little longer each time, as others share it.
		uint64_t ns = target - load(&s->served);
		ns = ns < 20000 ? 20000 : ns > 2000000 ? 2000000 : ns;
		struct timespec t = {0, (long)ns};
		nanosleep(&t, NULL);
	}
}

uint64_t ledger_done_at(unsigned gpu, struct ledger_slot *s, uint64_t target)
{
	struct ledger_gpu *g = ledger_gpu(gpu);
	uint64_t at = 0;

	ledger_lock(g);
	for (uint64_t i = s->runs; i-- > 0 && s->runs - i <= LEDGER_RUNS;) {
		const struct ledger_run *r = &s->run[i % LEDGER_RUNS];
		if (target > r->served_to)
			break;
		if (target > r->served_from) {
			at = between(r->from, r->to, target - r->served_from, r->served_to - r->served_from);
			break;
		}
		at = r->from; // older than what is known, if no older run has it
	}
	ledger_unlock(g);
	return at;
}

// What was served up to a time, which lies between the oldest bucket and now.
static uint64_t served_by(const struct ledger_gpu *g, struct ledger_slot *s, uint64_t time)
{
	uint64_t b, from, to;
	fill_buckets(s, g->time, s->served);
	b = time / LEDGER_BUCKET;
	if (b + LEDGER_BUCKETS <= s->buckets)
		b = s->buckets - LEDGER_BUCKETS;
	from = s->bucket[b % LEDGER_BUCKETS];
	if (b + 1 < s->buckets)
		to = s->bucket[(b + 1) % LEDGER_BUCKETS];
	else
		return between(from, s->served, time - b * LEDGER_BUCKET, g->time - b * LEDGER_BUCKET);
	return between(from, to, time - b * LEDGER_BUCKET, LEDGER_BUCKET);
}

unsigned ledger_percent(const struct ledger_gpu *g, struct ledger_slot *s, uint64_t since, uint64_t now)
{
	uint64_t work, oldest = (now / LEDGER_BUCKET - LEDGER_BUCKETS + 2) * LEDGER_BUCKET;
	if (now / LEDGER_BUCKET >= LEDGER_BUCKETS && since < oldest)
		since = oldest;
	if (now <= since)
		return 0;
	work = s->served - served_by(g, s, since);
	return (unsigned)((work * 100 + (now - since) / 2) / (now - since));
}
