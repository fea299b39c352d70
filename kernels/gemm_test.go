package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/ecrec/ecrec/internal/f32"
	"github.com/ecrec/ecrec/internal/openblas"
)

// isas are the instruction sets that this machine has.
func isas() []isa {
	var all []isa
	for i := isaPlain; i <= detectISA(); i++ {
		all = append(all, i)
	}
	return all
}

// guard surrounds every matrix of a test and must not change.
const guard = float32(-12345.678)

// guarded is a matrix with guards before, after and between its rows.
type guarded struct {
	Matrix
	all []float32
}

func newGuarded(rng *rand.Rand, rows, cols int) *guarded {
	stride := cols + rng.IntN(3)*rng.IntN(20)
	all := make([]float32, 40+rows*stride)
	for i := range all {
		all[i] = guard
	}
	m := &guarded{all: all}
	if rows > 0 && cols > 0 {
		m.Matrix = Matrix{HostBuffer(all[20 : 20+(rows-1)*stride+cols]), rows, cols, stride}
	} else {
		m.Matrix = Matrix{Rows: rows, Cols: cols, Stride: stride}
	}
	return m
}

func (m *guarded) at(i, j int) *float32 { return &m.all[20+i*m.Stride+j] }

// fill draws values; one in a hundred is from special, if that is not empty.
func (m *guarded) fill(rng *rand.Rand, special []float32) *guarded {
	for i := range m.Rows {
		for j := range m.Cols {
			*m.at(i, j) = float32(rng.NormFloat64())
			if len(special) > 0 && rng.IntN(100) == 0 {
				*m.at(i, j) = special[rng.IntN(len(special))]
			}
		}
	}
	return m
}

// check compares m with want, bit for bit (NaN is one value), and the guards.
func (m *guarded) check(t *testing.T, what string, want func(i, j int) float32) {
	t.Helper()
	inside := make([]bool, len(m.all))
	for i := range m.Rows {
		for j := range m.Cols {
			inside[20+i*m.Stride+j] = true
			got, w := *m.at(i, j), want(i, j)
			if math.Float32bits(got) != math.Float32bits(w) && !(got != got && w != w) {
				t.Fatalf("%s: element (%d, %d) is %g (%#x), want %g (%#x)",
					what, i, j, got, math.Float32bits(got), w, math.Float32bits(w))
			}
		}
	}
	for i, v := range m.all {
		if !inside[i] && v != guard {
			t.Fatalf("%s: wrote outside at %d of %d (stride %d)", what, i-20, len(m.all)-40, m.Stride)
		}
	}
}

// layer holds the operands of the three products of one layer, and their results
// by definition.
type layer struct {
	m, n, k                  int
	x, w, dy, gate, b        *guarded
	y, yLin, dx, dxGated, dw [][]float32
	db                       []float32
}

func newLayer(rng *rand.Rand, m, n, k int, special []float32) *layer {
	l := &layer{m: m, n: n, k: k}
	l.x = newGuarded(rng, m, k).fill(rng, special)
	l.w = newGuarded(rng, n, k).fill(rng, special)
	l.dy = newGuarded(rng, m, n).fill(rng, special)
	l.gate = newGuarded(rng, m, k).fill(rng, append([]float32{0, float32(math.Copysign(0, -1))}, special...))
	l.b = newGuarded(rng, 1, n).fill(rng, special)
	chain := func(rows, cols, k int, a, b func(i, k int) float32) [][]float32 {
		c := make([][]float32, rows)
		for i := range c {
			c[i] = make([]float32, cols)
			for j := range c[i] {
				for q := range k {
					c[i][j] = f32.FMA(a(i, q), b(j, q), c[i][j])
				}
			}
		}
		return c
	}
	x, w, dy := l.x, l.w, l.dy
	l.yLin = chain(m, n, k, func(i, q int) float32 { return *x.at(i, q) }, func(j, q int) float32 { return *w.at(j, q) })
	l.dx = chain(m, k, n, func(i, q int) float32 { return *dy.at(i, q) }, func(j, q int) float32 { return *w.at(q, j) })
	l.dw = chain(n, k, m, func(i, q int) float32 { return *dy.at(q, i) }, func(j, q int) float32 { return *x.at(q, j) })
	l.y, l.dxGated = make([][]float32, m), make([][]float32, m)
	for i := range m {
		l.y[i], l.dxGated[i] = make([]float32, n), make([]float32, k)
		for j := range n {
			if v := l.yLin[i][j] + *l.b.at(0, j); !(v < 0) {
				l.y[i][j] = v
			}
		}
		for j := range k {
			if *l.gate.at(i, j) > 0 {
				l.dxGated[i][j] = l.dx[i][j]
			}
		}
	}
	l.db = make([]float32, n)
	for i := range m {
		for j := range n {
			l.db[j] += *dy.at(i, j)
		}
	}
	return l
}

