//go:build cgo && linux

package sgemm

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { row_major = 101, plain = 111, transposed = 112 }; // of CBLAS
enum { dnnl_cpu = 1, dnnl_in_order = 1, dnnl_f32 = 3, dnnl_src = 1, dnnl_weights = 33, dnnl_dst = 17 };

typedef void (*sgemm32_fn)(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda,
	const float *b, int ldb, float beta, float *c, int ldc);
typedef void (*sgemm64_fn)(int order, int ta, int tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda,
	const float *b, int64_t ldb, float beta, float *c, int64_t ldc);
typedef struct { int major, minor, patch; } dnnl_version;
typedef struct { int arg; void *memory; } dnnl_argument;
typedef int64_t dnnl_dims[12];

typedef struct {
	char name[256];
	sgemm32_fn sgemm32;
	sgemm64_fn sgemm64;
	void (*set_threads)(int);

	// oneDNN, and the primitive of one shape.
	int (*md_create)(void **, int, const dnnl_dims, int, const dnnl_dims);
	int (*pd_create)(void **, void *, void *, void *, void *, void *, void *);
	int (*primitive_create)(void **, void *);
	int (*memory_create)(void **, void *, void *, void *);
	int (*memory_set)(void *, void *);
	int (*execute)(void *, void *, int, const dnnl_argument *);
	int (*wait)(void *);
	void *engine, *stream, *primitive;
	dnnl_argument arguments[3];
	int64_t shape[8];
} library;

// open_dnnl returns 0 if h is not oneDNN 3, else 1, or -1 if it fails.
static int open_dnnl(library *l, void *h) {
	const dnnl_version *(*version)(void) = dlsym(h, "dnnl_version");
	int (*engine_create)(void **, int, size_t) = dlsym(h, "dnnl_engine_create");
	int (*stream_create)(void **, void *, unsigned) = dlsym(h, "dnnl_stream_create");
	l->md_create = dlsym(h, "dnnl_memory_desc_create_with_strides");
	l->pd_create = dlsym(h, "dnnl_matmul_primitive_desc_create");
	l->primitive_create = dlsym(h, "dnnl_primitive_create");
	l->memory_create = dlsym(h, "dnnl_memory_create");
	l->memory_set = dlsym(h, "dnnl_memory_set_data_handle");
	l->execute = dlsym(h, "dnnl_primitive_execute");
	l->wait = dlsym(h, "dnnl_stream_wait");
	if (!version || !engine_create || !stream_create || !l->md_create || !l->pd_create || !l->primitive_create || !l->memory_create ||
			!l->memory_set || !l->execute || !l->wait)
		return 0;
	l->set_threads = dlsym(h, "omp_set_num_threads");
	snprintf(l->name, sizeof l->name, "oneDNN %d.%d.%d", version()->major, version()->minor, version()->patch);
	if (!l->set_threads || engine_create(&l->engine, dnnl_cpu, 0) || stream_create(&l->stream, l->engine, dnnl_in_order)) return -1;
	return 1;
}

static int open_mkl(library *l, void *h) {
	char text[256] = "";
	void (*version)(char *, int) = dlsym(h, "MKL_Get_Version_String");
	l->set_threads = dlsym(h, "MKL_Set_Num_Threads");
	l->sgemm32 = dlsym(h, "cblas_sgemm");
	if (!version || !l->set_threads || !l->sgemm32) return 0;
	version(text, sizeof text - 1); // "Intel(R) oneAPI Math Kernel Library Version 2025.3-Product Build ..."
	char *number = strstr(text, "Version ");
	snprintf(l->name, sizeof l->name, "MKL %s", number ? number + strlen("Version ") : text);
	return 1;
}

static int open_openblas(library *l, void *h) {
	char *(*config)(void) = dlsym(h, "openblas_get_config");
	l->set_threads = dlsym(h, "openblas_set_num_threads");
	l->sgemm32 = dlsym(h, "cblas_sgemm");
	if (config && l->set_threads && l->sgemm32) {
		snprintf(l->name, sizeof l->name, "%s", config());
		return 1;
	}
	config = dlsym(h, "scipy_openblas_get_config64_");
	l->set_threads = dlsym(h, "scipy_openblas_set_num_threads64_");
	l->sgemm32 = NULL;
	l->sgemm64 = dlsym(h, "scipy_cblas_sgemm64_");
	if (!config || !l->set_threads || !l->sgemm64) return 0;
	snprintf(l->name, sizeof l->name, "%s", config());
	return 1;
}

