// A stand-in for libcuda.so.1: GPUs (ECREC_STANDIN_GPUS of them, or one) whose kernels are
// compiled in and run on the CPU.
//
// Streams defer all work until a caller waits or queries, as late as CUDA may. This reveals code
// that reads results without waiting, or that changes memory with pending reads. Other calls that
// CUDA refuses are refused too: without a context, with unallocated memory, with too large blocks.
#include "shim.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace {

enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, INVALID_IMAGE = 200, INVALID_CONTEXT = 201, NOT_FOUND = 500, NOT_READY = 600, LAUNCH_FAILED = 719 };

std::mutex tables; // guards memories, streams and taken
std::mutex fibers; // kernels run one at a time

struct Memory {
	size_t bytes;
	bool host;
};
std::map<uintptr_t, Memory> memories; // by address
size_t taken;

struct Device {
	bool retained;
} devices[16]; // their addresses are the contexts

thread_local Device *context;

struct Stream : std::enable_shared_from_this<Stream> {
	Device *device = context;
	std::mutex queue, running; // running: held by the thread that drains
	std::deque<std::function<int()>> work;
	int failed = OK;
	std::atomic<bool> beside{false}; // a thread of its own drains it

	void add(std::function<int()> f) {
		std::lock_guard<std::mutex> lock(queue);
		work.push_back(std::move(f));
	}
};
std::set<std::shared_ptr<Stream>> streams; // a thread that drains one holds a reference

#define HERE \
	if (context < devices || context >= devices + 16 || !context->retained) \
		return INVALID_CONTEXT;

int gpus() {
	if (getenv("ECREC_STANDIN_NO_GPU"))
		return 0;
	const char *text = getenv("ECREC_STANDIN_GPUS");
	return text ? atoi(text) : 1;
}

size_t limit() {
	const char *text = getenv("ECREC_STANDIN_BYTES");
	return text ? strtoull(text, nullptr, 10) : (size_t)4 << 30;
}

// find returns the allocation that contains all of [p, p+n), or NULL.
const Memory *find(uintptr_t p, size_t n) {
	auto after = memories.upper_bound(p);
	if (after == memories.begin())
		return nullptr;
	auto it = std::prev(after);
	return p - it->first < it->second.bytes && p - it->first + n <= it->second.bytes ? &it->second : nullptr;
}

// crosses reports whether [p, p+n) is only partly inside an allocation.
bool crosses(uintptr_t p, size_t n) {
	if (find(p, n) != nullptr)
		return false;
	auto it = memories.upper_bound(p + n - 1);
	if (it == memories.begin())
		return false;
	--it;
	return it->first + it->second.bytes > p;
}

int drain(Stream *s) {
	std::lock_guard<std::mutex> lock(s->running);
	for (;;) {
		std::function<int()> next;
		{
			std::lock_guard<std::mutex> lock(s->queue);
			if (s->work.empty())
				return s->failed;
			next = std::move(s->work.front());
			s->work.pop_front();
		}
		if (s->failed == OK)
			s->failed = next();
	}
}

// drainDevice completes all pending work of a GPU, before its memory is freed.
void drainDevice() {
	std::vector<std::shared_ptr<Stream>> all;
	{
		std::lock_guard<std::mutex> lock(tables);
		for (auto &s : streams)
			if (s->device == context)
				all.push_back(s);
	}
	for (auto &s : all)
		drain(s.get());
}

int allocate(void **p, size_t n, bool host) {
	std::lock_guard<std::mutex> lock(tables);
	if (n == 0)
		return INVALID_VALUE;
	if (!host && taken + n > limit())
		return OUT_OF_MEMORY;
	*p = aligned_alloc(256, (n + 255) / 256 * 256);
	if (*p == nullptr)
		return OUT_OF_MEMORY;
	memset(*p, 0xff, n); // NaNs: CUDA does not zero memory
	memories[(uintptr_t)*p] = {n, host};
	if (!host)
		taken += n;
	return OK;
}

