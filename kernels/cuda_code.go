package kernels

import (
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/ecrec/ecrec/internal/atomicfile"
	"github.com/ecrec/ecrec/internal/cuda"
)

//go:embed cuda
var cudaFiles embed.FS

// cudaUnit lists the sources in the order in which they are compiled, as one unit.
var cudaUnit = []string{"common.cuh", "optimizer.cuh", "elements.cu", "rows.cu", "sums.cu", "short.cu", "long.cu",
	"bags.cu", "interaction.cu", "norm.cu", "gemm.cu", "exact_tc.cu"}

// CUDASource returns the text of all CUDA kernels.
func CUDASource() string {
	var text strings.Builder
	for _, name := range cudaUnit {
		source, err := cudaFiles.ReadFile("cuda/" + name)
		if err != nil {
			panic(err) // it is embedded
		}
		fmt.Fprintf(&text, "#line 1 %q\n%s", name, source)
	}
	return text.String()
}

// CUDAOptions returns the compiler's options: only explicit FMAs are fused, and
// divisions, roots and subnormal numbers follow IEEE 754.
func CUDAOptions() []string {
	return []string{"--std=c++17", "--fmad=false", "--prec-div=true", "--prec-sqrt=true", "--ftz=false"}
}

// cudaKernel numbers the kernels.
type cudaKernel int

const (
	kernelUpdateDense cudaKernel = iota
	kernelSum
	kernelColumns
	kernelGate
	kernelMulAdd
	kernelLoss
	kernelSigmoid
	kernelGather
	kernelGather4
	kernelScatter
	kernelScatter4
	kernelXor
	kernelXor4
	kernelDraw
	kernelSegments
	kernelSegments4
	kernelWeighted
	kernelWeighted4
	kernelUpdateParts
	kernelUpdateParts4
	kernelUpdateRows0
	kernelUpdateRows1
	kernelUpdateRows2
	kernelUpdateRowwise
	kernelSumLong
	kernelUpdateLong
	kernelPool
	kernelPool4
	kernelDivide
	kernelInteraction
	kernelInteractionGrad
	kernelInteractionGrad28
	kernelAddBias
	kernelColumnSums
	kernelColumnChains
	kernelBatchNorm
	kernelBatchNormSums
	kernelBatchNormGrad
	kernelAverage
	kernelInverseRoot
	kernelScale
	kernelDropout
	kernelFM
	kernelFMGrad
	kernelScaleVectors
	kernelScaleVectorsGrad
	kernelExtendVectors
	kernelDigitsAlong
	kernelDigitsAcross
	kernelExactPlain
	kernelExactProduct
	kernelExactProduct2
	kernelExactSum
	kernelLinear     // one for each of productTiles, as for the next two
	kernelGradInput  = kernelLinear + cudaKernel(len(productTiles))
	kernelGradWeight = kernelGradInput + cudaKernel(len(productTiles))
	cudaKernels      = kernelGradWeight + cudaKernel(len(productTiles))
)

// cudaNames are the kernels' names in the sources.
var cudaNames = [cudaKernels]string{"update_dense", "sum_addends", "copy_columns", "gate_relu", "mul_add", "sigmoid_bce", "sigmoid",
	"gather_rows", "gather_rows_4",
	"scatter_rows", "scatter_rows_4", "xor_rows", "xor_rows_4", "draw_rows", "sum_segments", "sum_segments_4",
	"sum_weighted", "sum_weighted_4", "update_parts", "update_parts_4", "update_rows_0", "update_rows_1", "update_rows_2", "update_rowwise",
	"sum_long", "update_long",
	"pool_rows", "pool_rows_4", "divide_cells",
	"dot_interaction", "dot_interaction_grad", "dot_interaction_grad_28", "add_bias", "column_sums",
	"column_chains", "batch_norm", "batch_norm_sums", "batch_norm_grad", "average", "inverse_root", "scale", "dropout", "fm", "fm_grad",
	"scale_vectors", "scale_vectors_grad", "extend_vectors",
	"digits_along", "digits_across", "exact_plain", "exact_product", "exact_product_2", "exact_sum",
	"linear_128", "linear_128_64", "linear_64", "linear_64_32", "linear_32", "linear_16",
	"grad_input_128", "grad_input_128_64", "grad_input_64", "grad_input_64_32", "grad_input_32", "grad_input_16",
	"grad_weight_128", "grad_weight_128_64", "grad_weight_64", "grad_weight_64_32", "grad_weight_32", "grad_weight_16"}

// cudaCode holds the loaded kernels.
type cudaCode struct {
	module    *cuda.Module
	functions [cudaKernels]cuda.Function
}

// loadCUDA loads the kernels for a GPU, from the cache if it has them, else compiled.
func loadCUDA(c *cuda.Context) (*cudaCode, error) {
	image, err := cudaImage(c)
	if err != nil {
		return nil, err
	}
	code := new(cudaCode)
	if code.module, err = c.Load(image); err != nil {
		return nil, err
	}
	for k, name := range cudaNames {
		shared := 0
		switch k := cudaKernel(k); {
		case k >= kernelInteraction && k <= kernelInteractionGrad28, k == kernelExactProduct, k == kernelExactProduct2, k >= kernelLinear:
			shared = c.Shared
		}
		if code.functions[k], err = code.module.Function(name, shared); err != nil {
			return nil, err
		}
	}
	return code, nil
}

// cudaImage returns the kernels as code for a GPU's architecture. If the compiler does not
// support that architecture yet, it returns PTX for the newest one that it supports.
func cudaImage(c *cuda.Context) ([]byte, error) {
	source, options := CUDASource(), CUDAOptions()
	key := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%d\x00%s", c.Arch, strings.Join(options, " "), c.Version(), source))
	cached := ""
	if dir, err := os.UserCacheDir(); err == nil {
		cached = filepath.Join(dir, "ecrec", fmt.Sprintf("kernels-%s-%x.cubin", c.Arch, key[:8]))
		if image, err := os.ReadFile(cached); err == nil && len(image) > 0 {
			return image, nil
		}
	}
	compiler, err := cuda.OpenCompiler(c.Version())
	if err != nil {
		return nil, err
	}
	var image []byte
	for _, arch := range []string{c.Arch, "compute_90", "compute_80", "compute_75"} {
		image, err = compiler.Compile(source, "ecrec.cu", arch, options...)
		if rejected := (*cuda.Rejected)(nil); !errors.As(err, &rejected) || !strings.Contains(rejected.Log, "gpu-architecture") {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	if cached != "" && os.MkdirAll(filepath.Dir(cached), 0o755) == nil {
		_ = atomicfile.WriteFile(cached, image) // without it the next start compiles again
	}
	return image, nil
}
