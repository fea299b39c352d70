package serve

import (
	"math/bits"
	"slices"

	"github.com/ecrec/ecrec/follow"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/predict"
	"github.com/ecrec/ecrec/shard"
)

// side is the rows of one of the two copies of a model, and the lanes that score with them. Row g is in slot g/n of
// owner g%n, of n.
type side struct {
	owners []owner
	width  int
	lanes  []*lane
	free   chan *lane // lanes without a request; empty while the side is written
	own    kernels.Device
}

// owner is the rows of one owner.
type owner struct {
	memory  kernels.Buffer // nil: of a shard
	rows    []float32      // (slots, stride); the weights are the first of each
	stride  int
	touched []uint64 // a bit for each slot whose row differs from its init
	init    kernels.RowInit
}

// sideOf is the side whose rows are those of shards.
func sideOf(shards []*shard.Shard) *side {
	s := &side{width: shards[0].Width()}
	for _, h := range shards {
		rows, touched := shard.Memory(h)
		s.owners = append(s.owners, owner{rows: kernels.HostView[float32](rows.Buf), stride: rows.Stride, touched: touched,
			init: shard.InitOf(h.Options())})
	}
	return s
}

// copyOf is a side with room for the rows of shards. Memory is taken as rows are set.
func copyOf(dev kernels.Device, shards []*shard.Shard) (*side, error) {
	s := &side{width: shards[0].Width(), own: dev}
	for _, h := range shards {
		o := owner{stride: s.width, touched: make([]uint64, (h.Slots()+63)/64), init: shard.InitOf(h.Options())}
		if h.Slots() > 0 {
			var err error
			if o.memory, err = dev.Alloc(int(h.Slots())*s.width*4, kernels.Rows); err != nil {
				s.freeRows()
				return nil, err
			}
			o.rows = kernels.HostView[float32](o.memory)
		}
		s.owners = append(s.owners, o)
	}
	return s, nil
}

// freeRows frees the rows of a copy.
func (s *side) freeRows() {
	for _, o := range s.owners {
		if o.memory.Bytes() > 0 {
			s.own.Free(o.memory)
		}
	}
	s.owners = nil
}

// CopyRows implements predict.Rows.
func (s *side) CopyRows(dst []float32, rows []int64) error {
	n := int64(len(s.owners))
	for i, g := range rows {
		o, slot, to := &s.owners[g%n], g/n, dst[i*s.width:(i+1)*s.width]
		if o.touched[slot>>6]>>(slot&63)&1 != 0 {
			copy(to, o.rows[slot*int64(o.stride):])
		} else {
			o.init.Row(to, g)
		}
	}
	return nil
}

// update makes the rows those of another side: all, or the changed rows of a View.
func (s *side) update(from *side, v *follow.View, all bool) {
	for i := range s.owners {
		to, with := &s.owners[i], &from.owners[i]
		if !all && !v.Reset[i] {
			for _, slot := range v.Changed[i] {
				to.copyRow(with, int(slot), s.width)
			}
			continue
		}
		copy(to.touched, with.touched)
		for k, word := range with.touched {
			for ; word != 0; word &= word - 1 {
				to.copyRow(with, 64*k+bits.TrailingZeros64(word), s.width)
			}
		}
	}
}

// copyRow copies a row that differs from its init.
func (o *owner) copyRow(from *owner, slot, width int) {
	copy(o.rows[slot*o.stride:slot*o.stride+width], from.rows[slot*from.stride:])
	o.touched[slot>>6] |= 1 << (slot & 63)
}

// lane scores requests with the rows of one side. A request has it alone.
type lane struct {
	*predict.Lane
	requestReader
	side    *side
	numbers []int64 // scratch
	weights []float32
}

// makeLanes makes the lanes of a side. They are not free yet.
func (s *side) makeLanes(f *spec, n int) error {
	s.free = make(chan *lane, n)
	for range n {
		scorer, err := f.form.NewLane(laneRows)
		if err != nil {
			s.closeLanes()
			return err
		}
		s.lanes = append(s.lanes, &lane{Lane: scorer, side: s})
		l := s.lanes[len(s.lanes)-1]
		if l.rowReader, err = f.rows.newReader(laneRows); err != nil {
			s.closeLanes()
			return err
		}
	}
	return nil
}

// closeLanes closes the lanes. No request has one.
func (s *side) closeLanes() {
	for _, l := range slices.Clip(s.lanes) {
		l.Lane.Close()
	}
	s.lanes = nil
}

// setDense sets the dense part of all lanes. No request has one.
func (s *side) setDense(weights []byte) error {
	for _, l := range s.lanes {
		if err := l.SetDense(weights); err != nil {
			return err
		}
	}
	return nil
}

// admit lets requests have the lanes.
func (s *side) admit() {
	for _, l := range s.lanes {
		s.free <- l
	}
}

// drain waits until no request has a lane, and keeps all of them.
func (s *side) drain() {
	for range s.lanes {
		<-s.free
	}
}
