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

// TestCUDALongPreconditions checks that an update of a row outside the rows panics and changes nothing, also
// if the row has so many lookups that a block takes it.
func TestCUDALongPreconditions(t *testing.T) {
	const lookups, d = longSegment + 1, 8
	gpu := newTestCUDA(t, CUDAConfig{})
	s := newTestCUDAStream(t, gpu)
	for _, kind := range kinds {
		for _, pad := range []int{0, 1} { // by each kernel
			c := &testCase{Rand: rand.New(rand.NewPCG(1, 2)), dev: gpu}
			grads, rows := c.aligned(7, d, 4*pad), c.aligned(40, d+kind.RowState(d), pad)
			before := c.hash()
			wantPanic(t, "UpdateRows: slots holds 9, outside", func() {
				s.UpdateRows(WholeRow(testOptimizer(kind)), rows.RowRange(0, 3), HostBuffer([]int32{9}), grads,
					HostBuffer([]int32{0, lookups}), c.indexes(lookups, 7))
				_ = s.Sync()
			})
			if err := s.Sync(); err != nil || c.hash() != before {
				t.Errorf("rule %v: %v, or a row outside the rows was updated", kind, err)
			}
			c.free()
		}
	}
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

// TestCUBLASMemory checks that only streams that multiply take cuBLAS's workspace.
func TestCUBLASMemory(t *testing.T) {
	gpu := newTestCUDA(t, CUDAConfig{BLAS: "cublas"})
	free := func() int64 {
		n, err := gpu.Context.Free()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	const workspace = 32 << 20
	before := free()
	s := newTestCUDAStream(t, gpu)
	if taken := before - free(); taken >= workspace {
		t.Errorf("a stream without products takes %d bytes", taken)
	}
	c := &testCase{Rand: rand.New(rand.NewPCG(9, 9)), dev: gpu}
	products(c, s, 3, 4, 5)
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	if taken := before - free(); taken < workspace {
		t.Errorf("a stream with products takes %d bytes", taken)
	}
	c.free()
}

// TestColumnSums checks the order in which the gradient of a bias is added up beside cuBLAS: in chunks of rows, then over chunks.
func TestColumnSums(t *testing.T) {
	gpu := newTestCUDA(t, CUDAConfig{BLAS: "cublas"})
	s := newTestCUDAStream(t, gpu)
	for _, shape := range [][2]int{{1, 1}, {255, 33}, {700, 65}, {3 * sumChunk, 1030}} {
		rows, cols := shape[0], shape[1]
		c := &testCase{Rand: rand.New(rand.NewPCG(9, 9)), dev: gpu, ordinary: true}
		y, sums := c.matrix(rows, cols, 3), c.vector(cols)
		s.columnSums(s.addressOf("test", "sums", sums), s.matrixOf("test", "y", y, rows, cols), rows, cols)
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
		all := HostView[float32](y.Buf)
		for j, got := range HostView[float32](sums) {
			want := float32(0)
			for first := 0; first < rows; first += sumChunk {
				chunk := float32(0)
				for i := first; i < min(first+sumChunk, rows); i++ {
					chunk += all[i*y.Stride+j]
				}
				want += chunk
			}
			if math.Float32bits(got) != math.Float32bits(want) {
				t.Fatalf("%d rows, sum of column %d: %g, not %g", rows, j, got, want)
			}
		}
		c.checkGuards(t)
		c.free()
	}
}
