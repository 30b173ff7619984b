//go:build ignore

// How a program finds functions: by symbol (the linker's business), or by cuGetProcAddress, which knows them by
// their names without suffix and gives the newest variant that the asked version has. A version newer than the
// driver is an invalid value, and what is not found is no error of the call of CUDA 12 (both as documented in the
// CUDA driver API, "Driver Entry Point Access"); the call of CUDA 11.3 has no other way to say it than an error.

#include <string.h>

#include "cuda_sim.h"

enum stream { LEGACY, OWN };

static const struct entry {
	const char *base;
	void *function;
	int since;
	enum stream stream;
} entries[] = {
#define SIM_ENTRY(base, spelling, since, stream) {#base, (void *)spelling, since, stream},
#include "cuda_entries.def"
#undef SIM_ENTRY
};

// The version that counts before cuInit, too: programs may look functions up first.
static int driver_version(void)
{
	static int version; // the same each time, so it does no harm if two threads find it out
	if (!version)
		cuDriverGetVersion(&version);
	return version;
}

static CUresult find(const char *symbol, void **out, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
	const struct entry *best = NULL, *own = NULL;
	int known = 0;

	if (!symbol || !*symbol || !out || version < 0 || version > driver_version() || flags > CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
		const struct entry *e = &entries[i];
		if (strcmp(e->base, symbol) != 0)
			continue;
		// A function newer than the driver is as unknown to it as one that never was.
		known |= e->since <= driver_version();
		if (e->since > version)
			continue;
		if (e->stream == LEGACY && (!best || e->since >= best->since))
			best = e;
		if (e->stream == OWN && (!own || e->since >= own->since))
			own = e;
	}
	// The two kinds are listed in the same order, so that the newest of each belong together; a _ptsz variant of an
	// older spelling than the newest never stands alone.
	if (flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM && own)
		best = own;
	*out = best ? best->function : NULL;
	*status = best ? CU_GET_PROC_ADDRESS_SUCCESS : known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
	CUdriverProcAddressQueryResult status;
	CUresult r = find(symbol, pfn, cudaVersion, flags, &status);
	return r == CUDA_SUCCESS && !*pfn ? CUDA_ERROR_NOT_FOUND : r;
}

EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
	CUdriverProcAddressQueryResult ignored;
	return find(symbol, pfn, cudaVersion, flags, status ? status : &ignored);
}

// The private tables of NVIDIA's own libraries: there are none here.
EXPORT CUresult cuGetExportTable(const void **table, const CUuuid *id)
{
	if (!table || !id)
		return CUDA_ERROR_INVALID_VALUE;
	*table = NULL;
	return CUDA_ERROR_NOT_FOUND;
}

// ---- errors ----

