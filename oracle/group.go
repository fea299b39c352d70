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

	pairs sorter // words: key << posBits | position
}

// Group groups keys, all below limit. Time is linear in len(keys).
func (g *Groups) Group(keys []uint64, limit uint64) {
	keyBits := bits.Len64(limit - 1)
	posBits := bits.Len(uint(len(keys)))
	if keyBits+posBits > 64 || posBits > 31 {
		panic(fmt.Sprintf("oracle: %d keys of %d bits do not pack", len(keys), keyBits))
	}
	g.pairs.words = resize(g.pairs.words, len(keys))
	for i, k := range keys {
		g.pairs.words[i] = k<<posBits | uint64(i)
	}
	g.pairs.run(posBits, keyBits)
	g.collect(posBits)
}

func (g *Groups) collect(posBits int) {
	mask := uint64(1)<<posBits - 1
	g.Keys = slices.Grow(g.Keys[:0], len(g.pairs.words))
	g.Start = slices.Grow(g.Start[:0], len(g.pairs.words)+1)
	g.Pos = resize(g.Pos, len(g.pairs.words))
	last := ^uint64(0)
	for i, p := range g.pairs.words {
		if k := p >> posBits; k != last {
			g.Keys = append(g.Keys, k)
			g.Start = append(g.Start, int32(i))
			last = k
		}
		g.Pos[i] = int32(p & mask)
	}
	g.Start = append(g.Start, int32(len(g.pairs.words)))
}

// resize returns s with length n, contents undefined.
func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4)
	}
	return s[:n]
}
