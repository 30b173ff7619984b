//go:build ignore

// The little that is needed of the C library, from symbols that every glibc since 2.17 has, and dlsym itself, which
// moved between libraries and versions: it is looked up in the loaded objects, so that we refer to no version of it.
#include "shim.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18 // Linux 4.14
#endif

void lock(struct lock *l) {
	for (int i = 0; i < 64; i++) {
		uint32_t free = 0;
		if (__atomic_compare_exchange_n(&l->word, &free, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return;
	}
	int saved = errno;
	while (__atomic_exchange_n(&l->word, 2, __ATOMIC_ACQUIRE))
		syscall(SYS_futex, &l->word, FUTEX_WAIT_PRIVATE, 2, NULL);
	errno = saved;
}

void unlock(struct lock *l) {
	if (__atomic_exchange_n(&l->word, 0, __ATOMIC_RELEASE) == 2) {
		int saved = errno;
		syscall(SYS_futex, &l->word, FUTEX_WAKE_PRIVATE, 1);
		errno = saved;
	}
}

uint64_t clock_now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

void sleep_until(uint64_t when) {
	struct timespec t = { .tv_sec = (time_t)(when / 1000000000), .tv_nsec = (long)(when % 1000000000) };
	int saved = errno;
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
	errno = saved;
}

void say(const char *what, const char *more) {
	char line[512];
	size_t n = 0;
	const char *part[] = { "fairslice: ", what, more && *more ? ": " : "", more ? more : "", "\n" };
	for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
		size_t len = strlen(part[i]);
		if (len > sizeof line - 1 - n) // keep room for the end of the line
			len = i == 4 ? 1 : sizeof line - 2 - n;
		memcpy(line + n, part[i], len);
		n += len;
	}
	int saved = errno;
	ssize_t ignored = write(2, line, n);
	(void)ignored;
	errno = saved;
}

void *map_pages(size_t bytes) {
	int saved = errno;
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		p = NULL;
	else
		madvise(p, bytes, MADV_WIPEONFORK); // where it fails, process() compares process ids
	errno = saved;
	return p;
}

void unmap_pages(void *p, size_t bytes) {
	int saved = errno;
	munmap(p, bytes);
	errno = saved;
}

static struct process *own;

static bool wipes(void) {
	static int known; // 1 yes, 2 no
	if (UNLIKELY(!known)) {
		void *p = map_pages(4096);
		known = p && madvise(p, 4096, MADV_WIPEONFORK) == 0 ? 1 : 2;
		if (p)
			unmap_pages(p, 4096);
	}
	return known == 1;
}

struct process *process(void) {
	struct process *p = __atomic_load_n(&own, __ATOMIC_ACQUIRE);
	if (UNLIKELY(!p)) {
		struct process *fresh = map_pages(sizeof *fresh), *none = NULL;
		if (!fresh)
			return NULL;
		fresh->pid = (uint32_t)syscall(SYS_getpid);
		if (__atomic_compare_exchange_n(&own, &none, fresh, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			p = fresh;
		else {
			unmap_pages(fresh, sizeof *fresh);
			p = none;
		}
	}
	if (UNLIKELY(!wipes())) {
		uint32_t pid = (uint32_t)syscall(SYS_getpid);
		if (p->pid != pid) { // the child of a fork: one thread
			memset(p, 0, sizeof *p);
			p->pid = pid;
		}
	}
	return p;
}

// ---- symbols of the loaded C library ----

struct search {
	const char *name;
	void *found;
};

static uint32_t gnu_hash(const char *s) {
	uint32_t h = 5381;
	for (; *s; s++)
		h = h * 33 + (uint8_t)*s;
	return h;
}

// in_object looks a function up in one object's dynamic symbols, by its GNU hash table (there since glibc 2.5).
static void *in_object(const struct dl_phdr_info *o, const char *name) {
	const ElfW(Dyn) *dynamic = NULL;
	for (int i = 0; i < o->dlpi_phnum; i++)
		if (o->dlpi_phdr[i].p_type == PT_DYNAMIC)
			dynamic = (const void *)(o->dlpi_addr + o->dlpi_phdr[i].p_vaddr);
	uintptr_t symbols = 0, strings = 0, hashes = 0;
	for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
		uintptr_t at = dynamic->d_un.d_ptr;
		if (at < o->dlpi_addr) // the loader relocates these in place, but not on every machine
			at += o->dlpi_addr;
		if (dynamic->d_tag == DT_SYMTAB)
			symbols = at;
		else if (dynamic->d_tag == DT_STRTAB)
			strings = at;
		else if (dynamic->d_tag == DT_GNU_HASH)
			hashes = at;
	}
	if (!symbols || !strings || !hashes)
		return NULL;
	const uint32_t *header = (const uint32_t *)hashes; // buckets, first symbol, words of the filter, shift
	const uint32_t *bucket = (const uint32_t *)(hashes + 16 + header[2] * sizeof(ElfW(Addr)));
	const uint32_t *chain = bucket + header[0];
	uint32_t h = gnu_hash(name), i = header[0] ? bucket[h % header[0]] : 0;
	if (i < header[1])
		return NULL;
	for (;; i++) {
		const ElfW(Sym) *s = (const ElfW(Sym) *)symbols + i;
		uint32_t c = chain[i - header[1]];
		if ((c | 1) == (h | 1) && s->st_shndx != SHN_UNDEF && !strcmp((const char *)strings + s->st_name, name))
			return (void *)(o->dlpi_addr + s->st_value);
		if (c & 1)
			return NULL;
	}
}

static int look(struct dl_phdr_info *o, size_t size, void *with) {
	(void)size;
	struct search *s = with;
	const char *file = o->dlpi_name ? strrchr(o->dlpi_name, '/') : NULL;
	file = file ? file + 1 : o->dlpi_name;
	if (file && (!strcmp(file, "libc.so.6") || !strcmp(file, "libdl.so.2")))
		s->found = in_object(o, s->name);
	return s->found != NULL;
}

void *libc_symbol(const char *name) {
	struct search s = { name, NULL };
	dl_iterate_phdr(look, &s);
	return s.found;
}
