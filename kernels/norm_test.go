package kernels

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ecrec/ecrec/internal/rng"
)

// normOperations is the table of batch norm, dropout and factorization machines.
func normOperations() map[string]func(c *testCase, s Stream) {
	ops := map[string]func(c *testCase, s Stream){}
	for _, n := range append(widths, 64, 65, 200) {
		for _, gap := range []int{0, 3} {
			ops[fmt.Sprintf("norm/n=%d,gap=%d", n, gap)] = func(c *testCase, s Stream) {
				for _, b := range []int{0, 1, 40 + 9000/n} {
					normalizeAll(c, s, b, n, gap)
				}
			}
			ops[fmt.Sprintf("dropout/n=%d,gap=%d", n, gap)] = func(c *testCase, s Stream) {
				for i, b := range []int{0, 1, 40 + 4000/n} {
					s.Dropout(c.matrix(b, n, gap), Dropout{Seed: 1 << 40, Step: 5 << 33, First: 1<<32 - 100000, Layer: i, Rate: 0.3})
					s.Dropout(c.matrix(b, n, gap), Dropout{Seed: 7, Step: 1, Rate: 0})
				}
			}
		}
		ops[fmt.Sprintf("scale/n=%d", n)] = func(c *testCase, s Stream) { s.Scale(c.vector(300*n), c.vector(300*n), 1.25) }
	}
	for _, d := range widths {
		for _, f := range []int{1, 2, 26} {
			ops[fmt.Sprintf("FM/f=%d,d=%d", f, d)] = func(c *testCase, s Stream) {
				for _, b := range []int{0, 1, 70} {
					feats, out := c.matrix(b, f*d, d%3), c.matrix(b, 1, d%2)
					s.FM(out, feats, f, d)
					s.FMGrad(c.matrix(b, f*d, 0), out, feats, f, d)
					v := c.matrix(f, d, 0)
					s.ScaleVectors(feats, c.matrix(b, f, 1), v)
					s.ScaleVectorsGrad(v, c.matrix(b, f, 1), feats)
					s.ExtendVectors(c.matrix(b, f*(d+1), f%2), feats, out, d)
					s.ExtendVectors(c.matrix(b, f*(d+3), 0), feats, c.matrix(b, 3, 1), d)
				}
			}
		}
	}
	return ops
}

// normalizeAll runs all operations of a batch norm of b samples.
func normalizeAll(c *testCase, s Stream, b, n, gap int) {
	x, dy := c.matrix(b, n, gap), c.matrix(b, n, gap)
	norm := Norm{Mean: c.vector(n), Inv: c.vector(n), Gamma: c.vector(n), Beta: c.vector(n)}
	sums, dgamma := c.vector(n), c.vector(n)
	s.ColumnSums(sums, x)
	s.Average(norm.Mean, sums, float32(b+1), 1)
	s.Average(c.vector(n), sums, float32(b+1), 0.1)
	s.ColumnSquares(sums, x, norm.Mean)
	s.InverseRoot(norm.Inv, sums, float32(b+1), 1e-5)
	s.BatchNorm(c.matrix(b, n, gap), x, norm, ReLU)
	s.BatchNorm(c.matrix(b, n, 0), x, norm, Identity)
	s.BatchNormSums(dgamma, sums, dy, x, norm)
	s.BatchNormGrad(c.matrix(b, n, gap), dy, x, norm, dgamma, sums, b+1)
	s.BatchNormGrad(dy, dy, x, norm, dgamma, sums, b+1)
}

// TestVectorsAgree compares every instruction set and number of threads with plain Go.
func TestVectorsAgree(t *testing.T) {
	const seed = 8
	streams := map[string]*stream{}
	for _, l := range levels() {
		for _, threads := range []int{1, 3} {
			streams[fmt.Sprintf("%v,%d", l, threads)] = newTestStream(t, l, threads)
		}
	}
	golden, ops := fnv.New64a(), normOperations()
	for _, name := range some(t, slices.Sorted(maps.Keys(ops))) {
		run := func(s *stream) uint64 {
			c := &testCase{Rand: rand.New(rand.NewPCG(seed, 0))}
			ops[name](c, s)
			c.checkGuards(t)
			return c.hash()
		}
		want := run(streams["plain,1"])
		golden.Write(binary.LittleEndian.AppendUint64(nil, want))
		for sname, s := range streams {
			if got := run(s); got != want {
				t.Errorf("%s (seed %d): %s gives other bits than plain Go on one thread", name, seed, sname)
			}
		}
	}
	// Pinned, because builds for other GOAMD64, GODEBUG and CPUs must agree too.
	const want = 0xa4ed841d1fe77b4d
	if got := golden.Sum64(); got != want && !t.Failed() && !testing.Short() {
		t.Errorf("hash of all results is %#x, want %#x", got, uint64(want))
	}
}

