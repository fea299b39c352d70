package stream

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/ecrec/ecrec/lineage"
)

// Epoch is an epoch of one rank as it is read.
type Epoch struct {
	Lineage  lineage.ID
	Rank     int
	Ranks    int
	Absolute bool
	From, To int64
	Slots    []int32 // ascending
	Rows     []byte
	Extra    []byte    // of the trainer; empty on all ranks but the first
	About    []byte    // the description of the run; empty on all ranks but the first
	Place    *Position // of a base: the place in the topic from which its readers read on; nil: the epoch is not of a base
	Next     int64     // the offset from which a reader that holds the epoch reads on (Position)
	Written  int64     // when its end was written, in milliseconds since 1970; 0: unknown
}

// merge adds an epoch that follows e: its rows replace those of e.
func (e *Epoch) merge(next *Epoch) *Epoch {
	if e == nil || next.Absolute && (len(next.About) > 0 || next.Lineage != e.Lineage) {
		return next
	}
	out := *next
	if len(out.About) == 0 { // a writer that has replaced another one may begin behind its description
		out.About = e.About
	}
	if next.Absolute {
		return &out
	}
	out.From, out.Absolute = e.From, e.Absolute
	if len(e.Slots) == 0 {
		return &out
	}
	rowBytes := len(e.Rows) / len(e.Slots)
	out.Slots, out.Rows = nil, make([]byte, 0, len(e.Rows)+len(next.Rows))
	i, k := 0, 0
	for i < len(e.Slots) || k < len(next.Slots) {
		if k == len(next.Slots) || i < len(e.Slots) && e.Slots[i] < next.Slots[k] {
			out.Slots, out.Rows = append(out.Slots, e.Slots[i]), append(out.Rows, e.Rows[i*rowBytes:(i+1)*rowBytes]...)
			i++
			continue
		}
		if i < len(e.Slots) && e.Slots[i] == next.Slots[k] {
			i++
		}
		out.Slots, out.Rows = append(out.Slots, next.Slots[k]), append(out.Rows, next.Rows[k*rowBytes:(k+1)*rowBytes]...)
		k++
	}
	return &out
}

var errCount = errors.New("the end of the epoch counts other rows than there are")

// checkEnd compares the end of an epoch with its rows.
func checkEnd(payload []byte, rows int) error {
	if len(payload) != 8 || binary.LittleEndian.Uint64(payload) != uint64(rows) {
		return errCount
	}
	return nil
}

// sort brings the rows of an epoch in the order of their slots. Of a slot that is listed twice the last row stays.
func (e *Epoch) sort() {
	ascending := true
	for i := 1; i < len(e.Slots) && ascending; i++ {
		ascending = e.Slots[i-1] < e.Slots[i]
	}
	if ascending {
		return
	}
	rowBytes := len(e.Rows) / len(e.Slots)
	order := make([]int, len(e.Slots))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(e.Slots[a], e.Slots[b]) })
	slots, rows := make([]int32, 0, len(e.Slots)), make([]byte, 0, len(e.Rows))
	for k, i := range order {
		if k+1 < len(order) && e.Slots[order[k+1]] == e.Slots[i] {
			continue
		}
		slots, rows = append(slots, e.Slots[i]), append(rows, e.Rows[i*rowBytes:(i+1)*rowBytes]...)
	}
	e.Slots, e.Rows = slots, rows
}
