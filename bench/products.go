package bench

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"github.com/ecrec/ecrec/bench/sgemm"
	"github.com/ecrec/ecrec/kernels"
)

// layer is a linear layer of k inputs and n outputs.
type layer struct{ k, n int }

// ringBytes is the memory through which operands rotate. As in a training step, a product then does
// not find them in the caches of a core.
const ringBytes = 64 << 20

// operands holds the inputs and outputs of the three products of a layer.
type operands struct{ x, w, dy, y, dx, dw kernels.Matrix }

// peer is a library that products are compared with.
type peer struct {
	name string
	*sgemm.Library
}

// openPeers opens the libraries of the setting. Those of the default may be missing.
func (b *kernelBench) openPeers() (peers []peer, err error) {
	for _, path := range strings.Split(b.o.text("libraries"), ",") {
		l, err := sgemm.Open(path)
		switch {
		case err != nil && b.o.isSet("libraries"):
			return nil, settingError("libraries=%s: %v", b.o.text("libraries"), err)
		case err != nil:
			fmt.Fprintf(b.out, "\n%v\n", err)
			continue
		}
		name := l.Name()
		if words := strings.Fields(name); len(words) > 2 {
			name = strings.Join(words[:2], " ")
		}
		peers = append(peers, peer{name, l})
		b.report.Against = strings.TrimPrefix(b.report.Against+"; "+l.Name(), "; ")
	}
	return peers, nil
}

// measureProducts measures the matrix products of the layers, by turns with libraries.
func (b *kernelBench) measureProducts() error {
	runtime.LockOSThread() // OpenMP has other threads for each thread that calls it
	defer runtime.UnlockOSThread()
	peers, err := b.openPeers()
	if err != nil {
		return err
	}
	fmt.Fprintf(b.out, "\nmatrix products, %d samples, GFLOP/s: median (least-greatest); libraries: %s\n", b.m, b.report.Against)
	t := table(b.out)
	defer t.Flush()
	fmt.Fprint(t, "K x N\tproduct\tthreads\texact\t")
	for _, p := range peers {
		fmt.Fprintf(t, "%s\t", p.name)
	}
	fmt.Fprint(t, "exact / best library\tinterval\t\n")
	for _, l := range b.shapes {
		sets, free, err := b.newOperands(l)
		if err != nil {
			return err
		}
		for _, threads := range b.threads {
			// The exact stream first: its threads spin only while there are no more than cores.
			ours := b.dev.Stream(threads)
			for _, p := range []string{"y", "dx", "dw"} {
				if err := b.measureProduct(t, l, p, threads, sets, ours, peers); err != nil {
					return err
				}
			}
			ours.Close()
		}
		free()
	}
	return nil
}

func (b *kernelBench) newOperands(l layer) (sets []operands, free func(), err error) {
	m, k, n := b.m, l.k, l.n
	floats := 2*m*kernels.SpreadStride(k) + 2*m*kernels.SpreadStride(n) + 2*n*k
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
	spread := func(rows, cols int) kernels.Matrix { // as a model stores activations
		at += rows * kernels.SpreadStride(cols)
		return kernels.Spread(all.SliceFloats(at-rows*kernels.SpreadStride(cols), rows*kernels.SpreadStride(cols)), rows, cols)
	}
	for range count {
		sets = append(sets, operands{x: spread(m, k), w: next(n, k), dy: spread(m, n), y: spread(m, n), dx: spread(m, k), dw: next(n, k)})
	}
	return sets, func() { b.dev.Free(all) }, nil
}

// productOf is a product as libraries see it: y = x wT, dx = dy w or dw = dyT x.
func (o *operands) productOf(which string) *sgemm.Product {
	plain := func(m kernels.Matrix) sgemm.Operand {
		return sgemm.Operand{Floats: kernels.HostView[float32](m.Buf), LD: m.Stride}
	}
	turned := func(m kernels.Matrix) sgemm.Operand {
		x := plain(m)
		x.Transposed = true
		return x
	}
	switch which {
	case "y":
		return &sgemm.Product{M: o.y.Rows, N: o.y.Cols, K: o.x.Cols, A: plain(o.x), B: turned(o.w), C: plain(o.y)}
	case "dx":
		return &sgemm.Product{M: o.dx.Rows, N: o.dx.Cols, K: o.dy.Cols, A: plain(o.dy), B: plain(o.w), C: plain(o.dx)}
	}
	return &sgemm.Product{M: o.dw.Rows, N: o.dw.Cols, K: o.dy.Rows, A: turned(o.dy), B: plain(o.x), C: plain(o.dw)}
}

// inRing returns a call that takes the operands in turn.
func inRing(sets []operands, call func(o *operands)) func() {
	i := 0
	return func() {
		call(&sets[i])
		i = (i + 1) % len(sets)
	}
}

// measureProduct measures one product: y = x wT, dx = dy w or dw = dyT x.
func (b *kernelBench) measureProduct(out io.Writer, l layer, which string, threads int, sets []operands, ours kernels.Stream, peers []peer) error {
	calls := []func(){inRing(sets, func(o *operands) {
		switch which {
		case "y":
			ours.Linear(o.y, o.x, o.w, kernels.Buffer{}, kernels.Identity)
		case "dx":
			ours.LinearGradInput(o.dx, o.dy, o.w, kernels.Matrix{})
		default:
			ours.LinearGradWeight(o.dw, kernels.Buffer{}, o.dy, o.x)
		}
	})}
	var failed error
	for _, p := range peers {
		calls = append(calls, inRing(sets, func(o *operands) {
			if err := p.Multiply(threads, o.productOf(which)); err != nil {
				failed = err
			}
		}))
	}
	turn := time.Duration(b.o.number("turn")) * time.Millisecond
	took := b.o.inTurn(turn*2/3, turn, calls...)
	if failed != nil {
		return failed
	}
	gflop := 2 * float64(b.m) * float64(l.k) * float64(l.n) / 1e9
	name := fmt.Sprintf("product %s %dx%d threads %d", which, l.k, l.n, threads)
	exact := per(gflop, took[0])
	fmt.Fprintf(out, "%d x %d\t%s\t%d\t%s\t", l.k, l.n, which, threads, spread(b.report.addFigure(name+" exact", "GFLOP/s", exact...)))
	var best []float64
	most := 0.0
	for i, p := range peers {
		rates := per(gflop, took[1+i])
		f := b.report.addFigure(name+" "+p.name, "GFLOP/s", rates...)
		fmt.Fprintf(out, "%s\t", spread(f))
		if f.Median > most {
			most, best = f.Median, rates
		}
	}
	if best == nil {
		fmt.Fprint(out, "\t\t\n")
		return nil
	}
	ratio := b.report.addRatio(name+" exact / best library", exact, best)
	fmt.Fprintf(out, "%.3f\t%s\t\n", ratio.Median, ratio.betweenText(3))
	return nil
}
