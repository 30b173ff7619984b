//go:build ignore

// What the probe asks: is this process fenced? (probe.c, run by noded in the container before the job's program.)
#include "shim.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

__attribute__((visibility("default"))) int fgpu_probe(int fd);

static int no(int fd, const char *what, const char *name) {
	char line[256] = "";
	strncat(line, what, 160);
	strncat(line, name, 80);
	strncat(line, "\n", 2);
	ssize_t ignored = write(fd, line, strlen(line));
	(void)ignored;
	return 1;
}

// first says that a program which is linked against name, or asks the default scope for it, gets ours.
static bool first(const char *name, void *own) {
	void *(*find)(void *, const char *) = libc_symbol("dlsym");
	return find && find(RTLD_DEFAULT, name) == own;
}

// fgpu_probe returns 0 where the fence stands around this process, else 1 after one line of reason on fd. It needs no driver.
int fgpu_probe(int fd) {
	static const char *const must[] = { "cuMemAlloc_v2", "cuGetProcAddress_v2", "cuLaunchKernel", "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2" };
	void *own[] = { (void *)cuMemAlloc_v2, (void *)cuGetProcAddress_v2, (void *)cuLaunchKernel, nvml_wrapper(must[3]), nvml_wrapper(must[4]) };
	for (size_t i = 0; i < sizeof must / sizeof *must; i++) {
		if (!first(must[i], own[i]))
			return no(fd, "another library stands before libfgpu.so for ", must[i]);
		if (dlsym(RTLD_DEFAULT, must[i]) != own[i])
			return no(fd, "dlsym does not give libfgpu.so's ", must[i]);
	}
	if (!first("dlsym", (void *)dlsym) || !first("dlvsym", (void *)dlvsym))
		return no(fd, "another library stands before libfgpu.so for ", "dlsym");
	if (!fenced())
		return no(fd, "the slice's files cannot be used; standard error says why", "");
	return 0;
}
