//go:build ignore

// Kernels, and how fast they come through.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tenant.h"

// The kernel counts down and computes meanwhile. Its time is work, not a span of the clock: a span would go on while
// another process has the GPU. (The simulated driver does not read it: there a block costs what that driver says.)
static const char image[] =
	".version %s\n"
	".target %s\n"
	".address_size 64\n"
	".visible .entry spin(.param .u64 spin_turns, .param .u64 spin_out)\n"
	"{\n"
	"  .reg .pred %%done, %%more, %%drop;\n"
	"  .reg .u64 %%turns, %%out;\n"
	"  .reg .u32 %%x;\n"
	"  ld.param.u64 %%turns, [spin_turns];\n"
	"  ld.param.u64 %%out, [spin_out];\n"
	"  mov.u32 %%x, %%tid.x;\n"
	"  setp.eq.u64 %%done, %%turns, 0;\n"
	"  @%%done bra END;\n"
	"LOOP:\n"
	"  mad.lo.u32 %%x, %%x, 1664525, 1013904223;\n"
	"  sub.u64 %%turns, %%turns, 1;\n"
	"  setp.ne.u64 %%more, %%turns, 0;\n"
	"  @%%more bra LOOP;\n"
	"  setp.eq.u64 %%drop, %%out, 0;\n" // always so; but no compiler knows, and the loop stays
	"  @%%drop bra END;\n"
	"  st.global.u32 [%%out], %%x;\n"
	"END:\n"
	"  ret;\n"
	"}\n";

enum { THREADS = 128, NS_PER_TURN = 6 }; // about, at 1.7 GHz; only the same everywhere matters

static uint64_t turns, out_pointer;
static void *arguments[] = {&turns, &out_pointer};

