package kernels

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unsafe"
)

// levels are the instruction sets that this CPU has, plain first.
func levels() []isa {
	all := []isa{isaPlain, isaAVX2, isaAVX512}
	return all[:detectISA()+1]
}

// some returns all cases or, in short tests, a random few. Short tests are for the race
// detector, to which a few show how threads interact; the full tests compare bits.
func some[T any](t *testing.T, all []T) []T {
	t.Helper()
	if !testing.Short() {
		return all
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	few := make([]T, 0, len(all))
	for _, i := range rand.New(rand.NewPCG(seed, 0)).Perm(len(all))[:(len(all)+4)/5] {
		few = append(few, all[i])
	}
	return few
}

func newTestStream(t testing.TB, level isa, threads int) *stream {
	t.Helper()
	c, err := newCPU(CPUOptions{}, level)
	if err != nil {
		t.Fatal(err)
	}
	s := c.Stream(threads).(*stream)
	t.Cleanup(s.Close)
	return s
}

// testCase makes operands in operandMem memory and remembers all of it for comparison.
type testCase struct {
	*rand.Rand
	mem []operandMem

	ordinary bool // no huge or tiny numbers

	dev   Device // allocates the operands as Staging memory; nil: they are Go memory
	taken []Buffer
}

// operandMem is an operand and its memory, guards included.
type operandMem struct {
	Matrix
	all []float32
	off int
}

// matrix makes a matrix of random floats, of a stride wider than its rows by gap.
func (c *testCase) matrix(rows, cols, gap int) Matrix {
	stride := cols + gap
	off := 1 + c.IntN(9) // unaligned
	all := c.floats(off + rows*stride + 16)
	return c.place(all, off, rows, cols, stride)
}

// floats returns memory for n floats of operands.
func (c *testCase) floats(n int) []float32 {
	if c.dev == nil {
		return make([]float32, n)
	}
	b, err := c.dev.Alloc(4*n, Staging)
	if err != nil {
		panic(err)
	}
	c.taken = append(c.taken, b)
	return HostView[float32](b)
}

// free frees the operands' memory.
func (c *testCase) free() {
	for _, b := range c.taken {
		c.dev.Free(b)
	}
	c.taken, c.mem = nil, nil
}

// aligned makes a matrix that begins at a cache line.
func (c *testCase) aligned(rows, cols, gap int) Matrix {
	all := c.floats(rows*(cols+gap) + 48)
	off := 16 + int(-uintptr(unsafe.Pointer(&all[0]))%64)/4
	return c.place(all[off-1:off+rows*(cols+gap)+1], 1, rows, cols, cols+gap)
}

// place makes a matrix of random floats from number off of all, guards elsewhere.
func (c *testCase) place(all []float32, off, rows, cols, stride int) Matrix {
	for i := range all {
		all[i] = guard
	}
	for i := range rows {
		for n, row := 0, all[off+i*stride:][:cols]; n < cols; {
			n += copy(row[n:], testFloats[c.IntN(len(testFloats)):])
		}
		for j, row := 0, all[off+i*stride:][:cols]; c.ordinary && j < cols; j++ {
			row[j] = float32(math.Mod(float64(row[j]), 2))
		}
	}
	b := HostBuffer(all[off : off+rows*stride])
	b.device = c.dev != nil
	m := Matrix{b, rows, cols, stride}
	c.mem = append(c.mem, operandMem{m, all, off})
	return m
}

func (c *testCase) vector(n int) Buffer { return c.matrix(1, n, 0).Buf }

// testFloats are mostly ordinary numbers, some of them zero, huge or tiny.
var testFloats = func() []float32 {
	r := rand.New(rand.NewPCG(1, 1))
	v := make([]float32, 50_021)
	for i := range v {
		x := 4 * (r.Float32() - 0.5) // exact: NormFloat64 is not the same everywhere
		switch r.IntN(64) {
		case 0:
			x = 0
		case 1:
			x = float32(math.Copysign(0, -1))
		case 2:
			x *= 1e15
		case 3:
			x *= 1e-30
		}
		v[i] = x
	}
	return v
}()

// positive makes the values of m positive, for states whose square roots are taken.
func positive(m Matrix) {
	v := HostView[float32](m.Buf)
	for i := range m.Rows {
		for j := range m.Cols {
			v[i*m.Stride+j] = float32(math.Abs(float64(v[i*m.Stride+j])))
		}
	}
}

func (c *testCase) indexes(n, limit int) Buffer {
	v := make([]int32, n)
	for i := range v {
		v[i] = int32(c.IntN(limit))
	}
	return HostBuffer(v)
}

// bytes draws n bytes, of which many are 0 and 1.
func (c *testCase) bytes(n int) []byte {
	v := make([]byte, n)
	for i := range v {
		v[i] = byte(c.IntN(1 << c.IntN(9)))
	}
	return v
}

// segments draws the starts of n segments, some empty, one long, and positions.
func (c *testCase) segments(n, limit int) (start, pos Buffer) {
	v := make([]int32, n+1)
	for i := range n {
		v[i+1] = v[i] + int32(c.IntN(4))
		if i == n/2 {
			v[i+1] += 300
		}
	}
	return HostBuffer(v), c.indexes(int(v[n]), limit)
}

func (c *testCase) checkGuards(t *testing.T) {
	t.Helper()
	for k, g := range c.mem {
		for i, x := range g.all {
			j := i - g.off
			if j >= 0 && j < g.Rows*g.Stride && j%g.Stride < g.Cols {
				continue
			}
			if x != guard {
				t.Fatalf("operand %d: float %d outside its rows is %g", k, j, x)
			}
		}
	}
}

// hash returns a hash of all operands; all NaNs are equal.
func (c *testCase) hash() uint64 {
	h := uint64(14695981039346656037)
	for _, g := range c.mem {
		for _, x := range g.all {
			if x != x {
				x = float32(math.NaN())
			}
			h = (h ^ uint64(math.Float32bits(x))) * 1099511628211 // FNV-1a by words
		}
	}
	return h
}

// kinds are all rules, by name.
var kinds = func() map[string]OptimizerKind {
	all := map[string]OptimizerKind{}
	for i, r := range Rules {
		all[r.Name] = OptimizerKind(i)
	}
	return all
}()

func testOptimizer(k OptimizerKind) Optimizer {
	return Optimizer{Kind: k, LR: 0.02, Momentum: 0.9, Eps: 1e-8, Beta1: 0.9, Beta2: 0.999, C1: 0.1, C2: 0.001,
		StepSize: 0.02 / 0.19, BiasSqrt: 0.044710178, Beta: 1, L1: 0.25, L2: 0.01, Keep: 0.99}
}

var widths = []int{1, 3, 4, 7, 8, 13, 16, 31, 48, 128}

// operations is the shared table: every operation with several implementations.
func operations() map[string]func(c *testCase, s Stream) {
	ops := map[string]func(c *testCase, s Stream){}
	for _, n := range []int{0, 1, 7, 8, 9, 31, 64, 1000, 40_003} {
		for _, addends := range []int{1, 2, 5} {
			ops[fmt.Sprintf("Sum/n=%d/addends=%d", n, addends)] = func(c *testCase, s Stream) {
				from := make([]Buffer, addends)
				for i := range from {
					from[i] = c.vector(n)
				}
				s.Sum(c.vector(n), from)
				s.Sum(from[addends/2], from)
			}
		}
		ops[fmt.Sprintf("SigmoidBCE/n=%d", n)] = func(c *testCase, s Stream) {
			label := make([]float32, n)
			for i := range label {
				label[i] = float32(c.IntN(2))
			}
			s.SigmoidBCE(c.vector(n), c.vector(n), c.vector(n), HostBuffer(label), 1/float32(max(n, 1)))
			s.Sigmoid(c.vector(n), c.vector(n))
		}
		for name, kind := range kinds {
			if kind.Rule().Dense() {
				ops[fmt.Sprintf("UpdateDense/%s,n=%d", name, n)] = func(c *testCase, s Stream) {
					state := c.matrix(1, kind.DenseState(n), 0)
					positive(state)
					s.UpdateDense(testOptimizer(kind), c.vector(n), state.Buf, c.vector(n))
				}
			}
		}
	}
	ops["GatherRows/streamed"] = func(c *testCase, s Stream) {
		const t, d, b = 3, 48, bypassBytes/(4*3*48) + 1
		s.GatherRows(c.aligned(b, t*d, d), c.matrix(57, d, 1), c.indexes(b*t, 57))
	}
	ops["DotInteraction/wide"] = func(c *testCase, s Stream) {
		const b, f, d = 5, 6, 200
		feats, out := c.aligned(b, f*d, 0), c.matrix(b, d+f*(f-1)/2, 0)
		s.DotInteraction(out, feats, f, d)
		s.DotInteractionGrad(c.aligned(b, f*d, 0), out, feats, f, d)
	}
	ops["DotInteraction/underflow"] = func(c *testCase, s Stream) { // all sums are -0.0
		const b, f, d = 3, 5, 8
		feats, out := c.aligned(b, f*d, 0), c.matrix(b, f*(f-1)/2, 0)
		for i, x := range [][]float32{HostView[float32](feats.Buf), HostView[float32](out.Buf)} {
			for k := range x {
				x[k] = 1e-30 * float32(2*i-1)
			}
		}
		s.DotInteractionGrad(c.aligned(b, f*d, 0), out, feats, f, d)
	}
	for _, d := range widths {
		for _, t := range []int{1, 3, 26} {
			for _, gap := range []int{0, 1, d} {
				ops[fmt.Sprintf("GatherRows/d=%d,t=%d,gap=%d", d, t, gap)] = func(c *testCase, s Stream) {
					for _, b := range []int{0, 1, 40 + 4000/(t*d)} {
						s.GatherRows(c.matrix(b, t*d, gap), c.matrix(57, d, gap), c.indexes(b*t, 57))
					}
				}
				ops[fmt.Sprintf("SumRows/d=%d,t=%d,gap=%d", d, t, gap)] = func(c *testCase, s Stream) {
					for _, n := range []int{0, 1, 40 + 4000/d} {
						start, pos := c.segments(n, 57*t)
						s.SumRows(c.matrix(n, d, gap), c.matrix(57, t*d, gap), start, pos)
					}
				}
			}
		}
		for name, kind := range kinds {
			ops[fmt.Sprintf("UpdateRows/%s,d=%d", name, d)] = func(c *testCase, s Stream) {
				for _, n := range []int{0, 1, 33, 500} {
					rows := c.matrix(1000, d+kind.RowState(d), d%2)
					positive(rows)
					slots := make([]int32, 0, n)
					for _, i := range c.Perm(1000)[:n] {
						slots = append(slots, int32(i))
					}
					start, pos := c.segments(n, 77)
					s.UpdateRows(WholeRow(testOptimizer(kind)), rows, HostBuffer(slots), c.matrix(77, d, d%3), start, pos)
				}
			}
		}
		for _, f := range []int{1, 2, 3, 8, 9, 14, 27, 33} {
			ops[fmt.Sprintf("DotInteraction/f=%d,d=%d", f, d)] = func(c *testCase, s Stream) {
				for _, b := range []int{0, 1, 70 / (1 + f*d/64)} {
					feats, out := c.matrix(b, f*d, d%3), c.matrix(b, d+f*(f-1)/2, d%2)
					s.DotInteraction(out, feats, f, d)
					s.DotInteractionGrad(c.matrix(b, f*d, 0), out, feats, f, d)
				}
			}
			ops[fmt.Sprintf("DotInteraction/aligned,f=%d,d=%d", f, d)] = func(c *testCase, s Stream) {
				const b = 19
				feats, out := c.aligned(b, f*d, 4*(d%3)), c.matrix(b, d+f*(f-1)/2, d%2)
				s.DotInteraction(out, feats, f, d)
				s.DotInteractionGrad(c.aligned(b, f*d, 4), out, feats, f, d)
			}
			if f == 1 {
				continue // it has no dots
			}
			ops[fmt.Sprintf("DotInteraction/dots alone,f=%d,d=%d", f, d)] = func(c *testCase, s Stream) {
				for _, b := range []int{0, 1, 70 / (1 + f*d/64)} {
					feats, out := c.matrix(b, f*d, d%3), c.matrix(b, f*(f-1)/2, d%2)
					s.DotInteraction(out, feats, f, d)
					s.DotInteractionGrad(c.matrix(b, f*d, 0), out, feats, f, d)
				}
			}
		}
	}
	return ops
}

// TestLoopsAgree compares every instruction set and number of threads with plain Go.
func TestLoopsAgree(t *testing.T) { testLoops(t, operations(), 0x213a68295944d4b7) }

// testLoops is TestLoopsAgree for some operations. The hash of all results is pinned, because
// builds for other GOAMD64, GODEBUG and CPUs must agree too.
func testLoops(t *testing.T, ops map[string]func(c *testCase, s Stream), pinned uint64) {
	const seed = 7
	streams := map[string]*stream{}
	for _, l := range levels() {
		for _, threads := range map[isa][]int{isaPlain: {1, 2}, isaAVX2: {1, 3}, isaAVX512: {2, 4}}[l] {
			streams[fmt.Sprintf("%v,%d", l, threads)] = newTestStream(t, l, threads)
		}
	}
	golden := fnv.New64a()
	names := make([]string, 0, len(ops))
	for name := range ops {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range some(t, names) {
		t.Run(name, func(t *testing.T) {
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
		})
	}
	if got := golden.Sum64(); got != pinned && !t.Failed() && !testing.Short() {
		t.Errorf("hash of all results is %#x, want %#x", got, pinned)
	}
}
