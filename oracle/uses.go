package oracle

import (
	"fmt"
	"math/bits"
)

// uses is what is known of each use, a row's in one step. Uses are numbered, modulo
// 1<<32, in the order in which they become known; a step's begin with a multiple of
// 64.
//
// There are two bits of each, looked at when the row is used again, which may be
// anywhere in the window: so few that most stay in the nearest caches.
type uses struct {
	// known has a word for 32 uses: at n/32 & (len-1), the bit n mod 32 and the one
	// 32 above. Before a use is planned they are: there is a next use of the row; and
	// one and the same trainer alone wants it both times. After: the row stays cached
	// until the next use; and is shared.
	known []uint64
	end   uint32 // the number of the next use to come

	// Only where there is a capacity: next is the number of the row's next use, if
	// one is known. candidates has a bit for each use until which the row stays cached
	// and may leave before to make room.
	next       []uint32
	candidates []uint64

	hugePages func([]uint64) // as in WindowOptions
}

// upper is the second bit of use 0 of a word.
const upper = 1 << 32

// mostUses bounds a window: numbers are compared modulo 1<<32.
const mostUses = 1 << 30

// of is the word of uses n to n+31, n a multiple of 32.
func (x *uses) of(n uint32) *uint64 { return &x.known[int(n>>5)&(len(x.known)-1)] }

// places sets at to where in known uses are.
//
//go:noinline
func (x *uses) places(uses []uint32, at []int32) {
	at = at[:len(uses)]
	mask := uint32(len(x.known) - 1)
	for i, n := range uses {
		at[i] = int32(n >> 5 & mask)
	}
}

func (x *uses) nextOf(n uint32) *uint32 { return &x.next[int(n)&(len(x.next)-1)] }

// candidatesOf is the word of uses n to n+63, n a multiple of 64.
func (x *uses) candidatesOf(n uint32) *uint64 {
	return &x.candidates[int(n>>6)&(len(x.candidates)-1)]
}

// pair is the words of uses n to n+63, n a multiple of 64, by kind of bit.
func (x *uses) pair(n uint32) (a, b uint64) {
	low, high := *x.of(n), *x.of(n + 32)
	return low&(1<<32-1) | high<<32, low>>32 | high>>32<<32
}

func (x *uses) setPair(n uint32, a, b uint64) {
	*x.of(n), *x.of(n + 32) = a&(1<<32-1)|b<<32, a>>32|b>>32<<32
}

// reserve makes room for n more uses; those before oldest, the first of a step, are
// forgotten.
func (x *uses) reserve(oldest uint32, n int, capacity bool) {
	kept := int(x.end-oldest) + n
	if kept <= 32*len(x.known) {
		return
	}
	if kept > mostUses {
		panic(fmt.Sprintf("oracle: a window of %d uses; at most %d can be known: use a smaller lookahead or smaller batches", kept, mostUses))
	}
	old := *x
	size := max(64, 1<<bits.Len(uint(kept-1)))
	x.known = make([]uint64, size/32)
	x.hugePages(x.known)
	if capacity {
		x.next, x.candidates = make([]uint32, size), make([]uint64, size/64)
	}
	for n := oldest; n != x.end; n += 64 {
		*x.of(n), *x.of(n + 32) = *old.of(n), *old.of(n + 32)
		if capacity {
			*x.candidatesOf(n) = *old.candidatesOf(n)
			copy(x.next[int(n)&(len(x.next)-1):][:64], old.next[int(n)&(len(old.next)-1):])
		}
	}
}
