package kernels

import (
	"bytes"
	"crypto/subtle"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/ecrec/ecrec/internal/rng"
)

func TestAlloc(t *testing.T) {
	d, err := NewCPU(CPUOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, use := range []Use{Working, Sparse} {
		for _, n := range []int{0, 1, 4096, hugePage - 1, hugePage, 3*hugePage + 5, 1 << 33} {
			b, err := d.Alloc(n, use)
			if err != nil {
				t.Fatalf("Alloc(%d, %d): %v", n, use, err)
			}
			if b.Bytes() != n {
				t.Fatalf("Alloc(%d) gave %d bytes", n, b.Bytes())
			}
			if n > 0 {
				v := b.Host()
				if uintptr(unsafe.Pointer(&v[0]))%64 != 0 {
					t.Errorf("Alloc(%d) is at %p", n, &v[0])
				}
				if v[0] != 0 || v[n-1] != 0 {
					t.Error("memory is not zero")
				}
				v[0], v[n-1] = 1, 1
			}
			d.Free(b)
		}
	}
	for _, n := range []int{-1, math.MaxInt - 4096, math.MaxInt, 1 << 60} {
		if _, err := d.Alloc(n, Working); err == nil {
			t.Errorf("Alloc(%d) gave no error", n)
		}
	}
	b, _ := d.Alloc(100, Working)
	wantPanic(t, "not an allocation", func() { d.Free(b.Slice(0, 50)) })
	if _, err := NewCPU(CPUOptions{BLAS: "mkl"}); err == nil || !strings.Contains(err.Error(), `"mkl"`) {
		t.Errorf("unknown BLAS: error %v", err)
	}
}

func wantPanic(t *testing.T, text string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if s, _ := recover().(string); !strings.Contains(s, text) {
			t.Errorf("panic %q, want one about %q", s, text)
		}
	}()
	f()
}

func TestBrokenPreconditions(t *testing.T) {
	s := newTestStream(t, detectISA(), 2)
	floats := func(n int) Buffer { return HostBuffer(make([]float32, n)) }
	ints := func(v ...int32) Buffer { return HostBuffer(v) }
	m := Mat(floats(12), 3, 4)
	for text, f := range map[string]func(){
		"Copy of 8 bytes to 4":      func() { s.Copy(floats(1), floats(2)) },
		"CopyColumns: dst is":       func() { s.CopyColumns(m, Mat(floats(12), 4, 3)) },
		"4 columns of vectors of 3": func() { s.ExtendVectors(m, m, m, 3) },
		"tail is (3, 4), want":      func() { s.ExtendVectors(Mat(floats(16), 2, 8), m.RowRange(0, 2), m, 4) },
		"Sum of 2 floats to 1":      func() { s.Sum(floats(1), []Buffer{floats(1), floats(2)}) },
		"Sum of nothing":            func() { s.Sum(floats(1), nil) },
		"index holds 3, outside":    func() { s.GatherRows(m, m, ints(0, 3, 1)) },
		"index holds -1, outside":   func() { s.GatherRows(m, m, ints(0, -1, 1)) },
		"index holds 2 indexes":     func() { s.GatherRows(m, m, ints(0, 1)) },
		"index holds 4, outside":    func() { s.ScatterRows(m, m, ints(0, 4, 1)) },
		"dst has 4 columns, src 3":  func() { s.ScatterRows(m, m.Columns(0, 3), ints(0, 1, 2)) },
		"pos holds 3, outside":      func() { s.SumRows(m, m, ints(0, 1, 1, 2), ints(0, 3)) },
		"before it starts":          func() { s.SumRows(m, m, ints(0, 2, 1, 2), ints(0, 1)) },
		"slots holds 9, outside":    func() { s.UpdateRows(WholeRow(Optimizer{}), m, ints(9), m, ints(0, 1), ints(0)) },
		"rows of 4 floats for 4":    func() { s.UpdateRows(WholeRow(Optimizer{Kind: Adam}), m, ints(0), m, ints(0, 1), ints(0)) },
		"UpdateDense of 3 weights":  func() { s.UpdateDense(Optimizer{}, floats(3), floats(0), floats(4)) },
		"out is (3, 4), want":       func() { s.DotInteraction(m, m, 2, 2) },
		"SigmoidBCE of 2 logits":    func() { s.SigmoidBCE(floats(2), floats(2), floats(2), floats(1), 1) },
		"slots holds 7, outside":    func() { s.InitRows(m, ints(7), RowInit{Owners: 1, Base: []int64{0, 9}, Scale: []float32{1}}) },
		"in a buffer of 12 floats":  func() { s.CopyColumns(m, Matrix{m.Buf, 3, 4, 5}) },
	} {
		wantPanic(t, text, f)
	}
}

