package shard

import (
	"math"

	"github.com/ecrec/ecrec/internal/placement"
	"github.com/ecrec/ecrec/kernels"
)

// Options describe the rows of a Shard.
type Options struct {
	Map   placement.Map
	Owner int // -1: it owns nothing
	Seed  uint64
	// Width is the number of weights per row, State the floats of optimizer state.
	Width, State int
	// Frames is the most rows that are in memory, for a shard with a tier. 0: all.
	Frames int
	// Ahead is the most rows beside them that are read before they are needed.
	Ahead int
	// Packed: rows get their memory in the order of their first use, not in that of their slots. On a GPU, and with
	// Frames, it changes nothing.
	Packed bool
	// Parts are the parts of the weights, in order. Nil: one part.
	Parts []Part
}

// Part is a range of the weights of a row, with initial weights of its own.
type Part struct {
	Width int
	// Zero: the weights start at 0. Otherwise weight j of a row of a table with n rows is
	// uniform in (-sqrt(1/n), sqrt(1/n)), as in the reference DLRM.
	Zero bool
}

// MaxSlots is the most rows an owner can have: a slot is an int32.
const MaxSlots = math.MaxInt32

func (o Options) countSlots() int64 {
	if o.Owner < 0 {
		return 0
	}
	return o.Map.Slots(o.Owner)
}

// Bytes is the memory of a shard with these options once every row is touched.
func Bytes(o Options) int64 {
	slots := o.countSlots()
	if o.Frames > 0 {
		return min(slots, int64(o.Frames))*FrameBytes(o) + int64(o.Ahead)*RowBytes(o) + SlotBytes(o)
	}
	return slots*RowBytes(o) + PlacesBytes(o) + slots/8
}

// PlacesBytes is the memory of the list of places of rows.
func PlacesBytes(o Options) int64 {
	if !o.Packed || o.Frames > 0 {
		return 0
	}
	return o.countSlots() * placeBytes
}

// FrameBytes is the memory of each row that is in memory, for a shard with Options.Frames.
func FrameBytes(o Options) int64 { return RowBytes(o) + frameBytes }

// RowBytes is the length of a row, weights and state.
func RowBytes(o Options) int64 { return int64(o.Width+o.State) * 4 }

// SlotBytes is the memory that such a shard has for all of its rows, wherever they are.
func SlotBytes(o Options) int64 { return o.countSlots()*slotBytes + o.countSlots()/8 }

// WrittenBytes is the memory of the list of written rows (Shard.ListWritten).
func WrittenBytes(o Options) int64 { return 2 * (o.countSlots() / 8) }

// InitOf is the init of an owner's rows.
func InitOf(o Options) kernels.RowInit {
	init := kernels.RowInit{Seed: o.Seed, Owners: o.Map.Owners, Owner: o.Owner, Base: o.Map.Base, Width: o.Width}
	parts := o.Parts
	if len(parts) == 0 {
		parts = []Part{{Width: o.Width}}
	}
	for _, p := range parts {
		init.Parts = append(init.Parts, p.Width)
		for t := range o.Map.Tables() {
			scale := float32(math.Sqrt(1 / float64(o.Map.TableRows(t))))
			if p.Zero {
				scale = 0
			}
			init.Scale = append(init.Scale, scale)
		}
	}
	return init
}
