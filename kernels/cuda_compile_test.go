package kernels

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/internal/cuda"
)

// TestCUDACompiles compiles all kernels for the cards of data centres with a real NVRTC. It
// skips if there is none.
func TestCUDACompiles(t *testing.T) {
	compiler, err := cuda.OpenCompiler(0)
	if none := (*cuda.Missing)(nil); errors.As(err, &none) {
		t.Skip("skipped: no NVRTC to compile with (make test-cuda-host fetches one): ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s, CUDA %d.%d", compiler.Path, compiler.Version/1000, compiler.Version%1000/10)
	t.Run("architectures", func(t *testing.T) {
		for _, arch := range []string{"sm_80", "sm_90", "sm_100"} { // by way of the PTX of compute_80 and so on
			t.Run(arch, func(t *testing.T) {
				t.Parallel()
				image, err := compiler.Compile(CUDASource(), "ecrec.cu", arch, CUDAOptions()...)
				if err != nil {
					t.Fatal(err)
				}
				for _, name := range cudaNames {
					if !bytes.Contains(image, []byte(name)) {
						t.Errorf("kernel %s is not in what was compiled", name)
					}
				}
				t.Logf("%d bytes", len(image))
			})
		}
		t.Run("compute_90", func(t *testing.T) {
			t.Parallel()
			if isFused(t, compiler, CUDAOptions()...) {
				t.Error("the compiler has fused what the sources keep apart")
			}
		})
		t.Run("compute_90 that may fuse", func(t *testing.T) { // without the option the compiler fuses: the check can fail
			t.Parallel()
			if !isFused(t, compiler, "--std=c++17") {
				t.Error("without --fmad=false nothing is fused either: the check above shows nothing")
			}
		})
	})
	_, err = compiler.Compile("KERNEL broken(", "ecrec.cu", "sm_90")
	if rejected := (*cuda.Rejected)(nil); !errors.As(err, &rejected) || !strings.Contains(rejected.Log, "ecrec.cu(1)") {
		t.Errorf("a source with an error: %v", err)
	}
}

// isFused reports whether an update's multiplications and additions are fused in the PTX of a compilation.
func isFused(t *testing.T, compiler *cuda.Compiler, options ...string) bool {
	ptx, err := compiler.Compile(CUDASource(), "ecrec.cu", "compute_90", options...)
	if err != nil {
		t.Fatal(err)
	}
	body := string(ptx[bytes.Index(ptx, []byte(".entry update_dense")):])
	return strings.Contains(body[:strings.Index(body, "\n}")], "fma.rn.f32")
}
