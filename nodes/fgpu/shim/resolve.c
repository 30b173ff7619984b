//go:build ignore

// Which function a program gets when it asks for one: ours where ../abi/entries.def (or nvml.c) has a row for it,
// otherwise the driver's own, untouched. Programs linked with the driver get ours because we are preloaded; all
// others ask dlsym, dlvsym or cuGetProcAddress, which are ours as well.
#include "shim.h"

#include <dlfcn.h>
#include <string.h>

enum kind { RESOLVE, CONTEXTS, ALLOC, FREE, TRACK, LAUNCH, REPORT, SYNC, FORWARD };
#define WRAPPER_RESOLVE(f) RESOLVE, (void *)f
#define WRAPPER_CONTEXT(f) CONTEXTS, (void *)f
#define WRAPPER_ALLOC(f) ALLOC, (void *)f
#define WRAPPER_FREE(f) FREE, (void *)f
#define WRAPPER_TRACK(f) TRACK, (void *)f
#define WRAPPER_LAUNCH(f) LAUNCH, (void *)f
#define WRAPPER_REPORT(f) REPORT, (void *)f
#define WRAPPER_SYNC(f) SYNC, (void *)f
#define WRAPPER_FORWARD(f) FORWARD, NULL

static const struct row {
	const char *base, *spelling;
	int since;
	enum kind kind;
	void *wrapper;
} rows[] = {
#define FGPU_ENTRY(base, spelling, since, kind) { #base, #spelling, since, WRAPPER_##kind(spelling) },
#include "../abi/entries.def"
#undef FGPU_ENTRY
};
#define ROWS (sizeof rows / sizeof *rows)

static void *real_of_row[ROWS]; // as the driver exports it; filled as needed

// ---- the C library's dlsym, dlvsym and dlopen ----

typedef void *(*dlsym_t)(void *, const char *);
typedef void *(*dlvsym_t)(void *, const char *, const char *);
typedef void *(*dlopen_t)(const char *, int);

