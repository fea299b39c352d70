package store

import (
	"encoding/binary"
	"fmt"
	"math"
	"sort"
)

// Content is an epoch of the first rank, as a reader of a stream gets it. Other ranks have rows only.
type Content struct {
	Slots  []int32 // of the model
	Rows   []byte
	Record []byte // in a format of the trainer
	Dense  []byte // weights, and then optimizer state
	Digest string // of the model; empty: unknown
	Count  int64  // of the run's losses, at the end of the epoch

	losses []int32 // slots behind those of the model, with losses
	bytes  []byte
}

// ParseContent returns the content of an epoch of the first rank, which owns some number of rows.
func ParseContent(slots []int32, rows, extra []byte, owned int64, rowBytes int) (c Content, err error) {
	if len(rows) != len(slots)*rowBytes {
		return c, fmt.Errorf("%d bytes are not %d rows of %d", len(rows), len(slots), rowBytes)
	}
	n := sort.Search(len(slots), func(i int) bool { return int64(slots[i]) >= owned })
	c.Slots, c.Rows, c.losses, c.bytes = slots[:n], rows[:n*rowBytes], slots[n:], rows[n*rowBytes:]
	if len(extra) == 0 {
		if n < len(slots) {
			err = fmt.Errorf("slot %d, of %d", slots[n], owned)
		}
		return c, err
	}
	for i := range c.losses {
		c.losses[i] -= int32(owned)
	}
	c.Record, c.Dense, c.Digest, c.Count, err = readExtra(extra)
	if err == nil && (c.Count < 0 || c.Count > math.MaxInt32) {
		err = fmt.Errorf("%d losses", c.Count)
	}
	return c, err
}

// AddLosses sets the losses that the epoch has, and returns all up to its end.
func (c *Content) AddLosses(losses []float64) ([]float64, error) {
	for int64(len(losses)) < c.Count {
		losses = append(losses, math.NaN())
	}
	losses = losses[:c.Count]
	if len(c.losses) == 0 {
		return losses, nil
	}
	rowBytes := len(c.bytes) / len(c.losses)
	for i, slot := range c.losses {
		row := c.bytes[i*rowBytes : (i+1)*rowBytes]
		for at := int64(slot) * int64(rowBytes); len(row) >= 4; at, row = at+4, row[4:] {
			if k := at / 8; k < c.Count { // half of a loss: rows are multiples of 4 bytes
				shift := 8 * (at % 8)
				bits := math.Float64bits(losses[k])&^(0xffffffff<<shift) | uint64(binary.LittleEndian.Uint32(row))<<shift
				losses[k] = math.Float64frombits(bits)
			}
		}
	}
	return losses, nil
}

// Past is the reverse of ParseContent and AddLosses for an epoch of the first rank that has all losses: the extra bytes, and rows with
// the losses behind the owned ones.
func (c *Content) Past(losses []float64, owned int64, rowBytes int) (slots []int32, rows, extra []byte) {
	var e epoch
	e.setExtra(c.Record, int64(len(losses)))
	e.extra = append(e.extra, c.Dense...)
	e.setDigest(c.Digest)
	slots, rows = appendLosses(nil, nil, losses, 0, owned, int64(rowBytes))
	return slots, rows, e.extra
}