// check runs all products of the layer on g.
func (l *layer) check(t *testing.T, rng *rand.Rand, g *gemm) {
	t.Helper()
	what := fmt.Sprintf("(m, n, k) = (%d, %d, %d), %v, %d threads: ", l.m, l.n, l.k, g.isa, g.pool.threads)
	of := func(c [][]float32) func(i, j int) float32 { return func(i, j int) float32 { return c[i][j] } }
	y := newGuarded(rng, l.m, l.n)
	g.linearOutput(y.Matrix, l.x.Matrix, l.w.Matrix, l.b.Buf, ReLU)
	y.check(t, what+"y = relu(x wᵀ + b)", of(l.y))
	y = newGuarded(rng, l.m, l.n)
	g.linearOutput(y.Matrix, l.x.Matrix, l.w.Matrix, Buffer{}, Identity)
	y.check(t, what+"y = x wᵀ", of(l.yLin))
	dx := newGuarded(rng, l.m, l.k)
	g.gradInput(dx.Matrix, l.dy.Matrix, l.w.Matrix, Matrix{})
	dx.check(t, what+"dx", of(l.dx))
	dx = newGuarded(rng, l.m, l.k)
	g.gradInput(dx.Matrix, l.dy.Matrix, l.w.Matrix, l.gate.Matrix)
	dx.check(t, what+"gated dx", of(l.dxGated))
	dw := newGuarded(rng, l.n, l.k)
	db := newGuarded(rng, 1, l.n)
	g.gradWeight(dw.Matrix, db.Buf, l.dy.Matrix, l.x.Matrix)
	dw.check(t, what+"dw", of(l.dw))
	db.check(t, what+"db", func(_, j int) float32 { return l.db[j] })
	dw = newGuarded(rng, l.n, l.k)
	g.gradWeight(dw.Matrix, Buffer{}, l.dy.Matrix, l.x.Matrix)
	dw.check(t, what+"dw without db", of(l.dw))
}

// eachGemm calls f with every instruction set and several numbers of threads.
func eachGemm(f func(g *gemm)) {
	for _, i := range isas() {
		for _, threads := range []int{1, 2, 4} {
			p := newPool(threads)
			f(newGemm(i, p, nil))
			p.stopWorkers()
		}
	}
}

var specials = []float32{
	0, float32(math.Copysign(0, -1)), float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()),
	math.SmallestNonzeroFloat32, -math.SmallestNonzeroFloat32, 1e-40, 1e-30, math.MaxFloat32, 1e30, -1e30,
}

