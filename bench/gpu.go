package bench

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/ecrec/ecrec/kernels"
)

// gpuBench measures the CUDA backend: row operations in comparison with the card's own copies, and
// products in FLOP/s.
type gpuBench struct {
	*kernelBench
	s       kernels.Stream
	taken   []kernels.Buffer
	copying float64 // GB/s, read and written
}

// The rows are those of the MLPerf DLRM, 26 lookups of 128 weights a sample.
const (
	gpuLookups = 26
	gpuSamples = 16384
	timeGPU    = 200 * time.Millisecond
)

// runGPU measures on a GPU. Each call is followed by one Sync, of some microseconds.
func (b *kernelBench) runGPU() (*Report, error) {
	dev, err := kernels.NewCUDA(kernels.CUDAConfig{Own: true})
	if err != nil {
		return nil, settingError("device=cuda: %v", err)
	}
	if !b.o.isSet("m") && !b.o.Tiny {
		b.m = gpuSamples
	}
	b.dev, b.report = dev, b.o.newReport(dev.Name())
	b.report.writeHeader(b.out)
	g := &gpuBench{kernelBench: b, s: dev.Stream(1)}
	defer g.freeGPU()
	part := b.o.text("part")
	for _, p := range []struct {
		name string
		run  func() error
	}{{"rows", g.measureRows}, {"products", g.measureProducts}} {
		if part == "" || part == p.name {
			if err := p.run(); err != nil {
				return nil, err
			}
		}
	}
	return b.report, nil
}

func (g *gpuBench) freeGPU() {
	for _, b := range g.taken {
		g.dev.Free(b)
	}
	g.s.Close()
}

// allocFloats is memory of the GPU that holds small positive numbers.
func (g *gpuBench) allocFloats(n int) (kernels.Buffer, error) {
	b, err := g.dev.Alloc(4*n, kernels.Working)
	if err != nil {
		return b, err
	}
	g.taken = append(g.taken, b)
	pattern := make([]float32, min(n, 1<<20))
	for i := range pattern {
		pattern[i] = float32(i%97+1) * 0.01
	}
	for at := 0; at < n; at += len(pattern) {
		part := pattern[:min(len(pattern), n-at)]
		g.s.Upload(b.SliceFloats(at, len(part)), kernels.BytesOf(part))
	}
	return b, g.s.Sync()
}

func (g *gpuBench) uploadIndexes(list []int32) (kernels.Buffer, error) {
	b, err := g.dev.Alloc(4*len(list), kernels.Working)
	if err != nil {
		return b, err
	}
	g.taken = append(g.taken, b)
	g.s.Upload(b, kernels.BytesOf(list))
	return b, g.s.Sync()
}

// timeCalls times a call that moves bytes, and compares its rate with that of copies.
func (g *gpuBench) timeCalls(name string, bytes int, call func()) error {
	var failed error
	took := g.o.inTurn(10*time.Millisecond, timeGPU, func() {
		call()
		if err := g.s.Sync(); err != nil {
			failed = err
		}
	})
	if failed != nil {
		return fmt.Errorf("bench: %s: %w", name, failed)
	}
	rate := g.report.addFigure(name, "GB/s", per(float64(bytes)/1e9, took[0])...)
	if g.copying == 0 {
		g.copying = rate.Median
	}
	share := 100 * rate.Median / g.copying
	g.report.addFigure(name+", of a copy", "%", share)
	fmt.Fprintf(g.out, "%-48s %s GB/s, %.1f %% of a copy\n", name, spread(rate), share)
	return nil
}

