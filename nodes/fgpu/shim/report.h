#ifndef FAIRSLICE_SHIM_REPORT_H
#define FAIRSLICE_SHIM_REPORT_H

struct memory {
	uint64_t total, free, used;
};

// slice_memory is what a program is told of device d of the slice, which really has this much. Free is never negative, nor more than
// the GPU has; total = free + used unless the GPU has less free than the slice.
struct memory slice_memory(unsigned d, uint64_t real_total, uint64_t real_free);

#endif
