package data

import "math/bits"

// permutation is a keyed bijection of [0, n): a Feistel network on the smallest
// even number of bits that holds n, walked along its cycle until it lands inside
// (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002). The walk
// takes at most four turns on average.
type permutation struct {
	n    uint64
	half uint   // bits of one half
	mask uint32 // of one half
	key  [feistelRounds]uint32
}

// feistelRounds is even, so that the halves end where they began.
const feistelRounds = 6

func newPermutation(n int64, key uint64) permutation {
	p := permutation{n: uint64(n), half: 1}
	if n > 4 {
		p.half = uint(bits.Len64(uint64(n-1))+1) / 2
	}
	p.mask = uint32(1)<<p.half - 1
	for i := range p.key {
		key = mix(key + golden)
		p.key[i] = uint32(key)
	}
	return p
}

// mapIndex is the image of x < n.
func (p *permutation) mapIndex(x uint64) uint64 {
	for {
		l, r := uint32(x>>p.half), uint32(x)&p.mask
		for _, k := range p.key {
			l, r = r, l^(mix32(r^k)&p.mask)
		}
		x = uint64(l)<<p.half | uint64(r)
		if x < p.n {
			return x
		}
	}
}

// golden is 2^64 divided by the golden ratio, made odd.
const golden = 0x9E3779B97F4A7C15

// mix is the finalizer of SplitMix64 (Steele, Lea and Flood, 2014): a bijection
// of 64 bits in which every input bit flips half of the output bits.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// mix32 is the finalizer of MurmurHash3 for 32 bits.
func mix32(x uint32) uint32 {
	x = (x ^ x>>16) * 0x85EBCA6B
	x = (x ^ x>>13) * 0xC2B2AE35
	return x ^ x>>16
}
