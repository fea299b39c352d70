package kernels

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// benchMatrix is a matrix in the device's memory, of small numbers.
func benchMatrix(b *testing.B, c *cpuDevice, rows, cols, stride int, use Use) Matrix {
	b.Helper()
	buf, err := c.Alloc(4*rows*stride, use)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Free(buf) })
	v := HostView[float32](buf)
	for i := range v {
		v[i] = float32(i%97) * 0.01
	}
	return Matrix{buf, rows, cols, stride}
}

func benchIndexes(n, limit int) Buffer {
	r := rand.New(rand.NewPCG(1, 2))
	v := make([]int32, n)
	for i := range v {
		v[i] = int32(r.IntN(limit))
	}
	return HostBuffer(v)
}

func eachThreads(b *testing.B, name string, f func(b *testing.B, s *stream)) {
	for threads := 1; threads <= 2; threads++ {
		b.Run(fmt.Sprintf("%s,threads=%d", name, threads), func(b *testing.B) {
			f(b, newTestStream(b, detectISA(), threads))
		})
	}
}

// BenchmarkRows touches random rows of a table of 2 GiB, far more than the caches
// hold. Bytes are those of the rows: read once (gather, sum of 8), or read and
// written (update).
func BenchmarkRows(b *testing.B) {
	const tableBytes, lookups = 1 << 31, 1 << 16
	for _, bench := range []struct {
		use Use
		d   int
	}{{Working, 16}, {Working, 48}, {Working, 128}, {Sparse, 48}, {Sparse, 128}} {
		d := bench.d
		name := fmt.Sprintf("d=%d", d)
		if bench.use == Sparse {
			name += ",small pages"
		}
		b.Run(name, func(b *testing.B) {
			c, _ := newCPU(CPUOptions{}, detectISA())
			rows := tableBytes / (4 * d)
			table := benchMatrix(b, c, rows, d, d, bench.use)
			index := benchIndexes(lookups, rows)
			out := benchMatrix(b, c, lookups, d, d, Working)
			eights, ones := make([]int32, lookups/8+1), make([]int32, lookups+1)
			for i := range eights {
				eights[i] = int32(8 * i)
			}
			for i := range ones {
				ones[i] = int32(i)
			}
			eachThreads(b, "gather", func(b *testing.B, s *stream) {
				b.SetBytes(4 * lookups * int64(d))
				for range b.N {
					s.GatherRows(out, table, index)
				}
			})
			eachThreads(b, "sum", func(b *testing.B, s *stream) {
				b.SetBytes(4 * lookups * int64(d))
				for range b.N {
					s.SumRows(out.RowRange(0, lookups/8), table, HostBuffer(eights), index)
				}
			})
			eachThreads(b, "sgd", func(b *testing.B, s *stream) {
				b.SetBytes(8 * lookups * int64(d))
				for range b.N {
					s.UpdateRows(WholeRow(Optimizer{Kind: SGD, LR: 1e-9}), table, index, out, HostBuffer(ones), HostBuffer(ones[:lookups]))
				}
			})
		})
	}
}

func BenchmarkInteraction(b *testing.B) {
	const batch, f = 512, 27
	for _, d := range []int{16, 48, 128} {
		c, _ := newCPU(CPUOptions{}, detectISA())
		feats := benchMatrix(b, c, batch, f*d, f*d, Working)
		grads := benchMatrix(b, c, batch, f*d, f*d, Working)
		out := benchMatrix(b, c, batch, d+f*(f-1)/2, d+f*(f-1)/2, Working)
		perSample := func(b *testing.B) {
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/batch, "ns/sample")
		}
		eachThreads(b, fmt.Sprintf("forward,d=%d", d), func(b *testing.B, s *stream) {
			for range b.N {
				s.DotInteraction(out, feats, f, d)
			}
			perSample(b)
		})
		eachThreads(b, fmt.Sprintf("grad,d=%d", d), func(b *testing.B, s *stream) {
			for range b.N {
				s.DotInteractionGrad(grads, out, feats, f, d)
			}
			perSample(b)
		})
	}
}

func BenchmarkUpdateDense(b *testing.B) {
	const n = 2_962_289
	c, _ := newCPU(CPUOptions{}, detectISA())
	w, g := benchMatrix(b, c, 1, n, n, Working), benchMatrix(b, c, 1, n, n, Working)
	for _, kind := range []OptimizerKind{SGD, Momentum, Adagrad, Adam} {
		opt := testOptimizer(kind)
		opt.LR, opt.StepSize = 1e-9, 1e-9
		state, err := c.Alloc(4*kind.DenseState(n), Working)
		if err != nil {
			b.Fatal(err)
		}
		eachThreads(b, fmt.Sprintf("kind=%d", kind), func(b *testing.B, s *stream) {
			b.SetBytes(int64(4 * (2*n + state.Floats())))
			for range b.N {
				s.UpdateDense(opt, w.Buf, state, g.Buf)
			}
		})
		c.Free(state)
	}
}

func BenchmarkElementwise(b *testing.B) {
	const n = 1 << 16
	c, _ := newCPU(CPUOptions{}, detectISA())
	m := benchMatrix(b, c, 4, n, n, Working)
	row := func(i int) Buffer { return m.RowRange(i, 1).Buf }
	eachThreads(b, "Sum", func(b *testing.B, s *stream) {
		b.SetBytes(8 * n)
		addends := []Buffer{row(0), row(1)}
		for range b.N {
			s.Sum(row(0), addends)
		}
	})
	eachThreads(b, "SigmoidBCE", func(b *testing.B, s *stream) {
		for range b.N {
			s.SigmoidBCE(row(0), row(1), row(2), row(3), 1)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/sample")
	})
}
