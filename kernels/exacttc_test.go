package kernels

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
)

// rowPieces returns the pieces of a row, as integers and the reciprocal of their scale.
func rowPieces(x []float32) (pieces []pieceOf) {
	for k0 := 0; k0 < len(x); k0 += 1024 {
		q, down, ok := integersOf(x[k0:min(k0+1024, len(x))])
		pieces = append(pieces, pieceOf{q, down, ok})
	}
	return pieces
}

type pieceOf struct {
	q    []*big.Int
	down *big.Float
	ok   bool // all floats are finite
}

// pieceReference returns an element of a product of pieces, in arithmetic without bounds: a and b are
// its row and its column.
func pieceReference(a, b []pieceOf) (y float32) {
	for k := range a {
		v := float32(math.NaN())
		if downA, downB := a[k].down, b[k].down; a[k].ok && b[k].ok {
			sum := new(big.Int)
			for i, q := range a[k].q {
				sum.Add(sum, new(big.Int).Mul(q, b[k].q[i]))
			}
			if downA.Cmp(downB) > 0 {
				downA, downB = downB, downA
			}
			v, _ = exactFloat(0).SetInt(sum).Float32()
			for _, down := range []*big.Float{downA, downB} {
				if !math.IsInf(float64(v), 0) {
					v, _ = exactFloat(0).Mul(exactFloat(v), down).Float32()
				}
			}
		}
		if k == 0 {
			y = v
		} else {
			y += v
		}
	}
	return y
}

func exactFloat(x float32) *big.Float { return new(big.Float).SetPrec(600).SetFloat64(float64(x)) }

// integersOf returns a piece of a row as integers and the reciprocal of its scale. ok is false if
// it has a NaN or an infinity.
func integersOf(x []float32) (q []*big.Int, down *big.Float, ok bool) {
	most := exactFloat(0)
	for _, v := range x {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return nil, nil, false
		}
		if f := exactFloat(v); f.Abs(f).Cmp(most) > 0 {
			most = f
		}
	}
	scale := 149
	bound := exactFloat(127 << 16)
	for exactFloat(0).SetMantExp(most, scale).Cmp(bound) >= 0 {
		scale--
	}
	for _, v := range x {
		scaled := exactFloat(0).SetMantExp(exactFloat(v), scale)
		whole, _ := scaled.Int(nil) // toward zero
		rest := exactFloat(0).Sub(scaled, exactFloat(0).SetInt(whole))
		half := exactFloat(0).Abs(rest).Cmp(exactFloat(0.5))
		if half > 0 || half == 0 && whole.Bit(0) == 1 {
			whole.Add(whole, big.NewInt(int64(rest.Sign())))
		}
		q = append(q, whole)
	}
	return q, exactFloat(0).SetMantExp(exactFloat(1), -scale), true
}

// makePieceRows makes rows of n floats of all kinds: their products overflow, cancel and vanish.
func makePieceRows(r *rand.Rand, rows, n int) [][]float32 {
	x := make([][]float32, rows)
	for i := range x {
		x[i] = make([]float32, n)
		for j := range x[i] {
			v := float32(r.NormFloat64())
			switch i % 9 {
			case 1:
				v *= float32(math.Exp2(float64(r.IntN(200) - 120))) // of many magnitudes
			case 2:
				v = math.Float32frombits(uint32(r.IntN(0x7e0000)) | uint32(r.IntN(2))<<31) // subnormal
			case 3:
				v *= 1e38 // huge
			case 4:
				v = float32(math.Copysign(0, float64(v)))
			case 5:
				v = float32(r.IntN(5)-2) * 0.5 // ties, cancellation
			case 6:
				v = math.Float32frombits(0x3f7e0000 + uint32(r.IntN(3)) - 1) // about the bound of a scale
			case 7:
				v = max(v, 0) * 1e-38
			case 8:
				if v = math.Float32frombits(r.Uint32()&0x7f | 0x4b000000); j > 0 { // halves of the first, which has the last bit
					v = (float32(r.IntN(100)) + 0.5) * 2
				}
			}
			x[i][j] = v
		}
		if n > 0 && i >= 9 && i%9 == 0 {
			x[i][r.IntN(n)] = []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))}[i/9%3]
		}
	}
	return x
}

