//go:build ignore

#define _GNU_SOURCE
#include "conf.h"

#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const sim_names[SIM_NAMES] = {
	[SIM_GPUS] = "FAIRSLICE_SIM_GPUS",   [SIM_NODE] = "FAIRSLICE_SIM_NODE",
	[SIM_STATE] = "FAIRSLICE_SIM_STATE", [SIM_MIG] = "FAIRSLICE_SIM_MIG",
	[SIM_CONTEXT] = "FAIRSLICE_SIM_CONTEXT", [SIM_BLOCK] = "FAIRSLICE_SIM_BLOCK",
	[SIM_CUDA] = "FAIRSLICE_SIM_CUDA",
};

// Digits only, at most nine of them. Returns -1 for anything else.
static long long digits(const char *s)
{
	long long n = 0;
	int count = 0;
	for (; *s >= '0' && *s <= '9'; s++) {
		if (++count > 9)
			return -1;
		n = n * 10 + (*s - '0');
	}
	return *s || !count ? -1 : n;
}

// Turns the texts of *c into its numbers. Returns which text is wrong, or SIM_NAMES.
static enum sim_name interpret(struct sim_conf *c, const char **why)
{
	long long n;
	c->context_bytes = 64ull << 20;
	c->block_ns = 100000;
	c->cuda = 13000;
	*why = "FAIRSLICE_SIM_GPUS must be COUNTxSIZE, such as 2x8GiB: at most 64 GPUs of 1MiB to 16384GiB";
	if (sim_parse_spec(c->value[SIM_GPUS], &c->spec) != 0)
		return SIM_GPUS;
	*why = "FAIRSLICE_SIM_CONTEXT must be 0, or a size such as 64MiB";
	if (*c->value[SIM_CONTEXT] && sim_parse_size(c->value[SIM_CONTEXT], &c->context_bytes) != 0)
		return SIM_CONTEXT;
	*why = "FAIRSLICE_SIM_BLOCK must be 1 to 999999999 nanoseconds";
	if (*c->value[SIM_BLOCK]) {
		if ((n = digits(c->value[SIM_BLOCK])) <= 0)
			return SIM_BLOCK;
		c->block_ns = (uint64_t)n;
	}
	*why = "FAIRSLICE_SIM_CUDA must be 1000*major + 10*minor, such as 13000 or 11030";
	if (*c->value[SIM_CUDA]) {
		if ((n = digits(c->value[SIM_CUDA])) < 9000 || n > 99990 || n % 10)
			return SIM_CUDA;
		c->cuda = (unsigned)n;
	}
	return SIM_NAMES;
}

// One line, without its end. Returns 0, or -1.
static int read_line(const char *line, unsigned long length, struct sim_conf *out, int *seen, int *which, const char **why)
{
	unsigned long name;
	*which = SIM_NAMES;
	*why = "only printable ASCII is allowed";
	for (unsigned long i = 0; i < length; i++)
		if (line[i] < 0x20 || line[i] > 0x7e)
			return -1;
	if (length == 0 || *line == '#')
		return 0;
	for (int n = 0; n < SIM_NAMES; n++) {
		name = strlen(sim_names[n]);
		if (length <= name || line[name] != '=' || memcmp(line, sim_names[n], name) != 0)
			continue;
		*why = "the name is there twice";
		if (seen[n]++)
			return -1;
		*why = "a value is 1 to 4095 characters";
		length -= name + 1;
		if (length == 0 || length >= SIM_VALUE_SIZE)
			return -1;
		memcpy(out->value[n], line + name + 1, length);
		*which = n;
		return 0;
	}
	*why = "want NAME=value with NAME one of FAIRSLICE_SIM_GPUS, _NODE, _STATE, _MIG, _CONTEXT, _BLOCK, _CUDA";
	return -1;
}