// ScatterRows is the inverse of GatherRows, and changes no other row.
func TestScatterRows(t *testing.T) {
	s := newTestStream(t, detectISA(), 3)
	c := &testCase{Rand: rand.New(rand.NewPCG(5, 7))}
	for _, d := range some(t, widths) {
		for _, n := range []int{0, 1, 3*partBytes/(4*d) + 5} {
			dst, src, back := c.matrix(n+9, d, d%3), c.matrix(n, d, d%2), c.matrix(n, d, 0)
			before := slices.Clone(HostView[float32](dst.Buf))
			index := make([]int32, n)
			for i, x := range c.Perm(n + 9)[:n] {
				index[i] = int32(x)
			}
			s.ScatterRows(dst, src, HostBuffer(index))
			s.GatherRows(back, dst, HostBuffer(index))
			after := HostView[float32](dst.Buf)
			for i, x := range index {
				want := HostView[float32](src.RowRange(i, 1).Buf)
				if !slices.Equal(HostView[float32](back.RowRange(i, 1).Buf), want) {
					t.Fatalf("row %d of %d, width %d, does not come back", i, n, d)
				}
				copy(after[int(x)*dst.Stride:][:d], before[int(x)*dst.Stride:])
			}
			if !slices.Equal(after, before) {
				t.Fatalf("%d rows of width %d: a row that was not named has changed", n, d)
			}
		}
	}
	c.checkGuards(t)
}

func TestCopies(t *testing.T) {
	s := newTestStream(t, detectISA(), 3)
	r := rand.New(rand.NewPCG(5, 6))
	for _, n := range []int{0, 1, 100, 3*partBytes + 17} {
		host := make([]byte, n)
		for i := range host {
			host[i] = byte(r.Uint32())
		}
		d, _ := NewCPU(CPUOptions{})
		a, _ := d.Alloc(n, Working)
		b, _ := d.Alloc(n, Sparse)
		s.Upload(a, host)
		s.Copy(b, a)
		s.Zero(a)
		got := make([]byte, n)
		s.Download(got, b)
		if !bytes.Equal(got, host) {
			t.Errorf("%d bytes come back changed", n)
		}
		if slices.ContainsFunc(a.Host(), func(x byte) bool { return x != 0 }) {
			t.Errorf("%d bytes are not cleared", n)
		}
		d.Free(a)
		d.Free(b)
	}
	c := &testCase{Rand: r}
	dst, src := c.matrix(5000, 13, 3), c.matrix(5000, 13, 0)
	s.CopyColumns(dst, src)
	x, y := HostView[float32](dst.Buf), HostView[float32](src.Buf)
	for i := range 5000 {
		if !slices.Equal(x[i*16:][:13], y[i*13:][:13]) {
			t.Fatalf("row %d differs", i)
		}
	}
	c.checkGuards(t)
}

// TestExtendVectors compares every element with its definition.
func TestExtendVectors(t *testing.T) {
	c := &testCase{Rand: rand.New(rand.NewPCG(5, 9))}
	s := newTestStream(t, detectISA(), 3)
	for range 30 {
		b, f, d, e := c.IntN(300), 1+c.IntN(30), 1+c.IntN(20), 1+c.IntN(3)
		dst, vectors, tail := c.matrix(b, f*(d+e), c.IntN(3)), c.matrix(b, f*d, c.IntN(3)), c.matrix(b, e, c.IntN(3))
		s.ExtendVectors(dst, vectors, tail, d)
		for i := range b {
			for k := range f * (d + e) {
				v, j := k/(d+e), k%(d+e)
				want := vectors.Columns(v*d, d)
				if j >= d {
					want, j = tail, j-d
				}
				got := HostView[float32](dst.Buf)[i*dst.Stride+k]
				if x := HostView[float32](want.Buf)[i*want.Stride+j]; math.Float32bits(got) != math.Float32bits(x) {
					t.Fatalf("b %d, f %d, d %d, e %d: element (%d, %d) is %g, want %g", b, f, d, e, i, k, got, x)
				}
			}
		}
		c.checkGuards(t)
	}
}

