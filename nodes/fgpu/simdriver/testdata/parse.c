// Reads NUL-terminated texts from stdin and prints, for each, "COUNT BYTES" or "no".
#include "../spec.h"

#include <stdio.h>

int main(void)
{
	static char text[1 << 16];
	struct sim_spec spec;
	size_t n = 0;
	for (int c; (c = getchar()) != EOF;) {
		if (n < sizeof text)
			text[n++] = (char)c;
		if (c)
			continue;
		n = 0;
		if (sim_parse_spec(text, &spec) == 0)
			printf("%u %llu\n", spec.count, spec.bytes);
		else
			printf("no\n");
	}
	return 0;
}
