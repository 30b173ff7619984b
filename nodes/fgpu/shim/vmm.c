//go:build ignore

// Virtual memory management: physical memory by handle, mapped at addresses. It is freed when its handle is released
// as often as it was given out and the last mapping is gone, in either order.
//
// MEMORY (key: a number of our own) is one physical allocation: refs of its handle, maps. HANDLE and MAPPING (other: that number) lead to it;
// a handle's value may be given out anew while old memory is still mapped.
#include "shim.h"

static void add_ref(struct entry *e, void *with) {
	(void)with;
	e->refs++;
}

static void add_map(struct entry *e, void *with) {
	(void)with;
	e->maps++;
}

static void sub_ref(struct entry *e, void *with) {
	e->refs -= e->refs > 0;
	*(struct entry *)with = *e;
}

static void sub_map(struct entry *e, void *with) {
	e->maps -= e->maps > 0;
	*(struct entry *)with = *e;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *properties, unsigned long long flags) {
	struct process *p = process();
	if (!fenced())
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!properties || properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CALL(cuMemCreate, handle, bytes, properties, flags);
	struct charge c;
	if (!charge_begin_on(&c, device_of(properties->location.id), bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult r = CALL(cuMemCreate, handle, bytes, properties, flags);
	if (r != CUDA_SUCCESS) {
		charge_cancel(&c);
		return r;
	}
	uint64_t id = __atomic_add_fetch(&p->serial, 1, __ATOMIC_RELAXED);
	struct entry memory = { .key = id, .bytes = bytes, .kind = MEMORY, .device = (uint32_t)c.device, .refs = 1 };
	struct entry name = { .key = *handle, .kind = HANDLE, .other = id };
	if (entries_put(&memory)) {
		if (entries_put(&name))
			return r;
		entries_take(MEMORY, id, &memory);
	}
	CALL(cuMemRelease, *handle);
	charge_cancel(&c);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
	struct entry name, memory, unused;
	if (!entries_get(HANDLE, handle, &name) || !entries_change(MEMORY, name.other, sub_ref, &memory))
		return CALL(cuMemRelease, handle); // host memory, an import: not charged
	if (!memory.refs)
		entries_take(HANDLE, handle, &unused);
	bool last = !memory.refs && !memory.maps && entries_take(MEMORY, name.other, &unused);
	CUresult r = CALL(cuMemRelease, handle);
	if (r == CUDA_SUCCESS) {
		if (last)
			release(memory.device, memory.bytes);
		return r;
	}
	memory.refs++;
	if (last)
		entries_put(&memory);
	else
		entries_change(MEMORY, name.other, add_ref, NULL);
	if (memory.refs == 1)
		entries_put(&name);
	return r;
}

CUresult cuMemMap(CUdeviceptr ptr, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags) {
	struct entry name;
	bool known = entries_get(HANDLE, handle, &name) && entries_change(MEMORY, name.other, add_map, NULL);
	CUresult r = CALL(cuMemMap, ptr, bytes, offset, handle, flags);
	struct entry unused, mapping = { .key = ptr, .bytes = bytes, .kind = MAPPING, .other = known ? name.other : 0 };
	if (r == CUDA_SUCCESS && known)
		entries_put(&mapping); // without room for it the memory stays charged
	else if (known)
		entries_change(MEMORY, name.other, sub_map, &unused);
	return r;
}

// cuMemUnmap takes away whole mappings, one or several that touch.
CUresult cuMemUnmap(CUdeviceptr ptr, size_t bytes) {
	CUresult r = CALL(cuMemUnmap, ptr, bytes);
	if (r != CUDA_SUCCESS)
		return r;
	struct entry mapping, memory, unused;
	for (CUdeviceptr at = ptr; at - ptr < bytes && entries_take(MAPPING, at, &mapping) && mapping.bytes; at += mapping.bytes) {
		if (!entries_change(MEMORY, mapping.other, sub_map, &memory))
			continue;
		if (!memory.refs && !memory.maps && entries_take(MEMORY, mapping.other, &unused))
			release(memory.device, memory.bytes);
	}
	return r;
}

// The handle of memory at an address; each time it must be released once more.
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address) {
	CUresult r = CALL(cuMemRetainAllocationHandle, handle, address);
	if (r != CUDA_SUCCESS)
		return r;
	struct entry mapping;
	bool found = entries_get(MAPPING, (uint64_t)(uintptr_t)address, &mapping);
	for (size_t at = 0; !found && entries_next(MAPPING, &at, &mapping);)
		found = (uint64_t)(uintptr_t)address - mapping.key < mapping.bytes;
	if (found && entries_change(MEMORY, mapping.other, add_ref, NULL)) {
		struct entry name = { .key = *handle, .kind = HANDLE, .other = mapping.other };
		entries_put(&name);
	}
	return r;
}
