//go:build ignore

// Threads and processes: many at once, and ended in the middle of what they do.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tenant.h"

// A race of threads. now is a lower bound of what they hold together: raised after an allocation has succeeded, and
// lowered before it is freed. If it ever exceeds what was free, so did the memory.
struct race {
	uint64_t turns, bytes;
	_Atomic uint64_t now, most, granted, refused, other;
	atomic_uint seed;
};

static void *racer(void *argument) {
	struct race *race = argument;
	enum { HELD = 16 };
	CUdeviceptr held[HELD] = {0};
	uint64_t seed = atomic_fetch_add(&race->seed, 1);
	if (attach())
		race->other++;
	for (uint64_t i = 0; i < race->turns; i++) {
		uint64_t x = next_random(&seed);
		CUdeviceptr *p = &held[x % HELD];
		if (*p) {
			race->now -= race->bytes;
			if (CU(cuMemFree, *p))
				race->other++;
			*p = 0;
			continue;
		}
		CUresult r = CU(cuMemAlloc, p, race->bytes);
		if (r) {
			*p = 0;
			*(r == CUDA_ERROR_OUT_OF_MEMORY ? &race->refused : &race->other) += 1;
			continue;
		}
		race->granted++;
		uint64_t now = race->now += race->bytes, most = race->most;
		while (now > most && !atomic_compare_exchange_weak(&race->most, &most, now))
			;
	}
	for (int i = 0; i < HELD; i++) {
		if (!held[i])
			continue;
		race->now -= race->bytes;
		if (CU(cuMemFree, held[i]))
			race->other++;
	}
	return NULL;
}

int do_threads(int count, char **words) {
	uint64_t threads;
	static struct race race;
	memset(&race, 0, sizeof race);
	if (count < 3 || !number(words[0], &threads) || !number(words[1], &race.turns) || !number(words[2], &race.bytes) || !threads || threads > 1024)
		return -1;
	size_t before = 0, after = 0, all;
	CUresult r = attach();
	if (!r)
		r = CU(cuMemGetInfo, &before, &all);
	if (r) {
		say("threads %s", name(r));
		return 3;
	}
	pthread_t id[1024];
	uint64_t started = 0;
	while (started < threads && !pthread_create(&id[started], NULL, racer, &race))
		started++;
	for (uint64_t i = 0; i < started; i++)
		pthread_join(id[i], NULL);
	r = CU(cuMemGetInfo, &after, &all);
	uint64_t over = race.most > before ? race.most - before : 0;
	failed = failed || over || race.other || r || after != before || started != threads;
	say("threads %llu %s granted %llu refused %llu other %llu most %llu limit %zu over %llu after %zu", (unsigned long long)started,
		failed ? "WRONG" : "ok", (unsigned long long)race.granted, (unsigned long long)race.refused, (unsigned long long)race.other,
		(unsigned long long)race.most, before, (unsigned long long)over, after);
	return 3;
}

// report waits for a child and says how it ended.
static void report(const char *what, pid_t child) {
	int status;
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR) {
			say("%s lost", what);
			failed = true;
			return;
		}
	if (WIFSIGNALED(status))
		say("%s signal %d", what, WTERMSIG(status));
	else
		say("%s exit %d", what, WEXITSTATUS(status));
	failed = failed || status != 0;
}

int do_fork(int count, char **words) {
	pid_t child = fork();
	if (!child) {
		forget();
		_exit(run(count, words));
	}
	report("fork", child);
	return count;
}

struct rest {
	int count;
	char **words;
};

static int in_clone(void *argument) {
	struct rest *rest = argument;
	forget();
	return run(rest->count, rest->words);
}

int do_clone(int count, char **words) {
	enum { STACK = 1 << 20 };
	char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (stack == MAP_FAILED)
		return -1;
	struct rest rest = {count, words};
	report("clone", clone(in_clone, stack + STACK, SIGCHLD, &rest));
	munmap(stack, STACK);
	return count;
}

// own makes the command line of this program with the same options and the given commands.
static char **own(int count, char **words) {
	char **line = calloc((size_t)(self_options + count) + 1, sizeof *line);
	if (!line)
		abort();
	memcpy(line, self, (size_t)self_options * sizeof *line);
	memcpy(line + self_options, words, (size_t)count * sizeof *line);
	return line;
}