func TestInitRows(t *testing.T) {
	const state, owners, owner = 3, 3, 1
	init := RowInit{Seed: 0xfeedfacecafe, Owners: owners, Owner: owner, Base: []int64{0, 4, 5, 1 << 36}, Scale: []float32{0.5, 1, 0.1}}
	for row, want := range map[int64]int{0: 0, 3: 0, 4: 1, 5: 2, 99: 2} {
		if got := init.Table(row); got != want {
			t.Errorf("row %d is in table %d, want %d", row, got, want)
		}
	}
	wantPanic(t, "row 68719476736 of 68719476736", func() { init.Table(1 << 36) })
	for _, level := range levels() {
		s := newTestStream(t, level, 2)
		c := &testCase{Rand: rand.New(rand.NewPCG(7, 8))}
		for _, width := range append([]int{7}, widths...) {
			init.Width = width
			checkInitRows(t, s, c, init, state)
			checkXorInit(t, s, c, init, state)
		}
		c.checkGuards(t)
	}
}

// drawnRow computes the initial weights of a row by their definition.
func drawnRow(init RowInit, slot int32) []float32 {
	row := make([]float32, init.Width)
	global := int64(slot)*int64(init.Owners) + int64(init.Owner)
	table := init.Table(global)
	for j := range row {
		u := rng.Draw(init.Seed, rng.RowInit, uint32(table), uint64(global-init.Base[table]), uint32(j/4))[j%4]
		row[j] = rng.Symmetric(u) * init.Scale[table]
	}
	return row
}

func checkInitRows(t *testing.T, s Stream, c *testCase, init RowInit, state int) {
	t.Helper()
	rows := c.matrix(33, init.Width+state, 1)
	before := slices.Clone(HostView[float32](rows.Buf))
	slots := []int32{32, 0, 5, 4}
	s.InitRows(rows, HostBuffer(slots), init)
	v := HostView[float32](rows.Buf)
	for slot := range int32(33) {
		row := v[int(slot)*rows.Stride:][:rows.Cols]
		want := before[int(slot)*rows.Stride:][:rows.Cols]
		if slices.Contains(slots, slot) {
			want = append(drawnRow(init, slot), make([]float32, state)...)
		}
		if !bytes.Equal(BytesOf(row), BytesOf(want)) {
			t.Errorf("width %d: slot %d is %g, want %g", init.Width, slot, row, want)
		}
	}
}

// checkXorInit tests XorInit with slots in any order and repeated.
func checkXorInit(t *testing.T, s Stream, c *testCase, init RowInit, state int) {
	t.Helper()
	rows := c.matrix(2*initGrain+3, init.Width+state, 1)
	before := slices.Clone(HostView[float32](rows.Buf))
	slots := []int32{math.MaxInt32, 1, 1}
	for len(slots) < rows.Rows {
		slots = append(slots, int32(c.IntN(1<<31)))
	}
	s.XorInit(rows, HostBuffer(slots), init)
	v := HostView[float32](rows.Buf)
	for i, slot := range slots {
		want := slices.Clone(before[i*rows.Stride:][:rows.Cols])
		drawn := BytesOf(drawnRow(init, slot))
		subtle.XORBytes(BytesOf(want)[:len(drawn)], BytesOf(want)[:len(drawn)], drawn)
		if !bytes.Equal(BytesOf(v[i*rows.Stride:][:rows.Cols]), BytesOf(want)) {
			t.Fatalf("width %d: row %d, of slot %d, is not itself XOR its init", init.Width, i, slot)
		}
	}
}

// TestNoAllocation checks that operations do not allocate in their steady state.
func TestNoAllocation(t *testing.T) {
	s := newTestStream(t, detectISA(), 2)
	const b, f, d = 100, 9, 16
	floats := func(n int) Buffer { return HostBuffer(make([]float32, n)) }
	index, start := make([]int32, b*f), make([]int32, b+1)
	for i := range start {
		start[i] = int32(i)
	}
	feats, out := Mat(floats(b*f*d), b, f*d), Mat(floats(b*(d+f*(f-1)/2)), b, d+f*(f-1)/2)
	rows := Mat(floats(b*(d+1)), b, d+1)
	init := RowInit{Owners: 1, Base: []int64{0, b}, Scale: []float32{1}, Width: d}
	step := func() {
		s.Zero(feats.Buf)
		s.GatherRows(feats, rows.Columns(0, d), HostBuffer(index))
		s.SumRows(rows.Columns(0, d), feats, HostBuffer(start), HostBuffer(index[:b]))
		s.UpdateRows(WholeRow(testOptimizer(RowwiseAdagrad)), rows, HostBuffer(start[:b]), Mat(feats.Buf, b, d), HostBuffer(start), HostBuffer(index[:b]))
		s.InitRows(rows, HostBuffer(start[:b]), init)
		s.XorInit(rows, HostBuffer(start[:b]), init)
		s.DotInteraction(out, feats, f, d)
		s.DotInteractionGrad(feats, out, feats, f, d)
		s.SigmoidBCE(rows.Buf, rows.Buf, rows.Buf, rows.Buf, 1)
		s.UpdateDense(testOptimizer(SGD), rows.Buf, Buffer{host: true}, rows.Buf)
	}
	step()
	if n := testing.AllocsPerRun(20, step); n > 0 {
		t.Errorf("%g allocations per step", n)
	}
}

