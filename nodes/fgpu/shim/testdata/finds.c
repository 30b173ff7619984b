// Asks for functions in each way a program can, and prints whose it got: "WAY NAME ours|driver's|none|other".
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "../../abi/cuda.h"

static const char *whose(void *p) {
	Dl_info i;
	if (!p)
		return "none";
	if (!dladdr(p, &i))
		return "other";
	return strstr(i.dli_fname, "libfgpu.so") ? "ours" : strstr(i.dli_fname, "libcuda.so.1") ? "driver's" : strstr(i.dli_fname, "libc.so.6") ? "libc's" : "other";
}

static void tell(const char *way, const char *name, void *p) { printf("%s %s %s\n", way, name, whose(p)); }

// A library placed after the fence that stands before a function of libc: it must find libc's, not itself.
extern void *next_getppid(void) __attribute__((weak));

int main(void) {
	static const char *const names[] = { "cuMemAlloc_v2", "cuLaunchKernel_ptsz", "cuInit", "cuMemAlloc_v3", "cuMemGetInfo_v3", "cuCtxCreate_v4", "dlsym", "puts" };
	tell("no-driver", "cuMemAlloc_v2", dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"));
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), *deep = dlopen("libcuda.so.1", RTLD_NOW | RTLD_DEEPBIND);
	if (!lib || !deep)
		return puts(dlerror()), 1;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		tell("dlsym", names[i], dlsym(lib, names[i]));
		tell("dlvsym", names[i], dlvsym(lib, names[i], "STUB_1"));
		tell("deepbind", names[i], dlsym(deep, names[i]));
		tell("default", names[i], dlsym(RTLD_DEFAULT, names[i]));
	}
	void *copy = dlmopen(LM_ID_NEWLM, "libcuda.so.1", RTLD_NOW);
	if (copy)
		tell("dlmopen", "cuMemAlloc_v2", dlsym(copy, "cuMemAlloc_v2"));
	CUresult (*get1)(const char *, void **, int, cuuint64_t) = dlsym(lib, "cuGetProcAddress");
	CUresult (*get2)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *) = dlsym(lib, "cuGetProcAddress_v2");
	tell("dlsym", "cuGetProcAddress", (void *)get1);
	tell("dlsym", "cuGetProcAddress_v2", (void *)get2);
	static const struct {
		const char *name;
		int version;
		cuuint64_t flags;
	} ask[] = {
		{ "cuLaunchKernel", 12000, 0 }, { "cuLaunchKernel", 12000, 1 }, { "cuLaunchKernel", 12000, 2 }, { "cuLaunchKernel", 6000, 2 },
		{ "cuMemAlloc", 12000, 0 }, { "cuMemAlloc", 14000, 0 }, { "cuMemGetInfo", 14000, 0 }, { "cuInit", 12000, 0 },
		{ "cuGetProcAddress", 11030, 0 }, { "cuGetProcAddress", 12000, 0 }, { "cuNothing", 12000, 0 },
	};
	for (size_t i = 0; i < sizeof ask / sizeof *ask; i++) {
		void *p1 = NULL, *p2 = NULL;
		char way[64];
		CUdriverProcAddressQueryResult status = 99;
		CUresult r1 = get1(ask[i].name, &p1, ask[i].version, ask[i].flags), r2 = get2(ask[i].name, &p2, ask[i].version, ask[i].flags, &status);
		snprintf(way, sizeof way, "gpa-%d-%d", ask[i].version, (int)ask[i].flags);
		tell(way, ask[i].name, p1);
		if (p1 != p2 || r1 != r2 || (p1 != NULL) != (r1 == CUDA_SUCCESS) || (status == 0) != (p1 != NULL))
			printf("%s %s differs: %p %d, %p %d %d\n", way, ask[i].name, p1, r1, p2, r2, status);
		if (p1 && !strcmp(ask[i].name, "cuLaunchKernel")) // which of the driver's it leads to
			printf("%s %s leads to %d\n", way, ask[i].name, ((__typeof__(&cuLaunchKernel))p1)(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	}
	if (next_getppid)
		tell("next", "getppid", next_getppid());
	return 0;
}
