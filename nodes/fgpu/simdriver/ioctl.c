//go:build ignore

// sim-ioctl ALLOC_BYTES SECONDS: a program that holds memory of the node's simulated GPU 0 without any CUDA library, as
// one could that is linked statically against the driver's system calls. No library can stand in front of it; a
// watchdog has to see it in NVML.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf.h"
#include "ledger.h"

// The hardware of the container, or of where this program lies, or of the environment.
static int find_conf(struct sim_conf *conf, char why[256])
{
	static char own[SIM_VALUE_SIZE];
	if (access("/.singularity.d/libs/" SIM_CONF_FILE, F_OK) == 0)
		return sim_load_conf("/.singularity.d/libs", conf, why);
	sim_own_directory(own);
	return sim_load_conf(own, conf, why);
}

static int number(const char *text, unsigned long long *out)
{
	char *end;
	*out = strtoull(text, &end, 10);
	return *text >= '0' && *text <= '9' && !*end ? 0 : -1;
}

int main(int argc, char **argv)
{
	static struct sim_conf conf;
	struct ledger_limits limits = {0, ~0ull, ~0ull, 0};
	struct ledger_slot *slot;
	unsigned long long bytes, seconds;
	char why[256] = "";

	if (argc != 3 || number(argv[1], &bytes) != 0 || number(argv[2], &seconds) != 0 || seconds > 86400) {
		fprintf(stderr, "usage: sim-ioctl ALLOC_BYTES SECONDS (holds simulated GPU memory; at most 86400 seconds)\n");
		return 2;
	}
	if (find_conf(&conf, why) != 0 || ledger_open(conf.value[SIM_STATE], conf.spec.count, why) != 0) {
		fprintf(stderr, "sim-ioctl: %s\n", why);
		return 1;
	}
	if (conf.spec.count == 0 || !(slot = ledger_attach(0))) {
		fprintf(stderr, "sim-ioctl: no simulated GPU 0, or too many processes on it\n");
		return 1;
	}
	limits.total = conf.spec.bytes;
	limits.key = slot->key;
	if (ledger_charge(0, slot, bytes, &limits) != 0) {
		fprintf(stderr, "sim-ioctl: out of memory: %llu bytes do not fit on simulated GPU 0\n", bytes);
		return 1;
	}
	printf("holding %llu bytes of simulated GPU 0\n", bytes);
	fflush(stdout);
	sleep((unsigned)seconds);
	return 0;
}
