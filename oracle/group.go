package oracle

import (
	"fmt"
	"math/bits"
	"slices"
)

// Groups is a list of keys with equal ones brought together. Its slices belong
// to it and are overwritten by the next Group.
type Groups struct {
	// Keys holds the distinct keys, ascending.
	Keys []uint64
	// Start has len(Keys)+1 entries: the positions of Keys[u] in the list are
	// Pos[Start[u]:Start[u+1]], ascending.
	Start, Pos []int32

	pairs, spare []uint64 // key << posBits | position
}

// maxDigitBits bounds a radix digit: its counters stay in the first-level cache.
const maxDigitBits = 11

// Group groups keys, all below limit. Time is linear in len(keys).
func (g *Groups) Group(keys []uint64, limit uint64) {
	keyBits := bits.Len64(limit - 1)
	posBits := bits.Len(uint(len(keys)))
	if keyBits+posBits > 64 || posBits > 31 {
		panic(fmt.Sprintf("oracle: %d keys of %d bits do not pack", len(keys), keyBits))
	}
	g.pairs = resize(g.pairs, len(keys))
	g.spare = resize(g.spare, len(keys))
	for i, k := range keys {
		g.pairs[i] = k<<posBits | uint64(i)
	}
	g.sort(posBits, keyBits)
	g.collect(posBits)
}

// sort orders pairs by key, stably: least significant digit first.
func (g *Groups) sort(posBits, keyBits int) {
	if keyBits == 0 || len(g.pairs) < 2 {
		return
	}
	passes := (keyBits + maxDigitBits - 1) / maxDigitBits
	digit := (keyBits + passes - 1) / passes
	mask := uint64(1)<<digit - 1
	for shift := posBits; shift < posBits+keyBits; shift += digit {
		var next [1 << maxDigitBits]int32
		for _, p := range g.pairs {
			next[p>>shift&mask]++
		}
		sum := int32(0)
		for d := range next[:mask+1] {
			n := next[d]
			next[d] = sum
			sum += n
		}
		for _, p := range g.pairs {
			d := p >> shift & mask
			g.spare[next[d]] = p
			next[d]++
		}
		g.pairs, g.spare = g.spare, g.pairs
	}
}

func (g *Groups) collect(posBits int) {
	mask := uint64(1)<<posBits - 1
	g.Keys = slices.Grow(g.Keys[:0], len(g.pairs))
	g.Start = slices.Grow(g.Start[:0], len(g.pairs)+1)
	g.Pos = resize(g.Pos, len(g.pairs))
	last := ^uint64(0)
	for i, p := range g.pairs {
		if k := p >> posBits; k != last {
			g.Keys = append(g.Keys, k)
			g.Start = append(g.Start, int32(i))
			last = k
		}
		g.Pos[i] = int32(p & mask)
	}
	g.Start = append(g.Start, int32(len(g.pairs)))
}

// resize returns s with length n, contents undefined.
func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4)
	}
	return s[:n]
}
