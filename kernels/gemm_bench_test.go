package kernels

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/openblas"
)

// benchShapes are (m, n, k) of layers at batch 2,048: two of a top MLP, DLRM's
// first top layer for Criteo (k = 479), its first bottom layer (k = 13), and two of
// deepfm, whose 400 columns are no multiple of a tile's.
var benchShapes = [][3]int{
	{2048, 256, 512}, {2048, 1024, 1024}, {2048, 1024, 479}, {2048, 512, 13}, {2048, 400, 416}, {2048, 400, 400},
	{2048, 512, 367}, {2048, 64, 256}, {2048, 48, 64}, // layers of dim16 and dim48
}

// BenchmarkGemm runs the three products of a layer, exact and with OpenBLAS.
func BenchmarkGemm(b *testing.B) {
	lib, err := openblas.Open()
	if err != nil {
		b.Log(err)
	}
	for _, s := range benchShapes {
		for op, name := range []string{"y", "dx", "dw"} {
			for threads := 1; threads <= runtime.GOMAXPROCS(0); threads *= 2 {
				run := fmt.Sprintf("m=%d,n=%d,k=%d/%s/threads=%d", s[0], s[1], s[2], name, threads)
				b.Run(run+"/exact", func(b *testing.B) { benchGemm(b, s, op, threads, nil) })
				if lib != nil {
					b.Run(run+"/openblas", func(b *testing.B) { benchGemm(b, s, op, threads, lib) })
				}
			}
		}
	}
}

func benchGemm(b *testing.B, s [3]int, op, threads int, lib *openblas.Library) {
	m, n, k := s[0], s[1], s[2]
	p := newPool(threads)
	defer p.stopWorkers()
	g := newGemm(detectISA(), p, lib)
	rng := rand.New(rand.NewPCG(1, 1))
	random := func(rows, cols int) Matrix {
		v := make([]float32, rows*cols)
		for i := range v {
			v[i] = rng.Float32() - 0.5
		}
		return Mat(HostBuffer(v), rows, cols)
	}
	x, w, y := random(m, k), random(n, k), random(m, n)
	before := peakOf(threads)
	for b.Loop() {
		switch op {
		case 0:
			g.linearOutput(y, x, w, Buffer{}, Identity)
		case 1:
			g.gradInput(x, y, w, Matrix{})
		case 2:
			g.gradWeight(w, Buffer{}, y, x)
		}
	}
	b.StopTimer()
	rate := 2 * float64(m) * float64(n) * float64(k) * float64(b.N) / b.Elapsed().Seconds() / 1e9
	b.ReportMetric(rate, "GFLOP/s")
	b.ReportMetric(rate/(before+peakOf(threads))*2, "of-peak") // that before and after: it changes on shared machines
}

// peakOf measures the FMA peak of a number of threads, in GFLOP/s.
func peakOf(threads int) float64 {
	var all sync.WaitGroup
	begin := time.Now()
	flops := make([]float64, threads)
	for i := range flops {
		all.Go(func() { flops[i] = PeakLoop(4_000_000) })
	}
	all.Wait()
	total := 0.0
	for _, n := range flops {
		total += n
	}
	return total / time.Since(begin).Seconds() / 1e9
}
