package ec

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/reedsolomon"
)

func random(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func fill(r *rand.Rand, shards ...[]byte) {
	for _, s := range shards {
		for i := range s {
			s[i] = byte(r.Uint32())
		}
	}
}

func mustPanic(t *testing.T, name string, call func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s: no panic", name)
		}
	}()
	call()
}

// everyCode calls f with codes of k up to 8 and r up to 3.
func everyCode(t *testing.T, f func(t *testing.T, name string, c *Code)) {
	for k := 1; k <= 8; k++ {
		for r := range 4 {
			for _, name := range Names(r) {
				c, err := NewCode(name, k, r)
				if err != nil {
					t.Fatal(err)
				}
				t.Run(fmt.Sprintf("%s k=%d r=%d", name, k, r), func(t *testing.T) { f(t, name, c) })
			}
		}
	}
}

// times is the product in GF(2^8) by its definition: of polynomials over GF(2),
// modulo x^8 + x^4 + x^3 + x^2 + 1.
func times(a, b byte) byte {
	product := 0
	for i := range 8 {
		if b>>i&1 != 0 {
			product ^= int(a) << i
		}
	}
	for i := 14; i >= 8; i-- {
		if product>>i&1 != 0 {
			product ^= 0x11D << (i - 8)
		}
	}
	return byte(product)
}

// encodePlain is Encode by its definition.
func encodePlain(c *Code, data [][]byte, size int) [][]byte {
	parity := zeros(c.Parity(), size)
	for j, p := range parity {
		for column, d := range data {
			for i := range d {
				p[i] ^= times(c.coefficients[j][column], d[i])
			}
		}
	}
	return parity
}

// lengths of shards: those of rows, and some that are no multiple of a vector's width.
var lengths = []int{1, 7, 31, 32, 33, 64, 68, 127, 196, 512, block - 1, block, 2*block + 5}

func TestEncodeAgainstTheDefinition(t *testing.T) {
	everyCode(t, func(t *testing.T, name string, c *Code) {
		r := random(t)
		for _, size := range lengths {
			data, parity := zeros(c.Data(), size), zeros(c.Parity(), size)
			fill(r, data...)
			fill(r, parity...) // Encode overwrites it
			if r.IntN(2) == 0 {
				data[r.IntN(len(data))] = nil
			}
			c.Encode(parity, data)
			if !slices.EqualFunc(parity, encodePlain(c, data, size), bytes.Equal) {
				t.Fatalf("%d bytes: parity is not that of the definition", size)
			}
		}
	})
}

// TestCoefficients: parity 0 is plain XOR for every code, and with one column all parities are
// copies.
func TestCoefficients(t *testing.T) {
	for k := 1; k <= 64; k++ {
		for r := 1; r <= 4; r++ {
			c, err := NewCode(RS, k, r)
			if err != nil {
				t.Fatal(err)
			}
			for j, row := range c.coefficients {
				if len(row) != k || row[0] != 1 || slices.Contains(row, 0) || j == 0 && slices.Max(row) != 1 {
					t.Fatalf("k = %d, r = %d: the coefficients of parity %d are %d", k, r, j, row)
				}
			}
			if x, err := NewCode(XOR, k, 1); err != nil || !bytes.Equal(x.coefficients[0], c.coefficients[0]) {
				t.Fatalf("xor with k = %d: %v, %v", k, x, err)
			}
		}
	}
}

// TestDeltasKeepParity: deltas of random updates keep parity equal to a full encoding, in any
// order of folding.
func TestDeltasKeepParity(t *testing.T) {
	everyCode(t, func(t *testing.T, name string, c *Code) {
		r := random(t)
		const size = 68
		data, parity := zeros(c.Data(), size), zeros(c.Parity(), size)
		type update struct {
			delta     []byte
			column, j int
		}
		for range 30 {
			var updates []update
			for range r.IntN(6) {
				column := r.IntN(c.Data())
				next, delta := make([]byte, size), make([]byte, size)
				fill(r, next)
				Delta(delta, data[column], next)
				data[column] = next
				for j := range parity {
					updates = append(updates, update{delta, column, j})
				}
			}
			r.Shuffle(len(updates), func(a, b int) { updates[a], updates[b] = updates[b], updates[a] })
			for _, u := range updates {
				c.Fold(parity[u.j], u.delta, u.column, u.j)
			}
			if !slices.EqualFunc(parity, encodePlain(c, data, size), bytes.Equal) {
				t.Fatal("parity is not the encoding of the data")
			}
		}
	})
}

// TestFoldIsTheLibrarysEncodeIdx: the library's EncodeIdx of a delta equals Fold, though the
// library documents it for full data shards only ("delivered exactly once").
func TestFoldIsTheLibrarysEncodeIdx(t *testing.T) {
	r := random(t)
	for k := 1; k <= 8; k++ {
		for parities := 1; parities <= 3; parities++ {
			c, err := NewCode(RS, k, parities)
			if err != nil {
				t.Fatal(err)
			}
			library, err := reedsolomon.New(k, parities, reedsolomon.WithJerasureMatrix())
			if err != nil {
				t.Fatal(err)
			}
			const size = 196
			ours, theirs, delta := zeros(parities, size), zeros(parities, size), make([]byte, size)
			for range 100 {
				column := r.IntN(k) // some several times
				fill(r, delta)
				if err := library.EncodeIdx(delta, column, theirs); err != nil {
					t.Fatal(err)
				}
				for j := range ours {
					c.Fold(ours[j], delta, column, j)
				}
			}
			if !slices.EqualFunc(ours, theirs, bytes.Equal) {
				t.Fatalf("k = %d, r = %d: EncodeIdx differs from Fold", k, parities)
			}
		}
	}
}