func TestGemmShapes(t *testing.T) {
	shapes := [][3]int{ // m, n, k
		{1, 1, 1}, {2, 1, 256}, {100, 1, 128}, {37, 48, 64}, {30, 64, 256}, {28, 512, 13}, {33, 16, 64},
		{15, 70, 300}, {29, 128, 99}, {5, 200, 367}, {300, 40, 20}, {600, 13, 50}, {16, 33, 1100}, {6, 1100, 31},
		{20, 70, 1024}, {40, 1024, 20}, // rows that share a set of the cache
		{303, 40, 70}, {303, 1024, 33}, // chains of dw of 303, with A in place and packed
		{1100, 70, 13}, {50, 40, 14}, {50, 300, 6}, // dw has few columns
		{0, 3, 4}, {3, 4, 0}, {3, 0, 4},
	}
	for rows := 1; rows <= 28; rows++ { // every kind of last tile
		shapes = append(shapes, [3]int{rows, 14 + rows, 35})
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, s := range some(t, shapes) {
		l := newLayer(rng, s[0], s[1], s[2], nil)
		eachGemm(func(g *gemm) { l.check(t, rng, g) })
	}
}

func TestGemmRandomShapes(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	var gs []*gemm
	for _, i := range isas() {
		for threads := 1; threads <= 4; threads++ {
			p := newPool(threads)
			defer p.stopWorkers()
			gs = append(gs, newGemm(i, p, nil))
		}
	}
	for c := range 60 {
		var special []float32
		if c%3 == 0 {
			special = specials
		}
		l := newLayer(rng, 1+rng.IntN(40), 1+rng.IntN(40), 1+rng.IntN(40), special)
		for _, g := range gs {
			l.check(t, rng, g)
		}
	}
}

// TestGemmChunks computes products larger than the packing buffer and its blocks, and
// compares every instruction set with plain Go.
func TestGemmChunks(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, s := range some(t, [][3]int{{15, 2100, 9}, {1100, 600, 3}, {3, 1030, 600}, {520, 29, 1000}, {1100, 1300, 13}}) {
		m, n, k := s[0], s[1], s[2]
		x, w, dy := newGuarded(rng, m, k).fill(rng, nil), newGuarded(rng, n, k).fill(rng, nil), newGuarded(rng, m, n).fill(rng, nil)
		var first [3]*guarded
		for _, i := range isas() {
			for _, threads := range []int{1, 3} {
				if i == isaPlain && threads > 1 {
					continue
				}
				p := newPool(threads)
				g := newGemm(i, p, nil)
				got := [3]*guarded{newGuarded(rng, m, n), newGuarded(rng, m, k), newGuarded(rng, n, k)}
				g.linearOutput(got[0].Matrix, x.Matrix, w.Matrix, Buffer{}, Identity)
				g.gradInput(got[1].Matrix, dy.Matrix, w.Matrix, Matrix{})
				g.gradWeight(got[2].Matrix, Buffer{}, dy.Matrix, x.Matrix)
				p.stopWorkers()
				if first[0] == nil {
					first = got
				}
				for o := range got {
					got[o].check(t, fmt.Sprintf("%v, op %d, %v, %d threads", s, o, i, threads),
						func(i, j int) float32 { return *first[o].at(i, j) })
				}
			}
		}
	}
}

func TestGemmAllocatesNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	p := newPool(2)
	defer p.stopWorkers()
	g := newGemm(detectISA(), p, nil)
	x, w, y := newGuarded(rng, 100, 64).fill(rng, nil), newGuarded(rng, 48, 64).fill(rng, nil), newGuarded(rng, 100, 48)
	db := newGuarded(rng, 1, 48)
	got := testing.AllocsPerRun(20, func() {
		g.linearOutput(y.Matrix, x.Matrix, w.Matrix, Buffer{}, ReLU)
		g.gradInput(x.Matrix, y.Matrix, w.Matrix, x.Matrix)
		g.gradWeight(w.Matrix, db.Buf, y.Matrix, x.Matrix)
	})
	if got != 0 {
		t.Fatalf("products allocate %v times", got)
	}
}

