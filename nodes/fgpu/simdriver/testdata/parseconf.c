// Reads NUL-terminated texts of simulated.conf from stdin and prints, for each, "ok" and the values, or "no LINE".
#include "../conf.h"

#include <stdio.h>

int main(void)
{
	static char text[2 * SIM_CONF_SIZE];
	static struct sim_conf conf;
	const char *why;
	unsigned long n = 0;
	for (int c; (c = getchar()) != EOF;) {
		if (c) {
			if (n < sizeof text)
				text[n++] = (char)c;
			continue;
		}
		int line = sim_parse_conf(text, n, &conf, &why);
		n = 0;
		if (line) {
			printf("no %d\n", line);
			continue;
		}
		printf("ok");
		for (int i = 0; i < SIM_NAMES; i++)
			printf("|%s", conf.value[i]);
		printf("|%llu|%llu|%u\n", (unsigned long long)conf.context_bytes, (unsigned long long)conf.block_ns, conf.cuda);
	}
	return 0;
}
