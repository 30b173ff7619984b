//go:build ignore

// Modules and libraries: any image is taken, and every function that is asked for by name is in it.

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda_sim.h"

static CUresult load(CUmodule *out, const void *image)
{
	REQUIRE_CONTEXT(c);
	CUmodule m;
	if (!out || !image)
		return CUDA_ERROR_INVALID_VALUE;
	if (!(m = make(MODULE, sizeof *m)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	m->device = c->device;
	*out = m;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image) { return load(module, image); }
EXPORT CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image) { return load(module, image); }

EXPORT CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int options, CUjit_option *option, void **value)
{
	if (options && (!option || !value))
		return CUDA_ERROR_INVALID_VALUE;
	return load(module, image);
}

EXPORT CUresult cuModuleLoad(CUmodule *module, const char *path)
{
	if (!path)
		return CUDA_ERROR_INVALID_VALUE;
	return access(path, R_OK) == 0 ? load(module, path) : CUDA_ERROR_FILE_NOT_FOUND;
}

EXPORT CUresult cuModuleUnload(CUmodule module)
{
	REQUIRE_INIT();
	if (!is(module, MODULE))
		return CUDA_ERROR_INVALID_HANDLE;
	module->head.kind = 0;
	for (CUfunction f = module->functions; f; f = f->next)
		f->head.kind = 0; // kept in memory: a graph may still name them
	return CUDA_SUCCESS;
}

