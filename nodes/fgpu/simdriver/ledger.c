//go:build ignore

#include "ledger.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define PATH_SIZE 4096

static char state_dir[PATH_SIZE - 32]; // room for the file's name

int ledger_open(const char *directory)
{
	if (!directory)
		directory = "";
	if (strlen(directory) >= sizeof state_dir)
		return -1;
	strcpy(state_dir, directory);
	return 0;
}

static const char *file(unsigned gpu, const char *suffix, char path[PATH_SIZE])
{
	snprintf(path, PATH_SIZE, "%s/gpu%u%s", state_dir, gpu, suffix);
	return path;
}

int ledger_lost(unsigned gpu)
{
	char path[PATH_SIZE];
	return *state_dir && access(file(gpu, ".lost", path), F_OK) == 0;
}

unsigned ledger_processes(unsigned gpu, struct ledger_process *out, unsigned max)
{
	char path[PATH_SIZE], line[128];
	struct ledger_process p;
	unsigned n = 0;
	FILE *f;

	if (!*state_dir || !(f = fopen(file(gpu, "", path), "re")))
		return 0;
	while (n < max && fgets(line, sizeof line, f)) {
		// A line that is not ours is skipped: the reader of a ledger must never fail its caller.
		if (sscanf(line, "%u %llu %u", &p.pid, &p.bytes, &p.sm_percent) != 3 || !p.pid)
			continue;
		if (kill((pid_t)p.pid, 0) != 0 && errno == ESRCH)
			continue;
		if (p.sm_percent > 100)
			p.sm_percent = 100;
		out[n++] = p;
	}
	fclose(f);
	return n;
}
