// The functions of NVIDIA's libraries that are called, by the names that are looked up.
#ifndef ECREC_CUDA_EDGE_H
#define ECREC_CUDA_EDGE_H

#include <stddef.h>
#include <stdint.h>

typedef void *handle; // CUcontext, CUmodule, CUfunction, CUstream
typedef uint64_t device_ptr;

#define DRIVER_FUNCTIONS(F) \
	F(cuInit, (unsigned int)) \
	F(cuDriverGetVersion, (int *)) \
	F(cuDeviceGetCount, (int *)) \
	F(cuDeviceGet, (int *, int)) \
	F(cuDeviceGetName, (char *, int, int)) \
	F(cuDeviceGetUuid_v2, (unsigned char *, int)) \
	F(cuDeviceGetAttribute, (int *, int, int)) \
	F(cuDeviceTotalMem_v2, (size_t *, int)) \
	F(cuDevicePrimaryCtxRetain, (handle *, int)) \
	F(cuDevicePrimaryCtxRelease_v2, (int)) \
	F(cuCtxGetCurrent, (handle *)) \
	F(cuCtxSetCurrent, (handle)) \
	F(cuMemGetInfo_v2, (size_t *, size_t *)) \
	F(cuMemAlloc_v2, (device_ptr *, size_t)) \
	F(cuMemFree_v2, (device_ptr)) \
	F(cuMemHostAlloc, (void **, size_t, unsigned int)) \
	F(cuMemFreeHost, (void *)) \
	F(cuMemcpyAsync, (device_ptr, device_ptr, size_t, handle)) \
	F(cuMemsetD8Async, (device_ptr, unsigned char, size_t, handle)) \
	F(cuStreamCreate, (handle *, unsigned int)) \
	F(cuStreamDestroy_v2, (handle)) \
	F(cuStreamSynchronize, (handle)) \
	F(cuStreamQuery, (handle)) \
	F(cuModuleLoadData, (handle *, const void *)) \
	F(cuModuleUnload, (handle)) \
	F(cuModuleGetFunction, (handle *, handle, const char *)) \
	F(cuFuncSetAttribute, (handle, int, int)) \
	F(cuLaunchKernel, (handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, handle, void **, void **)) \
	F(cuGetErrorName, (int, const char **)) \
	F(cuGetErrorString, (int, const char **))

#define COMPILER_FUNCTIONS(F) \
	F(nvrtcVersion, (int *, int *)) \
	F(nvrtcGetErrorString, (int)) \
	F(nvrtcCreateProgram, (handle *, const char *, const char *, int, const char *const *, const char *const *)) \
	F(nvrtcDestroyProgram, (handle *)) \
	F(nvrtcCompileProgram, (handle, int, const char *const *)) \
	F(nvrtcGetProgramLogSize, (handle, size_t *)) \
	F(nvrtcGetProgramLog, (handle, char *)) \
	F(nvrtcGetPTXSize, (handle, size_t *)) \
	F(nvrtcGetPTX, (handle, char *)) \
	F(nvrtcGetCUBINSize, (handle, size_t *)) \
	F(nvrtcGetCUBIN, (handle, char *))

typedef struct { char bytes[128]; } unique_id; // which NCCL takes by value

// The fields of NCCL 2.14. Later versions use defaults for their other fields.
typedef struct {
	size_t size;
	unsigned magic, version;
	int blocking;
} nccl_config;

#define NCCL_FUNCTIONS(F) \
	F(ncclGetVersion, (int *)) \
	F(ncclGetUniqueId, (unique_id *)) \
	F(ncclCommInitRankConfig, (handle *, int, unique_id, int, nccl_config *)) \
	F(ncclCommGetAsyncError, (handle, int *)) \
	F(ncclCommAbort, (handle)) \
	F(ncclCommFinalize, (handle)) \
	F(ncclCommDestroy, (handle)) \
	F(ncclGroupStart, (void)) \
	F(ncclGroupEnd, (void)) \
	F(ncclSend, (const void *, size_t, int, int, handle, handle)) \
	F(ncclRecv, (void *, size_t, int, int, handle, handle)) \
	F(ncclAllReduce, (const void *, void *, size_t, int, int, handle, handle)) \
	F(ncclGetErrorString, (int))