// measureRows measures the row operations of a step. Each row is looked up twice on average.
func (g *gpuBench) measureRows() error {
	const d = wideRow
	n, count := g.m*gpuLookups, g.table/(4*3*d)
	table, err := g.allocFloats(count * 3 * d)
	if err != nil {
		return err
	}
	grads, err := g.allocFloats(n * d)
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(1, 2))
	rows := min(count, n/2)
	slots := make([]int32, 0, rows) // distinct, as an owner has them: ascending
	for _, x := range r.Perm(count)[:rows] {
		slots = append(slots, int32(x))
	}
	slices.Sort(slots)
	index, start, pos := make([]int32, n), make([]int32, rows+1), make([]int32, n)
	for i := range index {
		index[i] = slots[r.IntN(rows)]
	}
	for i, x := range r.Perm(n) {
		pos[i] = int32(x)
	}
	for i := range start {
		start[i] = int32(i * n / rows)
	}
	var lists [4]kernels.Buffer
	for i, list := range [][]int32{slots, index, start, pos} {
		if lists[i], err = g.uploadIndexes(list); err != nil {
			return err
		}
	}
	half := table.Bytes() / 8 * 4
	if err := g.timeCalls("copy", 2*half, func() { g.s.Copy(table.Slice(0, half), table.Slice(half, half)) }); err != nil {
		return err
	}
	row := 4 * d
	if err := g.timeCalls("gather", 2*n*row, func() {
		g.s.GatherRows(kernels.Mat(grads, g.m, gpuLookups*d), kernels.Mat(table, count, d), lists[1])
	}); err != nil {
		return err
	}
	if err := g.timeCalls("segment sums", n*row+rows*row, func() {
		g.s.SumRows(kernels.Mat(table, rows, d), kernels.Mat(grads, g.m, gpuLookups*d), lists[2], lists[3])
	}); err != nil {
		return err
	}
	for i, rule := range kernels.Rules {
		kind := kernels.OptimizerKind(i)
		o := kernels.Optimizer{Kind: kind, LR: 1e-3, Eps: 1e-8, Beta1: 0.9, Beta2: 0.999, C1: 0.1, C2: 0.001, StepSize: 1e-3, BiasSqrt: 1}
		width := d + kind.RowState(d)
		if err := g.timeCalls("segment sums and "+strings.ReplaceAll(rule.Name, "_", " "), n*row+2*rows*4*width, func() {
			g.s.UpdateRows(kernels.WholeRow(o), kernels.Mat(table, count, width), lists[0], kernels.Mat(grads, n, d), lists[2], lists[3])
		}); err != nil {
			return err
		}
	}
	return nil
}

// productsOf is a library for matrix products, with its stream.
type productsOf struct {
	blas string
	s    kernels.Stream
}

// withOthers returns our own products, those of pieces and, if it is installed, those of cuBLAS in float32
// and TF32.
func (g *gpuBench) withOthers() []productsOf {
	all := []productsOf{{"exact", g.s}}
	for _, blas := range []string{"exact-tc", "cublas", "cublas-tf32"} {
		dev, err := kernels.NewCUDA(kernels.CUDAConfig{Own: true, BLAS: blas}) // on the same GPU, whose memory they share
		if err != nil {
			fmt.Fprintf(g.out, "%s is not measured: %v\n", blas, err)
			break
		}
		all = append(all, productsOf{blas, dev.Stream(1)})
	}
	return all
}

// measureProducts measures the three products of each layer, exact ones, those of pieces and those of cuBLAS in turn.
func (g *gpuBench) measureProducts() error {
	all := g.withOthers()
	defer func() {
		for _, p := range all[1:] {
			p.s.Close()
		}
	}()
	for _, l := range g.shapes {
		x, err := g.allocFloats(g.m * l.k)
		if err != nil {
			return err
		}
		w, err := g.allocFloats(l.n * l.k)
		if err != nil {
			return err
		}
		y, err := g.allocFloats(g.m * l.n)
		if err != nil {
			return err
		}
		if err := g.measureLayer(l, all, kernels.Mat(x, g.m, l.k), kernels.Mat(w, l.n, l.k), kernels.Mat(y, g.m, l.n)); err != nil {
			return err
		}
	}
	return nil
}

// measureLayer measures Y = X Wᵀ and its gradients.
func (g *gpuBench) measureLayer(l layer, all []productsOf, X, W, Y kernels.Matrix) error {
	var failed error
	var calls []func()
	for _, p := range all {
		for _, launch := range []func(){
			func() { p.s.Linear(Y, X, W, kernels.Buffer{}, kernels.Identity) },
			func() { p.s.LinearGradInput(X, Y, W, kernels.Matrix{}) },
			func() { p.s.LinearGradWeight(W, kernels.Buffer{}, Y, X) },
		} {
			calls = append(calls, func() {
				launch()
				if err := p.s.Sync(); err != nil {
					failed = err
				}
			})
		}
	}
	took := g.o.inTurn(10*time.Millisecond, timeGPU, calls...)
	if failed != nil {
		return failed
	}
	flop := 2 * float64(g.m) * float64(l.k) * float64(l.n)
	for i, what := range []string{"forward", "input gradient", "weight gradient"} {
		fmt.Fprintf(g.out, "m %d, %dx%d, %-16s", g.m, l.k, l.n, what)
		for j, p := range all {
			f := g.report.addFigure(fmt.Sprintf("%dx%d, %s, %s", l.k, l.n, what, p.blas), "TFLOP/s", per(flop/1e12, took[3*j+i])...)
			fmt.Fprintf(g.out, " %s %.2f (%.2f-%.2f)", p.blas, f.Median, f.Min, f.Max)
		}
		fmt.Fprintln(g.out, " TFLOP/s")
	}
	return nil
}
