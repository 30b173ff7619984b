// Makes the two files of a slice in a directory, for tests: region DIR UUID LIMIT CONTEXT SHARE PHASE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../abi/region.h"

static int put(const char *dir, const char *name, const void *content, size_t size) {
	char path[4096];
	snprintf(path, sizeof path, "%s/%s", dir, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	if (fd < 0 || write(fd, content, size) != (ssize_t)size || close(fd)) {
		perror(path);
		return 1;
	}
	return 0;
}

int main(int argc, char **argv) {
	static struct fgpu_slice s;
	static struct fgpu_usage u;
	if (argc != 7)
		return fprintf(stderr, "usage: region DIR UUID LIMIT CONTEXT SHARE PHASE\n"), 2;
	memcpy(s.magic, FGPU_SLICE_MAGIC, 8);
	s.version = FGPU_VERSION;
	s.size = sizeof s;
	s.devices = 1;
	s.frame_us = 100000;
	s.owner = getuid();
	strncpy(s.device[0].uuid, argv[2], sizeof s.device[0].uuid - 1);
	s.device[0].limit_bytes = strtoull(argv[3], NULL, 10);
	s.device[0].physical_bytes = 8ull << 30;
	s.device[0].context_bytes = strtoull(argv[4], NULL, 10);
	s.device[0].share = s.device[0].open = (uint32_t)strtoul(argv[5], NULL, 10);
	s.device[0].phase = (uint32_t)strtoul(argv[6], NULL, 10);
	s.device[0].mode = 1;
	memcpy(u.magic, FGPU_USAGE_MAGIC, 8);
	u.version = FGPU_VERSION;
	u.size = sizeof u;
	return put(argv[1], "usage", &u, sizeof u) || put(argv[1], "slice", &s, sizeof s);
}
