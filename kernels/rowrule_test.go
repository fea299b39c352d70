package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// manyParts are rows of two parts, in which every rule occurs as a first and as a second part,
// and of the most parts.
func manyParts() (all [][]RowPart) {
	widths := []int{16, 1, 3, 13, 8}
	for i := range Rules {
		j := (i + 1) % len(Rules)
		all = append(all, []RowPart{{widths[i%5], testOptimizer(OptimizerKind(i))}, {widths[(i+1)%5], testOptimizer(OptimizerKind(j))}})
	}
	var most []RowPart
	for k := range MaxRowParts {
		most = append(most, RowPart{widths[k], testOptimizer(OptimizerKind(len(Rules) - 1 - k))})
	}
	all = append(all, most)
	for _, parts := range all {
		parts[1].Decay = 0.125
		parts[0].Scale = 0.5
	}
	return all
}

// sizes are the weights and the state of rows.
func sizes(parts []RowPart) (weights, state int) {
	for _, p := range parts {
		weights, state = weights+p.Width, state+p.Kind.RowState(p.Width)
	}
	return weights, state
}

// partOperations are operations on rows of several parts, for the shared table.
func partOperations() map[string]func(c *testCase, s Stream) {
	ops := map[string]func(c *testCase, s Stream){}
	for i, parts := range manyParts() {
		ops[fmt.Sprintf("UpdateRows/parts=%d", i)] = func(c *testCase, s Stream) {
			d, state := sizes(parts)
			rows := c.matrix(300, d+state, 1)
			positive(rows)
			slots := make([]int32, 0, 200)
			for _, slot := range c.Perm(300)[:200] {
				slots = append(slots, int32(slot))
			}
			start, pos := c.segments(200, 77)
			s.UpdateRows(RowParts(parts...), rows, HostBuffer(slots), c.matrix(77, d, 0), start, pos)
		}
	}
	ops["WeightedSigmoidBCE"] = func(c *testCase, s Stream) {
		for _, n := range []int{1, 1000} {
			label := make([]float32, n)
			for i := range label {
				label[i] = float32(c.IntN(2))
			}
			s.WeightedSigmoidBCE(c.vector(n), c.vector(n), c.vector(n), HostBuffer(label), c.vector(n), 2.5, 1/float32(n))
			s.WeightedSigmoidBCE(c.vector(n), c.vector(n), c.vector(n), HostBuffer(label), Buffer{}, 2.5, 1/float32(n))
		}
	}
	ops["InitRows/parts"] = func(c *testCase, s Stream) {
		init := RowInit{Seed: 11, Owners: 3, Owner: 1, Base: []int64{0, 4, 1 << 36}, Scale: []float32{0.5, 1, 0, 0, 0.1, 2}, Width: 24, Parts: []int{17, 1, 6}}
		s.InitRows(c.matrix(40, 24+5, 1), HostBuffer([]int32{0, 1, 7, 39}), init)
		s.XorInit(c.matrix(4, 24+2, 0), HostBuffer([]int32{0, 1, 7, math.MaxInt32}), init)
	}
	return ops
}

func TestPartLoopsAgree(t *testing.T) { testLoops(t, partOperations(), 0xbf9ec6df488a81b7) }

// TestRowPartsAreApart compares rows of several parts with a table for each part.
func TestRowPartsAreApart(t *testing.T) {
	const n, steps = 50, 3
	s := newTestStream(t, detectISA(), 2)
	r := rand.New(rand.NewPCG(4, 9))
	for i, parts := range manyParts() {
		d, state := sizes(parts)
		rows := make([]float32, n*(d+state))
		tables := make([][]float32, len(parts))
		for k, p := range parts {
			tables[k] = make([]float32, n*(p.Width+p.Kind.RowState(p.Width)))
		}
		slots := make([]int32, n)
		start := make([]int32, n+1)
		for u := range slots {
			slots[u], start[u+1] = int32(n-1-u), int32(u+1)
		}
		pos := HostBuffer(start[:n])
		for range steps {
			grads, first := ordinary(r, n*d), 0
			s.UpdateRows(RowParts(parts...), Mat(HostBuffer(rows), n, d+state), HostBuffer(slots), Mat(HostBuffer(grads), n, d), HostBuffer(start), pos)
			for k, p := range parts {
				own := make([]float32, 0, n*p.Width)
				for u := range n {
					own = append(own, grads[u*d+first:][:p.Width]...)
				}
				s.UpdateRows(WholeRow(p.Optimizer), Mat(HostBuffer(tables[k]), n, len(tables[k])/n), HostBuffer(slots),
					Mat(HostBuffer(own), n, p.Width), HostBuffer(start), pos)
				first += p.Width
			}
		}
		for u := range n {
			var want []float32
			for k, p := range parts {
				want = append(want, tables[k][u*len(tables[k])/n:][:p.Width]...)
			}
			for k, p := range parts {
				want = append(want, tables[k][u*len(tables[k])/n:][p.Width:len(tables[k])/n]...)
			}
			if got := rows[u*(d+state):][:d+state]; !slices.Equal(got, want) {
				t.Fatalf("case %d, row %d is %v, its parts are %v", i, u, got, want)
			}
		}
	}
}

// TestPartsAreDrawnApart checks that a part does not change the initial weights of another, and
// that a scale of 0 gives +0.0.
func TestPartsAreDrawnApart(t *testing.T) {
	whole := RowInit{Seed: 5, Owners: 1, Base: []int64{0, 100}, Scale: []float32{0.5}, Width: 13}
	parts := whole
	parts.Width, parts.Parts, parts.Scale = 18, []int{13, 1, 4}, []float32{0.5, 0, 0.5}
	a, b := make([]float32, 13), make([]float32, 18)
	for row := range int64(100) {
		whole.Row(a, row)
		parts.Row(b, row)
		if !slices.Equal(a, b[:13]) || math.Float32bits(b[13]) != 0 || slices.Equal(b[14:], a[:4]) || b[14] == 0 {
			t.Fatalf("row %d is %v alone, and %v with other parts", row, a, b)
		}
	}
	wantPanic(t, "parts of [13 1 3]", func() {
		bad := parts
		bad.Parts = []int{13, 1, 3}
		newTestStream(t, isaPlain, 1).InitRows(Mat(HostBuffer(make([]float32, 18)), 1, 18), HostBuffer([]int32{0}), bad)
	})
}

func TestSumSquares(t *testing.T) {
	x := []float32{1, -2, 3, 1e20, 5, -6, 7, 8, 9, 10}
	for n := range len(x) + 1 {
		sum := 0.0
		for _, v := range x[:n] {
			sum += float64(v) * float64(v)
		}
		if got := SumSquares(x[:n]); math.Abs(got-sum) > 1e-15*sum {
			t.Errorf("squares of %v: %v, want %v", x[:n], got, sum)
		}
	}
}
