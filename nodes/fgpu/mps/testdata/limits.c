// Reads NUL-terminated texts from stdin. The first letter says as what: % a share, M a memory size, L a list of limits.
// Prints what was read, or "no".
#include <stdio.h>
#include <string.h>

#include "../../simdriver/mps.h"

static void answer(const char *text)
{
	struct sim_mps_limits l = {0};
	unsigned percent = 0;
	unsigned long long mib = 0;
	if (*text == '%' && sim_mps_parse_percent(text + 1, &percent) == 0) {
		printf("%u\n", percent);
	} else if (*text == 'M' && sim_mps_parse_memory(text + 1, &mib) == 0) {
		printf("%llu\n", mib);
	} else if (*text == 'L' && sim_mps_parse_list(text + 1, &l) == 0) {
		for (unsigned i = 0; i < l.count; i++)
			printf("%s%s=%llu", i ? " " : "", l.memory[i].device, l.memory[i].mib);
		printf("\n");
	} else {
		printf("no\n");
		if (percent || mib || l.count)
			printf("touched\n");
	}
}

int main(void)
{
	static char text[1 << 16];
	size_t n = 0;
	for (int c; (c = getchar()) != EOF;) {
		if (n < sizeof text)
			text[n++] = (char)c;
		if (c)
			continue;
		n = 0;
		answer(text);
	}
	return 0;
}