// kernel loads the image, once in a process.
static CUresult kernel(CUfunction *f) {
	static CUfunction loaded;
	static CUmodule module;
	CUresult r = attach();
	if (r || loaded) {
		*f = loaded;
		return r;
	}
	// Old GPUs need an old target, and a new driver may have given it up.
	CUdevice device;
	int major = 0;
	r = CU(cuDeviceGet, &device, options.device);
	if (!r)
		r = CU(cuDeviceGetAttribute, &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
	char ptx[sizeof image + 32];
	snprintf(ptx, sizeof ptx, image, major >= 8 ? "7.0" : "6.0", major >= 8 ? "sm_80" : "sm_50");
	if (!r)
		r = CU(cuModuleLoadData, &module, ptx);
	if (!r)
		r = CU(cuModuleGetFunction, &loaded, module, "spin");
	*f = loaded;
	return r;
}

enum how { EAGER, EX, COOP, GRAPH };

static CUresult launch_as(enum how how, unsigned blocks, CUstream stream) {
	CUfunction f;
	CUresult r = kernel(&f);
	if (r)
		return r;
	if (how == EX) {
		CUlaunchConfig c;
		memset(&c, 0, sizeof c);
		c.gridDimX = blocks;
		c.gridDimY = c.gridDimZ = c.blockDimY = c.blockDimZ = 1;
		c.blockDimX = THREADS;
		c.hStream = stream;
		return CU(cuLaunchKernelEx, &c, f, arguments, NULL);
	}
	if (how == COOP)
		return CU(cuLaunchCooperativeKernel, f, blocks, 1, 1, THREADS, 1, 1, 0, stream, arguments);
	return CU(cuLaunchKernel, f, blocks, 1, 1, THREADS, 1, 1, 0, stream, arguments, NULL);
}

CUresult launch(unsigned blocks, CUstream stream) {
	turns = options.block_ns / NS_PER_TURN;
	return launch_as(EAGER, blocks, stream);
}

int do_launch(int count, char **words) {
	uint64_t n, blocks;
	if (count < 2 || !number(words[0], &n) || !number(words[1], &blocks) || blocks > INT32_MAX)
		return -1;
	CUresult r = CUDA_SUCCESS;
	uint64_t done = 0;
	for (; done < n && !r; done++)
		r = launch((unsigned)blocks, NULL);
	if (!r)
		r = CU(cuCtxSynchronize);
	say("launch %llu %llu %s", (unsigned long long)n, (unsigned long long)blocks, name(r));
	return 2;
}

// captured makes an executable graph of n launches.
static CUresult captured(uint64_t n, unsigned blocks, CUstream stream, CUgraphExec *exec) {
	CUgraph graph = NULL;
	CUfunction f;
	CUresult r = kernel(&f); // loading is not allowed while capturing
	if (!r)
		r = CU(cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
	if (r)
		return r;
	for (uint64_t i = 0; i < n && !r; i++)
		r = launch_as(EAGER, blocks, stream);
	CUresult end = CU(cuStreamEndCapture, stream, &graph);
	r = r ? r : end;
	if (!r)
		r = CU(cuGraphInstantiateWithFlags, exec, graph, 0);
	if (graph)
		CU(cuGraphDestroy, graph);
	return r;
}

int do_capture(int count, char **words) {
	uint64_t n;
	if (count < 1 || !number(words[0], &n) || !n)
		return -1;
	CUstream stream = NULL;
	CUgraphExec exec;
	turns = options.block_ns / NS_PER_TURN;
	CUresult r = attach();
	if (!r)
		r = CU(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
	if (!r)
		r = captured(n, 1, stream, &exec);
	say("capture %llu %s", (unsigned long long)n, name(r));
	if (r)
		return 1;
	r = CU(cuGraphLaunch, exec, stream);
	if (!r)
		r = CU(cuStreamSynchronize, stream);
	say("replay %llu %s", (unsigned long long)n, name(r));
	CU(cuGraphExecDestroy, exec);
	return 1;
}

// A greedy program never waits for its kernels; what has completed by the end of its time is known from events, one
// after every BATCH launches. The ring is longer than any driver's queue, so that it never makes the program wait.
enum { RING = 1024, BATCH = 4, NODES = 4 };

int do_greedy(int count, char **words) {
	static const char *const hows[] = {"eager", "ex", "coop", "graph"};
	uint64_t seconds, blocks;
	if (count < 2 || !number(words[0], &seconds) || !number(words[1], &blocks) || !blocks || blocks > INT32_MAX)
		return -1;
	int used = 2;
	enum how how = EAGER;
	for (unsigned i = 0; count > 2 && i < sizeof hows / sizeof *hows; i++)
		if (!strcmp(words[2], hows[i])) {
			how = i;
			used = 3;
		}
	CUstream stream = NULL; // the default one, whichever the options make that
	CUgraphExec exec = NULL;
	CUevent ring[RING];
	turns = options.block_ns / NS_PER_TURN;
	CUresult r = attach();
	CUfunction f;
	if (!r)
		r = kernel(&f);
	if (!r && how == GRAPH) {
		r = CU(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
		if (!r)
			r = captured(NODES, (unsigned)blocks, stream, &exec);
	}
	for (unsigned i = 0; i < RING && !r; i++)
		r = CU(cuEventCreate, &ring[i], CU_EVENT_DISABLE_TIMING);
	// Nothing is counted before all that came earlier is done.
	if (!r)
		r = CU(cuCtxSynchronize);
	uint64_t recorded = 0, done = 0, begun = now_ns(), end = begun + seconds * 1000000000;
	while (!r && now_ns() < end) {
		if (recorded - done == RING)
			r = CU(cuEventSynchronize, ring[done % RING]);
		for (unsigned i = 0; i < BATCH && !r; i++)
			r = how == GRAPH ? CU(cuGraphLaunch, exec, stream) : launch_as(how, (unsigned)blocks, stream);
		if (!r)
			r = CU(cuEventRecord, ring[recorded++ % RING], stream);
		while (!r && done < recorded && CU(cuEventQuery, ring[done % RING]) == CUDA_SUCCESS)
			done++;
	}
	while (!r && done < recorded && CU(cuEventQuery, ring[done % RING]) == CUDA_SUCCESS)
		done++;
	uint64_t ns = now_ns() - begun; // a launch may have waited past the end: what is counted was done in this time
	uint64_t kernels = how == GRAPH ? NODES : 1;
	if (!r)
		r = CU(cuCtxSynchronize);
	say("greedy %llu %llu %s %s completed %llu launched %llu ns %llu", (unsigned long long)seconds, (unsigned long long)blocks, hows[how],
		name(r), (unsigned long long)(done * BATCH * kernels), (unsigned long long)(recorded * BATCH * kernels), (unsigned long long)ns);
	if (exec)
		CU(cuGraphExecDestroy, exec);
	return used;
}

int do_latency(int count, char **words) {
	uint64_t n;
	if (count < 1 || !number(words[0], &n) || !n || n > 10000000)
		return -1;
	uint64_t *ns = calloc(n, sizeof *ns);
	CUfunction f;
	CUresult r = ns ? kernel(&f) : CUDA_ERROR_OUT_OF_MEMORY;
	turns = 0;
	for (uint64_t i = 0; i < n && !r; i++) {
		uint64_t a = now_ns();
		r = launch_as(EAGER, 1, NULL);
		ns[i] = now_ns() - a;
		if (i % 256 == 255 && !r) // a full queue would be measured otherwise
			r = CU(cuCtxSynchronize);
	}
	if (!r)
		r = CU(cuCtxSynchronize);
	if (r)
		say("latency %s", name(r));
	else
		percentiles("latency", ns, n);
	free(ns);
	return 1;
}
