// A stand-in for libnvidia-ml.so.1, which reports the stand-ins' GPUs.
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <string>

namespace {

enum { OK = 0, NOT_FOUND = 6, UNKNOWN = 999 };

// find finds a function of the driver in the folder of this library.
void *find(const char *name) {
	Dl_info here;
	dladdr((void *)find, &here);
	std::string path(here.dli_fname);
	void *h = dlopen((path.substr(0, path.rfind('/') + 1) + "libcuda.so.1").c_str(), RTLD_NOW);
	return h ? dlsym(h, name) : nullptr;
}

typedef size_t (*taken_fn)(size_t *limit);

// taken is the driver's function that returns the allocated bytes.
taken_fn taken() { return (taken_fn)find("standinTaken"); }

int gpus() {
	int n = 0;
	((int (*)(int *))find("cuDeviceGetCount"))(&n);
	return n;
}

struct Memory {
	unsigned long long total, free, used;
};

struct Utilization {
	unsigned gpu, memory;
};

} // namespace

extern "C" {

int nvmlInit_v2() { return taken() ? OK : UNKNOWN; }
int nvmlShutdown() { return OK; }
const char *nvmlErrorString(int status) { return status == NOT_FOUND ? "Not Found" : "Unknown Error"; }

int nvmlSystemGetDriverVersion(char *to, unsigned n) { return snprintf(to, n, "stand-in"), OK; }
int nvmlDeviceGetCount_v2(unsigned *n) { return *n = (unsigned)gpus(), OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **dev) { return *dev = (void *)(size_t)(i + 1), (int)i < gpus() ? OK : NOT_FOUND; }
int nvmlDeviceGetName(void *, char *to, unsigned n) { return snprintf(to, n, "stand-in"), OK; }
int nvmlDeviceGetCudaComputeCapability(void *, int *major, int *minor) { return *major = 9, *minor = 0, OK; }
int nvmlDeviceGetTotalEccErrors(void *, int, int, unsigned long long *n) { return *n = 0, OK; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void *, unsigned long long *bits) { return *bits = 0, OK; }

int nvmlDeviceGetHandleByUUID(const char *uuid, void **dev) {
	unsigned number = 0;
	if (sscanf(uuid, "GPU-%02x000000-0000-0000-0000-000000000000", &number) != 1 || strlen(uuid) != 40)
		return NOT_FOUND;
	*dev = (void *)(size_t)number;
	return OK;
}

int nvmlDeviceGetMemoryInfo(void *, Memory *m) {
	size_t limit;
	m->used = taken()(&limit);
	m->total = limit;
	m->free = limit - m->used;
	return OK;
}

int nvmlDeviceGetUtilizationRates(void *, Utilization *u) {
	*u = {75, 50};
	return OK;
}
}
