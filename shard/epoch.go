package shard

import (
	"math/bits"

	"github.com/ecrec/ecrec/internal/digest"
	"github.com/ecrec/ecrec/kernels"
)

// Epoch lists the rows that an epoch wrote, with the pre-image or hash of each.
type Epoch struct {
	// Slots are the rows that the epoch wrote, in the order of their first writes.
	Slots  []int32
	drawn  []bool         // by place: the row had never been written, so it was its init
	before kernels.Buffer // KeepRows: their bytes before that
	hashes []digest.Sum   // KeepHashes: the hashes of these bytes
	where  []int32        // KeepRows, rows that are packed: for each of Slots, its place in memory
	stride int
	wrote  []uint64 // a bit for each slot
	index  []int32  // by slot: its place in Slots + 1, for the first listed ones; open addressing, 0 is free
	listed int
	sorted []uint64 // scratch of Sorted
}

// Before is the pre-images of the epoch's rows, (len(Slots), width + state). Only a journal
// of rows has them.
func (e *Epoch) Before() kernels.Matrix { return kernels.Mat(e.before, len(e.Slots), e.stride) }

// Sorted lists the epoch's rows by slot: slots, ascending, and the place of each in Slots.
// Both are appended to the given slices.
func (e *Epoch) Sorted(slots, places []int32) ([]int32, []int32) {
	n := len(e.Slots)
	if cap(e.sorted) < 2*n {
		e.sorted = make([]uint64, 2*n, 3*n)
	}
	keys, other := e.sorted[:n], e.sorted[n:2*n]
	top := int32(0)
	for i, slot := range e.Slots {
		keys[i] = uint64(slot)<<32 | uint64(i)
		top = max(top, slot)
	}
	const mostDigit = 12
	length := bits.Len32(uint32(top))
	passes := (length + mostDigit - 1) / mostDigit
	for pass := range passes { // radix sort, the lowest digit first
		first, end := pass*length/passes, (pass+1)*length/passes // its bits
		shift, mask := 32+first, uint64(1)<<(end-first)-1
		var next [1 << mostDigit]int32
		for _, k := range keys {
			next[k>>shift&mask]++
		}
		at := int32(0)
		for d, count := range next[:mask+1] {
			next[d] = at
			at += count
		}
		for _, k := range keys {
			d := k >> shift & mask
			other[next[d]] = k
			next[d]++
		}
		keys, other = other, keys
	}
	for _, k := range keys {
		slots, places = append(slots, int32(k>>32)), append(places, int32(uint32(k)))
	}
	return slots, places
}

// findSlot returns the place of a slot in Slots, if the epoch wrote it.
func (e *Epoch) findSlot(slot int32) (place int, ok bool) {
	if e.wrote[slot>>6]>>(slot&63)&1 == 0 {
		return 0, false
	}
	if 2*len(e.Slots) > len(e.index) {
		e.index, e.listed = make([]int32, 1<<bits.Len(uint(4*len(e.Slots)))), 0
	}
	for ; e.listed < len(e.Slots); e.listed++ {
		i := e.hashSlot(e.Slots[e.listed])
		for e.index[i] != 0 {
			i = (i + 1) & (len(e.index) - 1)
		}
		e.index[i] = int32(e.listed) + 1
	}
	i := e.hashSlot(slot)
	for e.Slots[e.index[i]-1] != slot {
		i = (i + 1) & (len(e.index) - 1)
	}
	return int(e.index[i] - 1), true
}

// hashSlot is the place in index where the search for a slot begins (Knuth's multiplicative
// hash).
func (e *Epoch) hashSlot(slot int32) int {
	return int(uint32(slot) * 2654435769 >> (33 - bits.Len(uint(len(e.index)))))
}

// reset makes the epoch empty and keeps its memory.
func (e *Epoch) reset() {
	if len(e.Slots) > len(e.wrote)/16 { // then clearing all words, which follow each other, is faster
		clear(e.wrote)
	} else {
		for _, slot := range e.Slots {
			e.wrote[slot>>6] = 0
		}
	}
	if e.listed > 0 {
		clear(e.index)
	}
	e.Slots, e.drawn, e.where, e.hashes, e.listed = e.Slots[:0], e.drawn[:0], e.where[:0], e.hashes[:0], 0
}
