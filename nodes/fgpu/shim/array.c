//go:build ignore

// Arrays, plain and mipmapped. What one takes is known only once it is made, because the driver chooses the tiles. So an
// estimate is claimed first, and corrected to what cuArrayGetMemoryRequirements says.
#include "shim.h"

enum { BLOCK = 64 << 10 };

// element_bits by the driver's number of the format; of one that is not here, the most that any has.
static uint64_t element_bits(unsigned format, unsigned channels) {
	uint64_t bits;
	switch (format) {
	case 0x01: case 0x08: case 0xc0: case 0xc3: // 8 bit integers, also normalised
	case 0xc1: case 0xc2: case 0xc4: case 0xc5:
		bits = 8;
		break;
	case 0x02: case 0x09: case 0x10: // 16 bits
	case 0xc6: case 0xc7: case 0xc8: case 0xc9: case 0xca: case 0xcb:
		bits = 16;
		break;
	case 0x03: case 0x0a: case 0x20:
		bits = 32;
		break;
	default:
		return 128;
	}
	return bits * (channels ? channels : 1);
}

// The bytes of one level with rows padded to `row` bytes and, where there are several, to a multiple of 8 of them: the tiles of the drivers seen.
static uint64_t level(uint64_t bits, uint64_t w, uint64_t h, uint64_t d, uint64_t row) {
	uint64_t line = round_up(round_up(times(w ? w : 1, bits), 8) / 8, row);
	return times(times(line, h > 1 ? round_up(h, 8) : 1), d ? d : 1);
}

static uint64_t plus(uint64_t a, uint64_t b) { return a + b < a ? UINT64_MAX : a + b; }

static bool begin(struct charge *c, const CUDA_ARRAY3D_DESCRIPTOR *a, unsigned levels) {
	if (!a || a->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)) // memory comes by cuMemCreate
		return charge_begin(c, 0);
	uint64_t bits = element_bits(a->Format, a->NumChannels), low = 0, high = 0;
	uint64_t w = a->Width, h = a->Height, d = a->Depth;
	bool layered = a->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
	for (unsigned i = 0; i < levels && i < 64; i++) {
		low = plus(low, level(bits, w, h, d, 64));
		high = plus(high, level(bits, w, h, d, 512));
		w = w > 1 ? w / 2 : w;
		h = h > 1 ? h / 2 : h;
		d = d > 1 && !layered ? d / 2 : d;
	}
	return charge_begin(c, round_up(high, BLOCK)) || charge_begin(c, round_up(low, BLOCK)); // the second: near the limit
}

// Exact where the driver can say (CUDA 11.6), else the estimate stays.
static bool settle(struct charge *c, CUresult asked, const CUDA_ARRAY_MEMORY_REQUIREMENTS *needs) {
	return asked != CUDA_SUCCESS || !needs->size || !c->bytes || charge_settle(c, needs->size);
}

static CUresult array(struct charge *c, CUresult r, CUarray *a) {
	if (r != CUDA_SUCCESS) {
		charge_cancel(c);
		return r;
	}
	CUdevice ordinal = 0;
	CUDA_ARRAY_MEMORY_REQUIREMENTS needs = { .size = 0 };
	CALL(cuCtxGetDevice, &ordinal);
	if (settle(c, CALL(cuArrayGetMemoryRequirements, &needs, *a, ordinal), &needs) && charge_keep(c, ARRAY, (uint64_t)(uintptr_t)*a))
		return r;
	CALL(cuArrayDestroy, *a);
	charge_cancel(c);
	*a = NULL;
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuArrayCreate_v2(CUarray *a, const CUDA_ARRAY_DESCRIPTOR *description) {
	struct charge c;
	CUDA_ARRAY3D_DESCRIPTOR d = { .Width = 0 };
	if (description)
		d = (CUDA_ARRAY3D_DESCRIPTOR){ .Width = description->Width, .Height = description->Height, .Format = description->Format, .NumChannels = description->NumChannels };
	if (!begin(&c, description ? &d : NULL, 1))
		return CUDA_ERROR_OUT_OF_MEMORY;
	return array(&c, CALL(cuArrayCreate_v2, a, description), a);
}

CUresult cuArrayCreate(CUarray *a, const CUDA_ARRAY_DESCRIPTOR_v1 *description) {
	struct charge c;
	CUDA_ARRAY3D_DESCRIPTOR d = { .Width = 0 };
	if (description)
		d = (CUDA_ARRAY3D_DESCRIPTOR){ .Width = description->Width, .Height = description->Height, .Format = description->Format, .NumChannels = description->NumChannels };
	if (!begin(&c, description ? &d : NULL, 1))
		return CUDA_ERROR_OUT_OF_MEMORY;
	return array(&c, CALL(cuArrayCreate, a, description), a);
}

CUresult cuArray3DCreate_v2(CUarray *a, const CUDA_ARRAY3D_DESCRIPTOR *description) {
	struct charge c;
	if (!begin(&c, description, 1))
		return CUDA_ERROR_OUT_OF_MEMORY;
	return array(&c, CALL(cuArray3DCreate_v2, a, description), a);
}

CUresult cuArray3DCreate(CUarray *a, const CUDA_ARRAY3D_DESCRIPTOR_v1 *description) {
	struct charge c;
	CUDA_ARRAY3D_DESCRIPTOR d = { .Width = 0 };
	if (description)
		d = (CUDA_ARRAY3D_DESCRIPTOR){ description->Width, description->Height, description->Depth, description->Format, description->NumChannels, description->Flags };
	if (!begin(&c, description ? &d : NULL, 1))
		return CUDA_ERROR_OUT_OF_MEMORY;
	return array(&c, CALL(cuArray3DCreate, a, description), a);
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *a, const CUDA_ARRAY3D_DESCRIPTOR *description, unsigned int levels) {
	struct charge c;
	if (!begin(&c, description, levels))
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult r = CALL(cuMipmappedArrayCreate, a, description, levels);
	if (r != CUDA_SUCCESS) {
		charge_cancel(&c);
		return r;
	}
	CUdevice ordinal = 0;
	CUDA_ARRAY_MEMORY_REQUIREMENTS needs = { .size = 0 };
	CALL(cuCtxGetDevice, &ordinal);
	if (settle(&c, CALL(cuMipmappedArrayGetMemoryRequirements, &needs, *a, ordinal), &needs) && charge_keep(&c, MIPMAP, (uint64_t)(uintptr_t)*a))
		return r;
	CALL(cuMipmappedArrayDestroy, *a);
	charge_cancel(&c);
	*a = NULL;
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult destroyed(bool known, const struct entry *e, CUresult r) {
	if (known && r == CUDA_SUCCESS)
		release(e->device, e->bytes);
	else if (known)
		entries_put(e);
	return r;
}

CUresult cuArrayDestroy(CUarray a) {
	struct entry e;
	bool known = entries_take(ARRAY, (uint64_t)(uintptr_t)a, &e);
	return destroyed(known, &e, CALL(cuArrayDestroy, a));
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray a) {
	struct entry e;
	bool known = entries_take(MIPMAP, (uint64_t)(uintptr_t)a, &e);
	return destroyed(known, &e, CALL(cuMipmappedArrayDestroy, a));
}