int sim_parse_conf(const char *text, unsigned long length, struct sim_conf *out, const char **why)
{
	int seen[SIM_NAMES] = {0}, line_of[SIM_NAMES] = {0}, which, line = 1;
	enum sim_name wrong;

	memset(out, 0, sizeof *out);
	*why = "the file is too long";
	if (length > SIM_CONF_SIZE)
		return 1;
	for (unsigned long at = 0; at < length; line++) {
		const char *end = memchr(text + at, '\n', length - at);
		unsigned long n = end ? (unsigned long)(end - text) - at : length - at;
		if (read_line(text + at, n, out, seen, &which, why) != 0)
			return line;
		if (which != SIM_NAMES)
			line_of[which] = line;
		at += n + 1;
	}
	wrong = interpret(out, why);
	if (wrong == SIM_NAMES && *out->value[SIM_STATE] && *out->value[SIM_STATE] != '/') {
		wrong = SIM_STATE;
		*why = "FAIRSLICE_SIM_STATE must be an absolute path";
	}
	if (wrong == SIM_NAMES)
		return 0;
	return line_of[wrong] ? line_of[wrong] : line;
}

static int from_environment(struct sim_conf *out, char why[256])
{
	const char *text;
	memset(out, 0, sizeof *out);
	for (int n = 0; n < SIM_NAMES; n++) {
		const char *value = getenv(sim_names[n]);
		if (!value)
			continue;
		if (strlen(value) >= SIM_VALUE_SIZE && n == SIM_GPUS)
			value = "too long"; // which is refused below, as any other that is no spec
		if (strlen(value) >= SIM_VALUE_SIZE) {
			snprintf(why, 256, "%s is too long", sim_names[n]);
			return -1;
		}
		strcpy(out->value[n], value);
	}
	if (interpret(out, &text) == SIM_NAMES)
		return 0;
	snprintf(why, 256, "%s", text);
	return -1;
}

int sim_load_conf(const char *directory, struct sim_conf *out, char why[256])
{
	char path[SIM_VALUE_SIZE + sizeof SIM_CONF_FILE + 1], *text;
	unsigned long length = 0;
	const char *reason = NULL;
	long n = 1;
	int fd, line;

	snprintf(path, sizeof path, "%s/%s", directory, SIM_CONF_FILE);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && access(path, F_OK) != 0)
		return from_environment(out, why);
	text = malloc(SIM_CONF_SIZE + 1); // one more, to see a file that is too long
	while (fd >= 0 && text && length <= SIM_CONF_SIZE && (n = read(fd, text + length, SIM_CONF_SIZE + 1 - length)) > 0)
		length += (unsigned long)n;
	if (fd < 0 || !text || n < 0) {
		snprintf(why, 256, "%s cannot be read", SIM_CONF_FILE);
		line = -1;
	} else if ((line = sim_parse_conf(text, length, out, &reason)) != 0) {
		snprintf(why, 256, "%s, line %d: %s", SIM_CONF_FILE, line, reason);
	}
	free(text);
	if (fd >= 0)
		close(fd);
	return line ? -1 : 0;
}

struct search {
	ElfW(Addr) address;
	char *out;
};

// Not dladdr: its symbol version would keep the library out of containers with an older glibc.
static int visit(struct dl_phdr_info *info, size_t size, void *data)
{
	struct search *s = data;
	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		ElfW(Addr) start = info->dlpi_addr + p->p_vaddr;
		if (p->p_type == PT_LOAD && s->address >= start && s->address < start + p->p_memsz) {
			snprintf(s->out, SIM_VALUE_SIZE, "%s", info->dlpi_name ? info->dlpi_name : "");
			return 1;
		}
	}
	return 0;
}

void sim_own_directory(char out[SIM_VALUE_SIZE])
{
	struct search s = {(ElfW(Addr))(uintptr_t)&sim_own_directory, out};
	char *slash;
	*out = 0;
	dl_iterate_phdr(visit, &s);
	if (!*out) { // the program itself has no name there
		long n = readlink("/proc/self/exe", out, SIM_VALUE_SIZE - 1);
		out[n > 0 ? n : 0] = 0;
	}
	slash = strrchr(out, '/');
	if (slash)
		*slash = 0;
	else
		strcpy(out, ".");
}
