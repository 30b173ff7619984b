//go:build ignore

#include "mps.h"

#include <stdio.h>
#include <string.h>

int sim_mps_parse_percent(const char *text, unsigned *hundredths)
{
	unsigned n = 0, digits = 0, decimals = 0;
	for (; *text >= '0' && *text <= '9'; text++) {
		if (++digits > 3)
			return -1;
		n = n * 10 + (unsigned)(*text - '0');
	}
	if (digits == 0)
		return -1;
	if (*text == '.') {
		for (text++; *text >= '0' && *text <= '9'; text++)
			if (++decimals <= 2) // what is smaller than the unit is cut off
				n = n * 10 + (unsigned)(*text - '0');
		if (decimals == 0 || decimals > 9)
			return -1;
	}
	for (; decimals < 2; decimals++)
		n *= 10;
	if (*text || n == 0 || n > 10000)
		return -1;
	*hundredths = n;
	return 0;
}

int sim_mps_parse_memory(const char *text, unsigned long long *mib)
{
	unsigned long long n = 0;
	unsigned digits = 0;
	for (; *text >= '0' && *text <= '9'; text++) {
		if (++digits > 9)
			return -1;
		n = n * 10 + (unsigned)(*text - '0');
	}
	if (digits == 0)
		return -1;
	if (strcmp(text, "G") == 0 || strcmp(text, "GB") == 0)
		n *= 1024;
	else if (strcmp(text, "M") != 0 && strcmp(text, "MB") != 0)
		return -1;
	*mib = n;
	return 0;
}

int sim_mps_set_memory(struct sim_mps_limits *l, const char *device, const char *value)
{
	unsigned long long mib;
	unsigned i;
	if (!*device || strlen(device) >= sizeof l->memory[0].device || sim_mps_parse_memory(value, &mib) != 0)
		return -1;
	for (i = 0; i < l->count && strcmp(l->memory[i].device, device) != 0; i++)
		;
	if (i == SIM_MPS_MAX_LIMITS)
		return -1;
	if (i == l->count)
		l->count++;
	strcpy(l->memory[i].device, device);
	l->memory[i].mib = mib;
	return 0;
}

int sim_mps_parse_list(const char *text, struct sim_mps_limits *l)
{
	struct sim_mps_limits sum = *l;
	for (;;) {
		char device[48], value[16];
		size_t n = strcspn(text, "=,");
		if (text[n] != '=' || n >= sizeof device)
			return -1;
		memcpy(device, text, n);
		device[n] = 0;
		text += n + 1;
		n = strcspn(text, ",");
		if (n >= sizeof value)
			return -1;
		memcpy(value, text, n);
		value[n] = 0;
		if (sim_mps_set_memory(&sum, device, value) != 0)
			return -1;
		text += n;
		if (!*text)
			break;
		text++;
	}
	*l = sum;
	return 0;
}
