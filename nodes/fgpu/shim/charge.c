//go:build ignore

// Claim, call the driver, keep the charge or give it back: the steps of every allocation.
#include "shim.h"

uint64_t round_up(uint64_t n, uint64_t to) { return n > UINT64_MAX - to ? UINT64_MAX : (n + to - 1) / to * to; }

uint64_t times(uint64_t a, uint64_t b) {
	uint64_t product;
	return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

bool charge_begin_on(struct charge *c, int device, uint64_t bytes) {
	c->device = device;
	c->bytes = 0;
	if (!fenced() || device == NO_DEVICE)
		return false;
	if (device == NO_CONTEXT)
		return true;
	if (!claim((unsigned)device, bytes))
		return false;
	c->bytes = bytes;
	return true;
}

bool charge_begin(struct charge *c, uint64_t bytes) {
	return charge_begin_on(c, fenced() ? current_device() : NO_DEVICE, bytes);
}

bool charge_settle(struct charge *c, uint64_t bytes) {
	if (c->device < 0)
		return true;
	if (bytes > c->bytes && !claim((unsigned)c->device, bytes - c->bytes))
		return false;
	if (bytes < c->bytes)
		release((unsigned)c->device, c->bytes - bytes);
	c->bytes = bytes;
	return true;
}

void charge_cancel(struct charge *c) {
	if (c->device >= 0)
		release((unsigned)c->device, c->bytes);
	c->bytes = 0;
}

bool charge_keep(struct charge *c, enum held_kind kind, uint64_t key) {
	if (c->device < 0)
		return true;
	CUcontext context = NULL;
	if (kind == LINEAR || kind == ARRAY || kind == MIPMAP)
		CALL(cuCtxGetCurrent, &context);
	struct entry e = { .key = key, .bytes = c->bytes, .context = (uint64_t)(uintptr_t)context, .kind = kind, .device = (uint32_t)c->device };
	return entries_put(&e);
}
