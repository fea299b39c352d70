package kernels

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// cudaOperations are the operations whose CPU loops have tests of their own, and those of the
// shared table with operands that can be moved four floats at a time.
func cudaOperations() map[string]func(c *testCase, s Stream) {
	ops := map[string]func(c *testCase, s Stream){}
	few := func(c *testCase, n, limit int) Buffer {
		list := make([]int32, n)
		for i, x := range c.Perm(limit)[:n] {
			list[i] = int32(x)
		}
		return HostBuffer(list)
	}
	for _, d := range widths {
		ops[fmt.Sprintf("ScatterRows/d=%d", d)] = func(c *testCase, s Stream) {
			s.ScatterRows(c.matrix(900, d, d%3), c.matrix(700, d, d%2), few(c, 700, 900))
			s.ScatterRows(c.aligned(90, d, 0), c.aligned(70, d, 4), few(c, 70, 90))
			s.ScatterRows(c.matrix(3, d, 0), c.matrix(0, d, 0), HostBuffer([]int32{}))
		}
		ops[fmt.Sprintf("XorRows/d=%d", d)] = func(c *testCase, s Stream) {
			s.XorRows(c.matrix(700, d, d%3), c.matrix(57, d, d%2), c.indexes(700, 57), c.matrix(31, d, 1), c.indexes(700, 31))
			s.XorRows(c.aligned(70, d, 0), c.aligned(57, d, 4), c.indexes(70, 57), c.aligned(31, d, 8), c.indexes(70, 31))
			s.FoldRows(c.matrix(900, d, d%3), few(c, 700, 900), c.matrix(57, d, 0), c.indexes(700, 57), nil)
			s.FoldRows(c.aligned(90, d, 4), few(c, 70, 90), c.aligned(57, d, 0), c.indexes(70, 57), nil)
			s.FoldRows(c.matrix(900, d, d%3), few(c, 700, 900), c.matrix(57, d, 0), c.indexes(700, 57), c.bytes(700))
			s.FoldRows(c.aligned(90, d, 4), few(c, 70, 90), c.aligned(57, d, 0), c.indexes(70, 57), c.bytes(70))
		}
		ops[fmt.Sprintf("InitRows/d=%d", d)] = func(c *testCase, s Stream) {
			init := RowInit{Seed: 0xfeedfacecafe, Owners: 3, Owner: 1, Base: []int64{0, 4, 5, 1 << 36}, Scale: []float32{0.5, 1, 0.1}, Width: d}
			s.InitRows(c.matrix(333, d+3, 1), few(c, 100, 333), init)
			s.InitRows(c.matrix(33, d, 0), HostBuffer([]int32{0, 1, 32}), init)
			s.XorInit(c.matrix(100, d+2, 0), c.indexes(100, math.MaxInt32), init)
			other := RowInit{Seed: 1, Owners: 1, Base: []int64{0, 100}, Scale: []float32{0.25}, Width: d}
			s.InitRows(c.matrix(100, d+1, 0), few(c, 50, 100), other)
		}
		ops[fmt.Sprintf("columns/d=%d", d)] = func(c *testCase, s Stream) {
			s.CopyColumns(c.matrix(300, d, 3), c.matrix(300, d, d%2))
			s.GateReLU(c.matrix(300, d, 3), c.matrix(300, d, d%2))
			s.GateReLU(c.matrix(0, d, 3), c.matrix(0, d, 0))
		}
		ops[fmt.Sprintf("aligned/d=%d", d)] = func(c *testCase, s Stream) {
			s.CopyColumns(c.aligned(300, d, 4), c.aligned(300, d, 8))
			s.MulAdd(c.aligned(70, d, 0), c.aligned(70, d, 4), c.matrix(70, 1, 2), c.aligned(1, d, 0))
			s.Sum(c.aligned(9, d, 0).Buf, []Buffer{c.aligned(9, d, 0).Buf, c.aligned(9, d, 0).Buf})
			s.GatherRows(c.aligned(100, 3*d, 4), c.aligned(57, d, 8), c.indexes(300, 57))
			start, pos := c.segments(500, 57*3)
			s.SumRows(c.aligned(500, d, 0), c.aligned(57, 3*d, 4), start, pos)
			for _, name := range slices.Sorted(maps.Keys(kinds)) {
				kind := kinds[name]
				rows := c.aligned(600, d+kind.RowState(d), 0)
				positive(rows)
				start, pos := c.segments(500, 77)
				s.UpdateRows(WholeRow(testOptimizer(kind)), rows, few(c, 500, 600), c.aligned(77, d, 0), start, pos)
			}
		}
	}
	for _, d := range []int{1, 4, 7, 16, 20, 128, 132, 260} {
		ops[fmt.Sprintf("segments/d=%d", d)] = func(c *testCase, s Stream) { segmentsOfAllLengths(c, s, d, few) }
	}
	for _, n := range []int{1, 100, 3*ringBytes/4 + 5} {
		ops[fmt.Sprintf("copies/n=%d", n)] = func(c *testCase, s Stream) { copies(c, s, n) }
	}
	ops["a long upload"] = func(c *testCase, s Stream) {
		list := make([]float32, mostHeldBytes/4+5)
		for i := range list {
			list[i] = float32(i % 1000)
		}
		inside := c.inside(len(list))
		s.Upload(inside, BytesOf(list))
		s.Copy(c.vector(100), inside.SliceFloats(len(list)-100, 100))
	}
	ops["uploads without a Sync"] = func(c *testCase, s Stream) {
		list := make([]float32, mostHeldBytes/16)
		for i := range 5 { // more bytes than a ring has
			for at := range list {
				list[at] = float32(at%1000 + i)
			}
			inside := c.inside(len(list))
			s.Upload(inside, BytesOf(list))
			s.Copy(c.vector(100), inside.SliceFloats(100*i, 100))
			s.GatherRows(c.matrix(100, 3, 0), c.matrix(50, 3, 0), c.indexes(100, 50)) // stages a list between
			if gpu, ok := s.(*cudaStream); ok && gpu.heldBytes() > mostHeldBytes+ringBytes {
				panic(fmt.Sprintf("%d bytes wait in rings", gpu.heldBytes()))
			}
		}
	}
	for _, shape := range [][3]int{ // m, n, k
		{1, 1, 1}, {2, 1, 256}, {100, 1, 128}, {37, 48, 64}, {28, 512, 13}, {70, 65, 300}, {129, 128, 99}, {300, 200, 20},
		{260, 140, 50}, {16, 33, 1100}, {0, 3, 4}, {3, 4, 0}, {3, 0, 4},
	} {
		for tile := range len(productTiles) + 1 {
			ops[fmt.Sprintf("products/%v,tile=%d", shape, tile)] = func(c *testCase, s Stream) {
				if gpu, ok := s.(*cudaStream); ok {
					gpu.tile = tile
					defer func() { gpu.tile = 0 }()
				}
				products(c, s, shape[0], shape[1], shape[2])
			}
		}
	}
	return ops
}

