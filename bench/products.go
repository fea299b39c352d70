package bench

import (
	"fmt"
	"io"
	"time"

	"github.com/ecrec/ecrec/kernels"
)

// layer is a linear layer of k inputs and n outputs.
type layer struct{ k, n int }

// ringBytes is how much memory operands rotate through, so that a product finds
// them no nearer than a training step would: beyond a core's own caches.
const ringBytes = 64 << 20

// operands are those of the three products of a layer, and what they give.
type operands struct{ x, w, dy, y, dx, dw kernels.Matrix }

// A library's idle threads spin for some 30 ms after a product.
const (
	settleProduct = 40 * time.Millisecond
	timeProduct   = 60 * time.Millisecond
)

// products measures the matrix products of the layers, beside OpenBLAS.
func (b *kernelBench) products() error {
	library, config := blas()
	b.report.Against = "OpenBLAS: " + config
	fmt.Fprintf(b.out, "\nmatrix products, %d samples, GFLOP/s: median (least-greatest); %s\n", b.m, b.report.Against)
	t := table(b.out)
	defer t.Flush()
	fmt.Fprint(t, "K x N\tproduct\tthreads\texact\tOpenBLAS\texact/OpenBLAS %\t\n")
	for _, l := range b.shapes {
		sets, free, err := b.operands(l)
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
				b.product(t, l, p, threads, sets, ours, theirs)
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

func (b *kernelBench) operands(l layer) (sets []operands, free func(), err error) {
	m, k, n := b.m, l.k, l.n
	floats := 2*m*k + 2*m*n + 2*n*k
	count := max(1, ringBytes/(4*floats))
	if b.o.Tiny {
		count = 2
	}
	if err := checkMemory(4*floats*count, "m, shapes"); err != nil {
		return nil, nil, err
	}
	all, err := b.alloc(floats*count, kernels.Working)
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

// product measures one product: y = x wT, dx = dy w or dw = dyT x.
func (b *kernelBench) product(out io.Writer, l layer, which string, threads int, sets []operands, ours, theirs kernels.Stream) {
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
	fmt.Fprintf(out, "%d x %d\t%s\t%d\t%s\t", l.k, l.n, which, threads, spread(b.report.add(name+" exact", "GFLOP/s", exact...)))
	if theirs == nil {
		fmt.Fprint(out, "not found\t\t\n")
		return
	}
	other := per(gflop, took[1])
	fmt.Fprintf(out, "%s\t%s\t\n", spread(b.report.add(name+" OpenBLAS", "GFLOP/s", other...)),
		spread(b.report.add(name+" exact/OpenBLAS", "%", percent(exact, other)...)))
}
