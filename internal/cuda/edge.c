//go:build cgo && linux

#include "edge.h"

#include <dlfcn.h>
#include <string.h>

#define LOOK_UP(name, args) \
	if ((*(void **)&to->name = dlsym(h, #name)) == NULL) \
		return #name;

static void *open_library(const char *path, char **error) {
	void *h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (h == NULL)
		*error = strdup(dlerror()); // it belongs to the thread, whose next call may free it
	return h;
}

const char *driver_open(driver *to, const char *path, char **error) {
	void *h = open_library(path, error);
	if (h == NULL)
		return NULL;
	DRIVER_FUNCTIONS(LOOK_UP)
	return NULL;
}

const char *compiler_open(compiler *to, const char *path, char **error) {
	void *h = open_library(path, error);
	if (h == NULL)
		return NULL;
	COMPILER_FUNCTIONS(LOOK_UP)
	return NULL;
}

const char *nccl_open(nccl *to, const char *path, char **error) {
	void *h = open_library(path, error);
	if (h == NULL)
		return NULL;
	NCCL_FUNCTIONS(LOOK_UP)
	return NULL;
}

const char *cublas_open(cublas *to, const char *path, char **error) {
	void *h = open_library(path, error);
	if (h == NULL)
		return NULL;
	CUBLAS_FUNCTIONS(LOOK_UP)
	return NULL;
}

void library_load(const char *path) { dlopen(path, RTLD_NOW | RTLD_GLOBAL); }

// enter makes ctx the thread's context.
static int enter(driver *d, handle ctx) {
	handle now = NULL;
	int status = d->cuCtxGetCurrent(&now);
	if (status != 0 || now == ctx)
		return status;
	return d->cuCtxSetCurrent(ctx);
}

#define ENTERED(call) \
	int status = enter(d, ctx); \
	return status != 0 ? status : (call)

int ctx_mem_info(driver *d, handle ctx, size_t *free, size_t *total) { ENTERED(d->cuMemGetInfo_v2(free, total)); }
int ctx_alloc(driver *d, handle ctx, device_ptr *p, size_t bytes) { ENTERED(d->cuMemAlloc_v2(p, bytes)); }
int ctx_free(driver *d, handle ctx, device_ptr p) { ENTERED(d->cuMemFree_v2(p)); }
// 3: PORTABLE | DEVICEMAP; with unified addresses the device's address is the host's.
int ctx_host_alloc(driver *d, handle ctx, void **p, size_t bytes) { ENTERED(d->cuMemHostAlloc(p, bytes, 3)); }
int ctx_host_free(driver *d, handle ctx, void *p) { ENTERED(d->cuMemFreeHost(p)); }
int ctx_stream(driver *d, handle ctx, handle *stream) { ENTERED(d->cuStreamCreate(stream, 1)); } // NON_BLOCKING
int ctx_stream_close(driver *d, handle ctx, handle stream) { ENTERED(d->cuStreamDestroy_v2(stream)); }
int ctx_query(driver *d, handle ctx, handle stream) { ENTERED(d->cuStreamQuery(stream)); }
int ctx_sync(driver *d, handle ctx, handle stream) { ENTERED(d->cuStreamSynchronize(stream)); }

int ctx_copy(driver *d, handle ctx, handle stream, device_ptr to, device_ptr from, size_t bytes, int wait) {
	int status = enter(d, ctx);
	if (status == 0)
		status = d->cuMemcpyAsync(to, from, bytes, stream);
	if (status == 0 && wait)
		status = d->cuStreamSynchronize(stream);
	return status;
}

int ctx_clear(driver *d, handle ctx, handle stream, device_ptr p, size_t bytes) {
	ENTERED(d->cuMemsetD8Async(p, 0, bytes, stream));
}

int ctx_module(driver *d, handle ctx, handle *module, const void *image) { ENTERED(d->cuModuleLoadData(module, image)); }
int ctx_module_close(driver *d, handle ctx, handle module) { ENTERED(d->cuModuleUnload(module)); }

int ctx_function(driver *d, handle ctx, handle module, const char *name, int shared, handle *function) {
	int status = enter(d, ctx);
	if (status == 0)
		status = d->cuModuleGetFunction(function, module, name);
	if (status == 0 && shared > 0)
		status = d->cuFuncSetAttribute(*function, 8, shared); // MAX_DYNAMIC_SHARED_SIZE_BYTES
	return status;
}

int ctx_launch(driver *d, handle ctx, handle stream, handle function, unsigned blocks, unsigned x, unsigned y, unsigned shared, void *params) {
	void *arguments[] = {params};
	ENTERED(d->cuLaunchKernel(function, blocks, 1, 1, x, y, 1, shared, stream, arguments, NULL));
}

enum { NCCL_IN_PROGRESS = 7, NCCL_BYTES = 0, NCCL_FLOATS = 7, NCCL_SUM = 0 };

#define ENTERED_LIBRARY() \
	int status = enter(d, ctx); \
	if (status != 0) \
		return -status

int ctx_nccl_init(driver *d, handle ctx, nccl *n, handle *comm, int ranks, const char *id, int rank) {
	ENTERED_LIBRARY();
	unique_id name;
	memcpy(name.bytes, id, sizeof name.bytes);
	nccl_config config = {sizeof config, 0xcafebeef, 21400, 0};
	return n->ncclCommInitRankConfig(comm, ranks, name, rank, &config);
}

// ctx_nccl_state returns NCCL_IN_PROGRESS while the last call is in progress, 0 when it is done.
int ctx_nccl_state(driver *d, handle ctx, nccl *n, handle comm) {
	ENTERED_LIBRARY();
	int state = 0;
	status = n->ncclCommGetAsyncError(comm, &state);
	return status != 0 ? status : state;
}

int ctx_nccl_abort(driver *d, handle ctx, nccl *n, handle comm) {
	ENTERED_LIBRARY();
	return n->ncclCommAbort(comm);
}

int ctx_nccl_close(driver *d, handle ctx, nccl *n, handle comm) {
	ENTERED_LIBRARY();
	return n->ncclCommDestroy(comm);
}

// ctx_nccl_exchange sends to[r] to each rank r and receives from[r] from it, in one group that
// starts with rank self + 1.
int ctx_nccl_exchange(driver *d, handle ctx, nccl *n, handle comm, handle stream, int ranks, int self, const part *to, const part *from) {
	ENTERED_LIBRARY();
	status = n->ncclGroupStart();
	if (status == NCCL_IN_PROGRESS)
		status = 0;
	for (int k = 1; k < ranks && status == 0; k++) {
		int next = (self + k) % ranks, before = (self - k + ranks) % ranks;
		if (from[before].bytes > 0)
			status = n->ncclRecv((void *)from[before].at, from[before].bytes, NCCL_BYTES, before, comm, stream);
		if (status == NCCL_IN_PROGRESS)
			status = 0;
		if (to[next].bytes > 0 && status == 0)
			status = n->ncclSend((const void *)to[next].at, to[next].bytes, NCCL_BYTES, next, comm, stream);
		if (status == NCCL_IN_PROGRESS)
			status = 0;
	}
	int ended = n->ncclGroupEnd();
	return status != 0 ? status : ended;
}

int ctx_nccl_sum(driver *d, handle ctx, nccl *n, handle comm, handle stream, uint64_t at, uint64_t floats) {
	ENTERED_LIBRARY();
	return n->ncclAllReduce((const void *)at, (void *)at, floats, NCCL_FLOATS, NCCL_SUM, comm, stream);
}

int ctx_cublas_create(driver *d, handle ctx, cublas *b, handle *made, handle stream, device_ptr workspace, size_t bytes) {
	ENTERED_LIBRARY();
	if ((status = b->cublasCreate_v2(made)) != 0 || (status = b->cublasSetStream_v2(*made, stream)) != 0)
		return status;
	return b->cublasSetWorkspace_v2(*made, (void *)workspace, bytes);
}

int ctx_cublas_close(driver *d, handle ctx, cublas *b, handle made) {
	ENTERED_LIBRARY();
	return b->cublasDestroy_v2(made);
}

// 0: CUDA_R_32F; -1: CUBLAS_GEMM_DEFAULT.
int ctx_cublas_gemm(driver *d, handle ctx, cublas *b, handle made, int ta, int tb, int m, int n, int k, device_ptr x, int ldx, device_ptr y, int ldy, device_ptr to, int ldto, int compute) {
	ENTERED_LIBRARY();
	const float one = 1.0f, zero = 0.0f;
	return b->cublasGemmEx(made, ta, tb, m, n, k, &one, (const void *)x, 0, ldx, (const void *)y, 0, ldy, &zero, (void *)to, 0, ldto, compute, -1);
}
