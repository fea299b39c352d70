//go:build cgo && linux

package cuda

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// headersVariable is the environment variable with the folders of NVIDIA's headers, separated
// by colons.
const headersVariable = "ECREC_CUDA_HEADERS"

// checks compares edge.h with NVIDIA's headers: every function exists with the same number and
// kinds of arguments, and every number has the value of its name.
const checks = `
#include <cstddef>
#include <type_traits>
#include <cuda.h>
#include <nvrtc.h>
#include <nccl.h>
#include "edge.h"

template <typename R, typename... A, typename Q, typename... B> constexpr bool alike(R (*)(A...), Q (*)(B...)) {
	if constexpr (sizeof...(A) != sizeof...(B))
		return false;
	else
		return ((sizeof(A) == sizeof(B) && std::is_class_v<A> == std::is_class_v<B>) && ... && true);
}
#define CHECK(name, args) static_assert(alike(decltype(&name)(nullptr), (int(*) args)nullptr), #name);
DRIVER_FUNCTIONS(CHECK)
COMPILER_FUNCTIONS(CHECK)
NCCL_FUNCTIONS(CHECK)

#if __has_include(<cublas_v2.h>)
#include <cublas_v2.h>
// One of them is overloaded in C++.
static cublasStatus_t gemm(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const void *alpha, const void *a, cudaDataType at, int lda,
	const void *b, cudaDataType bt, int ldb, const void *beta, void *c, cudaDataType ct, int ldc, cublasComputeType_t compute, cublasGemmAlgo_t algo) {
	return cublasGemmEx(h, ta, tb, m, n, k, alpha, a, at, lda, b, bt, ldb, beta, c, ct, ldc, compute, algo);
}
#define cublasGemmEx gemm
CUBLAS_FUNCTIONS(CHECK)
static_assert(CUDA_R_32F == 0 && CUBLAS_GEMM_DEFAULT == -1 && CUBLAS_OP_N == 0 && CUBLAS_OP_T == 1);
static_assert(CUBLAS_COMPUTE_32F_PEDANTIC == 69 && CUBLAS_COMPUTE_32F_FAST_TF32 == 77 && CUBLAS_COMPUTE_32F_FAST_16BF == 75);
#endif

static_assert(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT == 16);
static_assert(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING == 41);
static_assert(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR == 75);
static_assert(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR == 76);
static_assert(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN == 97);
static_assert(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES == 8);
static_assert((CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP) == 3);
static_assert(CU_STREAM_NON_BLOCKING == 1);
static_assert(CUDA_ERROR_NOT_READY == 600);
static_assert(sizeof(CUuuid) == 16);
static_assert(ncclInProgress == 7);
static_assert(ncclFloat32 == 7);
static_assert(ncclInt8 == 0);
static_assert(ncclSum == 0);
static_assert(sizeof(ncclUniqueId) == sizeof(unique_id));
static_assert(offsetof(ncclConfig_t, magic) == offsetof(nccl_config, magic));
static_assert(offsetof(ncclConfig_t, version) == offsetof(nccl_config, version));
static_assert(offsetof(ncclConfig_t, blocking) == offsetof(nccl_config, blocking));
`

func TestHeaders(t *testing.T) {
	folders := filepath.SplitList(os.Getenv(headersVariable))
	compiler, err := exec.LookPath("c++")
	if len(folders) == 0 || err != nil {
		t.Skip("skipped: no C++ compiler, or no headers of NVIDIA's in " + headersVariable + " (make test-cuda-host fetches them)")
	}
	// The libraries' headers need this of the run-time's headers, which need the compiler.
	stub := t.TempDir()
	for name, text := range map[string]string{"cuda_runtime.h": "#include <cuda.h>\ntypedef CUstream cudaStream_t;\n",
		"driver_types.h": "#include <cuda_runtime.h>\n",
		"cuda_fp16.h":    "struct __half { short x; };\n", "cuda_bf16.h": "struct __nv_bfloat16 { short x; };\n",
		"cuComplex.h": "struct cuComplex { float x, y; };\nstruct cuDoubleComplex { double x, y; };\n"} {
		if err := os.WriteFile(filepath.Join(stub, name), []byte("#pragma once\n"+text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	compile := func(text string) (string, error) {
		args := []string{"-std=c++17", "-fsyntax-only", "-I.", "-I" + stub}
		for _, f := range folders {
			args = append(args, "-I"+f)
		}
		cmd := exec.Command(compiler, append(args, "-x", "c++", "-")...)
		cmd.Stdin = strings.NewReader(text)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := compile(checks); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for _, wrong := range []string{"CHECK(cuMemFree_v2, (device_ptr, int))", "CHECK(cuMemFree_v2, (int))",
		"CHECK(cuNoSuchThing, (int))", "static_assert(ncclSum == 1);"} {
		if _, err := compile(checks + wrong); err == nil {
			t.Errorf("%s passes: the check shows nothing", wrong)
		}
	}
}

// TestNCCLIsThere opens a real NCCL, which needs no GPU for its name of a communicator.
func TestNCCLIsThere(t *testing.T) {
	lib, err := OpenNCCL()
	if err != nil {
		t.Skip("skipped: no NCCL (make test-cuda-host fetches one): ", err)
	}
	t.Logf("NCCL %d", lib.Version)
	id, err := lib.NewID()
	t.Logf("a name: %v, error %v", id != ID{}, err)
	if err == nil && id == (ID{}) {
		t.Error("the name of a communicator is empty")
	}
}

// TestCUBLASIsThere opens a real cuBLAS.
func TestCUBLASIsThere(t *testing.T) {
	if _, err := OpenCUBLAS(); err != nil {
		t.Skip("skipped: no cuBLAS: ", err)
	}
}
