//go:build ignore

// Arrays: memory in an order that only the device knows. They have a size and no contents here.
//
// Size: rows are padded to 64 bytes and, where there are several, to a multiple of 8 rows (the tile of the real
// device); an array's whole is rounded up to 64 KiB. Sparse arrays, and those whose mapping is deferred, hold
// nothing by themselves.

#include <stdlib.h>

#include "cuda_sim.h"

struct CUarray_st {
	struct head head;
	struct sim_device *device;
	CUDA_ARRAY3D_DESCRIPTOR description;
	uint64_t charged;
	CUmipmappedArray of; // a level: it belongs to that
};

struct CUmipmappedArray_st {
	struct head head;
	struct sim_device *device;
	CUDA_ARRAY3D_DESCRIPTOR description;
	unsigned levels;
	uint64_t charged;
	CUarray *level; // made when they are asked for
};

static unsigned element_bytes(CUarray_format format)
{
	switch (format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8: return 1;
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF: return 2;
	case CU_AD_FORMAT_UNSIGNED_INT32:
	case CU_AD_FORMAT_SIGNED_INT32:
	case CU_AD_FORMAT_FLOAT: return 4;
	}
	return 0; // the block-compressed and video formats are not simulated
}

static int valid(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	return d && element_bytes(d->Format) && (d->NumChannels == 1 || d->NumChannels == 2 || d->NumChannels == 4) && d->Width &&
	       d->Width <= 1 << 20 && d->Height <= 1 << 20 && d->Depth <= 1 << 15 && !(d->Depth && !d->Height && !(d->Flags & CUDA_ARRAY3D_LAYERED));
}

// Bytes of one level. Level n of a mipmap is half as wide as level n-1, and so on.
static uint64_t level_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned level)
{
	int layered = (d->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0;
	uint64_t width = d->Width >> level, height = d->Height >> level, depth = layered ? d->Depth : d->Depth >> level;
	width = width ? width : 1;
	height = height ? height : 1;
	depth = depth ? depth : 1;
	return round_up(width * element_bytes(d->Format) * d->NumChannels, 64) * (height > 1 ? round_up(height, 8) : 1) * depth;
}

static uint64_t all_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned levels)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < levels; i++)
		sum += level_bytes(d, i);
	return round_up(sum, ARRAY_GRANULE);
}

static CUresult charge(struct sim_device *d, const CUDA_ARRAY3D_DESCRIPTOR *description, unsigned levels, uint64_t *charged)
{
	*charged = description->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING) ? 0 : all_bytes(description, levels);
	return device_charge(d, *charged);
}

EXPORT CUresult cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *description)
{
	CUarray a;
	uint64_t charged;
	CUresult r;
	REQUIRE_CONTEXT(c);
	if ((r = capture_permits()) != CUDA_SUCCESS)
		return r;
	if (!array || !valid(description))
		return CUDA_ERROR_INVALID_VALUE;
	if ((r = charge(c->device, description, 1, &charged)) != CUDA_SUCCESS)
		return r;
	if (!(a = make(ARRAY, sizeof *a))) {
		device_release(c->device, charged);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	a->device = c->device;
	a->description = *description;
	a->charged = charged;
	*array = a;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *d)
{
	CUDA_ARRAY3D_DESCRIPTOR full;
	if (!d)
		return CUDA_ERROR_INVALID_VALUE;
	full = (CUDA_ARRAY3D_DESCRIPTOR){d->Width, d->Height, 0, d->Format, d->NumChannels, 0};
	return cuArray3DCreate_v2(array, &full);
}

EXPORT CUresult cuArrayCreate(CUarray *array, const CUDA_ARRAY_DESCRIPTOR_v1 *d)
{
	CUDA_ARRAY3D_DESCRIPTOR full;
	if (!d)
		return CUDA_ERROR_INVALID_VALUE;
	full = (CUDA_ARRAY3D_DESCRIPTOR){d->Width, d->Height, 0, d->Format, d->NumChannels, 0};
	return cuArray3DCreate_v2(array, &full);
}

EXPORT CUresult cuArray3DCreate(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR_v1 *d)
{
	CUDA_ARRAY3D_DESCRIPTOR full;
	if (!d)
		return CUDA_ERROR_INVALID_VALUE;
	full = (CUDA_ARRAY3D_DESCRIPTOR){d->Width, d->Height, d->Depth, d->Format, d->NumChannels, d->Flags};
	return cuArray3DCreate_v2(array, &full);
}

EXPORT CUresult cuArrayDestroy(CUarray array)
{
	REQUIRE_INIT();
	if (!is(array, ARRAY))
		return CUDA_ERROR_INVALID_HANDLE;
	if (array->of)
		return CUDA_ERROR_INVALID_VALUE;
	array->head.kind = 0;
	device_release(array->device, array->charged);
	free(array);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *description, CUarray array)
{
	REQUIRE_INIT();
	if (!is(array, ARRAY))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!description)
		return CUDA_ERROR_INVALID_VALUE;
	*description = array->description;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *description, CUarray array)
{
	CUDA_ARRAY3D_DESCRIPTOR d;
	CUresult r = description ? cuArray3DGetDescriptor_v2(&d, array) : CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		*description = (CUDA_ARRAY_DESCRIPTOR){d.Width, d.Height, d.Format, d.NumChannels};
	return r;
}

