//go:build ignore

#define _GNU_SOURCE
#include "ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "alive.h"

#define PATH_SIZE 4096
#define HEADER 4096 // the file's first page holds the magic only
#define TIDY_EVERY 100000000 // ns

#define load(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define store(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)

static char state_dir[PATH_SIZE - 32]; // room for the file's name; "" while private
static char *map;
static size_t map_size;

struct ledger_gpu *ledger_gpu(unsigned gpu) { return (struct ledger_gpu *)(map + HEADER) + gpu; }

static int open_file(const char *directory, size_t size, char why[256])
{
	char path[PATH_SIZE];
	uint64_t magic = 0;
	off_t length;
	int fd;

	if (strlen(directory) >= sizeof state_dir) {
		snprintf(why, 256, "the path FAIRSLICE_SIM_STATE is too long");
		return -1;
	}
	if (mkdir(directory, 0755) != 0 && errno != EEXIST) {
		snprintf(why, 256, "FAIRSLICE_SIM_STATE=%.180s: %s", directory, strerror(errno));
		return -1;
	}
	snprintf(path, sizeof path, "%s/ledger", directory);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0) {
		snprintf(why, 256, "%.180s: %s", path, strerror(errno));
		return -1;
	}
	// Processes of several users share it, whatever the umask of the first. Only its owner can do this.
	(void)!fchmod(fd, 0666);
	while (flock(fd, LOCK_EX) != 0 && errno == EINTR)
		;
	length = lseek(fd, 0, SEEK_END);
	if (length > 0 && pread(fd, &magic, sizeof magic, 0) == sizeof magic && magic != LEDGER_MAGIC) {
		snprintf(why, 256, "%.180s is no ledger of this version of the simulated driver", path);
		close(fd);
		return -1;
	}
	magic = LEDGER_MAGIC;
	if (((size_t)length < size && ftruncate(fd, (off_t)size) != 0) ||
	    pwrite(fd, &magic, sizeof magic, 0) != sizeof magic) {
		snprintf(why, 256, "%.180s: %s", path, strerror(errno));
		close(fd);
		return -1;
	}
	flock(fd, LOCK_UN); // closing it would not: the mapping keeps the file open
	return fd;
}

int ledger_open(const char *directory, unsigned gpus, char why[256])
{
	size_t size = HEADER + gpus * sizeof(struct ledger_gpu);
	int fd = -1, private = !directory || !*directory;
	char *at;

	if (!private && (fd = open_file(directory, size, why)) < 0)
		return -1;
	at = mmap(NULL, size, PROT_READ | PROT_WRITE, private ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED, fd, 0);
	if (fd >= 0)
		close(fd);
	if (at == MAP_FAILED) {
		snprintf(why, 256, "map the ledger: %s", strerror(errno));
		return -1;
	}
	if (map)
		munmap(map, map_size);
	map = at;
	map_size = size;
	strcpy(state_dir, private ? "" : directory);
	return 0;
}

static const char *file(unsigned gpu, const char *suffix, char path[PATH_SIZE])
{
	snprintf(path, PATH_SIZE, "%s/gpu%u%s", state_dir, gpu, suffix);
	return path;
}

int ledger_lost(unsigned gpu)
{
	char path[PATH_SIZE];
	return *state_dir && access(file(gpu, ".lost", path), F_OK) == 0;
}

// ---- the lock ----
//
// A word in shared memory: 0, or who has it (process id << 9 | 9 bits of its start time), and in the top bit
// whether somebody waits. Whoever waits long looks whether the holder still lives, and else takes the lock
// from it: everything under it is such that a holder may stop at any instruction. Not a robust pthread mutex,
// because glibc's symbols for these would keep the library out of containers with an older one.

#define LOCK_WAITED 0x80000000u
#define LOCK_PATIENCE 5000000 // ns

static uint32_t lock_word(uint64_t key) { return KEY_PID(key) << 9 | (uint32_t)(key & 0x1ff); }

