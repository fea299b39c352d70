package kernels

import (
	"fmt"
	"unsafe"
)

// The parameters of cuda/norm.cu, field by field.

type cudaNorm struct {
	y, x, dy               cudaMat
	mean, inv, gamma, beta uintptr
	dgamma, dbeta          uintptr
	rows                   int64
	cols, relu             int32
	samples                float32
	_                      int32
}

type cudaVector struct {
	dst, src uintptr
	n        int64
	by, rate float32
}

type cudaDrop struct {
	y            cudaMat
	rows         int64
	seed         uint64
	step         int64
	first, layer uint32
	least, by    float32
	cols, _      int32
}

type cudaFactors struct {
	out, feats, dfeats cudaMat
	samples            int64
	f, d               int32
}

type cudaNumbers struct {
	out, x cudaMat
	v      uintptr
	rows   int64
	n, d   int32
}

// cudaNorms are the operations of cuda/norm.cu on a stream.
type cudaNorms struct{ s *cudaStream }

// columnsAddress returns the address of b. It panics unless b holds n floats.
func (o cudaNorms) columnsAddress(op, name string, b Buffer, n int) uintptr {
	if b.Floats() != n {
		panic(fmt.Sprintf("kernels: %s: %s holds %d floats, want %d", op, name, b.Floats(), n))
	}
	return o.s.addressOf(op, name, b)
}

func (o cudaNorms) normOf(op string, x Matrix, n Norm) cudaNorm {
	return cudaNorm{x: o.s.matrixOf(op, "x", x, x.Rows, x.Cols), mean: o.columnsAddress(op, "mean", n.Mean, x.Cols),
		inv: o.columnsAddress(op, "inv", n.Inv, x.Cols), gamma: o.columnsAddress(op, "gamma", n.Gamma, x.Cols),
		rows: int64(x.Rows), cols: int32(x.Cols)}
}

// runNorm runs a kernel over the columns of x, or with rows over its rows.
func (o cudaNorms) runNorm(k cudaKernel, p cudaNorm, rows bool) {
	if p.cols == 0 {
		return
	}
	if !rows {
		const threads = 32 // of a block: there are few columns
		o.s.launchKernel(k, o.s.blocksOf(int(p.cols), threads), threads, 1, 0, unsafe.Pointer(&p))
		return
	}
	x, y := threadsOf(int(p.cols))
	o.s.launchKernel(k, o.s.blocksOf(int(p.rows), y), x, y, 0, unsafe.Pointer(&p))
}

func (o cudaNorms) ColumnSums(sums Buffer, x Matrix) {
	const op = "ColumnSums"
	o.runNorm(kernelColumnChains, cudaNorm{x: o.s.matrixOf(op, "x", x, x.Rows, x.Cols), dbeta: o.columnsAddress(op, "sums", sums, x.Cols),
		rows: int64(x.Rows), cols: int32(x.Cols)}, false)
}

func (o cudaNorms) ColumnSquares(sums Buffer, x Matrix, mean Buffer) {
	const op = "ColumnSquares"
	o.runNorm(kernelColumnChains, cudaNorm{x: o.s.matrixOf(op, "x", x, x.Rows, x.Cols), dbeta: o.columnsAddress(op, "sums", sums, x.Cols),
		mean: o.columnsAddress(op, "mean", mean, x.Cols), rows: int64(x.Rows), cols: int32(x.Cols)}, false)
}

func (o cudaNorms) BatchNorm(y, x Matrix, n Norm, act Activation) {
	const op = "BatchNorm"
	p := o.normOf(op, x, n)
	p.y, p.beta = o.s.matrixOf(op, "y", y, x.Rows, x.Cols), o.columnsAddress(op, "beta", n.Beta, x.Cols)
	if act == ReLU {
		p.relu = 1
	}
	o.runNorm(kernelBatchNorm, p, true)
}

func (o cudaNorms) BatchNormSums(dgamma, dbeta Buffer, dy, x Matrix, n Norm) {
	const op = "BatchNormSums"
	p := o.normOf(op, x, n)
	p.dy = o.s.matrixOf(op, "dy", dy, x.Rows, x.Cols)
	p.dgamma, p.dbeta = o.columnsAddress(op, "dgamma", dgamma, x.Cols), o.columnsAddress(op, "dbeta", dbeta, x.Cols)
	o.runNorm(kernelBatchNormSums, p, false)
}

func (o cudaNorms) BatchNormGrad(dx, dy, x Matrix, n Norm, dgamma, dbeta Buffer, samples int) {
	const op = "BatchNormGrad"
	p := o.normOf(op, x, n)
	p.y, p.dy = o.s.matrixOf(op, "dx", dx, x.Rows, x.Cols), o.s.matrixOf(op, "dy", dy, x.Rows, x.Cols)
	p.dgamma, p.dbeta = o.columnsAddress(op, "dgamma", dgamma, x.Cols), o.columnsAddress(op, "dbeta", dbeta, x.Cols)
	p.samples = float32(samples)
	o.runNorm(kernelBatchNormGrad, p, true)
}

