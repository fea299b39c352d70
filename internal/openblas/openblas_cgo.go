//go:build cgo && linux

package openblas

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef void (*sgemm_fn)(int order, int ta, int tb, int m, int n, int k,
	float alpha, const float *a, int lda, const float *b, int ldb,
	float beta, float *c, int ldc);
typedef void (*threads_fn)(int);
typedef char *(*text_fn)(void);

typedef struct {
	sgemm_fn sgemm;
	threads_fn set_threads;
	text_fn config;
} library;

// library_open returns NULL, or the name of the missing library or function, which the caller frees. The text of dlerror belongs to the
// thread, whose next call may free it.
static char *library_open(library *l) {
	void *h = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
	if (h == NULL) h = dlopen("libopenblas.so", RTLD_NOW | RTLD_LOCAL);
	if (h == NULL) return strdup(dlerror());
	l->sgemm = (sgemm_fn)dlsym(h, "cblas_sgemm");
	l->set_threads = (threads_fn)dlsym(h, "openblas_set_num_threads");
	l->config = (text_fn)dlsym(h, "openblas_get_config");
	if (l->sgemm == NULL || l->set_threads == NULL || l->config == NULL)
		return strdup("libopenblas lacks cblas_sgemm, openblas_set_num_threads or openblas_get_config");
	return NULL;
}

static const char *library_config(library *l) { return l->config(); }

// OpenMP builds keep the number of threads per calling thread, so it is set in
// the same crossing as the product.
static void library_sgemm(library *l, int threads, int ta, int tb, int m, int n, int k,
		const float *a, int lda, const float *b, int ldb, float *c, int ldc) {
	l->set_threads(threads);
	l->sgemm(101, ta, tb, m, n, k, 1.0f, a, lda, b, ldb, 0.0f, c, ldc);
}
*/
import "C"

import (
	"fmt"
	"sync"
	"unsafe"
)

// Library is an open OpenBLAS. It is safe for concurrent use.
type Library struct {
	lib C.library
	// OpenBLAS has one number of threads for all callers. Calls with one thread
	// run at the same time; a call with more threads runs alone.
	mu sync.RWMutex
}

// Open opens libopenblas.
func Open() (*Library, error) {
	l := new(Library)
	if missing := C.library_open(&l.lib); missing != nil {
		defer C.free(unsafe.Pointer(missing))
		return nil, fmt.Errorf("OpenBLAS cannot be opened (%s); install it (Debian: libopenblas0-openmp) or use kernels.blas = \"exact\"",
			C.GoString(missing))
	}
	return l, nil
}

// Config returns OpenBLAS's version and the CPU model that it has chosen.
func (l *Library) Config() string { return C.GoString(C.library_config(&l.lib)) }

// SGEMM computes C (m, n) = A (m, k) B (k, n) in float32. Row r of a stored
// matrix begins at float r*ld.
func (l *Library) SGEMM(threads int, opA, opB Op, m, n, k int, a unsafe.Pointer, lda int, b unsafe.Pointer, ldb int,
	c unsafe.Pointer, ldc int) {
	if threads > 1 {
		l.mu.Lock()
		defer l.mu.Unlock()
	} else {
		l.mu.RLock()
		defer l.mu.RUnlock()
	}
	C.library_sgemm(&l.lib, C.int(threads), C.int(opA), C.int(opB), C.int(m), C.int(n), C.int(k),
		(*C.float)(a), C.int(lda), (*C.float)(b), C.int(ldb), (*C.float)(c), C.int(ldc))
}