#define LIBC(name)                                                               \
	({                                                                       \
		static void *found_;                                             \
		void *p_ = __atomic_load_n(&found_, __ATOMIC_ACQUIRE);           \
		if (UNLIKELY(!p_)) {                                             \
			p_ = libc_symbol(#name);                                 \
			__atomic_store_n(&found_, p_, __ATOMIC_RELEASE);         \
		}                                                                \
		(name##_t)p_;                                                    \
	})

// ---- the driver's own functions ----

static const char *const file_of[] = { "libcuda.so.1", "libnvidia-ml.so.1" };
static void *handle_of[2];

// The library is opened once more, which loads nothing but keeps it loaded: what REAL has found stays valid.
static void *driver_handle(enum library which) {
	void *h = __atomic_load_n(&handle_of[which], __ATOMIC_ACQUIRE);
	if (h)
		return h;
	dlopen_t open = LIBC(dlopen);
	h = open ? open(file_of[which], RTLD_NOLOAD | RTLD_LAZY) : NULL;
	if (h)
		__atomic_store_n(&handle_of[which], h, __ATOMIC_RELEASE);
	return h;
}

// remember notes where a program itself found the driver: a copy of its own, under another name or in another namespace.
static void remember(enum library which, void *handle) {
	if (!driver_handle(which) && handle != RTLD_DEFAULT && handle != RTLD_NEXT)
		__atomic_store_n(&handle_of[which], handle, __ATOMIC_RELEASE);
}

void *driver_symbol(enum library which, const char *name) {
	void *h = driver_handle(which);
	dlsym_t find = LIBC(dlsym);
	if (!h || !find)
		return NULL;
	return find(h, name);
}

static void *real_of(size_t row) {
	void *p = __atomic_load_n(&real_of_row[row], __ATOMIC_ACQUIRE);
	if (!p) {
		p = driver_symbol(LIBCUDA, rows[row].spelling);
		__atomic_store_n(&real_of_row[row], p, __ATOMIC_RELEASE);
	}
	return p;
}

// ---- dlsym ----

static const struct row *row_of_spelling(const char *name) {
	for (size_t i = 0; i < ROWS; i++)
		if (!strcmp(rows[i].spelling, name))
			return &rows[i];
	return NULL;
}

// unknown_variant: a spelling of a function that takes memory or runs kernels, but of a later driver than we know. Its
// arguments are unknown, so it cannot be counted, and a program that asks for it can do with an older one.
static bool unknown_variant(const char *name) {
	for (size_t i = 0; i < ROWS; i++) {
		size_t n = strlen(rows[i].base);
		if ((rows[i].kind == ALLOC || rows[i].kind == LAUNCH) && !strncmp(rows[i].base, name, n) && name[n] == '_')
			return (name[n + 1] == 'v' && name[n + 2] >= '0' && name[n + 2] <= '9') || !strncmp(name + n, "_pt", 3);
	}
	return false;
}

// ours returns what a program that asks for name shall get: a function of ours; NULL: nothing to do
// with us. *deny: it shall get nothing.
static void *ours(const char *name, enum library *which, bool *deny) {
	if (name[0] == 'c' && name[1] == 'u') {
		*which = LIBCUDA;
		const struct row *r = row_of_spelling(name);
		*deny = !r && unknown_variant(name);
		return r ? r->wrapper : NULL;
	}
	if (!strncmp(name, "nvml", 4)) {
		*which = LIBNVML;
		return nvml_wrapper(name);
	}
	return NULL;
}

static bool finds_functions(const char *name) {
	return !strcmp(name, "dlsym") || !strcmp(name, "dlvsym") || !strcmp(name, "dlopen");
}

#define OPEN_TO_ALL __attribute__((visibility("default")))
OPEN_TO_ALL void *dlsym(void *handle, const char *name);
OPEN_TO_ALL void *dlvsym(void *handle, const char *name, const char *version);
OPEN_TO_ALL void *dlopen(const char *file, int flags);

// found is what the C library finds for the same question.
__attribute__((noinline)) static void *answer(void *handle, void *found, enum library which, const char *name, void *wrapper) {
	if (!found)
		return NULL; // the driver has no such variant
	if (handle == RTLD_DEFAULT) { // the search begins with us: ask the driver, once there is one
		if (driver_handle(which) && !driver_symbol(which, name))
			return NULL;
		return wrapper;
	}
	remember(which, handle);
	return wrapper;
}

// The C library's dlsym takes its caller for the object that RTLD_NEXT starts from. So everything that is not ours is handed on by a
// jump (a sibling call, which -O2 makes of the last line): its caller is then still the program, not us. A test looks.
void *dlsym(void *handle, const char *name) {
	if (name[0] == 'c' || name[0] == 'n' || name[0] == 'd') {
		enum library which = LIBCUDA;
		bool deny = false;
		void *w = ours(name, &which, &deny);
		if (deny)
			return NULL;
		if (w)
			return answer(handle, LIBC(dlsym)(handle, name), which, name, w);
		if (finds_functions(name))
			return !strcmp(name, "dlsym") ? (void *)dlsym : !strcmp(name, "dlvsym") ? (void *)dlvsym : (void *)dlopen;
	}
	return LIBC(dlsym)(handle, name);
}

void *dlvsym(void *handle, const char *name, const char *version) {
	if (name[0] == 'c' || name[0] == 'n' || name[0] == 'd') {
		enum library which = LIBCUDA;
		bool deny = false;
		void *w = ours(name, &which, &deny);
		if (deny)
			return NULL;
		if (w)
			return answer(handle, LIBC(dlvsym)(handle, name, version), which, name, w);
		if (finds_functions(name))
			return !strcmp(name, "dlsym") ? (void *)dlsym : !strcmp(name, "dlvsym") ? (void *)dlvsym : (void *)dlopen;
	}
	return LIBC(dlvsym)(handle, name, version);
}

// An object opened with RTLD_DEEPBIND finds its own dependencies before us: the driver, and the C library's dlsym. So the flag is
// taken away. (What it is for, two versions of a library in one program, is then up to symbol versions.)
void *dlopen(const char *file, int flags) {
	return LIBC(dlopen)(file, flags & ~RTLD_DEEPBIND);
}

// ---- cuGetProcAddress ----

// ask puts a question to the real cuGetProcAddress, in whichever form the driver has it.
static void *ask(const char *symbol, int version, cuuint64_t flags) {
	void *p = NULL;
	CUdriverProcAddressQueryResult status;
	if (REAL(cuGetProcAddress_v2))
		return REAL(cuGetProcAddress_v2)(symbol, &p, version, flags, &status) ? NULL : p;
	return CALL(cuGetProcAddress, symbol, &p, version, flags) ? NULL : p;
}

static bool per_thread(const char *spelling) {
	size_t n = strlen(spelling);
	return n > 5 && !strcmp(spelling + n - 5, "_ptsz");
}

// substitute replaces the function that the driver has answered with. The driver alone knows which variant that is: it is the one that
// it exports at the same address. False: a variant unknown to us, which must not be given out.
static bool substitute(const char *symbol, int version, cuuint64_t flags, void **found) {
	const struct row *named = NULL; // a row of that name: the latest that the version allows
	bool listed = false, counts = false;
	bool want = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
	for (size_t i = 0; i < ROWS; i++) {
		const struct row *r = &rows[i];
		if (real_of(i) == *found) {
			if (r->wrapper)
				*found = r->wrapper;
			return true;
		}
		if (strcmp(r->base, symbol) && strcmp(r->spelling, symbol))
			continue;
		listed = true;
		counts |= r->kind == ALLOC || r->kind == LAUNCH;
		if (r->since > version || (per_thread(r->spelling) && !want))
			continue;
		if (!named || r->since > named->since || (r->since == named->since && per_thread(r->spelling)))
			named = r;
	}
	if (!listed)
		return !unknown_variant(symbol);
	// This driver gives out other addresses than it exports. It is the variant we know if the answer is the same for the version that brought it.
	if (named && ask(symbol, named->since, flags) == *found) {
		__atomic_store_n(&real_of_row[named - rows], *found, __ATOMIC_RELEASE);
		if (named->wrapper)
			*found = named->wrapper;
		return true;
	}
	return !counts;
}

CUresult cuGetProcAddress(const char *symbol, void **pfn, int version, cuuint64_t flags) {
	CUresult r = CALL(cuGetProcAddress, symbol, pfn, version, flags);
	if (r == CUDA_SUCCESS && symbol && pfn && *pfn && !substitute(symbol, version, flags, pfn)) {
		*pfn = NULL;
		return CUDA_ERROR_NOT_FOUND;
	}
	return r;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status) {
	CUresult r = CALL(cuGetProcAddress_v2, symbol, pfn, version, flags, status);
	if (r == CUDA_SUCCESS && symbol && pfn && *pfn && !substitute(symbol, version, flags, pfn)) {
		*pfn = NULL;
		if (status)
			*status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
		return CUDA_ERROR_NOT_FOUND;
	}
	return r;
}