static uint32_t own_word(void)
{
	static uint32_t word;
	static pid_t of;
	pid_t pid = getpid();
	if (of != pid) { // after fork
		word = lock_word(alive_own_key());
		of = pid;
	}
	return word;
}

static int holder_lives(uint32_t word)
{
	uint64_t key = alive_key((word & ~LOCK_WAITED) >> 9);
	return key && ((lock_word(key) ^ word) & ~LOCK_WAITED) == 0;
}

void ledger_lock(struct ledger_gpu *g)
{
	uint32_t me = own_word(), seen = 0;
	const struct timespec patience = {0, LOCK_PATIENCE};

	for (int spin = 0; spin < 64; spin++, seen = 0)
		if (__atomic_compare_exchange_n(&g->lock, &seen, me, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return;
	for (;;) {
		seen = load(&g->lock);
		if (seen == 0) { // others may wait still
			if (__atomic_compare_exchange_n(&g->lock, &seen, me | LOCK_WAITED, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
				return;
			continue;
		}
		if (!(seen & LOCK_WAITED) &&
		    !__atomic_compare_exchange_n(&g->lock, &seen, seen | LOCK_WAITED, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			continue;
		seen |= LOCK_WAITED;
		if (syscall(SYS_futex, &g->lock, FUTEX_WAIT, seen, &patience, NULL, 0) == 0 || errno != ETIMEDOUT)
			continue;
		if (!holder_lives(seen) &&
		    __atomic_compare_exchange_n(&g->lock, &seen, me | LOCK_WAITED, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return;
	}
}

void ledger_unlock(struct ledger_gpu *g)
{
	if (__atomic_exchange_n(&g->lock, 0, __ATOMIC_RELEASE) & LOCK_WAITED)
		syscall(SYS_futex, &g->lock, FUTEX_WAKE, 1, NULL, NULL, 0);
}

// ---- slots ----

int ledger_reap(struct ledger_gpu *g, int busy_only)
{
	unsigned used = load(&g->slots_used);
	int cleared = 0;
	for (unsigned i = 0; i < used; i++) {
		struct ledger_slot *s = &g->slot[i];
		uint64_t key = load(&s->key);
		if (!key || (busy_only && load(&s->queued) == load(&s->served)) || alive(key))
			continue;
		// The key goes first: the rest is cleared by whoever takes the slot.
		store(&s->key, 0);
		cleared++;
	}
	while (cleared && used && !load(&g->slot[used - 1].key)) // every look walks over the slots
		store(&g->slots_used, --used);
	return cleared;
}

static struct ledger_slot *take_slot(struct ledger_gpu *g, uint64_t key)
{
	unsigned used = load(&g->slots_used);
	for (unsigned i = 0; i < LEDGER_MAX_PROCESSES; i++) {
		struct ledger_slot *s = &g->slot[i];
		if (i < used && load(&s->key))
			continue;
		memset(s, 0, sizeof *s);
		s->cap = LEDGER_WHOLE;
		s->buckets = ledger_now() / LEDGER_BUCKET + 1;
		store(&s->key, key);
		if (i >= used)
			store(&g->slots_used, i + 1);
		return s;
	}
	return NULL;
}

struct ledger_slot *ledger_attach(unsigned gpu)
{
	struct ledger_gpu *g = ledger_gpu(gpu);
	struct ledger_slot *s = NULL;
	uint64_t key = alive_own_key();

	ledger_lock(g);
	if (ledger_now() - g->tidied > TIDY_EVERY) { // no more often: many processes may start at once
		g->tidied = ledger_now();
		ledger_reap(g, 0);
	}
	for (unsigned i = 0; i < g->slots_used && !s; i++)
		if (load(&g->slot[i].key) == key) // a second copy of the library in this process
			s = &g->slot[i];
	if (!s && !(s = take_slot(g, key)) && ledger_reap(g, 0))
		s = take_slot(g, key);
	ledger_unlock(g);
	return s;
}

// ---- memory ----

// Reads the declared processes. A line that is not ours is skipped: the reader of a ledger must never fail its
// caller.
static unsigned declared(unsigned gpu, struct ledger_process *out, unsigned max)
{
	char path[PATH_SIZE], line[128];
	struct ledger_process p = {0};
	unsigned n = 0;
	FILE *f;

	if (!*state_dir || !(f = fopen(file(gpu, "", path), "re")))
		return 0;
	while (n < max && fgets(line, sizeof line, f)) {
		if (sscanf(line, "%u %llu %u", &p.pid, &p.bytes, &p.sm_percent) != 3 || !p.pid || !alive_key(p.pid))
			continue;
		if (p.sm_percent > 100)
			p.sm_percent = 100;
		out[n++] = p;
	}
	fclose(f);
	return n;
}

static uint64_t declared_bytes(unsigned gpu)
{
	struct ledger_process list[64];
	uint64_t sum = 0;
	for (unsigned i = declared(gpu, list, 64); i-- > 0;)
		sum += list[i].bytes;
	return sum;
}

static uint64_t sum(struct ledger_gpu *g, uint32_t instance)
{
	unsigned used = load(&g->slots_used);
	uint64_t bytes = 0;
	for (unsigned i = 0; i < used; i++)
		if (load(&g->slot[i].key) && (!instance || g->slot[i].instance == instance))
			bytes += load(&g->slot[i].bytes);
	return bytes;
}

static int fits(struct ledger_gpu *g, struct ledger_slot *s, uint64_t bytes, uint64_t other, const struct ledger_limits *l)
{
	uint64_t all = sum(g, 0) + other;
	if (bytes > l->total || all > l->total - bytes)
		return 0;
	return !s->instance || (bytes <= l->instance_total && sum(g, s->instance) <= l->instance_total - bytes);
}

int ledger_charge(unsigned gpu, struct ledger_slot *s, uint64_t bytes, const struct ledger_limits *l)
{
	struct ledger_gpu *g = ledger_gpu(gpu);
	uint64_t other = declared_bytes(gpu);
	int ok;

	ledger_lock(g);
	if (load(&s->key) != l->key) {
		ledger_unlock(g);
		return -2;
	}
	ok = bytes <= l->own_limit && load(&s->bytes) <= l->own_limit - bytes;
	if (ok && !fits(g, s, bytes, other, l)) // only then is it worth the look at who has died
		ok = ledger_reap(g, 0) && fits(g, s, bytes, other, l);
	if (ok)
		__atomic_fetch_add(&s->bytes, bytes, __ATOMIC_ACQ_REL);
	ledger_unlock(g);
	return ok ? 0 : -1;
}

void ledger_release(struct ledger_slot *s, uint64_t bytes) { __atomic_fetch_sub(&s->bytes, bytes, __ATOMIC_ACQ_REL); }

uint64_t ledger_used(unsigned gpu, uint32_t instance)
{
	struct ledger_gpu *g = ledger_gpu(gpu);
	uint64_t bytes;
	ledger_lock(g);
	ledger_reap(g, 0);
	bytes = sum(g, instance);
	ledger_unlock(g);
	return instance ? bytes : bytes + declared_bytes(gpu);
}

unsigned ledger_processes(unsigned gpu, struct ledger_process *out, unsigned max, uint64_t since)
{
	struct ledger_gpu *g = ledger_gpu(gpu);
	unsigned n = declared(gpu, out, max);
	uint64_t now;

	ledger_lock(g);
	ledger_reap(g, 0);
	now = ledger_now();
	ledger_advance(g, now);
	if (since == 0 || since > now)
		since = now > 1000000000 ? now - 1000000000 : 0;
	for (unsigned i = 0; i < g->slots_used && n < max; i++) {
		struct ledger_slot *s = &g->slot[i];
		struct ledger_process p = {.pid = KEY_PID(load(&s->key)), .bytes = load(&s->bytes), .instance = s->instance};
		if (!p.pid)
			continue;
		p.sm_percent = ledger_percent(g, s, since, now);
		if (p.bytes || p.sm_percent)
			out[n++] = p;
	}
	ledger_unlock(g);
	return n;
}
