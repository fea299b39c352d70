package sgemm

import (
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"
)

// The libraries that are here multiply as four nested loops do. LIBRARIES names more, separated by commas.
func TestMultiply(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	paths := []string{"libopenblas.so.0"}
	if more := os.Getenv("LIBRARIES"); more != "" {
		paths = append(paths, strings.Split(more, ",")...)
	}
	for _, path := range paths {
		l, err := Open(path)
		if err != nil {
			t.Log(err)
			continue
		}
		t.Log(l.Name())
		const seed = 1
		rng := rand.New(rand.NewPCG(seed, seed))
		for _, by := range [][2]bool{{false, false}, {false, true}, {true, false}, {true, true}} {
			m, n, k := 1+rng.IntN(40), 1+rng.IntN(40), 1+rng.IntN(40)
			p := Product{M: m, N: n, K: k, A: operand(rng, m, k, by[0]), B: operand(rng, k, n, by[1]), C: operand(rng, m, n, false)}
			if err := l.Multiply(1, &p); err != nil {
				t.Fatal(err)
			}
			for i := range m {
				for j := range n {
					want := 0.0
					for x := range k {
						want += float64(p.A.at(i, x)) * float64(p.B.at(x, j))
					}
					if got := float64(p.C.at(i, j)); math.Abs(got-want) > 1e-4 {
						t.Fatalf("%s, seed %d: C (%d, %d) = A (%d, %d, by columns %v) B (by columns %v): C[%d][%d] = %g, want %g",
							l.Name(), seed, m, n, m, k, by[0], by[1], i, j, got, want)
					}
				}
			}
		}
	}
}

func operand(rng *rand.Rand, rows, cols int, transposed bool) Operand {
	o := Operand{LD: cols + rng.IntN(5), Transposed: transposed}
	long := rows
	if transposed {
		o.LD, long = rows+rng.IntN(5), cols
	}
	o.Floats = make([]float32, o.LD*long)
	for i := range o.Floats {
		o.Floats[i] = rng.Float32() - 0.5
	}
	return o
}

func (o *Operand) at(row, col int) float32 {
	if o.Transposed {
		row, col = col, row
	}
	return o.Floats[row*o.LD+col]
}

// A file without products is refused.
func TestOpenRefuses(t *testing.T) {
	for _, path := range []string{"libc.so.6", "/nowhere/libx.so"} {
		if l, err := Open(path); err == nil {
			t.Errorf("%s is opened as %s", path, l.Name())
		}
	}
}
