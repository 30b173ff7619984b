//go:build ignore

// How a program finds the driver. Each way is one that real programs use, or that a program would try which wants
// to get past the fence:
//
//   link      the symbols of a program linked with -lcuda (in tenant-linked alone: a program that is so linked)
//   dlsym     dlopen("libcuda.so.1"), then dlsym of each exported spelling
//   default   dlsym(RTLD_DEFAULT, …)
//   dlvsym    the C library's dlsym, as dlvsym gives it: a program that looks for one that nobody has replaced
//   libc      the C library's dlsym, as dlsym gives it
//   deepbind  dlopen with RTLD_DEEPBIND, then dlsym
//   plugin    a library that is linked with -lcuda (tenant-plugin.so), opened with RTLD_DEEPBIND: its symbols are looked up in
//             what it is linked with first, and only then in what is preloaded
//   dlmopen   a copy of the driver in a namespace of its own, then dlsym
//   gpa1      cuGetProcAddress, then everything from it
//   gpa2      cuGetProcAddress_v2, then everything from it
//   cudart    as the CUDA runtime does: cuGetProcAddress_v2 or the older one, asked for itself, then everything from that
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tenant.h"

struct driver driver;

typedef CUresult get1(const char *, void **, int, cuuint64_t);
typedef CUresult get2(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

static const char *wrong; // why the driver was not found
static char text[256];

static void *opened(int flags) {
	void *lib = dlopen("libcuda.so.1", flags);
	if (!lib && !wrong) {
		snprintf(text, sizeof text, "%s", dlerror());
		wrong = text;
	}
	return lib;
}

static void *driver_namespace(void) {
	void *lib = dlmopen(LM_ID_NEWLM, "libcuda.so.1", RTLD_NOW);
	if (!lib) {
		snprintf(text, sizeof text, "%s", dlerror());
		wrong = text;
	}
	return lib;
}

static dlsym_f *look_up;

// dlsym moved from libdl.so.2 into libc.so.6 in glibc 2.34, and has both versions there.
dlsym_f *libc_dlsym(bool by_version) {
	void *libc = dlopen("libc.so.6", RTLD_NOW);
	void *libdl = dlopen("libdl.so.2", RTLD_NOW);
	if (!by_version) {
		void *p = libc ? dlsym(libc, "dlsym") : NULL;
		return (dlsym_f *)(p || !libdl ? p : dlsym(libdl, "dlsym"));
	}
	void *p = libc ? dlvsym(libc, "dlsym", "GLIBC_2.34") : NULL;
	return (dlsym_f *)(p || !libdl ? p : dlvsym(libdl, "dlsym", "GLIBC_2.2.5"));
}

// exported finds a spelling among the exported symbols of lib.
static void *exported(void *lib, const char *spelling, const char *perthread) {
	char full[96];
	snprintf(full, sizeof full, "%s%s", spelling, options.perthread ? perthread : "");
	return look_up(lib, full);
}

// asked gets a function from cuGetProcAddress.
static void *asked(void *get, bool second, const char *base, unsigned version) {
	void *p = NULL;
	CUdriverProcAddressQueryResult found;
	cuuint64_t flags = options.perthread ? 2 : 1; // legacy or per-thread default stream
	if (options.version)
		version = options.version;
	CUresult r = second ? ((get2 *)get)(base, &p, (int)version, flags, &found) : ((get1 *)get)(base, &p, (int)version, flags);
	return r ? NULL : p;
}

static void by_export(void *lib) {
#define ENTRY(base, spelling, version, perthread) driver.base = (__typeof__(driver.base))exported(lib, #spelling, perthread);
#include "entries.h"
#undef ENTRY
}

static void by_asking(void *get, bool second) {
#define ENTRY(base, spelling, version, perthread) driver.base = (__typeof__(driver.base))asked(get, second, #base, version);
#include "entries.h"
#undef ENTRY
}

static void by_link(void) {
#ifdef TENANT_LINKED
	linked(&driver);
#else
	wrong = "via=link is for tenant-linked: this program is not linked with libcuda";
#endif
}

static void by_plugin(void) {
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof path - 32);
	if (n < 0)
		n = 0;
	path[n] = 0;
	char *slash = strrchr(path, '/');
	strcpy(slash ? slash + 1 : path, "tenant-plugin.so");
	void *lib = dlopen(path, RTLD_NOW | RTLD_DEEPBIND);
	linked_f *fill = lib ? (linked_f *)dlsym(lib, "linked") : NULL;
	if (fill) {
		fill(&driver);
		return;
	}
	snprintf(text, sizeof text, "%s", dlerror());
	wrong = text;
}

static void by_runtime(void *lib) {
	void *get = dlsym(lib, "cuGetProcAddress_v2");
	bool second = get != NULL;
	if (!second)
		get = dlsym(lib, "cuGetProcAddress");
	if (!get) {
		wrong = "this driver has no cuGetProcAddress";
		return;
	}
	unsigned keep = options.version;
	options.version = 0;
	void *again = asked(get, second, "cuGetProcAddress", second ? 12000 : 11030);
	options.version = keep;
	if (again)
		by_asking(again, second);
	else
		wrong = "cuGetProcAddress does not know itself";
}

const char *resolve(void) {
	const char *via = options.via;
	wrong = NULL;
	look_up = !strcmp(via, "dlvsym") ? libc_dlsym(true) : !strcmp(via, "libc") ? libc_dlsym(false) : dlsym;
	if (!look_up)
		return "no dlsym in the C library";
	void *lib = NULL, *get;
	if (!strcmp(via, "link"))
		by_link();
	else if (!strcmp(via, "plugin"))
		by_plugin();
	else if (!strcmp(via, "dlsym") || !strcmp(via, "dlvsym") || !strcmp(via, "libc"))
		lib = opened(RTLD_NOW);
	else if (!strcmp(via, "default"))
		lib = opened(RTLD_NOW | RTLD_GLOBAL) ? RTLD_DEFAULT : NULL;
	else if (!strcmp(via, "deepbind"))
		lib = opened(RTLD_NOW | RTLD_DEEPBIND);
	else if (!strcmp(via, "dlmopen"))
		lib = driver_namespace();
	else if (!strcmp(via, "gpa1") || !strcmp(via, "gpa2") || !strcmp(via, "cudart"))
		lib = opened(RTLD_NOW);
	else
		wrong = "no such way to find the driver";
	if (wrong || !strcmp(via, "link") || !strcmp(via, "plugin"))
		return wrong;
	if (!strcmp(via, "cudart")) {
		by_runtime(lib);
	} else if (!strncmp(via, "gpa", 3)) {
		bool second = via[3] == '2';
		get = dlsym(lib, second ? "cuGetProcAddress_v2" : "cuGetProcAddress");
		if (get)
			by_asking(get, second);
		else
			wrong = "this driver has no such cuGetProcAddress";
	} else {
		by_export(lib);
	}
	return wrong;
}
