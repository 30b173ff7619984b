//go:build ignore

// The tenant: a CUDA program that does what its arguments say, one command after the other, and prints a line for
// each. It uses the driver API alone, as a program with a static CUDA runtime does in the end. README.md has examples.
// (The first line keeps the Go tool from compiling this file: it belongs to build.sh.)
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tenant.h"

struct options options = {.via = "dlsym", .block_ns = 100000};
bool failed;
char **self;
int self_options;

static const struct {
	const char *name;
	command *run;
	const char *help;
} commands[] = {
	{"info", do_info, "                  the device and its memory, by CUDA"},
	{"nvml", do_nvml, "                  the same by NVML; makes no context"},
	{"processes", do_processes, "             NVML's list of the processes on the device; makes no context"},
	{"maps", do_maps, "                  whether the fence is mapped into this process"},
	{"alloc", do_alloc, " FAMILY BYTES    malloc pitch async pool vmm array mipmap managed graph; prints an id"},
	{"free", do_free, " all|last|ID      gives it back"},
	{"fill", do_fill, " FAMILY           allocates until nothing more is had; fails if it got more than was free"},
	{"alloclat", do_alloclat, " N            time of allocation and free, 1 MiB each"},
	{"free-unknown", do_free_unknown, "          frees what was never allocated: null, foreign, inside, twice"},
	{"churn", do_churn, " SEED            allocates and frees at random by all families, until killed"},
	{"launch", do_launch, " N BLOCKS       launches and waits"},
	{"greedy", do_greedy, " SECONDS BLOCKS [eager|ex|coop|graph]   launches without end; prints what completed in time"},
	{"latency", do_latency, " N             time of an empty launch"},
	{"capture", do_capture, " N             captures N launches into a graph, and runs it"},
	{"threads", do_threads, " T N BYTES     T threads allocate and free N times; fails if they ever held too much"},
	{"fork", do_fork, "                  the rest is done by a forked child; this process waits for it"},
	{"clone", do_clone, "                 the same by the clone call"},
	{"vfork", do_vfork, "                 the same by vfork and exec"},
	{"exec", do_exec, "                  the rest is done by this process after an exec of itself"},
	{"kill9", do_kill9, " ROUNDS SEED     starts a churn and kills it, again and again, at random instants"},
	{"spawn", do_spawn, " N BYTES         N processes attach and allocate at once; prints how long it took"},
	{"wait", do_wait, "                  prints \"waiting\" and waits for a line on stdin, or its end"},
	{"hold", do_hold, " SECONDS          does nothing"},
	{"scribble", do_scribble, " zero|ones|SEED   writes over the region"},
	{"truncate", do_truncate, "              cuts the region to no length"},
	{"unlink", do_unlink, "                deletes the region"},
	{"variants", do_variants, "              asks cuGetProcAddress for everything in every way: fails if it gets past the fence"},
	{"lookups", do_lookups, "               the same with dlsym and its relatives"},
};

static int usage(void) {
	fprintf(stderr, "usage: tenant [via=link|dlsym|default|dlvsym|libc|deepbind|plugin|dlmopen|gpa1|gpa2|cudart] [streams=legacy|perthread]\n"
			"              [version=N] [device=N] [block_ns=N] COMMAND... | -\n"
			"With -, commands are lines of stdin. Numbers may end in K, M or G (powers of 1024).\n");
	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
		fprintf(stderr, "  %s%s\n", commands[i].name, commands[i].help);
	return 2;
}

int run(int count, char **words) {
	for (int i = 0; i < count;) {
		size_t k = 0;
		while (k < sizeof commands / sizeof *commands && strcmp(words[i], commands[k].name))
			k++;
		if (k == sizeof commands / sizeof *commands) {
			fprintf(stderr, "tenant: no command \"%s\"\n", words[i]);
			return usage();
		}
		int used = commands[k].run(count - i - 1, words + i + 1);
		if (used < 0) {
			fprintf(stderr, "tenant: wrong words after \"%s\"; want%s\n", words[i], commands[k].help);
			return 2;
		}
		i += 1 + used;
	}
	return failed ? 1 : 0;
}