// As the real calls, these answer only for arrays that are to be mapped later.
static CUresult requirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *out, const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned levels, CUdevice device)
{
	if (!device_of(device))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!out || !(d->Flags & CUDA_ARRAY3D_DEFERRED_MAPPING))
		return CUDA_ERROR_INVALID_VALUE;
	*out = (CUDA_ARRAY_MEMORY_REQUIREMENTS){.size = all_bytes(d, levels), .alignment = ARRAY_GRANULE};
	return CUDA_SUCCESS;
}

EXPORT CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *out, CUarray array, CUdevice device)
{
	REQUIRE_INIT();
	return is(array, ARRAY) ? requirements(out, &array->description, 1, device) : CUDA_ERROR_INVALID_HANDLE;
}

EXPORT CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *out, CUmipmappedArray array, CUdevice device)
{
	REQUIRE_INIT();
	return is(array, MIPMAP) ? requirements(out, &array->description, array->levels, device) : CUDA_ERROR_INVALID_HANDLE;
}

// ---- mipmaps ----

EXPORT CUresult cuMipmappedArrayCreate(CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *description, unsigned int levels)
{
	CUmipmappedArray a;
	uint64_t charged, longest;
	unsigned most = 1;
	CUresult r;
	REQUIRE_CONTEXT(c);
	if ((r = capture_permits()) != CUDA_SUCCESS)
		return r;
	if (!array || !valid(description) || !levels)
		return CUDA_ERROR_INVALID_VALUE;
	longest = description->Width > description->Height ? description->Width : description->Height;
	while (longest >>= 1)
		most++;
	levels = levels < most ? levels : most; // more are clamped
	if ((r = charge(c->device, description, levels, &charged)) != CUDA_SUCCESS)
		return r;
	a = make(MIPMAP, sizeof *a);
	if (!a || !(a->level = calloc(levels, sizeof *a->level))) {
		device_release(c->device, charged);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	a->device = c->device;
	a->description = *description;
	a->levels = levels;
	a->charged = charged;
	*array = a;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMipmappedArrayGetLevel(CUarray *level, CUmipmappedArray array, unsigned int number)
{
	CUarray a;
	REQUIRE_INIT();
	if (!is(array, MIPMAP))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!level || number >= array->levels)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	if (!array->level[number] && (a = make(ARRAY, sizeof *a))) {
		a->device = array->device;
		a->description = array->description;
		a->description.Width = a->description.Width >> number ? a->description.Width >> number : 1;
		if (a->description.Height)
			a->description.Height = a->description.Height >> number ? a->description.Height >> number : 1;
		a->of = array;
		array->level[number] = a;
	}
	*level = array->level[number];
	sim_unlock();
	return *level ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuMipmappedArrayDestroy(CUmipmappedArray array)
{
	REQUIRE_INIT();
	if (!is(array, MIPMAP))
		return CUDA_ERROR_INVALID_HANDLE;
	array->head.kind = 0;
	device_release(array->device, array->charged);
	for (unsigned i = 0; i < array->levels; i++)
		if (array->level[i]) {
			array->level[i]->head.kind = 0;
			free(array->level[i]);
		}
	free(array->level);
	free(array);
	return CUDA_SUCCESS;
}