// XorRows computes the XOR of two rows, and changes no other row.
func TestXorRows(t *testing.T) {
	for _, level := range levels() {
		s := newTestStream(t, level, 2)
		c := &testCase{Rand: rand.New(rand.NewPCG(5, 8))}
		for _, d := range some(t, widths) {
			for _, n := range []int{0, 1, 3*partBytes/(4*d) + 5} {
				dst, a, b := c.matrix(n, d, d%3), c.matrix(57, d, d%2), c.matrix(31, d, 1)
				ia, ib := c.indexes(n, 57), c.indexes(n, 31)
				s.XorRows(dst, a, ia, b, ib)
				for i := range n {
					x := HostView[uint32](a.RowRange(int(HostView[int32](ia)[i]), 1).Buf)
					y := HostView[uint32](b.RowRange(int(HostView[int32](ib)[i]), 1).Buf)
					for k, got := range HostView[uint32](dst.RowRange(i, 1).Buf) {
						if got != x[k]^y[k] {
							t.Fatalf("%v: row %d, width %d: element %d is %#x, not %#x", level, i, d, k, got, x[k]^y[k])
						}
					}
				}
			}
		}
		c.checkGuards(t)
	}
}

// multiplied returns the product of two bytes in GF(2^8), by the definition.
func multiplied(a, b byte) (product byte) {
	for ; b != 0; b >>= 1 {
		if b&1 != 0 {
			product ^= a
		}
		if a >= 0x80 {
			a = a<<1 ^ 0x1d // 0x11d
		} else {
			a <<= 1
		}
	}
	return product
}

// FoldRows changes only the rows that index names.
func TestFoldRows(t *testing.T) {
	for _, level := range levels() {
		s := newTestStream(t, level, 2)
		c := &testCase{Rand: rand.New(rand.NewPCG(6, 8))}
		for _, d := range widths {
			for _, n := range []int{0, 1, 2*partBytes/(4*d) + 5} {
				dst, src := c.matrix(n+9, d, d%3), c.matrix(57, d, d%2)
				index, from := make([]int32, n), c.indexes(n, 57)
				for i, row := range c.Perm(n + 9)[:n] {
					index[i] = int32(row)
				}
				for _, factors := range [][]byte{nil, c.bytes(n)} {
					want := slices.Clone(dst.Buf.Host())
					for i, row := range index {
						for k, x := range src.RowRange(int(HostView[int32](from)[i]), 1).Buf.Host() {
							if factors != nil {
								x = multiplied(x, factors[i])
							}
							want[4*int(row)*dst.Stride+k] ^= x
						}
					}
					s.FoldRows(dst, HostBuffer(index), src, from, factors)
					if !slices.Equal(dst.Buf.Host(), want) {
						t.Fatalf("%v: %d rows of width %d, %d factors, differ", level, n, d, len(factors))
					}
				}
			}
		}
		c.checkGuards(t)
	}
}

// TestSumsToColumns sums to columns of a wider matrix, whose last row ends before its stride, also where the last part of the
// work has no segment.
func TestSumsToColumns(t *testing.T) {
	const lookups, d = 26, 4
	s := newTestStream(t, detectISA(), 2)
	for n := 1; n <= 200; n++ {
		src, start, pos := make([]float32, n*lookups*d), make([]int32, n+1), make([]int32, n*lookups)
		for i := range pos {
			pos[i], src[i*d] = int32(i), float32(i)
		}
		for i := range start {
			start[i] = int32(i * lookups)
		}
		wide := Mat(HostBuffer(make([]float32, n*2*d)), n, 2*d)
		s.SumRows(wide.Columns(d, d), Mat(HostBuffer(src), n*lookups, d), HostBuffer(start), HostBuffer(pos))
		for i := range n {
			first := i * lookups
			if got, want := HostView[float32](wide.Buf)[(2*i+1)*d], float32(lookups*first+lookups*(lookups-1)/2); got != want {
				t.Fatalf("%d segments: the sum of segment %d is %v, want %v", n, i, got, want)
			}
		}
	}
}
