package oracle

import (
	"fmt"
	"math/bits"
)

// uses holds two bits of each use of a row by a step. Uses are numbered, modulo 1<<32, in
// the order in which they are admitted. The first use of a step has a number that is a
// multiple of 64.
//
// The two bits are read when the row is used again, which may be anywhere in the window.
// Two bits are so few that most of them stay in the innermost caches.
type uses struct {
	// state has one word for 32 uses, at n/32 & (len-1). Use n has bit n mod 32, and bit
	// 32 + n mod 32. Before the use is planned, the first bit is set if the row has a
	// next use. The second is set if one trainer alone makes both uses. Once the use is
	// planned, the first is set if the row stays cached until the next use. The second is
	// set if the row is shared.
	state []uint64
	end   uint32 // the number of the next use to be admitted

	// The following are used only if there is a capacity. next is the number of the row's
	// next use, if one is known. candidates has a bit for each use until which the row
	// stays cached and before which it may be evicted to make room.
	next       []uint32
	candidates []uint64

	hugePages func([]uint64) // as in WindowOptions
}

// upper is the second bit of use 0 of a word.
const upper = 1 << 32

// mostUses limits the uses in a window: numbers are compared modulo 1<<32.
const mostUses = 1 << 30

// MostLookahead returns how many steps a window can look ahead if no step uses more than some
// rows of its owner: at least 1, at most MaxLookahead.
func MostLookahead(rows int64) int { return mostLookahead(mostUses, rows) }

// mostLookahead is MostLookahead for another limit. A window keeps the uses of the planned step,
// of the steps ahead, and of as many steps before it.
func mostLookahead(most, rows int64) int {
	perStep := max(1, (rows+63)/64) * 64
	return int(max(1, min((most/perStep-1)/2, MaxLookahead)))
}

// wordOf returns the word of uses n to n+31; n is a multiple of 32.
func (x *uses) wordOf(n uint32) *uint64 { return &x.state[int(n>>5)&(len(x.state)-1)] }

// wordIndexes sets at to the indexes of uses in state.
//
//go:noinline
func (x *uses) wordIndexes(uses []uint32, at []int32) {
	at = at[:len(uses)]
	mask := uint32(len(x.state) - 1)
	for i, n := range uses {
		at[i] = int32(n >> 5 & mask)
	}
}

func (x *uses) nextOf(n uint32) *uint32 { return &x.next[int(n)&(len(x.next)-1)] }

// candidatesOf returns the word of uses n to n+63; n is a multiple of 64.
func (x *uses) candidatesOf(n uint32) *uint64 {
	return &x.candidates[int(n>>6)&(len(x.candidates)-1)]
}

// bitsOf returns the first and the second bits of uses n to n+63; n is a multiple of 64.
func (x *uses) bitsOf(n uint32) (a, b uint64) {
	low, high := *x.wordOf(n), *x.wordOf(n + 32)
	return low&(1<<32-1) | high<<32, low>>32 | high>>32<<32
}

func (x *uses) setBits(n uint32, a, b uint64) {
	*x.wordOf(n), *x.wordOf(n + 32) = a&(1<<32-1)|b<<32, a>>32|b>>32<<32
}

// reserveUses makes room for n more uses. It discards those before oldest, which is the
// first use of a step.
func (x *uses) reserveUses(oldest uint32, n int, capacity bool) {
	kept := int(x.end-oldest) + n
	if kept <= 32*len(x.state) {
		return
	}
	if kept > mostUses {
		panic(fmt.Sprintf("oracle: a window of %d uses; the limit is %d: use a smaller lookahead or smaller batches", kept, mostUses))
	}
	old := *x
	size := max(64, 1<<bits.Len(uint(kept-1)))
	x.state = make([]uint64, size/32)
	x.hugePages(x.state)
	if capacity {
		x.next, x.candidates = make([]uint32, size), make([]uint64, size/64)
	}
	for n := oldest; n != x.end; n += 64 {
		*x.wordOf(n), *x.wordOf(n + 32) = *old.wordOf(n), *old.wordOf(n + 32)
		if capacity {
			*x.candidatesOf(n) = *old.candidatesOf(n)
			copy(x.next[int(n)&(len(x.next)-1):][:64], old.next[int(n)&(len(old.next)-1):])
		}
	}
}