func TestTileRunOffsets(t *testing.T) {
	var r tileRun
	if unsafe.Offsetof(r.gate) != 32 || unsafe.Offsetof(r.bs) != 64 || unsafe.Offsetof(r.k) != 88 || unsafe.Offsetof(r.relu) != 112 ||
		unsafe.Offsetof(r.mask) != 128 || unsafe.Offsetof(r.next) != 192 || unsafe.Offsetof(r.rows) != 200 ||
		unsafe.Offsetof(r.ahead) != 208 || unsafe.Offsetof(r.aheadStep) != 216 ||
		unsafe.Offsetof(r.fetch) != 224 || unsafe.Offsetof(r.aheadC) != 232 ||
		unsafe.Offsetof(r.lateC) != 240 || unsafe.Offsetof(r.nextC) != 248 {
		t.Fatal("gemm_amd64.h does not match tileRun")
	}
}

// TestGemmOpenBLAS compares the OpenBLAS option with the exact products: same
// shapes, epilogues and sums, values within the rounding of a sum.
func TestGemmOpenBLAS(t *testing.T) {
	lib, err := openblas.Open()
	if err != nil {
		t.Skip(err)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	for _, threads := range []int{1, 2} {
		p := newPool(threads)
		defer p.stopWorkers()
		g := newGemm(detectISA(), p, lib)
		for _, s := range [][3]int{{1, 1, 1}, {70, 1, 30}, {70, 30, 1}, {1, 20, 30}, {90, 70, 80}, {3, 4, 0}} {
			l := newLayer(rng, s[0], s[1], s[2], nil)
			near := func(what string, got *guarded, want [][]float32) {
				t.Helper()
				for i := range want {
					for j, w := range want[i] {
						if v := *got.at(i, j); math.Abs(float64(v-w)) > 1e-4 {
							t.Fatalf("%v, %d threads, %s: element (%d, %d) is %g, want %g", s, threads, what, i, j, v, w)
						}
					}
				}
			}
			y := newGuarded(rng, l.m, l.n)
			g.linearOutput(y.Matrix, l.x.Matrix, l.w.Matrix, l.b.Buf, ReLU)
			near("y", y, l.y)
			dx := newGuarded(rng, l.m, l.k)
			g.gradInput(dx.Matrix, l.dy.Matrix, l.w.Matrix, l.gate.Matrix)
			near("dx", dx, l.dxGated)
			dw, db := newGuarded(rng, l.n, l.k), newGuarded(rng, 1, l.n)
			g.gradWeight(dw.Matrix, db.Buf, l.dy.Matrix, l.x.Matrix)
			near("dw", dw, l.dw)
			near("db", db, [][]float32{l.db})
		}
	}
}

// TestGemmOpenBLASAtOnce runs streams with their own threads that share the library.
func TestGemmOpenBLASAtOnce(t *testing.T) {
	lib, err := openblas.Open()
	if err != nil {
		t.Skip(err)
	}
	var wg sync.WaitGroup
	for id := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(7, uint64(id)))
			p := newPool(1 + id/2)
			defer p.stopWorkers()
			g := newGemm(detectISA(), p, lib)
			exact := newGemm(detectISA(), p, nil)
			for range 20 {
				x, w := newGuarded(rng, 64, 50).fill(rng, nil), newGuarded(rng, 40, 50).fill(rng, nil)
				got, want := newGuarded(rng, 64, 40), newGuarded(rng, 64, 40)
				g.linearOutput(got.Matrix, x.Matrix, w.Matrix, Buffer{}, Identity)
				exact.linearOutput(want.Matrix, x.Matrix, w.Matrix, Buffer{}, Identity)
				for i := range 64 {
					for j := range 40 {
						if math.Abs(float64(*got.at(i, j)-*want.at(i, j))) > 1e-4 {
							t.Errorf("stream %d: element (%d, %d) is %g, want %g", id, i, j, *got.at(i, j), *want.at(i, j))
							return
						}
					}
				}
			}
		})
	}
	wg.Wait()
}
