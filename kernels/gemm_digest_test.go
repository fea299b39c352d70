package kernels

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"testing"
)

// productDigests are SHA-256 sums, in part, of y, dx, dw and db of layers (m, n, k). A sum over k is one chain in ascending order, for all
// blocks, threads and instruction sets, so these never change.
var productDigests = []struct {
	m, n, k int
	want    string
}{
	{1300, 64, 256, "fda8480fc8840983"},
	{1300, 48, 64, "288932d7801b4d0d"},
	{700, 256, 512, "900ba0374b3cce71"}, // B is read in place
	{600, 280, 128, "2248545eb9289534"}, // the same, as many tiles of C as that allows with AVX-512
	{600, 512, 367, "0f624b171ff95107"}, // rows of B are not aligned
	{1100, 40, 1024, "8358fc04ea74dcbc"},
	{700, 100, 1536, "2dd4e122cfd359ff"},  // each of two threads has half of the columns of dw
	{1100, 200, 1040, "1ea6674b9099c849"}, // the same; B is read in place, as its rows are in different sets of a cache
	{600, 1024, 399, "0db2118d5df9b6e7"},
	{600, 512, 13, "0e031b08a3be789d"},
	{600, 1, 256, "eff5d9cfbc0863c1"},
}

// TestProductDigests compares products of the sizes of real layers with pinned digests, for each instruction set and number of threads.
func TestProductDigests(t *testing.T) {
	for _, c := range productDigests {
		for _, isa := range isas() {
			for threads := 1; threads <= 3; threads++ {
				if isa == isaPlain && (threads != 2 || testing.Short()) {
					continue
				}
				if got := digestProducts(isa, threads, c.m, c.n, c.k); got != c.want {
					t.Errorf("{%d, %d, %d, %q}: isa %v, %d threads, want %q", c.m, c.n, c.k, got, isa, threads, c.want)
				}
			}
		}
	}
}

// digestProducts computes the products of a layer.
func digestProducts(i isa, threads, m, n, k int) string {
	rng := rand.New(rand.NewPCG(uint64(m), uint64(n*k)))
	random := func(rows, cols int) Matrix {
		v := make([]float32, rows*cols)
		for i := range v {
			v[i] = rng.Float32() - 0.5
		}
		return Mat(HostBuffer(v), rows, cols)
	}
	x, w, dy, gate, bias := random(m, k), random(n, k), random(m, n), random(m, k), random(1, n)
	y, dx, dw, db := random(m, n), random(m, k), random(n, k), random(1, n)
	p := newPool(threads)
	defer p.stopWorkers()
	g := newGemm(i, p, nil)
	g.linearOutput(y, x, w, bias.Buf, ReLU)
	g.gradInput(dx, dy, w, gate)
	g.gradWeight(dw, db.Buf, dy, x)
	sum := sha256.New()
	for _, r := range []Matrix{y, dx, dw, db} {
		fmt.Fprintln(sum, r.Rows, r.Cols)
		sum.Write(r.Buf.Host())
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}
