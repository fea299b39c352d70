package bench

import (
	"fmt"
	"io"
	"time"

	"github.com/ecrec/ecrec/kernels"
)

// layer is a linear layer of k inputs and n outputs.
type layer struct{ k, n int }

// ringBytes is the memory through which operands rotate. As in a training step, a product then does
// not find them in the caches of a core.
const ringBytes = 64 << 20

// operands holds the inputs and outputs of the three products of a layer.
type operands struct{ x, w, dy, y, dx, dw kernels.Matrix }

// A library's idle threads spin for some 30 ms after a product.
const (
	settleProduct = 40 * time.Millisecond
	timeProduct   = 60 * time.Millisecond
)

// measureProducts measures the matrix products of the layers, in turn with OpenBLAS.
func (b *kernelBench) measureProducts() error {
	library, config := blas()
	b.report.Against = "OpenBLAS: " + config
	fmt.Fprintf(b.out, "\nmatrix products, %d samples, GFLOP/s: median (least-greatest); %s\n", b.m, b.report.Against)
	t := table(b.out)
	defer t.Flush()
	fmt.Fprint(t, "K x N\tproduct\tthreads\texact\tOpenBLAS\texact / OpenBLAS\tinterval\t\n")
	for _, l := range b.shapes {
		sets, free, err := b.newOperands(l)
		if err != nil {
			return err
		}
		for _, threads := range b.threads {
			// The exact stream first: its threads spin only while there are no more than cores.
			ours := b.dev.Stream(threads)
			var theirs kernels.Stream
			if library != nil {
				theirs = library.Stream(threads)
			}
			for _, p := range []string{"y", "dx", "dw"} {
				b.measureProduct(t, l, p, threads, sets, ours, theirs)
			}
			ours.Close()
			if theirs != nil {
				theirs.Close()
			}
		}
		free()
	}
	return nil
}

func (b *kernelBench) newOperands(l layer) (sets []operands, free func(), err error) {
	m, k, n := b.m, l.k, l.n
	floats := 2*m*k + 2*m*n + 2*n*k
	count := max(1, ringBytes/(4*floats))
	if b.o.Tiny {
		count = 2
	}
	if err := checkMemory(4*floats*count, "m, shapes"); err != nil {
		return nil, nil, err
	}
	all, err := b.allocBuffer(floats*count, kernels.Working)
	if err != nil {
		return nil, nil, err
	}
	at := 0
	next := func(rows, cols int) kernels.Matrix {
		at += rows * cols
		return kernels.Mat(all.SliceFloats(at-rows*cols, rows*cols), rows, cols)
	}
	for range count {
		sets = append(sets, operands{x: next(m, k), w: next(n, k), dy: next(m, n), y: next(m, n), dx: next(m, k), dw: next(n, k)})
	}
	return sets, func() { b.dev.Free(all) }, nil
}

// measureProduct measures one product: y = x wT, dx = dy w or dw = dyT x.
func (b *kernelBench) measureProduct(out io.Writer, l layer, which string, threads int, sets []operands, ours, theirs kernels.Stream) {
	on := func(s kernels.Stream) func() {
		i := 0
		return func() {
			o := sets[i]
			i = (i + 1) % len(sets)
			switch which {
			case "y":
				s.Linear(o.y, o.x, o.w, kernels.Buffer{}, kernels.Identity)
			case "dx":
				s.LinearGradInput(o.dx, o.dy, o.w, kernels.Matrix{})
			default:
				s.LinearGradWeight(o.dw, kernels.Buffer{}, o.dy, o.x)
			}
		}
	}
	calls := []func(){on(ours)}
	if theirs != nil {
		calls = append(calls, on(theirs))
	}
	took := b.o.inTurn(settleProduct, timeProduct, calls...)
	gflop := 2 * float64(b.m) * float64(l.k) * float64(l.n) / 1e9
	name := fmt.Sprintf("product %s %dx%d threads %d", which, l.k, l.n, threads)
	exact := per(gflop, took[0])
	fmt.Fprintf(out, "%d x %d\t%s\t%d\t%s\t", l.k, l.n, which, threads, spread(b.report.addFigure(name+" exact", "GFLOP/s", exact...)))
	if theirs == nil {
		fmt.Fprint(out, "not found\t\t\t\n")
		return
	}
	other := per(gflop, took[1])
	f, ratio := b.report.addFigure(name+" OpenBLAS", "GFLOP/s", other...), b.report.addRatio(name+" exact / OpenBLAS", exact, other)
	fmt.Fprintf(out, "%s\t%.3f\t%s\t\n", spread(f), ratio.Median, ratio.betweenText(3))
}
