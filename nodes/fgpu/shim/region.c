//go:build ignore

// The two files of the slice: attaching to them, and claiming memory in them. ../abi/region.h says how claims work.
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { UNKNOWN = 0, ATTACHED = 1, REFUSED = 2 };
enum { TRIES = 64 };                    // of a claim; with the pauses about 50 ms
enum { DEAD = 64 };                     // dead processes remembered within one claim
#define OVERFLOW_UID 65534              // whom files of users outside our user namespace seem to belong to
#define START_MASK ((1ull << 42) - 1)

// Mapped once; a forked child keeps the mappings and takes its own slot.
static const struct fgpu_slice *slice;
static struct fgpu_usage *usage;

// ---- attaching ----

static const char *open_failed(int error) {
	return error == ENOENT ? "is missing" : error == EACCES ? "may not be read" : "cannot be opened";
}

// map_file maps a file of exactly this size, or says in *why what is wrong with it.
static void *map_file(const char *dir, const char *name, size_t size, bool writable, const char **why, uid_t *owner) {
	char path[4096 + 16];
	size_t n = strlen(dir);
	if (n > 4096)
		return *why = "its path is too long", NULL;
	memcpy(path, dir, n);
	path[n] = '/';
	strcpy(path + n + 1, name);
	int fd = open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return *why = open_failed(errno), NULL;
	struct stat st;
	void *p = NULL;
	// fstat is a function of glibc since 2.33 only; the system call is not.
	if (syscall(SYS_fstat, fd, &st) || !S_ISREG(st.st_mode))
		*why = "is not a file";
	else if ((uint64_t)st.st_size != size)
		*why = "has the wrong size";
	else {
		p = mmap(NULL, size, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
		if (p == MAP_FAILED)
			p = NULL, *why = "cannot be mapped";
		*owner = st.st_uid;
	}
	close(fd);
	return p;
}

static const char *check_slice(const struct fgpu_slice *s, uid_t owner) {
	if (memcmp(s->magic, FGPU_SLICE_MAGIC, 8))
		return "is not a slice file";
	if (s->version != FGPU_VERSION || s->size != sizeof *s)
		return "is of another version of Fairslice";
	if (owner != 0 && owner != OVERFLOW_UID && owner != s->owner)
		return "does not belong to noded";
	if (s->devices > FGPU_DEVICES)
		return "names too many devices";
	for (uint32_t d = 0; d < s->devices; d++)
		if (!memchr(s->device[d].uuid, 0, sizeof s->device[d].uuid))
			return "holds a broken name of a device";
	return NULL;
}

static const char *check_usage(const struct fgpu_usage *u) {
	if (memcmp(u->magic, FGPU_USAGE_MAGIC, 8))
		return "is not a usage file";
	if (u->version != FGPU_VERSION || u->size != sizeof *u)
		return "is of another version of Fairslice";
	return NULL;
}

// open_region returns NULL, or what is wrong; *file is the file's name.
static const char *open_region(const char **file) {
	const char *dir = FGPU_DIR, *why = NULL;
	if (access(dir, F_OK)) { // outside containers; inside, the environment has no say
		dir = getenv("FAIRSLICE_FGPU_DIR");
		*file = "the slice's directory (" FGPU_DIR " or $FAIRSLICE_FGPU_DIR)";
		if (!dir || !*dir)
			return "is missing";
	}
	uid_t owner = 0, any = 0;
	*file = "the slice's file slice";
	const struct fgpu_slice *s = map_file(dir, "slice", sizeof *s, false, &why, &owner);
	if (!s)
		return why;
	if (!(why = check_slice(s, owner))) {
		*file = "the slice's file usage";
		struct fgpu_usage *u = map_file(dir, "usage", sizeof *u, true, &why, &any);
		if (u && !(why = check_usage(u))) {
			usage = u;
			__atomic_store_n(&slice, s, __ATOMIC_RELEASE);
			return NULL;
		}
		if (u)
			munmap(u, sizeof *u);
	}
	munmap((void *)s, sizeof *s);
	return why;
}

// Not strtoull: it has another name in newer C libraries, which older ones lack.
static uint64_t number(const char *p) {
	uint64_t n = 0;
	for (; *p >= '0' && *p <= '9'; p++)
		n = n * 10 + (uint64_t)(*p - '0');
	return n;
}

// read_stat reads the state, number of threads and start time of a process. 0, or an errno.
static int read_stat(const char *path, char *state, uint64_t *threads, uint64_t *start) {
	char text[1024];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno;
	ssize_t n = read(fd, text, sizeof text - 1);
	int error = n < 0 ? errno : EIO;
	close(fd);
	if (n <= 0)
		return error;
	text[n] = 0;
	char *p = strrchr(text, ')'); // the name before it may hold anything
	if (!p || p[1] != ' ')
		return EIO;
	*state = p[2];
	p += 2;
	for (int field = 3; field < 22; field++) { // numbered as in proc(5)
		p = strchr(p, ' ');
		if (!p)
			return EIO;
		p++;
		if (field + 1 == 20)
			*threads = number(p);
	}
	*start = number(p);
	return 0;
}

static bool dead(uint64_t key) {
	char path[32] = "/proc/", digits[16], state = 0;
	uint64_t pid = key >> 42, threads = 0, start = 0;
	int n = 0;
	for (; pid || !n; pid /= 10)
		digits[n++] = (char)('0' + pid % 10);
	char *p = path + 6;
	while (n)
		*p++ = digits[--n];
	strcpy(p, "/stat");
	int error = read_stat(path, &state, &threads, &start);
	if (error)
		return error == ENOENT || error == ESRCH;
	// One whose first thread has ended is shown as a zombie while others run on.
	return (start & START_MASK) != (key & START_MASK) || state == 'X' || state == 'x' || (state == 'Z' && threads <= 1);
}

// own_slot finds the slot of this very process: we were another program before exec, and the driver took that one's memory back.
static struct fgpu_slot *own_slot(uint64_t key) {
	for (uint32_t i = 0; i < FGPU_SLOTS; i++)
		if (__atomic_load_n(&usage->slot[i].key, __ATOMIC_ACQUIRE) == key)
			return &usage->slot[i];
	return NULL;
}

static struct fgpu_slot *free_slot(uint64_t key) {
	for (uint32_t i = 0; i < FGPU_SLOTS; i++) {
		uint64_t none = 0;
		if (!__atomic_compare_exchange_n(&usage->slot[i].key, &none, key, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			continue;
		for (uint32_t used = __atomic_load_n(&usage->slots_used, __ATOMIC_RELAXED); used < i + 1;)
			__atomic_compare_exchange_n(&usage->slots_used, &used, i + 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
		return &usage->slot[i];
	}
	return NULL;
}

static struct fgpu_slot *take_slot(uint64_t key) {
	struct fgpu_slot *s = own_slot(key);
	if (!s && !(s = free_slot(key)))
		return NULL;
	__atomic_store_n(&s->claim, 0, __ATOMIC_SEQ_CST);
	for (int d = 0; d < FGPU_DEVICES; d++)
		__atomic_store_n(&s->used[d], 0, __ATOMIC_SEQ_CST);
	s->contexts[0] = s->contexts[1] = 0;
	return s;
}

static const char *attach(struct process *p, const char **file) {
	const char *why = NULL;
	if (!slice && (why = open_region(file)))
		return why;
	char state;
	uint64_t threads, start;
	*file = "/proc/self/stat";
	if (read_stat(*file, &state, &threads, &start))
		return "cannot be read";
	*file = "the slice's file usage";
	p->key = (uint64_t)syscall(SYS_getpid) << 42 | (start & START_MASK);
	p->slot = take_slot(p->key);
	return p->slot ? NULL : "has no slot left: the job has too many processes on its GPUs";
}

__attribute__((noinline)) static bool attach_once(struct process *p) {
	int saved = errno;
	lock(&p->attaching);
	if (p->state == UNKNOWN) {
		const char *file = "", *why = attach(p, &file);
		if (why) {
			char line[256] = "this process may not use a GPU: ";
			strncat(line, file, 100);
			strncat(line, " ", 2);
			strncat(line, why, 100);
			say(line, NULL);
		}
		__atomic_store_n(&p->state, why ? REFUSED : ATTACHED, __ATOMIC_RELEASE);
	}
	unlock(&p->attaching);
	errno = saved;
	return p->state == ATTACHED;
}

bool fenced(void) {
	struct process *p = process();
	if (UNLIKELY(!p))
		return false;
	uint32_t state = __atomic_load_n(&p->state, __ATOMIC_ACQUIRE);
	return LIKELY(state == ATTACHED) || (state == UNKNOWN && attach_once(p));
}

const struct fgpu_slice *slice_file(void) { return fenced() ? slice : NULL; }
unsigned devices(void) { return fenced() ? slice->devices : 0; }
const struct fgpu_device *device(unsigned d) { return &slice->device[d]; }
struct fgpu_counters *counters(unsigned d) { return &usage->counters[d]; }

// ---- sums ----

// What a tenant has scribbled must not overflow.
static uint64_t plus(uint64_t a, uint64_t b) { return a + b < a ? UINT64_MAX : a + b; }

struct sum {
	uint64_t all;     // of all slots
	uint64_t decided; // without those of others in which a claim is open
};

struct dead_list {
	uint64_t key[DEAD];
	int n;
};

static bool among(const struct dead_list *l, uint64_t key) {
	for (int i = 0; i < l->n; i++)
		if (l->key[i] == key)
			return true;
	return false;
}

static uint32_t slots_used(void) {
	uint32_t n = __atomic_load_n(&usage->slots_used, __ATOMIC_ACQUIRE);
	return n < FGPU_SLOTS ? n : FGPU_SLOTS;
}

static struct sum sum(unsigned d, const struct fgpu_slot *own, const struct dead_list *without) {
	struct sum s = { 0, 0 };
	for (uint32_t i = 0, n = slots_used(); i < n; i++) {
		struct fgpu_slot *o = &usage->slot[i];
		uint64_t key = __atomic_load_n(&o->key, __ATOMIC_ACQUIRE);
		if (o != own && (!key || among(without, key))) // our own counts whatever is written there
			continue;
		uint64_t open = __atomic_load_n(&o->claim, __ATOMIC_SEQ_CST);
		uint64_t used = __atomic_load_n(&o->used[d], __ATOMIC_SEQ_CST);
		open |= __atomic_load_n(&o->claim, __ATOMIC_SEQ_CST);
		s.all = plus(s.all, used);
		if (o == own || !(open >> d & 1))
			s.decided = plus(s.decided, used);
	}
	return s;
}

static void find_dead(unsigned d, const struct fgpu_slot *own, struct dead_list *l) {
	l->n = 0;
	for (uint32_t i = 0, n = slots_used(); i < n && l->n < DEAD; i++) {
		struct fgpu_slot *o = &usage->slot[i];
		uint64_t key = __atomic_load_n(&o->key, __ATOMIC_ACQUIRE);
		if (o != own && key && __atomic_load_n(&o->used[d], __ATOMIC_SEQ_CST) && dead(key))
			l->key[l->n++] = key;
	}
}

static uint64_t untracked(unsigned d) { return __atomic_load_n(&slice->device[d].untracked_bytes, __ATOMIC_ACQUIRE); }

static bool fits(unsigned d, uint64_t bytes) { return plus(bytes, untracked(d)) <= slice->device[d].limit_bytes; }

// Those who have ended are left out here, too: noded clears their slots only once a second.
uint64_t held(unsigned d) {
	struct dead_list without;
	find_dead(d, process()->slot, &without);
	return plus(sum(d, process()->slot, &without).all, untracked(d));
}

// ---- claims ----

static void subtract(uint64_t *from, uint64_t bytes) { // not below zero: the tenant may have written there
	uint64_t old = __atomic_load_n(from, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(from, &old, old > bytes ? old - bytes : 0, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		;
}

static void saw(unsigned d, uint64_t bytes) {
	uint64_t *peak = &usage->counters[d].peak_bytes, old = __atomic_load_n(peak, __ATOMIC_RELAXED);
	while (bytes > old && !__atomic_compare_exchange_n(peak, &old, bytes, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

// pause_random waits up to 2^attempt microseconds, at most 1 ms: two that saw each other's claim shall not meet again.
static void pause_random(int attempt, const void *salt) {
	uint64_t now = clock_now(), x = now ^ (uint64_t)(uintptr_t)salt * 0x9e3779b97f4a7c15;
	x ^= x >> 33;
	x *= 0xff51afd7ed558ccd;
	x ^= x >> 33;
	sleep_until(now + x % (1000ull << (attempt < 10 ? attempt : 10)));
}

bool claim(unsigned d, uint64_t bytes) {
	if (!fenced() || d >= slice->devices)
		return false;
	struct process *p = process();
	struct fgpu_slot *own = p->slot;
	if (!bytes)
		return true;
	struct dead_list without = { .n = 0 };
	int certain = 0; // refusals in a row that rest on nothing undecided
	for (int attempt = 0; attempt < TRIES && certain < 2; attempt++) {
		if (attempt) {
			if (!certain)
				pause_random(attempt, &own);
			find_dead(d, own, &without);
		}
		lock(&p->claiming);
		__atomic_fetch_or(&own->claim, 1ull << d, __ATOMIC_SEQ_CST);
		uint64_t before = __atomic_load_n(&own->used[d], __ATOMIC_SEQ_CST);
		bool possible = before + bytes >= before && bytes <= slice->device[d].limit_bytes;
		struct sum s = { UINT64_MAX, UINT64_MAX };
		if (possible) {
			__atomic_fetch_add(&own->used[d], bytes, __ATOMIC_SEQ_CST);
			s = sum(d, own, &without);
			if (!fits(d, s.all))
				subtract(&own->used[d], bytes);
		}
		__atomic_fetch_and(&own->claim, ~(1ull << d), __ATOMIC_SEQ_CST);
		unlock(&p->claiming);
		if (fits(d, s.all)) {
			saw(d, s.all);
			return true;
		}
		if (!possible)
			break;
		certain = attempt && !fits(d, s.decided) ? certain + 1 : 0;
	}
	__atomic_fetch_add(&usage->counters[d].denied, 1, __ATOMIC_RELAXED);
	return false;
}

void release(unsigned d, uint64_t bytes) {
	if (bytes && fenced() && d < slice->devices)
		subtract(&process()->slot->used[d], bytes);
}

void charge_unasked(unsigned d, uint64_t bytes) {
	if (bytes && fenced() && d < slice->devices)
		__atomic_fetch_add(&process()->slot->used[d], bytes, __ATOMIC_SEQ_CST);
}

void count_context(unsigned d, int change) {
	if (!fenced() || d >= slice->devices)
		return;
	uint64_t one = 1ull << (d % 8 * 8), *word = &process()->slot->contexts[d / 8];
	if (change > 0)
		__atomic_fetch_add(word, one, __ATOMIC_RELAXED);
	else
		__atomic_fetch_sub(word, one, __ATOMIC_RELAXED);
}

// ---- devices ----

int device_of(CUdevice ordinal) {
	static int8_t known[64]; // index + 1, -1: none
	if (!fenced())
		return NO_DEVICE;
	bool fits_cache = ordinal >= 0 && ordinal < 64;
	if (fits_cache && known[ordinal])
		return known[ordinal] > 0 ? known[ordinal] - 1 : NO_DEVICE;
	CUuuid u;
	CUresult r = REAL(cuDeviceGetUuid_v2) ? REAL(cuDeviceGetUuid_v2)(&u, ordinal) : CALL(cuDeviceGetUuid, &u, ordinal);
	if (r != CUDA_SUCCESS)
		return NO_DEVICE; // and ask again: the driver may not be initialised yet
	int found = NO_DEVICE;
	for (uint32_t d = 0; d < slice->devices; d++)
		if (same_uuid(slice->device[d].uuid, &u))
			found = (int)d;
	if (fits_cache)
		known[ordinal] = (int8_t)(found < 0 ? -1 : found + 1);
	return found;
}

int current_device(void) {
	CUdevice ordinal;
	if (CALL(cuCtxGetDevice, &ordinal) != CUDA_SUCCESS)
		return NO_CONTEXT;
	return device_of(ordinal);
}