// matrixOfRows places rows in guarded memory, transposed or not.
func matrixOfRows(rng *rand.Rand, x [][]float32, n int, transposed bool) *guarded {
	g := newGuarded(rng, len(x), n)
	if transposed {
		g = newGuarded(rng, n, len(x))
	}
	for i := range x {
		for j, v := range x[i] {
			if transposed {
				*g.at(j, i) = v
			} else {
				*g.at(i, j) = v
			}
		}
	}
	return g
}

// TestPiecesAgainstReference compares products of pieces with arithmetic without bounds, for
// any number of threads.
func TestPiecesAgainstReference(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 7))
	for _, k := range []int{0, 1, 13, 1023, 1024, 1025, 2100} {
		const m, n = 29, 31
		a, b := makePieceRows(rng, m, k), makePieceRows(rng, n, k)
		want := make([][]float32, m)
		columns := make([][]pieceOf, n)
		for j := range b {
			columns[j] = rowPieces(b[j])
		}
		for i := range want {
			want[i] = make([]float32, n)
			row := rowPieces(a[i])
			for j := range n {
				want[i][j] = pieceReference(row, columns[j])
			}
		}
		bias := newGuarded(rng, 1, n).fill(rng, nil)
		gate := newGuarded(rng, m, n).fill(rng, nil)
		for _, threads := range []int{1, 2, 3} {
			dev, err := NewCPU(CPUOptions{BLAS: "exact-tc"})
			if err != nil || !strings.HasSuffix(dev.Name(), " exact-tc") {
				t.Fatal(dev, err)
			}
			s := dev.Stream(threads)
			name := fmt.Sprintf("%d links, %d threads", k, threads)
			y, relu, dx, gated, dw := newGuarded(rng, m, n), newGuarded(rng, m, n), newGuarded(rng, m, n), newGuarded(rng, m, n), newGuarded(rng, m, n)
			db := newGuarded(rng, 1, m)
			A, B, At, Bt := matrixOfRows(rng, a, k, false), matrixOfRows(rng, b, k, false), matrixOfRows(rng, a, k, true), matrixOfRows(rng, b, k, true)
			s.Linear(y.Matrix, A.Matrix, B.Matrix, Buffer{}, Identity)
			s.Linear(relu.Matrix, A.Matrix, B.Matrix, bias.Buf, ReLU)
			s.LinearGradInput(dx.Matrix, A.Matrix, Bt.Matrix, Matrix{})
			s.LinearGradInput(gated.Matrix, A.Matrix, Bt.Matrix, gate.Matrix)
			s.LinearGradWeight(dw.Matrix, db.Buf, At.Matrix, Bt.Matrix)
			s.Close()
			plain := func(i, j int) float32 { return want[i][j] }
			y.check(t, name+", forward", plain)
			dx.check(t, name+", input gradient", plain)
			dw.check(t, name+", weight gradient", plain)
			relu.check(t, name+", bias and ReLU", func(i, j int) float32 {
				if v := want[i][j] + *bias.at(0, j); !(v < 0) {
					return v
				}
				return 0
			})
			gated.check(t, name+", gated", func(i, j int) float32 {
				if *gate.at(i, j) > 0 {
					return want[i][j]
				}
				return 0
			})
			db.check(t, name+", column sums", func(_, j int) (sum float32) {
				for _, v := range a[j] {
					sum += v
				}
				return sum
			})
		}
	}
}

// TestPiecesAllocateNothing: the scratch of products of pieces is used again.
func TestPiecesAllocateNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	p := newPool(2)
	defer p.stopWorkers()
	g := newGemm(detectISA(), p, nil)
	g.pieces.of = true
	x, w, y := newGuarded(rng, 100, 64).fill(rng, nil), newGuarded(rng, 48, 64).fill(rng, nil), newGuarded(rng, 100, 48)
	run := func() {
		g.linearOutput(y.Matrix, x.Matrix, w.Matrix, Buffer{}, ReLU)
		g.gradInput(x.Matrix, y.Matrix, w.Matrix, x.Matrix)
		g.gradWeight(w.Matrix, Buffer{}, y.Matrix, x.Matrix)
	}
	for range 10 { // both workers get scratch
		run()
	}
	if got := testing.AllocsPerRun(20, run); got >= 1 {
		t.Fatalf("products of pieces allocate %v times", got)
	}
}