// runVector runs a kernel over the floats of dst and src.
func (o cudaNorms) runVector(op string, k cudaKernel, dst, src Buffer, by, rate float32) {
	n := dst.Floats()
	p := cudaVector{dst: o.s.addressOf(op, "dst", dst), src: o.columnsAddress(op, "src", src, n), n: int64(n), by: by, rate: rate}
	o.s.launchKernel(k, o.s.blocksOf(n, elementThreads), elementThreads, 1, 0, unsafe.Pointer(&p))
}

func (o cudaNorms) Average(dst, sums Buffer, by, rate float32) {
	o.runVector("Average", kernelAverage, dst, sums, by, rate)
}

func (o cudaNorms) InverseRoot(dst, sums Buffer, by, eps float32) {
	o.runVector("InverseRoot", kernelInverseRoot, dst, sums, by, eps)
}

func (o cudaNorms) Scale(dst, src Buffer, by float32) {
	o.runVector("Scale", kernelScale, dst, src, by, 0)
}

func (o cudaNorms) Dropout(y Matrix, d Dropout) {
	p := cudaDrop{y: o.s.matrixOf("Dropout", "y", y, y.Rows, y.Cols), rows: int64(y.Rows), seed: d.Seed, step: d.Step,
		first: uint32(d.First), layer: uint32(d.Layer), least: d.least(), by: d.Scale(), cols: int32(y.Cols)}
	if p.y.p == 0 {
		return
	}
	tx, ty := threadsOf((y.Cols + 3) / 4)
	o.s.launchKernel(kernelDropout, o.s.blocksOf(y.Rows, ty), tx, ty, 0, unsafe.Pointer(&p))
}

func (o cudaNorms) FM(out, feats Matrix, f, d int) {
	const op = "FM"
	checkInteraction(op, f, d)
	p := cudaFactors{out: o.s.matrixOf(op, "out", out, feats.Rows, 1), feats: o.s.matrixOf(op, "feats", feats, feats.Rows, f*d),
		samples: int64(feats.Rows), f: int32(f), d: int32(d)}
	o.s.launchKernel(kernelFM, o.s.blocksOf(feats.Rows, 1), min((d+31)/32*32, 128), 1, 4*d, unsafe.Pointer(&p))
}

func (o cudaNorms) FMGrad(dfeats, dout, feats Matrix, f, d int) {
	const op = "FMGrad"
	checkInteraction(op, f, d)
	p := cudaFactors{out: o.s.matrixOf(op, "dout", dout, feats.Rows, 1), feats: o.s.matrixOf(op, "feats", feats, feats.Rows, f*d),
		dfeats: o.s.matrixOf(op, "dfeats", dfeats, feats.Rows, f*d), samples: int64(feats.Rows), f: int32(f), d: int32(d)}
	x, y := threadsOf(d)
	o.s.launchKernel(kernelFMGrad, o.s.blocksOf(feats.Rows, y), x, y, 0, unsafe.Pointer(&p))
}

func (o cudaNorms) numbersOf(op string, out, x, v Matrix) cudaNumbers {
	return cudaNumbers{out: o.s.matrixOf(op, "out", out, x.Rows, v.Rows*v.Cols), x: o.s.matrixOf(op, "x", x, x.Rows, v.Rows),
		v: o.columnsAddress(op, "v", v.Buf, v.Rows*v.Cols), rows: int64(x.Rows), n: int32(v.Rows), d: int32(v.Cols)}
}

func (o cudaNorms) ScaleVectors(dst, x, v Matrix) {
	p := o.numbersOf("ScaleVectors", dst, x, v)
	if p.out.p == 0 {
		return
	}
	tx, ty := threadsOf(dst.Cols)
	o.s.launchKernel(kernelScaleVectors, o.s.blocksOf(x.Rows, ty), tx, ty, 0, unsafe.Pointer(&p))
}

func (o cudaNorms) ScaleVectorsGrad(dv, x, dout Matrix) {
	p := o.numbersOf("ScaleVectorsGrad", dout, x, dv)
	const threads = 32
	o.s.launchKernel(kernelScaleVectorsGrad, o.s.blocksOf(dv.Rows*dv.Cols, threads), threads, 1, 0, unsafe.Pointer(&p))
}

func (o cudaNorms) ExtendVectors(dst, vectors, tail Matrix, d int) {
	const op = "ExtendVectors"
	f, rows, e := countVectors(op, vectors, d), vectors.Rows, tail.Cols
	p := cudaExtended{dst: o.s.matrixOf(op, "dst", dst, rows, f*(d+e)), vectors: o.s.matrixOf(op, "vectors", vectors, rows, f*d),
		tail: o.s.matrixOf(op, "tail", tail, rows, e), rows: int64(rows), f: int32(f), d: int32(d), e: int32(e)}
	if p.dst.p == 0 {
		return
	}
	tx, ty := threadsOf(dst.Cols)
	o.s.launchKernel(kernelExtendVectors, o.s.blocksOf(rows, ty), tx, ty, 0, unsafe.Pointer(&p))
}
