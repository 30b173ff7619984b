// A client of MPS as the simulated driver is one. It attaches, prints "RESULT CLIENT SMS LIMIT", and then, for each line
// from stdin, what sim_mps_check says. Arguments: number and UUID of its device. SMS are of 100, LIMIT is in MiB.
#include <stdio.h>
#include <stdlib.h>

#include "../../simdriver/mps.h"

int main(int argc, char **argv)
{
	char line[16];
	int result;
	if (argc != 3)
		return 2;
	result = sim_mps_attach();
	printf("%d %d %u %lld\n", result, sim_mps_client(), sim_mps_sms(100),
	       (long long)sim_mps_memory_limit((unsigned)atoi(argv[1]), argv[2]) >> 20);
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		printf("%d\n", sim_mps_check());
		fflush(stdout);
	}
	return 0;
}