// TestNormAgainstReference compares batch norm and its gradient with float64.
func TestNormAgainstReference(t *testing.T) {
	const b, n = 50, 5
	r := rand.New(rand.NewPCG(1, 3))
	x, dy, gamma, beta := ordinary(r, b*n), ordinary(r, b*n), ordinary(r, n), ordinary(r, n)
	mean, inv, sums, dgamma, dbeta := make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n)
	y, dx := make([]float32, b*n), make([]float32, b*n)
	s := newTestStream(t, detectISA(), 2)
	X, DY := Mat(HostBuffer(x), b, n), Mat(HostBuffer(dy), b, n)
	norm := Norm{HostBuffer(mean), HostBuffer(inv), HostBuffer(gamma), HostBuffer(beta)}
	s.ColumnSums(HostBuffer(sums), X)
	s.Average(norm.Mean, HostBuffer(sums), b, 1)
	s.ColumnSquares(HostBuffer(sums), X, norm.Mean)
	s.InverseRoot(norm.Inv, HostBuffer(sums), b, 1e-5)
	s.BatchNorm(Mat(HostBuffer(y), b, n), X, norm, ReLU)
	s.BatchNormSums(HostBuffer(dgamma), HostBuffer(dbeta), DY, X, norm)
	s.BatchNormGrad(Mat(HostBuffer(dx), b, n), DY, X, norm, HostBuffer(dgamma), HostBuffer(dbeta), b)
	for j := range n {
		m, v, sg, sb := 0.0, 0.0, 0.0, 0.0
		for i := range b {
			m += float64(x[i*n+j]) / b
		}
		for i := range b {
			v += math.Pow(float64(x[i*n+j])-m, 2) / b
		}
		hat := func(i int) float64 { return (float64(x[i*n+j]) - m) / math.Sqrt(v+1e-5) }
		for i := range b {
			sg, sb = sg+float64(dy[i*n+j])*hat(i), sb+float64(dy[i*n+j])
		}
		near(t, "dgamma", dgamma[j], sg, b)
		near(t, "dbeta", dbeta[j], sb, b)
		for i := range b {
			near(t, "y", y[i*n+j], max(0, hat(i)*float64(gamma[j])+float64(beta[j])), 1)
			near(t, "dx", dx[i*n+j], float64(gamma[j])/math.Sqrt(v+1e-5)*(float64(dy[i*n+j])-sb/b-hat(i)*sg/b), 1)
		}
	}
}

// TestFMAgainstReference compares the factorization machine with the sum over pairs.
func TestFMAgainstReference(t *testing.T) {
	const b, f, d = 5, 7, 9
	r := rand.New(rand.NewPCG(1, 4))
	x, dout, out, dx := ordinary(r, b*f*d), ordinary(r, b), make([]float32, b), ordinary(r, b*f*d)
	before := slices.Clone(dx)
	s := newTestStream(t, detectISA(), 2)
	feats := Mat(HostBuffer(x), b, f*d)
	s.FM(Mat(HostBuffer(out), b, 1), feats, f, d)
	s.FMGrad(Mat(HostBuffer(dx), b, f*d), Mat(HostBuffer(dout), b, 1), feats, f, d)
	for i := range b {
		total := 0.0
		for p := range f {
			for c := range d {
				others := 0.0
				for q := range f {
					if q != p {
						others += float64(x[(i*f+q)*d+c])
					}
				}
				total += 0.5 * others * float64(x[(i*f+p)*d+c])
				near(t, "gradient", dx[(i*f+p)*d+c], float64(before[(i*f+p)*d+c])+float64(dout[i])*others, 4)
			}
		}
		near(t, "sum over pairs", out[i], total, f*d)
	}
}

// TestDropoutIsAFunction checks that a unit is dropped by the draw that Dropout's doc names, in
// any slice of the batch, and that about as many are dropped as the rate says.
func TestDropoutIsAFunction(t *testing.T) {
	const b, n, rate = 200, 37, 0.25
	s := newTestStream(t, detectISA(), 2)
	ones := func() []float32 { return slices.Repeat([]float32{1}, b*n) }
	d := Dropout{Seed: 99, Step: 12, First: 1000, Layer: 3, Rate: rate}
	all := ones()
	s.Dropout(Mat(HostBuffer(all), b, n), d)
	dropped := 0
	for i := range b {
		for j := range n {
			draw := rng.Symmetric(rng.Draw(99, rng.Dropout, uint32(1000+i), 12, uint32(3<<24+j/4))[j%4])
			want := float32(1 / (1 - rate))
			if draw < 2*rate-1 {
				want = 0
				dropped++
			}
			if all[i*n+j] != want {
				t.Fatalf("unit %d of sample %d is %v, want %v", j, i, all[i*n+j], want)
			}
		}
	}
	if share := float64(dropped) / (b * n); math.Abs(share-rate) > 0.02 {
		t.Errorf("%v of the units are dropped, at a rate of %v", share, rate)
	}
	part := ones()[:50*n]
	d.First += 70
	s.Dropout(Mat(HostBuffer(part), 50, n), d)
	if !slices.Equal(part, all[70*n:120*n]) {
		t.Error("a slice of the batch drops other units than the whole")
	}
	for name, other := range map[string]Dropout{"seed": {98, 12, 1000, 3, rate}, "step": {99, 13, 1000, 3, rate}, "layer": {99, 12, 1000, 2, rate}} {
		again := ones()
		if s.Dropout(Mat(HostBuffer(again), b, n), other); slices.Equal(again, all) {
			t.Errorf("another %s drops the same units", name)
		}
	}
}
