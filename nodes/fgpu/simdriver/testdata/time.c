// Checks device_time.c with times of its own: who has been served how much at which moment.
#include "../ledger.h"

#include <stdio.h>
#include <stdlib.h>

#include "../alive.h"

#define MS 1000000ull

static struct ledger_gpu *g;
static uint64_t start;

static struct ledger_slot *slot(unsigned i, uint32_t cap, uint64_t queued)
{
	struct ledger_slot *s = &g->slot[i];
	*s = (struct ledger_slot){.key = alive_own_key(), .cap = cap, .queued = queued, .buckets = start / LEDGER_BUCKET + 1};
	if (g->slots_used <= i)
		g->slots_used = i + 1;
	return s;
}

static void begin(void)
{
	static uint64_t next = 1000 * LEDGER_BUCKET;
	for (unsigned i = 0; i < g->slots_used; i++)
		g->slot[i].key = 0;
	start = g->time = next;
	next += 100000 * MS;
}

static void want(const char *what, uint64_t got, uint64_t expected, uint64_t off)
{
	if (got <= expected + off && expected <= got + off)
		return;
	printf("%s: got %llu, want %llu\n", what, (unsigned long long)got, (unsigned long long)expected);
	exit(1);
}

int main(void)
{
	char why[256];
	struct ledger_slot *a, *b, *c;
	if (ledger_open(NULL, 1, why) != 0)
		return 2;
	g = ledger_gpu(0);

	begin();
	a = slot(0, LEDGER_WHOLE, 10 * MS);
	ledger_advance(g, start + 4 * MS);
	want("one alone", a->served, 4 * MS, 1);
	ledger_advance(g, start + 3 * MS);
	want("time does not run backwards", a->served, 4 * MS, 1);
	ledger_advance(g, start + 50 * MS);
	want("no more than was queued", a->served, 10 * MS, 0);
	a->queued += 5 * MS;
	ledger_advance(g, start + 52 * MS);
	want("an idle time is no credit", a->served, 12 * MS, 1);

	begin();
	a = slot(0, LEDGER_WHOLE, 100 * MS), b = slot(1, LEDGER_WHOLE, 100 * MS), c = slot(2, LEDGER_WHOLE, 6 * MS);
	ledger_advance(g, start + 9 * MS);
	want("a third each", a->served, 3 * MS, 2);
	want("a third each", c->served, 3 * MS, 2);
	ledger_advance(g, start + 38 * MS); // c is done at 18, the others have had 6 each, and share 20 more
	want("what one leaves goes to the others", a->served, 16 * MS, 4);
	want("what one leaves goes to the others", b->served, 16 * MS, 4);
	want("the short one is done", c->served, 6 * MS, 0);
	want("when it was done", ledger_done_at(0, c, 6 * MS), start + 18 * MS, 10);
	want("when half of it was done", ledger_done_at(0, c, 3 * MS), start + 9 * MS, 10);

	begin();
	a = slot(0, 2500, 100 * MS), b = slot(1, LEDGER_WHOLE, 100 * MS);
	ledger_advance(g, start + 40 * MS);
	want("a cap of a quarter", a->served, 10 * MS, 40);
	want("the rest is the other's", b->served, 30 * MS, 40);
	b->queued = b->served;
	ledger_advance(g, start + 80 * MS);
	want("a cap holds for one alone, too", a->served, 20 * MS, 80);

	begin();
	a = slot(0, LEDGER_WHOLE, 10000 * MS), b = slot(1, LEDGER_WHOLE, 500 * MS);
	for (uint64_t t = 0; t <= 3000; t += 7) // many looks lose nothing
		ledger_advance(g, start + t * MS);
	ledger_advance(g, start + 3000 * MS);
	want("many looks", a->served, 2500 * MS, 1000);
	want("many looks, the other", b->served, 500 * MS, 0);
	want("percent of all the time", ledger_percent(g, a, start, start + 3000 * MS), 83, 0);
	want("percent of the last second", ledger_percent(g, a, start + 2000 * MS, start + 3000 * MS), 100, 0);
	want("percent of the other", ledger_percent(g, b, start, start + 3000 * MS), 17, 0);
	want("percent of one that has long been idle", ledger_percent(g, b, start + 2000 * MS, start + 3000 * MS), 0, 0);
	ledger_advance(g, start + 3000000 * MS);
	want("an hour later", ledger_percent(g, a, g->time - 1000 * MS, g->time), 0, 0);
	want("an hour later", a->served, 10000 * MS, 0);

	begin();
	a = slot(0, LEDGER_WHOLE, 100 * MS), b = slot(1, LEDGER_WHOLE, 100 * MS);
	b->key = (uint64_t)4194303 << KEY_START_BITS | 1; // nobody
	ledger_advance(g, start + 40 * MS);
	want("a dead process's work is dropped", a->served, 40 * MS, 1);
	want("and its slot is free", b->key, 0, 0);

	begin();
	for (unsigned i = 0; i < LEDGER_MAX_PROCESSES; i++)
		slot(i, i % 2 ? LEDGER_WHOLE : 5, (1 + i) * MS);
	ledger_advance(g, start + 100000 * MS * 30);
	for (unsigned i = 0; i < LEDGER_MAX_PROCESSES; i++)
		want("all of very many are done", g->slot[i].served, (1 + i) * MS, 0);
	printf("ok\n");
	return 0;
}
