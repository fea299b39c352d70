package kernels

import "math/bits"

// The parameters of the CUDA kernels, field by field as in the structs of cuda/*.cu.

type cudaMat struct {
	p      uintptr
	stride int64
}

// cudaDivisor divides by t, for numbers below 2^31.
type cudaDivisor struct{ magic, shift uint32 }

func divisorOf(t int) (d cudaDivisor) {
	if t > 1 {
		s := bits.Len32(uint32(t - 1))
		d = cudaDivisor{uint32((1<<(31+s) + uint64(t) - 1) / uint64(t)), uint32(s - 1)}
	}
	return d
}

type cudaOptimizer struct {
	kind                                                              int32
	lr, momentum, eps, beta1, beta2, c1, c2, stepSize, biasCorrection float32
	beta, l1, l2, scale, decay, keep                                  float32
}

type cudaRowPart struct {
	opt                 cudaOptimizer
	first, width, state int32
}

type cudaUpdateDense struct {
	opt         cudaOptimizer
	n           int64
	w, state, g uintptr
	fault       uintptr
}

type cudaSum struct {
	dst, from     uintptr
	n             int64
	addends, wide int32
}

type cudaFollow struct {
	y                   cudaMat
	bias                uintptr
	rows                int64
	cols, relu, wide, _ int32
}

type cudaColumnSums struct {
	y           cudaMat
	sums        uintptr
	rows, each  int64
	cols, parts int32
}

type cudaColumns struct {
	dst, src   cudaMat
	rows       int64
	cols, wide int32
}

type cudaExtended struct {
	dst, vectors, tail cudaMat
	rows               int64
	f, d, e, _         int32
}

type cudaMulAdd struct {
	dst, a, b, c         cudaMat
	rows                 int64
	cols, bCols, wide, _ int32
}

type cudaLoss struct {
	loss, out, logit, label, weight uintptr
	n                               int64
	scale, positive                 float32
}

type cudaGather struct {
	dst, src       cudaMat
	index, fault   uintptr
	lookups, limit int64
	t, d           int32
	by             cudaDivisor
}

type cudaXor struct {
	dst, a, b            cudaMat
	ia, ib               uintptr
	factors, fault       uintptr
	rows, aLimit, bLimit int64
	d, op                int32
}

type cudaDraw struct {
	rows                      cudaMat
	slots, base, scale, fault uintptr
	seed                      uint64
	n, limit, owners, owner   int64
	tables, width, cols, each int32
	parts                     int32
	widths                    [MaxRowParts]int32
	_                         int32
}

type cudaSegments struct {
	dst, src                    cudaMat
	start, pos, fault, longOnes uintptr
	n, limit, positions         int64
	t, d, op, turn              int32
	by                          cudaDivisor
	parts                       [MaxRowParts]cudaRowPart
	update                      int32
	_                           int32
	rows                        cudaMat
	slots                       uintptr
	slotLimit                   int64
	sums, factors               uintptr
}

type cudaBags struct {
	dst, src                             cudaMat
	index, offsets, mean, weights, fault uintptr
	cells, lookups, limit                int64
	features, d                          int32
	by                                   cudaDivisor
}

type cudaInteraction struct {
	out, feats, dfeats cudaMat
	samples            int64
	f, d, row, lead    int32
	group, each, wide  int32
	_                  int32
	by                 cudaDivisor
}

type cudaProduct struct {
	c, a, b       cudaMat
	bias          uintptr
	gate          cudaMat
	sums          uintptr
	m, n, k, relu int32
	wide, _       int32
}

type cudaDigits struct {
	x          cudaMat
	to, scales uintptr
	rows, k    int32
	wide, _    int32
}

type cudaExactProduct struct {
	c              cudaMat
	a, b           uintptr
	scaleA, scaleB uintptr
	bias           uintptr
	gate           cudaMat
	partial        uintptr
	m, n, k, relu  int32
	more, _        int32
}
