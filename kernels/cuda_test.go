package kernels

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/internal/cuda/standin"
)

// newTestCUDA returns the CUDA backend on a real GPU, or on the stand-in for one.
func newTestCUDA(t testing.TB, o CUDAConfig) *cudaDevice {
	t.Helper()
	standin.Use(t, CUDASource(), 1)
	d, err := newCUDA(o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func newTestCUDAStream(t testing.TB, d *cudaDevice) *cudaStream {
	t.Helper()
	s := d.Stream(1).(*cudaStream)
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// TestCUDAAgrees runs the shared table on the CUDA backend and compares its bits with plain
// Go's.
func TestCUDAAgrees(t *testing.T) {
	const seed = 7
	d := newTestCUDA(t, CUDAConfig{})
	plain, s := newTestStream(t, isaPlain, 1), newTestCUDAStream(t, d)
	ops := operations()
	maps.Copy(ops, bagOperations())
	maps.Copy(ops, cudaOperations())
	maps.Copy(ops, normOperations())
	maps.Copy(ops, partOperations())
	maps.Copy(ops, mulAddOperations())
	names := make([]string, 0, len(ops))
	for name := range ops {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range some(t, names) {
		t.Run(name, func(t *testing.T) {
			want := &testCase{Rand: rand.New(rand.NewPCG(seed, 0))}
			ops[name](want, plain)
			got := &testCase{Rand: rand.New(rand.NewPCG(seed, 0)), dev: d}
			ops[name](got, s)
			if err := s.Sync(); err != nil {
				t.Fatal(err)
			}
			got.checkGuards(t)
			if got.hash() != want.hash() {
				t.Errorf("%s (seed %d): CUDA gives other bits than plain Go; first difference: %s", name, seed, difference(got, want))
			}
			got.free()
		})
	}
}

// difference returns the first place where two runs of a case differ.
func difference(got, want *testCase) string {
	for k := range want.mem {
		for i, w := range want.mem[k].all {
			if g := got.mem[k].all[i]; math.Float32bits(g) != math.Float32bits(w) && !(g != g && w != w) {
				return fmt.Sprintf("operand %d, float %d (of %d from %d): %g, not %g", k, i, len(want.mem[k].all), want.mem[k].off, g, w)
			}
		}
	}
	return "none"
}

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

// A cudaDivisor divides all numbers below 2^31 as the hardware does.
func TestDivisor(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, by := range []int{2, 3, 5, 7, 26, 27, 32, 33, 641, 65536, 6700417, 1<<30 - 1, 1 << 30, 1<<30 + 1, math.MaxInt32} {
		d := divisorOf(by)
		check := func(x int) {
			if got := int(uint64(x)*uint64(d.magic)>>32) >> d.shift; x >= 0 && x <= math.MaxInt32 && got != x/by {
				t.Fatalf("%d/%d = %d, not %d", x, by, x/by, got)
			}
		}
		for range 1000 {
			check(r.IntN(math.MaxInt32))
			k := r.IntN(math.MaxInt32/by + 1)
			check(k*by - 1)
			check(k * by)
		}
		check(math.MaxInt32)
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

// TestCUDAPreconditions checks that wrong operands panic: at the call, or at Sync if only the
// GPU can detect them.
func TestCUDAPreconditions(t *testing.T) {
	d := newTestCUDA(t, CUDAConfig{})
	s := newTestCUDAStream(t, d)
	c := &testCase{Rand: rand.New(rand.NewPCG(1, 2)), dev: d}
	ints := func(v ...int32) Buffer { return HostBuffer(v) }
	m := c.matrix(3, 4, 0)
	for text, f := range map[string]func(){
		"index holds 3, outside":     func() { s.GatherRows(m, m, ints(0, 3, 1)) },
		"index holds -1, outside":    func() { s.GatherRows(m, m, ints(0, -1, 1)) },
		"ScatterRows: index holds 4": func() { s.ScatterRows(m, m, ints(0, 4, 1)) },
		"index holds 2 indexes":      func() { s.GatherRows(m, m, ints(0, 1)) },
		"dst has 4 columns, src 3":   func() { s.ScatterRows(m, m.Columns(0, 3), ints(0, 1, 2)) },
		"pos holds 3, outside":       func() { s.SumRows(m, m, ints(0, 1, 1, 2), ints(0, 3)) },
		"before it starts":           func() { s.SumRows(m, m, ints(0, 2, 1, 2), ints(0, 1)) },
		"slots holds 9, outside":     func() { s.UpdateRows(WholeRow(Optimizer{}), m, ints(9), m, ints(0, 1), ints(0)) },
		"rows of 4 floats for 4":     func() { s.UpdateRows(WholeRow(Optimizer{Kind: Adam}), m, ints(0), m, ints(0, 1), ints(0)) },
		"second index holds 5":       func() { s.XorRows(m, m, ints(0, 0, 0), m, ints(0, 5, 0)) },
		"InitRows: slots holds 7":    func() { s.InitRows(m, ints(7), RowInit{Owners: 1, Base: []int64{0, 9}, Scale: []float32{1}}) },
		"cannot address":             func() { s.CopyColumns(m, Mat(HostBuffer(make([]float32, 12)), 3, 4)) },
		"Sum of nothing":             func() { s.Sum(m.Buf, nil) },
		"not an allocation":          func() { d.Free(m.Buf.Slice(0, 8)) },
	} {
		wantPanic(t, text, func() {
			f()
			_ = s.Sync()
		})
	}
	if err := s.Sync(); err != nil {
		t.Error(err)
	}
	c.free()
}

// TestCUDARefusesRules checks that a rule without a body in cuda/optimizer.cuh panics at the
// next Sync, and changes nothing.
func TestCUDARefusesRules(t *testing.T) {
	d := newTestCUDA(t, CUDAConfig{})
	defer func(rules []Rule) { Rules = rules }(Rules)
	Rules = append(slices.Clone(Rules), Rule{Name: "other", StatePerWeight: 1, Update: momentumPlain})
	kind, _ := FindRule("other")
	opt, s, c := testOptimizer(kind), newTestCUDAStream(t, d), &testCase{Rand: rand.New(rand.NewPCG(1, 2)), dev: d}
	w, state, rows, grads := c.vector(4), c.vector(4), c.matrix(300, 8, 0), c.matrix(77, 4, 0)
	before := c.hash()
	missing := fmt.Sprint(": the CUDA kernels do not have update rule ", int(kind))
	for what, update := range map[string]func(){
		"UpdateDense" + missing: func() { s.UpdateDense(opt, w, state, w) },
		"UpdateRows" + missing: func() {
			s.UpdateRows(WholeRow(opt), rows, HostBuffer([]int32{1, 7}), grads, HostBuffer([]int32{0, 1, 3}), HostBuffer([]int32{5, 6, 7}))
		},
		"UpdateRows: the CUDA kernels do not": func() { // a row of so many lookups that a block takes it
			s.UpdateRows(WholeRow(opt), rows, HostBuffer([]int32{3}), grads, HostBuffer([]int32{0, 1000}), HostBuffer(make([]int32, 1000)))
		},
	} {
		wantPanic(t, what, func() {
			update()
			_ = s.Sync()
		})
		if err := s.Sync(); err != nil || c.hash() != before {
			t.Errorf("%s: %v, or an operand changed", what, err)
		}
	}
	c.free()
}

// TestCUDAPieces compares products of pieces with those of the CPU: by each kernel, whole and in
// parts.
func TestCUDAPieces(t *testing.T) {
	d := newTestCUDA(t, CUDAConfig{BLAS: exactTC})
	if !strings.HasSuffix(d.Name(), " exact-tc") {
		t.Errorf("the device is called %s", d.Name())
	}
	cpu, err := NewCPU(CPUOptions{BLAS: exactTC})
	if err != nil {
		t.Fatal(err)
	}
	plain, s := cpu.Stream(2), newTestCUDAStream(t, d)
	defer plain.Close()
	shapes := [][3]int{{1, 1, 1}, {100, 1, 128}, {37, 48, 64}, {130, 70, 1100}, {28, 300, 13}, {2100, 20, 9}, {129, 9, 2100}, {3, 4, 0}, {0, 3, 4}, {3, 0, 4}}
	for _, shape := range some(t, shapes) {
		for i, tile := range exactTiles {
			if tile.shared > d.Shared {
				continue
			}
			for _, limit := range []int{0, 3 * 2048 * 128, 1} {
				run := func(dev Device, s Stream) *testCase {
					c := &testCase{Rand: rand.New(rand.NewPCG(9, 9)), dev: dev}
					products(c, s, shape[0], shape[1], shape[2])
					if err := s.Sync(); err != nil {
						t.Fatal(err)
					}
					c.checkGuards(t)
					return c
				}
				s.tile, s.digitLimit = i+1, limit
				want, got := run(nil, plain), run(d, s)
				if got.hash() != want.hash() {
					t.Errorf("%v, %s, limit %d: other bits than the CPU's; first difference: %s", shape, cudaNames[tile.kernel], limit, difference(got, want))
				}
				got.free()
			}
		}
	}
}

// TestCUBLAS checks products by cuBLAS: their transposes, bias, activation, gate and sums. The
// stand-in computes chains of FMAs, so that even the bits agree, except of column sums, which
// are added up in chunks.
func TestCUBLAS(t *testing.T) {
	for _, mode := range []string{"cublas", "cublas-tf32", "cublas-bf16"} {
		d := newTestCUDA(t, CUDAConfig{BLAS: mode})
		exact, s := newTestStream(t, detectISA(), 2), newTestCUDAStream(t, d)
		if !strings.HasSuffix(d.Name(), " "+mode) {
			t.Errorf("%s is called %s", mode, d.Name())
		}
		near := map[string]float64{"cublas": 1e-4, "cublas-tf32": 0.02, "cublas-bf16": 0.1}[mode]
		for _, shape := range [][3]int{{1, 1, 1}, {100, 1, 128}, {37, 48, 64}, {700, 65, 30}, {3, 4, 0}, {0, 3, 4}} {
			run := func(dev Device, s Stream) *testCase {
				c := &testCase{Rand: rand.New(rand.NewPCG(9, 9)), dev: dev, ordinary: true}
				products(c, s, shape[0], shape[1], shape[2])
				if err := s.Sync(); err != nil {
					t.Fatal(err)
				}
				c.checkGuards(t)
				return c
			}
			want, got := run(nil, exact), run(d, s)
			for k := range want.mem {
				for i, w := range want.mem[k].all {
					if g := got.mem[k].all[i]; !(math.Abs(float64(g-w)) <= near*math.Max(4*math.Sqrt(float64(shape[0]+shape[2])), math.Abs(float64(w)))) {
						t.Fatalf("%s, %v: operand %d, float %d: %g, not %g", mode, shape, k, i, g, w)
					}
				}
			}
			got.free()
		}
	}
	if _, err := newCUDA(CUDAConfig{BLAS: "mkl"}); err == nil || !strings.Contains(err.Error(), `"mkl"`) {
		t.Errorf("unknown BLAS: error %v", err)
	}
}
