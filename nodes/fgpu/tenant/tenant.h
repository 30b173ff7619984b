// What the parts of the tenant share. The words of the command line are the program's only input: main.c reads them,
// each command is a function that prints one line for each thing it did, the errors by their names in the driver.
#ifndef FAIRSLICE_TENANT_H
#define FAIRSLICE_TENANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda.h"

// The driver, as resolve.c found it. A function it does not have is NULL, and is called through CU only.
struct driver {
#define ENTRY(base, spelling, version, perthread) __typeof__(spelling) *base;
#include "entries.h"
#undef ENTRY
};
extern struct driver driver;

#define CU(base, ...) (driver.base ? driver.base(__VA_ARGS__) : CUDA_ERROR_NOT_FOUND)

// Options: NAME=VALUE words before the first command.
struct options {
	const char *via;   // see resolve.c
	bool perthread;    // streams=perthread: the variants whose default stream is the calling thread's
	unsigned version;  // version=N: ask cuGetProcAddress for this CUDA version, instead of each function's own
	int device;        // device=N: CUDA ordinal
	uint64_t block_ns; // block_ns=N: about how long a block of the kernel runs on a real GPU
};
extern struct options options;

// Fills in what the linker has bound (linked.c).
typedef void linked_f(struct driver *);
linked_f linked;

// The C library's own dlsym, got by dlvsym or by dlsym. NULL: none.
typedef void *dlsym_f(void *, const char *);
dlsym_f *libc_dlsym(bool by_version);

// Finds the driver as options.via says. Returns NULL, or what was wrong.
const char *resolve(void);

// Makes the primary context of options.device current in this thread; the first call initialises the driver.
CUresult attach(void);

// The name of an error, "ok" for success.
const char *name(CUresult r);

// Prints one line at once: a process that is killed has said what it did.
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Set when something that a command asserts was false; the exit status is then 1.
extern bool failed;

// How this program was called: its path, and the options, which a child is started with as well.
extern char **self;
extern int self_options;

uint64_t now_ns(void);             // of the monotonic clock
uint64_t next_random(uint64_t *s); // splitmix64: any seed is good
bool number(const char *word, uint64_t *out); // "512", "64K", "8M", "2G": powers of 1024
void percentiles(const char *what, uint64_t *ns, size_t count); // prints p50 and p99; sorts ns

// Allocations. take puts what it took into *h; give frees it.
struct held {
	const struct family *family; // NULL: nothing held
	size_t bytes;
	CUdeviceptr pointer;
	CUmemGenericAllocationHandle handle;
	CUarray array;
	CUmipmappedArray mipmap;
	CUgraph graph;
	CUgraphExec exec;
};

struct family {
	const char *name;
	size_t granule; // the least step in which its memory grows, bytes
	CUresult (*take)(struct held *h, size_t bytes);
	CUresult (*give)(struct held *h);
};
const struct family *family(const char *name); // NULL: unknown
extern const struct family families[];
extern const size_t family_count;
CUresult take(const struct family *f, struct held *h, size_t bytes);
CUresult give(struct held *h);
void forget(void); // what a parent held, in its forked child

// The kernel: blocks that do nothing but pass time.
CUresult launch(unsigned blocks, CUstream stream);

// Commands. Each gets the words after its name, and how many there are, and returns how many it used, or -1
// for words that it does not understand.
typedef int command(int count, char **words);
command do_info, do_nvml, do_processes, do_maps;
command do_alloc, do_free, do_fill, do_alloclat, do_free_unknown, do_churn;
command do_launch, do_greedy, do_latency, do_capture;
command do_threads, do_fork, do_clone, do_vfork, do_exec, do_kill9, do_spawn, do_wait, do_hold;
command do_scribble, do_truncate, do_unlink, do_variants, do_lookups;

int run(int count, char **words); // runs commands; returns the exit status
#endif
