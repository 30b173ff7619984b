//go:build ignore

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "memory_limits.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h> // fchmod
#include <sys/vfs.h>
#include <unistd.h>

#include "ledger.h"

#define CGROUP2_MAGIC 0x63677270
#define LINE_SIZE (PATH_MAX + 80)

struct line {
	unsigned gpu;
	unsigned long long soft, hard;
	const char *path;
};

// Splits a line of the file in place. Returns 0, or -1 for one that is not ours.
static int split(char *text, struct line *l)
{
	int at = 0;
	text[strcspn(text, "\n")] = 0;
	if (sscanf(text, "%u %llu %llu %n", &l->gpu, &l->soft, &l->hard, &at) != 3 || !at || text[at] != '/')
		return -1;
	l->path = text + at;
	return 0;
}

static FILE *open_file(const char *state, const char *suffix, const char *mode)
{
	char path[PATH_MAX];
	if (!state || !*state || snprintf(path, sizeof path, "%s/" SIM_LIMITS_FILE "%s", state, suffix) >= (int)sizeof path)
		return NULL;
	return fopen(path, mode);
}

// Everyone who writes the file, or decides by it, has this lock.
static int lock_file(const char *state)
{
	char path[PATH_MAX];
	int fd;
	if (snprintf(path, sizeof path, "%s/" SIM_LIMITS_FILE ".lock", state) >= (int)sizeof path)
		return -1;
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0)
		return -1;
	(void)fchmod(fd, 0666); // jobs of every user take it; it fails for those who did not make it
	while (flock(fd, LOCK_EX) != 0)
		if (errno != EINTR) {
			close(fd);
			return -1;
		}
	return fd;
}