// library_open returns NULL, or the reason why it fails, which the caller frees. The text of dlerror belongs to the thread, whose next
// call may free it.
static char *library_open(library *l, const char *path) {
	void *h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (h == NULL) return strdup(dlerror());
	int found = open_dnnl(l, h);
	if (found == 0) found = open_mkl(l, h);
	if (found == 0) found = open_openblas(l, h);
	if (found > 0) return NULL;
	return strdup(found ? "oneDNN has no CPU engine, or no OpenMP" : "it has the functions of neither oneDNN 3, MKL nor OpenBLAS");
}

static void *describe(library *l, int64_t rows, int64_t cols, int64_t ld, int columns) {
	void *md = NULL;
	dnnl_dims dims = {rows, cols}, strides = {columns ? 1 : ld, columns ? ld : 1};
	return l->md_create(&md, 2, dims, dnnl_f32, strides) ? NULL : md;
}

static int prepare(library *l, const int64_t *s) {
	void *a = describe(l, s[0], s[2], s[3], s[6]), *b = describe(l, s[2], s[1], s[4], s[7]), *c = describe(l, s[0], s[1], s[5], 0), *pd = NULL;
	if (!a || !b || !c || l->pd_create(&pd, l->engine, a, b, NULL, c, NULL) || l->primitive_create(&l->primitive, pd)) return 1;
	l->arguments[0].arg = dnnl_src, l->arguments[1].arg = dnnl_weights, l->arguments[2].arg = dnnl_dst;
	if (l->memory_create(&l->arguments[0].memory, a, l->engine, NULL) || l->memory_create(&l->arguments[1].memory, b, l->engine, NULL) ||
			l->memory_create(&l->arguments[2].memory, c, l->engine, NULL))
		return 1;
	memcpy(l->shape, s, sizeof l->shape);
	return 0;
}

static int library_multiply(library *l, int threads, int ta, int tb, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda,
		const float *b, int64_t ldb, float *c, int64_t ldc) {
	l->set_threads(threads);
	if (l->sgemm32 != NULL)
		l->sgemm32(row_major, ta ? transposed : plain, tb ? transposed : plain, m, n, k, 1, a, lda, b, ldb, 0, c, ldc);
	else if (l->sgemm64 != NULL)
		l->sgemm64(row_major, ta ? transposed : plain, tb ? transposed : plain, m, n, k, 1, a, lda, b, ldb, 0, c, ldc);
	else {
		const int64_t s[8] = {m, n, k, lda, ldb, ldc, ta, tb};
		if (memcmp(s, l->shape, sizeof s) != 0 && prepare(l, s)) return 1;
		return l->memory_set(l->arguments[0].memory, (void *)a) || l->memory_set(l->arguments[1].memory, (void *)b) ||
			l->memory_set(l->arguments[2].memory, c) || l->execute(l->primitive, l->stream, 3, l->arguments) || l->wait(l->stream);
	}
	return 0;
}
*/
import "C"

import (
	"fmt"
	"unsafe"
)

// Library is an open library. It belongs to one goroutine, which stays on its thread. It is never closed.
type Library struct{ lib *C.library }

// Open opens the library at path, or that of this name where the system looks for libraries.
func Open(path string) (*Library, error) {
	text := C.CString(path)
	defer C.free(unsafe.Pointer(text))
	lib := (*C.library)(C.calloc(1, C.sizeof_library))
	if why := C.library_open(lib, text); why != nil {
		defer C.free(unsafe.Pointer(why))
		C.free(unsafe.Pointer(lib))
		return nil, fmt.Errorf("library %s cannot be opened: %s", path, C.GoString(why))
	}
	return &Library{lib}, nil
}

// Name is the library's description of itself, with its version.
func (l *Library) Name() string { return C.GoString(&l.lib.name[0]) }

// Multiply computes p on a number of threads.
func (l *Library) Multiply(threads int, p *Product) error {
	transposed := func(o *Operand) C.int {
		if o.Transposed {
			return 1
		}
		return 0
	}
	ptr := func(o *Operand) *C.float { return (*C.float)(unsafe.SliceData(o.Floats)) }
	if C.library_multiply(l.lib, C.int(threads), transposed(&p.A), transposed(&p.B), C.int64_t(p.M), C.int64_t(p.N), C.int64_t(p.K),
		ptr(&p.A), C.int64_t(p.A.LD), ptr(&p.B), C.int64_t(p.B.LD), ptr(&p.C), C.int64_t(p.C.LD)) != 0 {
		return fmt.Errorf("%s does not multiply (%d, %d) by (%d, %d)", l.Name(), p.M, p.K, p.K, p.N)
	}
	return nil
}
