//go:build ignore

#define _GNU_SOURCE
#include "alive.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

uint64_t alive_key(unsigned pid)
{
	char path[40], text[1024], *p;
	long n;
	int fd;

	snprintf(path, sizeof path, "/proc/%u/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	if (fd >= 0)
		close(fd);
	if (n <= 0) // where /proc cannot be read, a process that takes signals is alive, but its start is unknown
		return kill((pid_t)pid, 0) == 0 || errno == EPERM ? (uint64_t)pid << KEY_START_BITS : 0;
	text[n] = 0;
	p = strrchr(text, ')'); // the name before it may hold anything
	if (!p || p[1] != ' ' || p[2] == 'Z' || p[2] == 'X')
		return 0;
	p += 2; // field 3, the state; the start is field 22
	for (int field = 3; field < 22; field++)
		if (!(p = strchr(p + 1, ' ')))
			return 0;
	return (uint64_t)pid << KEY_START_BITS | (strtoull(p, NULL, 10) & ((1ull << KEY_START_BITS) - 1));
}

uint64_t alive_own_key(void) { return alive_key((unsigned)getpid()); }

int alive(uint64_t key)
{
	uint64_t now = alive_key(KEY_PID(key));
	uint64_t start = (1ull << KEY_START_BITS) - 1;
	return now == key || (now && !(now & start));
}