static const struct {
	CUresult code;
	const char *name, *text;
} errors[] = {
#define ERROR(name, text) {name, #name, text},
	ERROR(CUDA_SUCCESS, "no error")
	ERROR(CUDA_ERROR_INVALID_VALUE, "invalid argument")
	ERROR(CUDA_ERROR_OUT_OF_MEMORY, "out of memory")
	ERROR(CUDA_ERROR_NOT_INITIALIZED, "initialization error")
	ERROR(CUDA_ERROR_DEINITIALIZED, "driver shutting down")
	ERROR(CUDA_ERROR_STUB_LIBRARY, "CUDA driver is a stub library")
	ERROR(CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER, "API call is not supported in the installed CUDA driver")
	ERROR(CUDA_ERROR_DEVICE_UNAVAILABLE, "CUDA-capable device(s) is/are busy or unavailable")
	ERROR(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected")
	ERROR(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal")
	ERROR(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid")
	ERROR(CUDA_ERROR_INVALID_CONTEXT, "invalid device context")
	ERROR(CUDA_ERROR_MAP_FAILED, "mapping of buffer object failed")
	ERROR(CUDA_ERROR_UNMAP_FAILED, "unmapping of buffer object failed")
	ERROR(CUDA_ERROR_ALREADY_MAPPED, "resource already mapped")
	ERROR(CUDA_ERROR_NOT_MAPPED, "resource not mapped")
	ERROR(CUDA_ERROR_ECC_UNCORRECTABLE, "uncorrectable ECC error encountered")
	ERROR(CUDA_ERROR_UNSUPPORTED_LIMIT, "limit is not supported on this architecture")
	ERROR(CUDA_ERROR_CONTEXT_ALREADY_IN_USE, "exclusive-thread device already in use by a different thread")
	ERROR(CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed")
	ERROR(CUDA_ERROR_FILE_NOT_FOUND, "file not found")
	ERROR(CUDA_ERROR_OPERATING_SYSTEM, "OS call failed or operation not supported on this OS")
	ERROR(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle")
	ERROR(CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state")
	ERROR(CUDA_ERROR_NOT_FOUND, "named symbol not found")
	ERROR(CUDA_ERROR_NOT_READY, "device not ready")
	ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered")
	ERROR(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch")
	ERROR(CUDA_ERROR_LAUNCH_TIMEOUT, "the launch timed out and was terminated")
	ERROR(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is already enabled")
	ERROR(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "peer access has not been enabled")
	ERROR(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, "cannot set while device is active in this process")
	ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed")
	ERROR(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "part or all of the requested memory range is already mapped")
	ERROR(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "pointer does not correspond to a registered memory region")
	ERROR(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure")
	ERROR(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "too many blocks in cooperative launch")
	ERROR(CUDA_ERROR_NOT_PERMITTED, "operation not permitted")
	ERROR(CUDA_ERROR_NOT_SUPPORTED, "operation not supported")
	ERROR(CUDA_ERROR_SYSTEM_NOT_READY, "system not yet initialized")
	ERROR(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "system has unsupported display driver / cuda driver combination")
	ERROR(CUDA_ERROR_MPS_CONNECTION_FAILED, "MPS client failed to connect to the MPS control daemon or the MPS server")
	ERROR(CUDA_ERROR_MPS_RPC_FAILURE, "the remote procedural call between the MPS server and the MPS client failed")
	ERROR(CUDA_ERROR_MPS_SERVER_NOT_READY, "MPS server is not ready to accept new MPS client requests")
	ERROR(CUDA_ERROR_MPS_MAX_CLIENTS_REACHED, "the hardware resources required to create MPS client have been exhausted")
	ERROR(CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED, "the hardware resources required to support device connections have been exhausted")
	ERROR(CUDA_ERROR_MPS_CLIENT_TERMINATED, "the MPS client has been terminated by the server")
	ERROR(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing")
	ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "operation failed due to a previous error during capture")
	ERROR(CUDA_ERROR_STREAM_CAPTURE_MERGE, "operation would result in a merge of separate capture sequences")
	ERROR(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "capture was not ended in the same stream as it began")
	ERROR(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "capturing stream has unjoined work")
	ERROR(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "dependency created on uncaptured work in another stream")
	ERROR(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "operation would make the legacy stream depend on a capturing blocking stream")
	ERROR(CUDA_ERROR_CAPTURED_EVENT, "operation not permitted on an event last recorded in a capturing stream")
	ERROR(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "attempt to terminate a thread-local capture sequence from another thread")
	ERROR(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, "the graph update was not performed because it included changes which violated constraints")
	ERROR(CUDA_ERROR_INVALID_RESOURCE_TYPE, "invalid resource type")
	ERROR(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION, "invalid resource configuration")
	ERROR(CUDA_ERROR_UNKNOWN, "unknown error")
#undef ERROR
};

EXPORT CUresult cuGetErrorName(CUresult error, const char **text)
{
	if (!text)
		return CUDA_ERROR_INVALID_VALUE;
	*text = NULL;
	for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
		if (errors[i].code == error)
			*text = errors[i].name;
	return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuGetErrorString(CUresult error, const char **text)
{
	if (!text)
		return CUDA_ERROR_INVALID_VALUE;
	*text = NULL;
	for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
		if (errors[i].code == error)
			*text = errors[i].text;
	return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