#define CUBLAS_FUNCTIONS(F) \
	F(cublasCreate_v2, (handle *)) \
	F(cublasDestroy_v2, (handle)) \
	F(cublasSetStream_v2, (handle, handle)) \
	F(cublasSetWorkspace_v2, (handle, void *, size_t)) \
	F(cublasGemmEx, (handle, int, int, int, int, int, const void *, const void *, int, int, const void *, int, int, const void *, void *, int, int, int, int)) \
	F(cublasGetStatusString, (int))

#define POINTER(name, args) int(*name) args;
typedef struct {
	DRIVER_FUNCTIONS(POINTER)
} driver;
typedef struct {
	COMPILER_FUNCTIONS(POINTER)
} compiler;
typedef struct {
	NCCL_FUNCTIONS(POINTER)
} nccl;
typedef struct {
	CUBLAS_FUNCTIONS(POINTER)
} cublas;
#undef POINTER

// They open a library and look up all functions. They return 0, or the name of the missing
// function. If the library cannot be opened, error is set to the message of dlopen,
// which the caller frees.
const char *driver_open(driver *d, const char *path, char **error);
const char *compiler_open(compiler *c, const char *path, char **error);
const char *nccl_open(nccl *n, const char *path, char **error);
const char *cublas_open(cublas *b, const char *path, char **error);

// library_load loads a library, so that other libraries find it by its name.
void library_load(const char *path);

// Each sets the context first. They return a CUresult.
int ctx_mem_info(driver *d, handle ctx, size_t *free, size_t *total);
int ctx_alloc(driver *d, handle ctx, device_ptr *p, size_t bytes);
int ctx_free(driver *d, handle ctx, device_ptr p);
int ctx_host_alloc(driver *d, handle ctx, void **p, size_t bytes);
int ctx_host_free(driver *d, handle ctx, void *p);
int ctx_stream(driver *d, handle ctx, handle *stream);
int ctx_stream_close(driver *d, handle ctx, handle stream);
int ctx_query(driver *d, handle ctx, handle stream);
int ctx_sync(driver *d, handle ctx, handle stream);
int ctx_copy(driver *d, handle ctx, handle stream, device_ptr to, device_ptr from, size_t bytes, int wait);
int ctx_clear(driver *d, handle ctx, handle stream, device_ptr p, size_t bytes);
int ctx_module(driver *d, handle ctx, handle *module, const void *image);
int ctx_module_close(driver *d, handle ctx, handle module);
int ctx_function(driver *d, handle ctx, handle module, const char *name, int shared, handle *function);
int ctx_launch(driver *d, handle ctx, handle stream, handle function, unsigned blocks, unsigned x, unsigned y, unsigned shared, void *params);

// They return an ncclResult_t, or minus a CUresult. part is the place of a rank's part.
typedef struct {
	uint64_t at, bytes;
} part;
int ctx_nccl_init(driver *d, handle ctx, nccl *n, handle *comm, int ranks, const char *id, int rank);
int ctx_nccl_state(driver *d, handle ctx, nccl *n, handle comm);
int ctx_nccl_abort(driver *d, handle ctx, nccl *n, handle comm);
int ctx_nccl_close(driver *d, handle ctx, nccl *n, handle comm);
int ctx_nccl_exchange(driver *d, handle ctx, nccl *n, handle comm, handle stream, int ranks, int self, const part *to, const part *from);
int ctx_nccl_sum(driver *d, handle ctx, nccl *n, handle comm, handle stream, uint64_t at, uint64_t floats);

// They return a cublasStatus_t, or minus a CUresult.
int ctx_cublas_create(driver *d, handle ctx, cublas *b, handle *made, handle stream, device_ptr workspace, size_t bytes);
int ctx_cublas_close(driver *d, handle ctx, cublas *b, handle made);
int ctx_cublas_gemm(driver *d, handle ctx, cublas *b, handle made, int ta, int tb, int m, int n, int k, device_ptr x, int ldx, device_ptr y, int ldy, device_ptr to, int ldto, int compute);

#endif
