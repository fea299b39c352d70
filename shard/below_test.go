package shard

import (
	"bytes"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// memBelow keeps rows in memory: the spilled ones, and those of a log.
type memBelow struct {
	t       *testing.T
	spilled map[int32]spilledRow
	log     map[int32][]byte
	logged  int64
	reads   int
	spills  int
	fails   error // of Read and Spill; nil: they do not fail
	under   int   // readings that have not ended
	later   *rand.Rand
}

// memReading is rows as they were when they were requested. Some are read late, and some readings fail.
type memReading struct {
	below   *memBelow
	slots   []int32
	rows    [][]byte // nil: missing
	pause   time.Duration
	fails   error
	isEnded bool
}

func (b *memBelow) ReadLater(slots []int32) Reading {
	x := &memReading{below: b, slots: slots}
	for _, slot := range slots {
		if s, ok := b.spilled[slot]; ok {
			x.rows = append(x.rows, s.row)
		} else {
			x.rows = append(x.rows, b.log[slot])
		}
	}
	switch b.later.IntN(10) {
	case 0:
		x.fails = errors.New("a reading failed")
	case 1, 2:
		x.pause = time.Duration(b.later.IntN(100)) * time.Microsecond
	}
	b.under++
	return x
}

func (x *memReading) Read(dst []byte, missing []int32) ([]int32, error) {
	time.Sleep(x.pause)
	n := len(dst) / len(x.slots)
	for i, row := range x.rows {
		if row == nil {
			missing = append(missing, int32(i))
		}
		copy(dst[i*n:(i+1)*n], row)
	}
	if x.fails != nil {
		clear(dst)
	}
	return missing, x.fails
}

func (x *memReading) End() {
	if x.isEnded {
		x.below.t.Error("a reading ends twice")
	}
	x.isEnded = true
	x.below.under--
}

func newMemBelow(t *testing.T, seed uint64) *memBelow {
	return &memBelow{t: t, spilled: map[int32]spilledRow{}, log: map[int32][]byte{}, later: rand.New(rand.NewPCG(seed, 0))}
}

type spilledRow struct {
	row  []byte
	mark int64
}

func (b *memBelow) Read(slots []int32, dst []byte, missing []int32) ([]int32, error) {
	if b.fails != nil {
		return missing, b.fails
	}
	for i, slot := range slots {
		to := dst[i*len(dst)/len(slots) : (i+1)*len(dst)/len(slots)]
		if x, ok := b.spilled[slot]; ok {
			copy(to, x.row)
		} else if row, ok := b.log[slot]; ok {
			copy(to, row)
		} else {
			missing = append(missing, int32(i))
			continue
		}
		b.reads++
	}
	return missing, nil
}

func (b *memBelow) Sort(slots []int32) {
	rand.Shuffle(len(slots), func(i, k int) { slots[i], slots[k] = slots[k], slots[i] })
}

func (b *memBelow) Spill(slots []int32, rows []byte, mark int64) error {
	if b.fails != nil {
		return b.fails
	}
	if !slices.IsSorted(slots) {
		b.t.Error("spilled rows do not ascend")
	}
	for i, slot := range slots {
		n := len(rows) / len(slots)
		b.spilled[slot] = spilledRow{bytes.Clone(rows[i*n : (i+1)*n]), mark}
		b.spills++
	}
	return nil
}

func (b *memBelow) Logged() int64 {
	maps.DeleteFunc(b.spilled, func(_ int32, x spilledRow) bool { return x.mark <= b.logged })
	return b.logged
}

func (b *memBelow) Reset() { clear(b.spilled) }

func (b *memBelow) Close() { b.spilled = nil }