int do_exec(int count, char **words) {
	execv("/proc/self/exe", own(count, words));
	say("exec %s", strerror(errno));
	failed = true;
	return count;
}

int do_vfork(int count, char **words) {
	char **line = own(count, words);
	pid_t child = vfork();
	if (!child) {
		execv("/proc/self/exe", line);
		_exit(127);
	}
	report("vfork", child);
	free(line);
	return count;
}

// pause_ns is for random instants: the one place where the tenant lets time pass by itself, with do_hold.
static void pause_ns(uint64_t ns) {
	struct timespec t = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
	nanosleep(&t, NULL);
}

int do_kill9(int count, char **words) {
	uint64_t rounds, seed;
	if (count < 2 || !number(words[0], &rounds) || !number(words[1], &seed))
		return -1;
	uint64_t killed = 0;
	for (uint64_t i = 0; i < rounds; i++) {
		char text[24];
		snprintf(text, sizeof text, "%llu", (unsigned long long)(next_random(&seed) >> 1));
		char *churn[] = {"churn", text};
		char **line = own(2, churn);
		int pipe_ends[2];
		if (pipe2(pipe_ends, O_CLOEXEC))
			return -1;
		pid_t child = fork();
		if (!child) {
			dup2(pipe_ends[1], 1);
			execv("/proc/self/exe", line);
			_exit(127);
		}
		free(line);
		close(pipe_ends[1]);
		// One in four dies while it starts; the others once they allocate.
		char c;
		if (next_random(&seed) % 4 && read(pipe_ends[0], &c, 1) < 0)
			failed = true;
		pause_ns(next_random(&seed) % 3000000);
		kill(child, SIGKILL);
		int status;
		if (waitpid(child, &status, 0) == child && WIFSIGNALED(status))
			killed++;
		else
			failed = true;
		close(pipe_ends[0]);
	}
	say("kill9 %llu %s killed %llu", (unsigned long long)rounds, failed ? "WRONG" : "ok", (unsigned long long)killed);
	return 2;
}

// The gate of do_spawn: all children begin when it opens, and end when all are done.
struct gate {
	_Atomic int open, ready, done, good, leave;
};

static void await(_Atomic int *word, int value) {
	while (atomic_load(word) < value)
		pause_ns(200000);
}

int do_spawn(int count, char **words) {
	uint64_t n, bytes;
	if (count < 2 || !number(words[0], &n) || !number(words[1], &bytes) || n > 4096)
		return -1;
	struct gate *gate = mmap(NULL, sizeof *gate, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (gate == MAP_FAILED)
		return -1;
	int started = 0;
	for (uint64_t i = 0; i < n; i++) {
		pid_t child = fork();
		if (child < 0)
			break;
		started++;
		if (child)
			continue;
		gate->ready++;
		await(&gate->open, 1);
		struct held h;
		CUresult r = bytes ? take(&families[0], &h, bytes) : attach();
		gate->good += r == CUDA_SUCCESS;
		if (r)
			fprintf(stderr, "tenant: spawn: %s\n", name(r));
		gate->done++;
		await(&gate->leave, 1);
		_exit(0);
	}
	await(&gate->ready, started);
	uint64_t begun = now_ns();
	gate->open = 1;
	await(&gate->done, started);
	uint64_t ns = now_ns() - begun;
	gate->leave = 1;
	while (wait(NULL) > 0)
		;
	bool wrong = gate->good != (int)n;
	failed = failed || wrong;
	say("spawn %llu %s good %d ns %llu", (unsigned long long)n, wrong ? "WRONG" : "ok", gate->good, (unsigned long long)ns);
	munmap(gate, sizeof *gate);
	return 2;
}

int do_wait(int count, char **words) {
	(void)count, (void)words;
	say("waiting");
	for (int c; (c = getchar()) != EOF && c != '\n';)
		;
	return 0;
}

int do_hold(int count, char **words) {
	uint64_t seconds;
	if (count < 1 || !number(words[0], &seconds))
		return -1;
	say("holding");
	pause_ns(seconds * 1000000000);
	return 1;
}
