package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// mulAddOperations are calls of MulAdd with all forms of its operands.
func mulAddOperations() map[string]func(c *testCase, s Stream) {
	ops := map[string]func(c *testCase, s Stream){}
	for _, d := range append([]int{5, 64, 1000}, widths...) {
		ops[fmt.Sprintf("MulAdd/d=%d", d)] = func(c *testCase, s Stream) {
			for _, n := range []int{0, 1, 300} {
				a, b, sum, row, one := c.matrix(n, d, 3), c.matrix(n, d, d%2), c.matrix(n, d, 1), c.matrix(1, d, 0), c.matrix(n, 1, 2)
				s.MulAdd(c.matrix(n, d, 2), a, b, sum)
				s.MulAdd(c.matrix(n, d, 0), a, b, Matrix{})
				s.MulAdd(c.matrix(n, d, 0), a, b, row)
				s.MulAdd(c.matrix(n, d, 1), a, one, sum)
				s.MulAdd(c.matrix(n, d, 0), a, one, row)
				s.MulAdd(c.matrix(n, d, 0), a, one, Matrix{})
				s.MulAdd(sum, a, b, sum)
				s.MulAdd(a, a, b, sum)
			}
			s.MulAdd(c.aligned(70, d, 0), c.aligned(70, d, 4), c.aligned(70, d, 0), c.aligned(70, d, 8))
		}
	}
	return ops
}

// TestMulAdd compares every instruction set and number of threads with plain Go, and plain Go with
// the formula.
func TestMulAdd(t *testing.T) {
	streams := map[string]*stream{}
	for _, l := range levels() {
		for _, threads := range []int{1, 3} {
			streams[fmt.Sprintf("%v,%d", l, threads)] = newTestStream(t, l, threads)
		}
	}
	const seed = 7
	for name, op := range mulAddOperations() {
		want := &testCase{Rand: rand.New(rand.NewPCG(seed, 0))}
		op(want, streams["plain,1"])
		for sname, s := range streams {
			got := &testCase{Rand: rand.New(rand.NewPCG(seed, 0))}
			op(got, s)
			got.checkGuards(t)
			if got.hash() != want.hash() {
				t.Errorf("%s (seed %d): %s gives other bits than plain Go; first difference: %s", name, seed, sname, difference(got, want))
			}
		}
	}
	s := streams["plain,1"]
	for _, c := range []struct {
		a, b, c []float32
		want    float32
	}{
		{[]float32{3}, []float32{5}, []float32{7}, 22},
		{[]float32{1 + 1.0/4096}, []float32{1 + 1.0/4096}, []float32{-1 - 2.0/4096}, 0}, // fused: 2^-24
		{[]float32{float32(math.Copysign(0, -1))}, []float32{1}, nil, float32(math.Copysign(0, -1))},
	} {
		dst, add := []float32{9}, Matrix{}
		if c.c != nil {
			add = Mat(HostBuffer(c.c), 1, 1)
		}
		s.MulAdd(Mat(HostBuffer(dst), 1, 1), Mat(HostBuffer(c.a), 1, 1), Mat(HostBuffer(c.b), 1, 1), add)
		if math.Float32bits(dst[0]) != math.Float32bits(c.want) {
			t.Errorf("%v * %v + %v = %v, want %v", c.a, c.b, c.c, dst[0], c.want)
		}
	}
}

func TestMulAddPreconditions(t *testing.T) {
	s := newTestStream(t, detectISA(), 1)
	m := func(rows, cols int) Matrix { return Mat(HostBuffer(make([]float32, rows*cols)), rows, cols) }
	wantPanic(t, "MulAdd: a is (3, 3), want (3, 4)", func() { s.MulAdd(m(3, 4), m(3, 3), m(3, 4), m(3, 4)) })
	wantPanic(t, "MulAdd: b is (1, 4), want (3, 4) or (3, 1)", func() { s.MulAdd(m(3, 4), m(3, 4), m(1, 4), m(3, 4)) })
	wantPanic(t, "MulAdd: c is (3, 1), want (3, 4), (1, 4) or empty", func() { s.MulAdd(m(3, 4), m(3, 4), m(3, 4), m(3, 1)) })
	dst, c := m(3, 4), m(1, 4)
	if n := testing.AllocsPerRun(20, func() { s.MulAdd(dst, dst, dst, c) }); n > 0 {
		t.Errorf("%g allocations", n)
	}
}