int release(uintptr_t p, bool host) {
	drainDevice();
	std::lock_guard<std::mutex> lock(tables);
	auto it = memories.find(p);
	if (it == memories.end() || it->second.host != host)
		return INVALID_VALUE;
	if (!host)
		taken -= it->second.bytes;
	memories.erase(it);
	free((void *)p);
	return OK;
}

} // namespace

extern "C" {

int cuInit(unsigned) { return OK; }
int cuDriverGetVersion(int *v) { return *v = 12080, OK; }
int cuDeviceGetCount(int *n) { return *n = gpus(), OK; }
int cuDeviceGet(int *dev, int i) { return *dev = i, i >= 0 && i < gpus() ? OK : INVALID_VALUE; }
int cuDeviceGetName(char *to, int n, int) { return snprintf(to, n, "stand-in"), OK; }
int cuDeviceGetUuid_v2(unsigned char *to, int dev) { return memset(to, 0, 16), to[0] = (unsigned char)(dev + 1), OK; }
int cuDeviceTotalMem_v2(size_t *n, int) { return *n = limit(), OK; }

int cuDeviceGetAttribute(int *to, int what, int) {
	switch (what) {
	case 16: // few multiprocessors: grids are short, and kernels stride
		return *to = 2, OK;
	case 41:
		return *to = 1, OK;
	case 75:
		return *to = 9, OK;
	case 76:
		return *to = 0, OK;
	case 97:
		return *to = 64 << 10, OK;
	}
	return INVALID_VALUE;
}

int cuDevicePrimaryCtxRetain(void **ctx, int dev) { return *ctx = &devices[dev], devices[dev].retained = true, OK; }
int cuDevicePrimaryCtxRelease_v2(int) { return OK; }
int cuCtxGetCurrent(void **ctx) { return *ctx = context, OK; }
int cuCtxSetCurrent(void *ctx) { return context = (Device *)ctx, OK; }

int cuMemGetInfo_v2(size_t *free, size_t *total) {
	HERE
	std::lock_guard<std::mutex> lock(tables);
	return *total = limit(), *free = limit() - taken, OK;
}
// standinTaken is called by NVML's stand-in.
size_t standinTaken(size_t *most) {
	std::lock_guard<std::mutex> lock(tables);
	return *most = limit(), taken;
}
int cuMemAlloc_v2(uint64_t *p, size_t n) {
	HERE
	return allocate((void **)p, n, false);
}
int cuMemFree_v2(uint64_t p) {
	HERE
	return release(p, false);
}
int cuMemHostAlloc(void **p, size_t n, unsigned) {
	HERE
	return allocate(p, n, true);
}
int cuMemFreeHost(void *p) {
	HERE
	return release((uintptr_t)p, true);
}

int cuStreamCreate(void **s, unsigned) {
	HERE
	auto made = std::make_shared<Stream>();
	std::lock_guard<std::mutex> lock(tables);
	streams.insert(made);
	return *s = made.get(), OK;
}
int cuStreamDestroy_v2(void *s) {
	HERE
	drain((Stream *)s);
	std::lock_guard<std::mutex> lock(tables);
	streams.erase(((Stream *)s)->shared_from_this());
	return OK;
}
int cuStreamSynchronize(void *s) {
	HERE
	return drain((Stream *)s);
}

// cuStreamQuery lets a thread continue the stream while the caller runs.
int cuStreamQuery(void *stream) {
	HERE
	Stream *s = (Stream *)stream;
	if (s->beside)
		return NOT_READY;
	{
		std::lock_guard<std::mutex> lock(s->queue);
		if (s->work.empty())
			return s->failed;
	}
	s->beside = true;
	std::thread([kept = s->shared_from_this()] {
		drain(kept.get());
		kept->beside = false;
	}).detach();
	return NOT_READY;
}

int cuLaunchHostFunc(void *s, void (*f)(void *), void *data) {
	HERE
	((Stream *)s)->add([=] { return f(data), OK; });
	return OK;
}

int cuMemcpyAsync(uint64_t to, uint64_t from, size_t n, void *stream) {
	HERE
	if (n == 0)
		return OK;
	bool ours[2];
	{
		std::lock_guard<std::mutex> lock(tables);
		if (crosses(to, n) || crosses(from, n))
			return INVALID_VALUE;
		ours[0] = find(to, n) != nullptr, ours[1] = find(from, n) != nullptr;
	}
	Stream *s = (Stream *)stream;
	if (!ours[0]) { // pageable: done when the call returns
		int status = drain(s);
		if (status == OK)
			memcpy((void *)to, (void *)from, n);
		return status;
	}
	if (!ours[1]) { // pageable: read when the call returns
		std::shared_ptr<std::string> held(new std::string((char *)from, n));
		s->add([=] { return memcpy((void *)to, held->data(), n), OK; });
		return OK;
	}
	s->add([=] { return memmove((void *)to, (void *)from, n), OK; });
	return OK;
}

int cuMemsetD8Async(uint64_t p, unsigned char x, size_t n, void *stream) {
	HERE
	{
		std::lock_guard<std::mutex> lock(tables);
		if (find(p, n) == nullptr)
			return INVALID_VALUE;
	}
	((Stream *)stream)->add([=] { return memset((void *)p, x, n), OK; });
	return OK;
}

int cuModuleLoadData(void **m, const void *image) {
	HERE
	if (std::string((const char *)image) != std::string("stand-in ") + sourceHash)
		return INVALID_IMAGE;
	return *m = context, OK;
}
int cuModuleUnload(void *) { return OK; }

int cuModuleGetFunction(void **f, void *, const char *name) {
	HERE
	for (int i = 0; i < kernelCount; i++)
		if (strcmp(kernels[i].name, name) == 0)
			return *f = (void *)&kernels[i], OK;
	return NOT_FOUND;
}
int cuFuncSetAttribute(void *, int, int n) { return n <= 64 << 10 ? OK : INVALID_VALUE; }

int cuLaunchKernel(void *f, unsigned blocks, unsigned by, unsigned bz, unsigned x, unsigned y, unsigned z, unsigned shared, void *stream, void **params, void **) {
	HERE
	if (blocks == 0 || by != 1 || bz != 1 || x == 0 || y == 0 || z != 1 || x * y > 1024 || shared > 64 << 10)
		return INVALID_VALUE;
	const Kernel *k = (const Kernel *)f;
	std::shared_ptr<std::string> held(new std::string((const char *)params[0], k->params));
	((Stream *)stream)->add([=] {
		std::lock_guard<std::mutex> lock(fibers);
		const char *wrong = runBlocks(k->run, held->data(), blocks, x, y);
		if (wrong)
			fprintf(stderr, "stand-in: kernel %s: %s\n", k->name, wrong);
		return wrong ? LAUNCH_FAILED : OK;
	});
	return OK;
}

int cuGetErrorName(int status, const char **text) {
	switch (status) {
	case INVALID_VALUE: return *text = "CUDA_ERROR_INVALID_VALUE", OK;
	case OUT_OF_MEMORY: return *text = "CUDA_ERROR_OUT_OF_MEMORY", OK;
	case INVALID_IMAGE: return *text = "CUDA_ERROR_INVALID_IMAGE", OK;
	case INVALID_CONTEXT: return *text = "CUDA_ERROR_INVALID_CONTEXT", OK;
	case NOT_READY: return *text = "CUDA_ERROR_NOT_READY", OK;
	case NOT_FOUND: return *text = "CUDA_ERROR_NOT_FOUND", OK;
	case LAUNCH_FAILED: return *text = "CUDA_ERROR_LAUNCH_FAILED", OK;
	}
	return INVALID_VALUE;
}
int cuGetErrorString(int status, const char **text) { return cuGetErrorName(status, text); }
}
