// Reads NUL-terminated texts from stdin and prints, for each, the instances of a node of 4 GPUs of 16 GiB, or "no".
// It also holds that no two instances have the same UUID.
#include "../mig.h"

#include <stdio.h>
#include <string.h>

static void answer(const char *text)
{
	static struct sim_mig mig;
	struct sim_spec spec = {.count = 4, .bytes = 16ULL << 30};
	if (sim_parse_mig(text, &spec, "n1", &mig) != 0) {
		printf("no\n");
		return;
	}
	for (unsigned i = 0; i < spec.count; i++)
		printf("%u", mig.enabled[i]);
	for (unsigned i = 0; i < mig.count; i++) {
		const struct sim_instance *it = &mig.instance[i];
		printf(" %u/%u/%u:%s:%u:%llu", it->gpu, it->gpu_instance, it->compute_instance, it->profile, it->sms, it->bytes >> 30);
		if (sim_mig_find(&mig, it->uuid) != it || strlen(it->uuid) != 40)
			printf(" bad-uuid:%s", it->uuid);
		if (sim_mig_instance(&mig, it->gpu, it->index) != it)
			printf(" bad-index:%u", it->index);
	}
	printf("\n");
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