// The path of a group from the root of cgroup v2: what is below the mount.
static int group_path(const char *group, char out[PATH_MAX])
{
	char real[PATH_MAX], above[PATH_MAX];
	struct statfs fs;
	size_t root;
	int dir;

	if (!realpath(group, real) || strchr(real, '\n') || (dir = open(real, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
		return -1;
	root = fstatfs(dir, &fs) == 0 && fs.f_type == CGROUP2_MAGIC;
	close(dir);
	if (!root)
		return -1;
	strcpy(above, real);
	for (root = strlen(real); root > 1; root = strlen(above)) {
		char *slash = strrchr(above, '/');
		slash[slash == above] = 0;
		if (statfs(above, &fs) != 0)
			return -1;
		if (fs.f_type != CGROUP2_MAGIC)
			break;
	}
	strcpy(out, real[root] ? real + root : "/");
	return 0;
}

// The path of a process's group, likewise. "self" is a process, too.
static int process_group(const char *process, char out[PATH_MAX])
{
	char path[64], line[LINE_SIZE];
	int found = -1;
	FILE *f;
	snprintf(path, sizeof path, "/proc/%s/cgroup", process);
	if (!(f = fopen(path, "re")))
		return -1;
	while (found && fgets(line, sizeof line, f))
		if (strncmp(line, "0::/", 4) == 0 && strlen(line + 3) < PATH_MAX) {
			line[strcspn(line, "\n")] = 0;
			strcpy(out, line + 3);
			found = 0;
		}
	fclose(f);
	return found;
}

static int is_within(const char *path, const char *group)
{
	size_t n = strlen(group);
	if (n == 1) // "/"
		return 1;
	return strncmp(path, group, n) == 0 && (!path[n] || path[n] == '/');
}

static uint64_t used_by(unsigned gpu, const char *group)
{
	struct ledger_process list[LEDGER_MAX_PROCESSES];
	unsigned n = ledger_processes(gpu, list, LEDGER_MAX_PROCESSES, 0);
	uint64_t sum = 0;
	for (unsigned i = 0; i < n; i++) {
		char pid[16], path[PATH_MAX];
		snprintf(pid, sizeof pid, "%u", list[i].pid);
		if (process_group(pid, path) == 0 && is_within(path, group))
			sum += list[i].bytes;
	}
	return sum;
}

int sim_limits_set(const char *state, unsigned gpu, const char *group, uint64_t soft, uint64_t hard)
{
	char path[PATH_MAX], line[LINE_SIZE], copy[LINE_SIZE], from[PATH_MAX], to[PATH_MAX];
	FILE *old = open_file(state, "", "re"), *new;
	struct line l;
	int lock, ret = SIM_LIMITS_FAILED;

	if (!old)
		return SIM_LIMITS_UNSUPPORTED;
	fclose(old);
	if (group_path(group, path) != 0)
		return SIM_LIMITS_NO_GROUP;
	if ((lock = lock_file(state)) < 0)
		return SIM_LIMITS_FAILED;
	old = open_file(state, "", "re");
	new = open_file(state, ".new", "we");
	if (old && new) {
		while (fgets(line, sizeof line, old)) {
			strcpy(copy, line);
			if (split(copy, &l) == 0 && (l.gpu != gpu || strcmp(l.path, path) != 0))
				fputs(line, new);
		}
		if (soft != 0 || hard != SIM_NO_LIMIT)
			fprintf(new, "%u %llu %llu %s\n", gpu, (unsigned long long)soft, (unsigned long long)hard, path);
	}
	if (old)
		fclose(old);
	if (new && fclose(new) == 0 && old && snprintf(from, sizeof from, "%s/" SIM_LIMITS_FILE ".new", state) < (int)sizeof from &&
	    snprintf(to, sizeof to, "%s/" SIM_LIMITS_FILE, state) < (int)sizeof to && rename(from, to) == 0)
		ret = 0;
	close(lock);
	return ret;
}

int sim_limits_get(const char *state, unsigned gpu, const char *group, struct sim_limits *out)
{
	char path[PATH_MAX], text[LINE_SIZE];
	FILE *f = open_file(state, "", "re");
	struct line l;
	int ret = SIM_LIMITS_NOT_FOUND;
	if (!f)
		return SIM_LIMITS_UNSUPPORTED;
	if (group_path(group, path) != 0)
		ret = SIM_LIMITS_NO_GROUP;
	while (ret == SIM_LIMITS_NOT_FOUND && fgets(text, sizeof text, f))
		if (split(text, &l) == 0 && l.gpu == gpu && strcmp(l.path, path) == 0) {
			*out = (struct sim_limits){l.soft, l.hard, used_by(gpu, path)};
			ret = 0;
		}
	fclose(f);
	return ret;
}

// The limit that holds for a path: that of the longest group it is within. Returns whether there is one.
static int nearest(FILE *f, unsigned gpu, const char *path, char group[PATH_MAX], uint64_t *hard)
{
	char text[LINE_SIZE];
	struct line l;
	size_t best = 0;
	while (fgets(text, sizeof text, f))
		if (split(text, &l) == 0 && l.gpu == gpu && is_within(path, l.path) && strlen(l.path) > best) {
			best = strlen(l.path);
			strcpy(group, l.path);
			*hard = l.hard;
		}
	return best > 0;
}

int sim_limits_enter(const char *state, unsigned gpu, uint64_t bytes, struct sim_limits_lock *lock)
{
	char path[PATH_MAX], group[PATH_MAX];
	uint64_t hard = SIM_NO_LIMIT, used;
	FILE *f = open_file(state, "", "re");
	lock->fd = -1;
	if (!f)
		return 0;
	fclose(f);
	if (process_group("self", path) != 0)
		return 0; // not a machine with cgroup v2: no group of it can have a limit
	lock->fd = lock_file(state);
	if (lock->fd < 0)
		return -1;
	if ((f = open_file(state, "", "re"))) {
		if (!nearest(f, gpu, path, group, &hard))
			hard = SIM_NO_LIMIT;
		fclose(f);
	}
	if (hard != SIM_NO_LIMIT) {
		used = used_by(gpu, group);
		if (used > hard || bytes > hard - used) {
			sim_limits_leave(lock);
			return -1;
		}
	} else {
		sim_limits_leave(lock);
	}
	return 0;
}

void sim_limits_leave(struct sim_limits_lock *lock)
{
	if (lock->fd >= 0)
		close(lock->fd);
	lock->fd = -1;
}
