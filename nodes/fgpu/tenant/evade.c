//go:build ignore

// What a program would try that does not want to be fenced.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "region.h"
#include "tenant.h"

static const char *region_path(const char *file) {
	static char path[4096];
	const char *dir = getenv("FAIRSLICE_FGPU_DIR");
	if (!access(FGPU_DIR, F_OK) || !dir)
		dir = FGPU_DIR;
	snprintf(path, sizeof path, "%s/%s", dir, file);
	return path;
}

static const char *const region_files[] = {"slice", "usage"};

int do_scribble(int count, char **words) {
	uint64_t seed = 0;
	if (count < 1 || (strcmp(words[0], "zero") && strcmp(words[0], "ones") && !number(words[0], &seed)))
		return -1;
	for (int k = 0; k < 2; k++) {
		const char *path = region_path(region_files[k]);
		int fd = open(path, O_WRONLY | O_CLOEXEC);
		struct stat st;
		if (fd < 0 || fstat(fd, &st)) {
			say("scribble %s %s", region_files[k], strerror(errno));
			continue;
		}
		char block[4096];
		for (off_t at = 0; at < st.st_size; at += (off_t)sizeof block) {
			memset(block, words[0][0] == 'o' ? 0xff : 0, sizeof block);
			if (words[0][0] != 'o' && words[0][0] != 'z')
				for (size_t i = 0; i < sizeof block; i += 8) {
					uint64_t x = next_random(&seed);
					memcpy(block + i, &x, 8);
				}
			size_t n = st.st_size - at < (off_t)sizeof block ? (size_t)(st.st_size - at) : sizeof block;
			if (pwrite(fd, block, n, at) != (ssize_t)n)
				break;
		}
		close(fd);
		say("scribble %s ok %lld bytes", region_files[k], (long long)st.st_size);
	}
	return 1;
}

int do_truncate(int count, char **words) {
	(void)count, (void)words;
	for (int k = 0; k < 2; k++)
		say("truncate %s %s", region_files[k], truncate(region_path(region_files[k]), 0) ? strerror(errno) : "ok");
	return 0;
}

int do_unlink(int count, char **words) {
	(void)count, (void)words;
	for (int k = 0; k < 2; k++)
		say("unlink %s %s", region_files[k], unlink(region_path(region_files[k])) ? strerror(errno) : "ok");
	return 0;
}

// owner names the library that an address is in.
static const char *owner(void *p) {
	Dl_info info;
	if (!p)
		return "missing";
	if (!dladdr(p, &info) || !info.dli_fname)
		return "unknown";
	const char *slash = strrchr(info.dli_fname, '/');
	return slash ? slash + 1 : info.dli_fname;
}

int do_maps(int count, char **words) {
	(void)count, (void)words;
	FILE *f = fopen("/proc/self/maps", "re");
	char line[4096];
	bool mapped = false;
	while (f && fgets(line, sizeof line, f))
		mapped = mapped || strstr(line, "/libfgpu.so");
	if (f)
		fclose(f);
	say("maps libfgpu.so %s", mapped ? "yes" : "no");
	return 0;
}

static const struct entry {
	const char *base, *spelling, *kind;
} entries[] = {
#define FGPU_ENTRY(base, spelling, since, kind) {#base, #spelling, #kind},
#include "entries.def"
#undef FGPU_ENTRY
};
enum { ENTRIES = sizeof entries / sizeof *entries };

// tally counts the addresses that one way of asking gave.
struct tally {
	const char *way;
	unsigned fenced, missing, leaks;
};

// look judges one address: of what the fence must wrap, any that is not in it is a leak.
static void look(struct tally *t, const struct entry *e, void *p, const char *asked) {
	const char *where = owner(p);
	if (!p) {
		t->missing++;
	} else if (!strcmp(where, "libfgpu.so")) {
		t->fenced++;
	} else if (strcmp(e->kind, "FORWARD")) {
		t->leaks++;
		say("leak %s %s from %s", t->way, asked, where);
	}
}

static void total(const struct tally *t) {
	failed = failed || t->leaks;
	say("%s fenced %u missing %u leaks %u", t->way, t->fenced, t->missing, t->leaks);
}

typedef CUresult get1(const char *, void **, int, cuuint64_t);
typedef CUresult get2(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

int do_variants(int count, char **words) {
	(void)count, (void)words;
	static const int versions[] = {2000, 3000, 3020, 4000, 4010, 5000, 6000, 6050, 7000, 9000, 9020, 10000, 10020, 11000, 11020, 11030,
		11040, 11060, 11080, 12000, 12010, 12020, 12030, 12040, 12050, 12080, 12090, 13000, 13010, 13030, 14000, 99000};
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);
	if (!lib || !dlsym(lib, "cuGetProcAddress")) {
		say("variants no cuGetProcAddress");
		failed = true;
		return 0;
	}
	CUresult r = attach();
	if (r)
		say("variants %s", name(r));
	for (int second = 0; second < 2; second++) {
		void *get = dlsym(lib, second ? "cuGetProcAddress_v2" : "cuGetProcAddress");
		struct tally t = {.way = second ? "gpa2" : "gpa1"};
		for (int i = 0; get && i < ENTRIES; i++) {
			if (i && !strcmp(entries[i].base, entries[i - 1].base))
				continue; // the same question
			for (size_t v = 0; v < sizeof versions / sizeof *versions; v++)
				for (int flags = 0; flags < 3; flags++) {
					void *p = NULL;
					CUdriverProcAddressQueryResult found;
					char asked[128];
					if (second)
						r = ((get2 *)get)(entries[i].base, &p, versions[v], (cuuint64_t)flags, &found);
					else
						r = ((get1 *)get)(entries[i].base, &p, versions[v], (cuuint64_t)flags);
					snprintf(asked, sizeof asked, "%s version %d flags %d", entries[i].base, versions[v], flags);
					look(&t, &entries[i], r ? NULL : p, asked);
				}
		}
		if (get)
			total(&t);
	}
	return 0;
}

int do_lookups(int count, char **words) {
	(void)count, (void)words;
	enum { WAYS = 9 };
	static const char *const ways[WAYS] = {"dlsym", "dlsym-default", "dlsym-next", "dlvsym", "dlvsym-default", "deepbind", "dlmopen",
		"libc-dlsym", "libc-dlvsym"};
	dlsym_f *by_dlsym = libc_dlsym(false), *by_dlvsym = libc_dlsym(true);
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
	void *deep = dlopen("libcuda.so.1", RTLD_NOW | RTLD_DEEPBIND);
	void *apart = dlmopen(LM_ID_NEWLM, "libcuda.so.1", RTLD_NOW);
	if (!lib || !deep || !apart || !by_dlsym || !by_dlvsym) {
		say("lookups not every way is there: %s", dlerror());
		failed = true;
		return 0;
	}
	for (int w = 0; w < WAYS; w++) {
		struct tally t = {.way = ways[w]};
		for (int i = 0; i < ENTRIES; i++) {
			const char *s = entries[i].spelling;
			void *p = w == 0 ? dlsym(lib, s) : w == 1 ? dlsym(RTLD_DEFAULT, s) : w == 2 ? dlsym(RTLD_NEXT, s)
				: w == 3 ? dlvsym(lib, s, "GLIBC_2.2.5") : w == 4 ? dlvsym(RTLD_DEFAULT, s, "LIBCUDA_1")
				: w == 5 ? dlsym(deep, s) : w == 6 ? dlsym(apart, s)
				: w == 7 ? by_dlsym(lib, s) : by_dlvsym(lib, s);
			look(&t, &entries[i], p, s);
		}
		total(&t);
	}
	return 0;
}
