//go:build ignore

#include "mig.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

// Takes digits from the front of *text, at most four, so that nothing overflows before its range is checked.
static int number(const char **text, unsigned *out)
{
	unsigned n = 0, digits = 0;
	for (; **text >= '0' && **text <= '9'; (*text)++) {
		if (++digits > 4)
			return -1;
		n = n * 10 + (unsigned)(**text - '0');
	}
	*out = n;
	return digits ? 0 : -1;
}

static int word(const char **text, const char *want)
{
	size_t n = strlen(want);
	if (strncmp(*text, want, n) != 0)
		return -1;
	*text += n;
	return 0;
}

struct profile {
	unsigned compute, slices, gib; // compute is 0 where the profile names none: all of the slices
};

static int read_profile(const char **text, struct profile *p)
{
	unsigned n;
	p->compute = 0;
	if (number(text, &n))
		return -1;
	if (!word(text, "c.")) {
		if (n == 0)
			return -1;
		p->compute = n;
		if (number(text, &n))
			return -1;
	}
	p->slices = n;
	if (word(text, "g.") || number(text, &p->gib) || word(text, "gb"))
		return -1;
	if (p->slices == 0 || p->slices > SIM_MIG_SLICES || p->gib == 0 || p->compute > p->slices)
		return -1;
	return 0;
}

// What is left of the GPU that is being divided, and of its newest GPU instance.
struct room {
	unsigned slices, gpu_instances, instances;
	unsigned long long bytes;
	struct profile open;            // compute is what is left of it; slices 0: none is open
	unsigned open_compute_instances;
};

static int add(struct sim_mig *out, struct room *room, unsigned gpu, const struct profile *p, const char *node)
{
	struct sim_instance *it;
	char seed[512];
	unsigned compute = p->compute ? p->compute : p->slices;

	if (!p->compute || room->open.slices != p->slices || room->open.gib != p->gib || room->open.compute < compute) {
		unsigned long long bytes = (unsigned long long)p->gib << 30;
		if (p->slices > room->slices || bytes > room->bytes)
			return -1;
		room->slices -= p->slices;
		room->bytes -= bytes;
		room->gpu_instances++;
		room->open_compute_instances = 0;
		room->open = *p;
		room->open.compute = p->slices;
	}
	room->open.compute -= compute;
	if (out->count == SIM_MIG_MAX_INSTANCES)
		return -1;
	it = &out->instance[out->count++];
	it->gpu = gpu;
	it->index = room->instances++;
	it->gpu_instance = room->gpu_instances;
	it->compute_instance = room->open_compute_instances++;
	it->gpu_slices = p->slices;
	it->compute_slices = compute;
	it->sms = compute * SIM_MIG_SLICE_SMS;
	it->bytes = (unsigned long long)p->gib << 30;
	// A compute instance that fills its GPU instance is named like it.
	if (compute == p->slices)
		snprintf(it->profile, sizeof it->profile, "%ug.%ugb", p->slices, p->gib);
	else
		snprintf(it->profile, sizeof it->profile, "%uc.%ug.%ugb", compute, p->slices, p->gib);
	// A node name may be long; what is cut off it, sim_uuid of the GPU still knows.
	sim_uuid(node, gpu, it->uuid);
	snprintf(seed, sizeof seed, "%s/%u/%u/%.400s", it->uuid, it->gpu_instance, it->compute_instance, node);
	sim_uuid(seed, gpu, it->uuid);
	memcpy(it->uuid, "MIG-", 4);
	return 0;
}

static int read_gpu(const char **text, const struct sim_spec *spec, const char *node, struct sim_mig *out)
{
	struct room room = {.slices = SIM_MIG_SLICES, .bytes = spec->bytes};
	struct profile p;
	unsigned gpu, times;

	if (number(text, &gpu) || word(text, ":") || gpu >= spec->count || out->enabled[gpu])
		return -1;
	out->enabled[gpu] = 1;
	if (!**text || **text == ';')
		return 0;
	do {
		if (read_profile(text, &p))
			return -1;
		times = 1;
		if (!word(text, "*") && (number(text, &times) || times == 0))
			return -1;
		while (times--)
			if (add(out, &room, gpu, &p, node))
				return -1;
	} while (!word(text, ","));
	return 0;
}

int sim_parse_mig(const char *text, const struct sim_spec *spec, const char *node, struct sim_mig *out)
{
	memset(out, 0, sizeof *out);
	if (!text || !*text)
		return 0;
	do {
		if (read_gpu(&text, spec, node, out))
			return -1;
	} while (!word(&text, ";"));
	return *text ? -1 : 0;
}

const struct sim_instance *sim_mig_instance(const struct sim_mig *mig, unsigned gpu, unsigned index)
{
	for (unsigned i = 0; i < mig->count; i++)
		if (mig->instance[i].gpu == gpu && mig->instance[i].index == index)
			return &mig->instance[i];
	return NULL;
}

const struct sim_instance *sim_mig_find(const struct sim_mig *mig, const char *uuid)
{
	for (unsigned i = 0; i < mig->count; i++)
		if (strcmp(mig->instance[i].uuid, uuid) == 0)
			return &mig->instance[i];
	return NULL;
}
