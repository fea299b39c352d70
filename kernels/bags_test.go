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
)

// bagOperations runs the operations on bags, for many shapes.
func bagOperations() map[string]func(c *testCase, s Stream) {
	ops := map[string]func(c *testCase, s Stream){}
	for _, d := range []int{1, 13, 16, 37, 128} {
		for _, features := range []int{1, 3, 26} {
			for _, gap := range []int{0, 3} {
				ops[fmt.Sprintf("bags/d=%d,f=%d,gap=%d", d, features, gap)] = func(c *testCase, s Stream) {
					for _, b := range []int{0, 1, 10 + 50/features} {
						offsets, index := c.segments(b*features, 57)
						weights := c.vector(index.Floats())
						mean := c.indexes(features, 2)
						for _, w := range []Buffer{{}, weights} {
							dst := c.matrix(b, features*d, gap)
							s.PoolRows(dst, c.matrix(57, d, gap), index, offsets, w)
							s.DivideCells(dst, d, offsets, mean)
							dst = c.aligned(b, features*d, 4*gap)
							s.PoolRows(dst, c.aligned(57, d, 0), index, offsets, w)
							s.DivideCells(dst, d, offsets, mean)
						}
						start, pos := c.segments(33, 57*features)
						s.SumWeighted(c.matrix(33, d, gap), c.matrix(57, features*d, gap), start, pos, c.vector(pos.Floats()))
						s.SumWeighted(c.aligned(33, d, 0), c.aligned(57, features*d, 0), start, pos, c.vector(pos.Floats()))
					}
				}
			}
		}
	}
	return ops
}

// TestBagLoopsAgree compares every instruction set and number of threads with plain Go.
func TestBagLoopsAgree(t *testing.T) {
	const seed = 11
	streams := map[string]*stream{}
	for _, l := range levels() {
		for _, threads := range []int{1, 3} {
			streams[fmt.Sprintf("%v,%d", l, threads)] = newTestStream(t, l, threads)
		}
	}
	golden, ops := fnv.New64a(), bagOperations()
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
	const want = 0x7ffa56769549b11f
	if got := golden.Sum64(); got != want && !t.Failed() && !testing.Short() {
		t.Errorf("hash of all results is %#x, want %#x", got, uint64(want))
	}
}

// TestBagsAgainstLoops compares the operations with loops over samples, features and positions.
func TestBagsAgainstLoops(t *testing.T) {
	const b, f, d, u = 37, 5, 12, 23
	r := rand.New(rand.NewPCG(5, 6))
	src, offsets, index := ordinary(r, u*d), []int32{0}, []int32{}
	for j := range d {
		src[j] = float32(math.Copysign(0, -1)) // row 0
	}
	for c := range b * f {
		for range []int{1, 0, 3, 1, 12}[c%f] {
			index = append(index, int32(r.IntN(u)))
		}
		offsets = append(offsets, int32(len(index)))
	}
	weights, mean := ordinary(r, len(index)), []int32{0, 1, 1, 0, 1}
	s := newTestStream(t, detectISA(), 2)
	for _, w := range [][]float32{nil, weights} {
		got, want := make([]float32, b*f*d), make([]float32, b*f*d)
		m := Mat(HostBuffer(got), b, f*d)
		s.PoolRows(m, Mat(HostBuffer(src), u, d), HostBuffer(index), HostBuffer(offsets), HostBuffer(w))
		s.DivideCells(m, d, HostBuffer(offsets), HostBuffer(mean))
		for c := range b * f {
			cell := want[c*d:][:d]
			n := offsets[c+1] - offsets[c]
			for l := offsets[c]; l < offsets[c+1]; l++ {
				for j := range cell {
					x := src[int(index[l])*d+j]
					if w != nil {
						x = float32(w[l] * x)
					}
					if l == offsets[c] {
						cell[j] = x
					} else {
						cell[j] += x
					}
				}
			}
			for j := range cell {
				if mean[c%f] != 0 && n > 0 {
					cell[j] /= float32(n)
				}
			}
		}
		for i := range want {
			if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
				t.Fatalf("weights %v: float %d is %g, want %g", w != nil, i, got[i], want[i])
			}
		}
	}
}

// TestOneIDBags checks that bags of one id give the bits of GatherRows, a negative zero too.
func TestOneIDBags(t *testing.T) {
	for _, l := range levels() {
		s, c := newTestStream(t, l, 2), &testCase{Rand: rand.New(rand.NewPCG(8, 9))}
		const b, f, d, u = 50, 3, 17, 40
		src, index, offsets := c.matrix(u, d, 2), c.indexes(b*f, u), make([]int32, b*f+1)
		for i := range offsets {
			offsets[i] = int32(i)
		}
		want, got := Mat(HostBuffer(make([]float32, b*f*d)), b, f*d), Mat(HostBuffer(make([]float32, b*f*d)), b, f*d)
		s.GatherRows(want, src, index)
		s.PoolRows(got, src, index, HostBuffer(offsets), Buffer{})
		s.DivideCells(got, d, HostBuffer(offsets), HostBuffer([]int32{1, 0, 1}))
		zeros := 0
		for i, x := range HostView[uint32](want.Buf) {
			if got := HostView[uint32](got.Buf)[i]; got != x {
				t.Fatalf("%v: float %d has bits %#x, want %#x", l, i, got, x)
			}
			if x == 1<<31 {
				zeros++
			}
		}
		if zeros == 0 {
			t.Error("no negative zero among the rows: the test shows less than it should")
		}
	}
}

func TestBagPreconditions(t *testing.T) {
	s := newTestStream(t, detectISA(), 2)
	ints := func(v ...int32) Buffer { return HostBuffer(v) }
	m := Mat(HostBuffer(make([]float32, 12)), 3, 4)
	for text, f := range map[string]func(){
		"index holds 3, outside":       func() { s.PoolRows(m, m, ints(0, 3, 1), ints(0, 1, 2, 3), Buffer{}) },
		"index holds 2 indexes":        func() { s.PoolRows(m, m, ints(0, 1), ints(0, 1, 2, 3), Buffer{}) },
		"offsets holds 3 indexes":      func() { s.PoolRows(m, m, ints(0, 1), ints(0, 1, 2), Buffer{}) },
		"before it starts":             func() { s.PoolRows(m, m, ints(0), ints(0, 2, 1, 1), Buffer{}) },
		"1 weights for 3 lookups":      func() { s.PoolRows(m, m, ints(0, 1, 2), ints(0, 1, 2, 3), HostBuffer([]float32{1})) },
		"cells of 3 columns in 4":      func() { s.DivideCells(m, 3, ints(0, 1, 2, 3), ints(0)) },
		"mean holds 2 indexes":         func() { s.DivideCells(m, 4, ints(0, 1, 2, 3), ints(0, 1)) },
		"0 factors for 2 positions":    func() { s.SumWeighted(m, m, ints(0, 1, 1, 2), ints(0, 1), Buffer{}) },
		"SumWeighted: pos holds 5, ou": func() { s.SumWeighted(m, m, ints(0, 1, 1, 2), ints(0, 5), HostBuffer([]float32{1, 1})) },
	} {
		wantPanic(t, text, f)
	}
}