// script runs the lines of stdin. A line is at most 8 words.
static int script(void) {
	char line[256];
	while (fgets(line, sizeof line, stdin)) {
		char *words[9], *rest = line;
		int count = 0;
		for (char *w; count < 9 && (w = strsep(&rest, " \n")) != NULL;)
			if (*w)
				words[count++] = w;
		int status = run(count, words);
		if (status == 2)
			return status;
	}
	return failed ? 1 : 0;
}

// option reads one NAME=VALUE. Returns -1 for one that does not exist.
static int option(char *word) {
	uint64_t n = 0;
	const char *value = strchr(word, '=') + 1;
	if (!strncmp(word, "via=", 4))
		options.via = value;
	else if (!strcmp(word, "streams=perthread"))
		options.perthread = true;
	else if (!strcmp(word, "streams=legacy"))
		options.perthread = false;
	else if (!strncmp(word, "version=", 8) && number(value, &n))
		options.version = (unsigned)n;
	else if (!strncmp(word, "device=", 7) && number(value, &n))
		options.device = (int)n;
	else if (!strncmp(word, "block_ns=", 9) && number(value, &n))
		options.block_ns = n;
	else
		return -1;
	return 0;
}

int main(int argc, char **argv) {
	self = argv;
	int first = 1;
	for (; first < argc && strchr(argv[first], '='); first++) {
		if (option(argv[first])) {
			fprintf(stderr, "tenant: no option \"%s\"\n", argv[first]);
			return usage();
		}
	}
	self_options = first;
	if (first == argc)
		return usage();
	if (!strcmp(argv[first], "-") && first + 1 == argc)
		return script();
	return run(argc - first, argv + first);
}

void say(const char *format, ...) {
	va_list args;
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
}

const char *name(CUresult r) {
	static __thread char code[32];
	const char *known = NULL;
	if (r == CUDA_SUCCESS)
		return "ok";
	if (driver.cuGetErrorName && driver.cuGetErrorName(r, &known) == CUDA_SUCCESS && known)
		return known;
	snprintf(code, sizeof code, "CUDA_ERROR_%d", (int)r);
	return code;
}

CUresult attach(void) {
	static __thread bool attached;
	static CUcontext context; // of the process; threads start after the first has attached
	static pid_t owner;
	if (attached && owner == getpid())
		return CUDA_SUCCESS;
	if (!context || owner != getpid()) {
		const char *wrong = resolve();
		if (wrong) {
			fprintf(stderr, "tenant: %s\n", wrong);
			failed = true;
			return CUDA_ERROR_NOT_INITIALIZED;
		}
		CUdevice device;
		CUresult r = CU(cuInit, 0);
		if (!r)
			r = CU(cuDeviceGet, &device, options.device);
		if (!r)
			r = CU(cuDevicePrimaryCtxRetain, &context, device);
		if (r)
			return r;
		owner = getpid();
	}
	CUresult r = CU(cuCtxSetCurrent, context);
	attached = r == CUDA_SUCCESS;
	return r;
}

uint64_t now_ns(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

uint64_t next_random(uint64_t *s) {
	uint64_t z = *s += 0x9e3779b97f4a7c15;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

bool number(const char *word, uint64_t *out) {
	char *end;
	errno = 0;
	unsigned long long n = strtoull(word, &end, 10);
	if (end == word || errno || *word == '-')
		return false;
	int shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
	if (shift)
		end++;
	if (*end || n > UINT64_MAX >> shift)
		return false;
	*out = n << shift;
	return true;
}

static int by_size(const void *a, const void *b) {
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

void percentiles(const char *what, uint64_t *ns, size_t count) {
	qsort(ns, count, sizeof *ns, by_size);
	say("%s %zu ok p50 %llu p99 %llu ns", what, count, (unsigned long long)ns[count / 2], (unsigned long long)ns[count * 99 / 100]);
}