static CUresult function(CUfunction *out, CUmodule m, const char *name)
{
	CUfunction f;
	if (!out || !name || !*name)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	for (f = m->functions; f && strcmp(f->name, name) != 0; f = f->next)
		;
	if (!f && (f = make(FUNCTION, sizeof *f + strlen(name) + 1))) {
		strcpy(f->name, name);
		f->module = m;
		f->block[0] = f->block[1] = f->block[2] = 1;
		f->next = m->functions;
		m->functions = f;
	}
	sim_unlock();
	*out = f;
	return f ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuModuleGetFunction(CUfunction *out, CUmodule module, const char *name)
{
	REQUIRE_INIT();
	return is(module, MODULE) ? function(out, module, name) : CUDA_ERROR_INVALID_HANDLE;
}

// No image here has data of its own.
EXPORT CUresult cuModuleGetGlobal_v2(CUdeviceptr *ptr, size_t *bytes, CUmodule module, const char *name)
{
	REQUIRE_INIT();
	if (!is(module, MODULE))
		return CUDA_ERROR_INVALID_HANDLE;
	return name && (ptr || bytes) ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuModuleGetGlobal(CUdeviceptr_v1 *ptr, unsigned int *bytes, CUmodule module, const char *name)
{
	CUdeviceptr p;
	size_t n;
	return ptr || bytes ? cuModuleGetGlobal_v2(&p, &n, module, name) : CUDA_ERROR_INVALID_VALUE;
}

// ---- libraries: modules that belong to no context ----

static CUresult load_library(CUlibrary *out, const void *image)
{
	CUmodule m;
	REQUIRE_INIT();
	if (!out || !image)
		return CUDA_ERROR_INVALID_VALUE;
	if (!(m = make(LIBRARY, sizeof *m)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	*out = (CUlibrary)m;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuLibraryLoadData(CUlibrary *library, const void *image, CUjit_option *jit, void **jitValues,
				  unsigned int jitCount, CUlibraryOption *option, void **values, unsigned int count)
{
	(void)values; // an option may have none
	if ((jitCount && (!jit || !jitValues)) || (count && !option))
		return CUDA_ERROR_INVALID_VALUE;
	return load_library(library, image);
}

EXPORT CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *path, CUjit_option *jit, void **jitValues,
				      unsigned int jitCount, CUlibraryOption *option, void **values, unsigned int count)
{
	(void)values;
	if (!path || (jitCount && (!jit || !jitValues)) || (count && !option))
		return CUDA_ERROR_INVALID_VALUE;
	return access(path, R_OK) == 0 ? load_library(library, path) : CUDA_ERROR_FILE_NOT_FOUND;
}

EXPORT CUresult cuLibraryUnload(CUlibrary library)
{
	REQUIRE_INIT();
	if (!is(library, LIBRARY))
		return CUDA_ERROR_INVALID_HANDLE;
	((CUmodule)library)->head.kind = 0;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
	REQUIRE_INIT();
	return is(library, LIBRARY) ? function((CUfunction *)kernel, (CUmodule)library, name) : CUDA_ERROR_INVALID_HANDLE;
}

EXPORT CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library)
{
	REQUIRE_INIT();
	if (!is(library, LIBRARY))
		return CUDA_ERROR_INVALID_HANDLE;
	return load(module, library);
}

EXPORT CUresult cuKernelGetFunction(CUfunction *out, CUkernel kernel)
{
	REQUIRE_CONTEXT(c);
	(void)c;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	if (!is(kernel, FUNCTION))
		return CUDA_ERROR_INVALID_HANDLE;
	*out = (CUfunction)kernel;
	return CUDA_SUCCESS;
}

// ---- functions ----

EXPORT CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction f)
{
	REQUIRE_INIT();
	if (!is(f, FUNCTION))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!value || (int)attribute < 0 || (int)attribute > 15)
		return CUDA_ERROR_INVALID_VALUE;
	switch (attribute) {
	case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = 1024; break;
	case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = 32; break;
	case CU_FUNC_ATTRIBUTE_PTX_VERSION:
	case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *value = 90; break;
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = 227 << 10; break;
	default: *value = 0;
	}
	return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute attribute, int value)
{
	int before;
	(void)value; // shared memory is not simulated
	return cuFuncGetAttribute(&before, attribute, f);
}

EXPORT CUresult cuFuncSetCacheConfig(CUfunction f, int config)
{
	(void)config;
	REQUIRE_INIT();
	return is(f, FUNCTION) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

EXPORT CUresult cuFuncSetBlockShape(CUfunction f, int x, int y, int z)
{
	REQUIRE_INIT();
	if (!is(f, FUNCTION))
		return CUDA_ERROR_INVALID_HANDLE;
	if (x < 1 || y < 1 || z < 1 || x > 1024 || y > 1024 || z > 64 || x * y * z > 1024)
		return CUDA_ERROR_INVALID_VALUE;
	f->block[0] = (unsigned)x, f->block[1] = (unsigned)y, f->block[2] = (unsigned)z;
	return CUDA_SUCCESS;
}

// The parameters of a kernel that computes nothing are taken and forgotten.
#define TAKES_PARAMETER(f)                                                \
	do {                                                              \
		REQUIRE_INIT();                                           \
		return is(f, FUNCTION) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE; \
	} while (0)

EXPORT CUresult cuFuncSetSharedSize(CUfunction f, unsigned int bytes) { (void)bytes; TAKES_PARAMETER(f); }
EXPORT CUresult cuParamSetSize(CUfunction f, unsigned int bytes) { (void)bytes; TAKES_PARAMETER(f); }
EXPORT CUresult cuParamSeti(CUfunction f, int offset, unsigned int value) { (void)offset, (void)value; TAKES_PARAMETER(f); }
EXPORT CUresult cuParamSetf(CUfunction f, int offset, float value) { (void)offset, (void)value; TAKES_PARAMETER(f); }
EXPORT CUresult cuParamSetv(CUfunction f, int offset, void *value, unsigned int bytes) { (void)offset, (void)value, (void)bytes; TAKES_PARAMETER(f); }

EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction f, int blockSize, size_t sharedBytes)
{
	(void)sharedBytes;
	REQUIRE_INIT();
	if (!is(f, FUNCTION))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!blocks || blockSize < 1 || blockSize > 1024)
		return CUDA_ERROR_INVALID_VALUE;
	*blocks = 2048 / blockSize < 32 ? 2048 / blockSize : 32;
	return CUDA_SUCCESS;
}
