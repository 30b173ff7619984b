//go:build ignore

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "mps.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

// lock guards what is below it. It is read without the lock once pid is set: from then on it does not change.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pid_t pid; // the process that is attached, as a client or to nothing; 0 before
static int connection = -1;
static struct sim_mps_limits limits = {.percent = 10000};

// Connects to a name that may be longer than a socket address can hold.
static int dial(const char *directory)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd, ret, saved, dir = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -1;
	snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/" SIM_MPS_SOCKET, dir);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ret = fd < 0 ? -1 : connect(fd, (struct sockaddr *)&address, sizeof address);
	saved = errno;
	close(dir);
	if (ret != 0 && fd >= 0)
		close(fd);
	errno = saved;
	return ret == 0 ? fd : -1;
}

static int read_line(int fd, char *line, size_t size)
{
	size_t n = 0;
	while (n + 1 < size) {
		ssize_t got = read(fd, line + n, 1);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return -1;
		if (line[n] == '\n') {
			line[n] = 0;
			return 0;
		}
		n++;
	}
	return -1;
}

static void lower(struct sim_mps_limits *own, const struct sim_mps_limits *daemon)
{
	if (daemon->percent < own->percent)
		own->percent = daemon->percent;
	for (unsigned i = 0; i < daemon->count; i++) {
		unsigned j;
		for (j = 0; j < own->count && strcmp(own->memory[j].device, daemon->memory[i].device) != 0; j++)
			;
		if (j == own->count) {
			if (own->count < SIM_MPS_MAX_LIMITS)
				own->memory[own->count++] = daemon->memory[i];
		} else if (daemon->memory[i].mib < own->memory[j].mib) {
			own->memory[j].mib = daemon->memory[i].mib;
		}
	}
}

// Reads "ok PERCENT DEVICE=MIB DEVICE=MIB..." or "error CODE". Returns 0 or the code.
static int read_answer(char *line, struct sim_mps_limits *out)
{
	char *save = NULL, *word = strtok_r(line, " ", &save);
	memset(out, 0, sizeof *out);
	if (word && strcmp(word, "error") == 0 && (word = strtok_r(NULL, " ", &save)))
		return atoi(word) ? atoi(word) : SIM_MPS_CONNECTION_FAILED;
	if (!word || strcmp(word, "ok") != 0 || !(word = strtok_r(NULL, " ", &save)) ||
	    sim_mps_parse_percent(word, &out->percent) != 0)
		return SIM_MPS_CONNECTION_FAILED;
	while ((word = strtok_r(NULL, " ", &save)))
		if (sim_mps_parse_list(word, out) != 0)
			return SIM_MPS_CONNECTION_FAILED;
	return 0;
}

static int own_limits(struct sim_mps_limits *out)
{
	const char *percent = getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
	const char *memory = getenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
	*out = (struct sim_mps_limits){.percent = 10000};
	if (percent && *percent && sim_mps_parse_percent(percent, &out->percent) != 0) {
		fprintf(stderr, "simulated CUDA driver: CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=%s: want a number above 0, up to 100\n", percent);
		return SIM_MPS_INVALID_VALUE;
	}
	if (memory && *memory && sim_mps_parse_list(memory, out) != 0) {
		fprintf(stderr, "simulated CUDA driver: CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=%s: want DEVICE=NUMBERG or DEVICE=NUMBERM, separated by commas\n", memory);
		return SIM_MPS_INVALID_VALUE;
	}
	return 0;
}

static int attach(void)
{
	const char *directory = getenv("CUDA_MPS_PIPE_DIRECTORY");
	static char line[8192];
	struct sim_mps_limits own, daemon;
	int fd, ret;

	if (!directory || !*directory)
		directory = SIM_MPS_DIRECTORY;
	fd = dial(directory);
	if (fd < 0) // no socket is no MPS; a socket that nobody answers is a daemon that has died
		return errno == ENOENT || errno == ENOTDIR ? 0 : SIM_MPS_CONNECTION_FAILED;
	ret = own_limits(&own);
	if (ret == 0 && (send(fd, "attach\n", 7, MSG_NOSIGNAL) != 7 || read_line(fd, line, sizeof line) != 0))
		ret = SIM_MPS_CONNECTION_FAILED;
	if (ret == 0)
		ret = read_answer(line, &daemon);
	if (ret != 0) {
		close(fd);
		return ret;
	}
	lower(&own, &daemon);
	limits = own;
	connection = fd;
	return 0;
}

int sim_mps_attach(void)
{
	int ret = 0;
	pthread_mutex_lock(&lock);
	if (pid != getpid()) {
		// A forked child has its parent's connection, which would keep the parent a client after its death.
		if (connection >= 0)
			close(connection);
		connection = -1;
		limits = (struct sim_mps_limits){.percent = 10000};
		ret = attach();
		if (ret == 0)
			pid = getpid();
	}
	pthread_mutex_unlock(&lock);
	return ret;
}

int sim_mps_client(void) { return connection >= 0; }

unsigned sim_mps_sms(unsigned total)
{
	unsigned long long sms = ((unsigned long long)total * limits.percent + 9999) / 10000;
	sms = (sms + SIM_MPS_UNIT - 1) / SIM_MPS_UNIT * SIM_MPS_UNIT;
	return sms < total ? (unsigned)sms : total;
}

unsigned long long sim_mps_memory_limit(unsigned device, const char *uuid)
{
	unsigned long long least = ~0ull;
	char number[16];
	snprintf(number, sizeof number, "%u", device);
	for (unsigned i = 0; i < limits.count; i++) {
		const struct sim_mps_limit *l = &limits.memory[i];
		if ((strcmp(l->device, number) == 0 || strcmp(l->device, uuid) == 0) && l->mib << 20 < least)
			least = l->mib << 20;
	}
	return least;
}

int sim_mps_check(void)
{
	char letter;
	ssize_t got;
	if (connection < 0)
		return 0;
	got = recv(connection, &letter, 1, MSG_DONTWAIT | MSG_PEEK); // it stays there: the error is for good
	if (got < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : SIM_MPS_RPC_FAILURE;
	if (got == 0)
		return SIM_MPS_RPC_FAILURE;
	return letter == 'F' ? SIM_MPS_LAUNCH_FAILED : SIM_MPS_CLIENT_TERMINATED;
}
