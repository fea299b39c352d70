// A stand-in for libcublas.so.12: products by columns, each element a chain of FMAs.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <dlfcn.h>
#include <string>

namespace {

enum { OK = 0, NOT_INITIALIZED = 1, INVALID_VALUE = 7 };

typedef int (*launch_fn)(void *stream, void (*)(void *), void *);

launch_fn launch() {
	static launch_fn found = [] {
		Dl_info here;
		dladdr((void *)launch, &here);
		std::string path(here.dli_fname);
		void *h = dlopen((path.substr(0, path.rfind('/') + 1) + "libcuda.so.1").c_str(), RTLD_NOW);
		return h ? (launch_fn)dlsym(h, "cuLaunchHostFunc") : nullptr;
	}();
	return found;
}

struct Handle {
	void *stream = nullptr, *workspace = nullptr;
};

struct Gemm {
	int ta, tb, m, n, k;
	const float *a, *b;
	float *c;
	int lda, ldb, ldc;
};

void run(void *p) {
	Gemm *g = (Gemm *)p;
	for (int j = 0; j < g->n; j++)
		for (int i = 0; i < g->m; i++) {
			float sum = 0;
			for (int q = 0; q < g->k; q++) {
				float a = g->ta ? g->a[(int64_t)i * g->lda + q] : g->a[(int64_t)q * g->lda + i];
				float b = g->tb ? g->b[(int64_t)q * g->ldb + j] : g->b[(int64_t)j * g->ldb + q];
				sum = std::fma(a, b, sum);
			}
			g->c[(int64_t)j * g->ldc + i] = sum;
		}
	delete g;
}

} // namespace

extern "C" {
int cublasCreate_v2(void **h) { return *h = new Handle, OK; }
int cublasDestroy_v2(void *h) { return delete (Handle *)h, OK; }
int cublasSetStream_v2(void *h, void *s) { return ((Handle *)h)->stream = s, OK; }
int cublasSetWorkspace_v2(void *h, void *p, size_t) { return ((Handle *)h)->workspace = p, OK; }
const char *cublasGetStatusString(int) { return "CUBLAS_STATUS_INVALID_VALUE"; }

int cublasGemmEx(void *handle, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int at, int lda, const void *b, int bt, int ldb,
	const void *beta, void *c, int ct, int ldc, int compute, int algo) {
	Handle *h = (Handle *)handle;
	if (h->workspace == nullptr || launch() == nullptr)
		return NOT_INITIALIZED;
	if (at || bt || ct || algo != -1 || (compute != 69 && compute != 77 && compute != 75) || *(const float *)alpha != 1 || *(const float *)beta != 0 || m < 1 || n < 1 || k < 1 ||
		lda < (ta ? k : m) || ldb < (tb ? n : k) || ldc < m)
		return INVALID_VALUE;
	return launch()(h->stream, run, new Gemm{ta, tb, m, n, k, (const float *)a, (const float *)b, (float *)c, lda, ldb, ldc});
}
}