// TestZerosChangeNothing: an unchanged row changes no parity, and a nil column is zeros.
func TestZerosChangeNothing(t *testing.T) {
	everyCode(t, func(t *testing.T, name string, c *Code) {
		r := random(t)
		row, delta, parity := make([]byte, 64), make([]byte, 64), make([]byte, 64)
		fill(r, row, delta, parity)
		Delta(delta, row, row)
		if !bytes.Equal(delta, make([]byte, 64)) {
			t.Fatal("the delta of a row that did not change is not zeros")
		}
		before := slices.Clone(parity)
		for j := range c.Parity() {
			for column := range c.Data() {
				c.Fold(parity, delta, column, j)
			}
		}
		if !bytes.Equal(parity, before) {
			t.Fatal("a delta of zeros changed a parity")
		}
		parities := zeros(c.Parity(), 64)
		fill(r, parities...)
		c.Encode(parities, make([][]byte, c.Data()))
		if !slices.EqualFunc(parities, zeros(c.Parity(), 64), bytes.Equal) {
			t.Fatal("the parity of nil columns is not zeros")
		}
	})
}

func TestCodesAreRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		k, r int
		says string
	}{
		{"raid", 4, 1, `no code "raid"`},
		{None, 4, 1, "none has r = 0"},
		{XOR, 4, 2, "xor has r = 1"},
		{XOR, 4, 0, "xor has r = 1"},
		{RS, 4, 0, "rs has r = 1 or more"},
		{RS, 0, 1, "want k >= 1"},
		{RS, 250, 7, "k + r <= 256"},
	} {
		if _, err := NewCode(c.name, c.k, c.r); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("code %s, k = %d, r = %d: %v", c.name, c.k, c.r, err)
		}
	}
}

func TestWhatDoesNotFitPanics(t *testing.T) {
	c, err := NewCode(RS, 3, 2)
	if err != nil {
		t.Fatal(err)
	}
	d, err := c.Decoder([]int{0, 4}, []int{0})
	if err != nil {
		t.Fatal(err)
	}
	row := func(n int) []byte { return make([]byte, n) }
	for name, call := range map[string]func(){
		"delta, old":        func() { Delta(row(4), row(3), row(4)) },
		"delta, new":        func() { Delta(row(4), row(4), row(5)) },
		"delta, dst":        func() { Delta(row(5), row(4), row(4)) },
		"fold":              func() { c.Fold(row(4), row(3), 0, 0) },
		"fold, column":      func() { c.Fold(row(4), row(4), 3, 0) },
		"fold, parity":      func() { c.Fold(row(4), row(4), 0, 2) },
		"encode, parities":  func() { c.Encode(zeros(1, 4), zeros(3, 4)) },
		"encode, columns":   func() { c.Encode(zeros(2, 4), zeros(2, 4)) },
		"encode, read":      func() { c.Encode(zeros(2, 4), [][]byte{row(4), row(3), nil}) },
		"encode, empty":     func() { c.Encode(zeros(2, 4), [][]byte{row(4), {}, nil}) },
		"encode, write":     func() { c.Encode([][]byte{row(4), row(3)}, zeros(3, 4)) },
		"decode":            func() { d.Decode(zeros(2, 4), zeros(3, 4)) },
		"decoder, no shard": func() { _, _ = c.Decoder([]int{5}, nil) },
		"decoder, not lost": func() { _, _ = c.Decoder([]int{1}, []int{2}) },
	} {
		mustPanic(t, name, call)
	}
}

// TestCodingDoesNotAllocate: neither a row nor a batch allocates in the steady state.
func TestCodingDoesNotAllocate(t *testing.T) {
	for _, size := range []int{64, 196, 1024, 64 << 10} {
		c, err := NewCode(RS, 4, 2)
		if err != nil {
			t.Fatal(err)
		}
		shards, delta, lost, writes := zeros(6, size), make([]byte, size), []int{1, 5}, []int{1}
		src, dst := make([][]byte, 4), zeros(1, size)
		round := func() {
			Delta(delta, shards[0], shards[1])
			c.Fold(shards[4], delta, 0, 0)
			c.Fold(shards[5], delta, 0, 1)
			c.Encode(shards[4:], shards[:4])
			d, err := c.Decoder(lost, writes)
			if err != nil {
				t.Fatal(err)
			}
			for i, shard := range d.Reads {
				src[i] = shards[shard]
			}
			d.Decode(dst, src)
		}
		round()
		if n := testing.AllocsPerRun(20, round); n != 0 {
			t.Errorf("%d bytes: a round allocates %v times", size, n)
		}
	}
}

// TestPlain: Factor is 1 for parity 0, and for the coefficients of other parities that are 1.
func TestPlain(t *testing.T) {
	everyCode(t, func(t *testing.T, name string, c *Code) {
		for j := range c.Parity() {
			for column := range c.Data() {
				parity, delta := []byte{0, 0, 0}, []byte{1, 2, 255}
				c.Fold(parity, delta, column, j)
				if got := c.Factor(column, j) == 1; got != bytes.Equal(parity, delta) || j == 0 && !got {
					t.Errorf("%s: column %d in parity %d: %v", name, column, j, got)
				}
			}
		}
	})
}
