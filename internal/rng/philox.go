package rng

import "math/bits"

// Purpose separates the streams drawn from one seed.
type Purpose uint32

// The purposes in use. A value never changes once released: runs depend on it.
const (
	RowInit Purpose = iota + 1
	DenseInit
	Shuffle
	Synthetic
	Dropout
)

const (
	mul0, mul1   = 0xD2511F53, 0xCD9E8D57
	weyl0, weyl1 = 0x9E3779B9, 0xBB67AE85
)

// Philox returns the 128 random bits of a 128-bit counter under a 64-bit key.
func Philox(key [2]uint32, ctr [4]uint32) [4]uint32 {
	k0, k1 := key[0], key[1]
	c0, c1, c2, c3 := ctr[0], ctr[1], ctr[2], ctr[3]
	for range 10 {
		h0, l0 := bits.Mul32(mul0, c0)
		h1, l1 := bits.Mul32(mul1, c2)
		c0, c1, c2, c3 = h1^c1^k0, l1, h0^c3^k1, l0
		k0 += weyl0
		k1 += weyl1
	}
	return [4]uint32{c0, c1, c2, c3}
}

// Draw returns block number block, of 128 random bits each, of item (a, b) of a
// purpose. a has 32 bits (for example a table), b has 48 (a row of it).
func Draw(seed uint64, p Purpose, a uint32, b uint64, block uint32) [4]uint32 {
	return Philox(Counter(seed, p, a, b, block))
}

// DrawFirsts returns the first words of the blocks that Draw returns for two items. Each takes a third of the time of Draw, because
// the rounds of one run while those of the other wait for their products.
func DrawFirsts(seed uint64, p Purpose, a [2]uint32, b [2]uint64, block uint32) (first, second uint32) {
	key, c := Counter(seed, p, a[0], b[0], block)
	_, d := Counter(seed, p, a[1], b[1], block)
	k0, k1 := key[0], key[1]
	c0, c1, c2, c3 := c[0], c[1], c[2], c[3]
	d0, d1, d2, d3 := d[0], d[1], d[2], d[3]
	for range 10 {
		h0, l0 := bits.Mul32(mul0, c0)
		h1, l1 := bits.Mul32(mul1, c2)
		g0, m0 := bits.Mul32(mul0, d0)
		g1, m1 := bits.Mul32(mul1, d2)
		c0, c1, c2, c3 = h1^c1^k0, l1, h0^c3^k1, l0
		d0, d1, d2, d3 = g1^d1^k0, m1, g0^d3^k1, m0
		k0 += weyl0
		k1 += weyl1
	}
	return c0, d0
}

// Counter returns the key and the counter that Draw passes to Philox. The counter's
// last word is the block.
func Counter(seed uint64, p Purpose, a uint32, b uint64, block uint32) (key [2]uint32, ctr [4]uint32) {
	// b's high 16 bits share a counter word with the purpose.
	return [2]uint32{uint32(seed), uint32(seed >> 32)}, [4]uint32{uint32(b), a, uint32(b>>32)<<16 | uint32(p)<<8, block}
}

// Unit maps 24 random bits to [0, 1) exactly.
func Unit(u uint32) float32 { return float32(u>>8) * (1.0 / (1 << 24)) }

// Symmetric maps 23 random bits to (-1, 1) exactly, symmetric around 0 and never 0.
func Symmetric(u uint32) float32 {
	return (float32(u>>9) + 0.5 - (1 << 22)) * (1.0 / (1 << 22))
}
