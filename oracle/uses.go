package oracle

import (
	"fmt"
	"math/bits"
)

// uses is what is known of each use, a row's in one step, from the oldest step
// that has not been planned on. Use n is at n & (len-1).
type uses struct {
	links  []link
	states []state
	// candidates has a bit for each use until which its row stays cached, and may
	// leave before to make room.
	candidates []uint64
	end        uint32 // the number of the next use to come

	touched link // keeps loads from being left out
}

// link is what is known of the uses after one. Where there are any, it is
//
//	uses until the next << 2 | alike << 1 | 1
//
// with alike when one trainer alone wants the row both times. That of a row's
// newest use is
//
//	since << 16 | (trainer + 1) << 1
//
// with the trainer that wants the row if it is one alone, else Shared: all known
// uses from step `since`, modulo 1<<16, on are by that trainer.
type link uint32

const (
	linked   = 1 // bit
	gapShift = 2
	mostUses = 1 << (32 - gapShift)
)

// alike is 1 when there is a next use, and the same trainer alone wants the row.
func (l link) alike() uint32 { return uint32(l >> 1 & l & linked) }

// gap is how many uses the next is away, 0 when none is known.
func (l link) gap() uint32 { return uint32(l >> gapShift & -(l & linked)) }

// since is of a newest use.
func (l link) since() uint16 { return uint16(l >> 16) }

// state is what the plan of a use leaves to the row's next.
type state uint8

const (
	notCached state = iota
	justLeft        // not cached, because it left after the step before
	exclusive       // the trainer that wants it now has it for itself alone
	shared
)

// reserve makes room for n more uses; those before oldest are forgotten.
func (x *uses) reserve(oldest uint32, n int) {
	known := int(x.end-oldest) + n
	if known <= len(x.links) {
		return
	}
	if known > mostUses {
		panic(fmt.Sprintf("oracle: a window of %d uses; at most %d can be known: use a smaller lookahead or smaller batches", known, mostUses))
	}
	old := *x
	size := max(64, 1<<bits.Len(uint(known-1)))
	x.links, x.states, x.candidates = make([]link, size), make([]state, size), make([]uint64, size/64)
	for n := oldest; n != x.end; n++ {
		x.links[x.at(n)], x.states[x.at(n)] = old.links[old.at(n)], old.states[old.at(n)]
		if _, ok := old.candidate(n, n+1); ok {
			x.setCandidate(n, true)
		}
	}
}

func (x *uses) at(n uint32) int { return int(n) & (len(x.links) - 1) }

// add makes uses of step t and links each to the one before, whose number is its
// own where there is none. Who wants the rows is said as in step; next is the step
// to be planned next. It has no branches: which rows were used before is chance.
//
//go:noinline
func (x *uses) add(start []int32, by []uint16, before []uint32, t, next uint16) {
	links, states := x.links, x.states[:len(x.links)]
	sum := link(0)
	for _, n := range before {
		sum += links[int(n)&(len(links)-1)] // so that the cache misses overlap
	}
	x.touched += sum
	start = start[:len(before)+1]
	n := x.end
	for i, b := range before {
		first := start[i]
		one := -(uint32(start[i+1]-first-2) >> 31) // all bits set when it is
		trainer := (uint32(by[first]) + 1) << 1 & one
		gap := n - b
		before := &links[int(b)&(len(links)-1)]
		last := uint32(*before)
		same := ((last^trainer)&(1<<16-1) - 1) >> 31
		alike := same & (-gap >> 31) & (-trainer >> 31)
		*before = link(gap<<gapShift | alike<<1 | linked)
		// An older one is as good as next, and never half a cycle away.
		since := max(0, int32(int16(uint16(last>>16)-next))) + int32(next)
		since = int32(t) ^ (int32(t)^since)&-int32(alike)
		links[int(n)&(len(links)-1)] = link(uint32(since)<<16 | trainer)
		states[int(n)&(len(links)-1)] = notCached
		n++
	}
	x.end = n
}

// candidate is the first candidate of the uses from begin to before end.
func (x *uses) candidate(begin, end uint32) (n uint32, ok bool) {
	for n = begin; int32(n-end) < 0; n = (n | 63) + 1 {
		if word := x.candidates[x.at(n)>>6] >> (n & 63); word != 0 {
			n += uint32(bits.TrailingZeros64(word))
			return n, int32(n-end) < 0
		}
	}
	return n, false
}

func (x *uses) setCandidate(n uint32, is bool) {
	word, bit := &x.candidates[x.at(n)>>6], uint64(1)<<(n&63)
	if *word &^= bit; is {
		*word |= bit
	}
}