// segmentsOfAllLengths sums segments that a group of threads takes with others or alone, and long
// ones that take one tile or go around all tiles.
func segmentsOfAllLengths(c *testCase, s Stream, d int, few func(c *testCase, n, limit int) Buffer) {
	start := []int32{0}
	for _, n := range c.Perm(71) {
		start = append(start, start[len(start)-1]+int32(n))
	}
	for _, n := range []int{128, 0, 129, 2, 1280, 1, 3001} {
		start = append(start, start[len(start)-1]+int32(n))
	}
	n, lookups := len(start)-1, int(start[len(start)-1])
	for _, pad := range []int{0, 1, 4} {
		s.SumRows(c.aligned(n, d, pad), c.aligned(57, 3*d, pad), HostBuffer(start), c.indexes(lookups, 171))
		s.SumWeighted(c.aligned(n, d, 0), c.aligned(57, d, pad), HostBuffer(start), c.indexes(lookups, 57), c.vector(lookups))
		for kind := range Rules {
			kind := OptimizerKind(kind)
			rows := c.aligned(99, d+kind.RowState(d), pad)
			positive(rows)
			s.UpdateRows(WholeRow(testOptimizer(kind)), rows, few(c, n, 99), c.aligned(77, d, pad), HostBuffer(start), c.indexes(lookups, 77))
		}
	}
}

// copies copies n floats to the device and back, in every way.
func copies(c *testCase, s Stream, n int) {
	host := BytesOf(HostView[float32](c.vector(n)))
	a, b := c.vector(n), c.vector(n)
	s.Upload(a, host)
	s.Copy(b, a)
	s.Zero(a.SliceFloats(n/2, n-n/2))
	back := c.vector(n)
	s.Download(back.Host(), b)
	inside := c.inside(n) // memory that a CPU cannot address
	s.Upload(inside, host)
	s.Copy(c.vector(n), inside)
	s.Zero(inside.SliceFloats(n/2, n-n/2))
	s.Download(back.Host(), inside)
	s.Copy(c.vector(n), back)
	outside := HostBuffer(make([]float32, n)) // memory that a GPU cannot address
	s.Copy(outside, b)
	s.Copy(c.vector(n), outside)
	s.Zero(outside)
	s.Copy(c.vector(n), outside)
}

// inside returns n floats of the device's own memory.
func (c *testCase) inside(n int) Buffer {
	if c.dev == nil {
		return HostBuffer(make([]float32, n))
	}
	b, err := c.dev.Alloc(4*n, Working)
	if err != nil {
		panic(err)
	}
	c.taken = append(c.taken, b)
	return b
}

// products computes the three products of a layer.
func products(c *testCase, s Stream, m, n, k int) {
	x, w, b, dy, y := c.matrix(m, k, 3), c.matrix(n, k, 0), c.vector(n), c.matrix(m, n, 1), c.matrix(m, n, 0)
	s.Linear(y, x, w, b, ReLU)
	s.Linear(c.matrix(m, n, 2), x, w, Buffer{}, Identity)
	s.LinearGradInput(c.matrix(m, k, 1), dy, w, x)
	s.LinearGradInput(c.matrix(m, k, 0), dy, w, Matrix{})
	s.LinearGradWeight(c.matrix(n, k, 0), c.vector(n), dy, x)
	s.LinearGradWeight(c.matrix(n, k, 5), Buffer{}, dy, x)
	// Results that can be moved four floats at a time, and results whose rows cannot.
	even := func(cols int) int { return (4 - cols%4) % 4 }
	s.Linear(c.aligned(m, n, even(n)), x, w, b, ReLU)
	s.LinearGradInput(c.aligned(m, k, even(k)), dy, w, c.aligned(m, k, even(k)))
	s.LinearGradInput(c.aligned(m, k, even(k)), dy, w, x)
	s.LinearGradWeight(c.aligned(n, k, even(k)), c.vector(n), dy, x)
	s.LinearGradWeight(c.aligned(n, k, even(k)+1), Buffer{}, dy, x)
	// Operands that can be copied so.
	x, w, dy = c.aligned(m, k, even(k)), c.aligned(n, k, even(k)+4), c.aligned(m, n, even(n))
	s.Linear(y, x, w, b, ReLU)
	s.LinearGradInput(c.matrix(m, k, 1), dy, w, x)
	s.LinearGradWeight(c.matrix(n, k, 0), c.vector(n), dy, x)
}
