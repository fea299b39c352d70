package commit

import (
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/shard"
)

// Set is a sealed set: what a rank wrote in an epoch.
type Set struct {
	Step int64 // the epoch's last
	// Slots are the rows that it wrote, ascending; empty on ranks that own nothing.
	Slots []int32
	// Dense is a snapshot of the dense part at Step; empty on ranks that take none.
	Dense []kernels.Buffer

	places        []int32 // of Slots in the epoch
	epoch         *shard.Epoch
	shard         *shard.Shard
	slotsAt, from []int32 // scratch of Deltas
}

// seal makes it what a shard, nil where nothing is owned, has written.
func (s *Set) seal(step int64, h *shard.Shard) {
	s.Step, s.shard = step, h
	s.Slots, s.places = s.Slots[:0], s.places[:0]
	if h != nil {
		s.epoch = h.Journal().Seal()
		s.Slots, s.places = s.epoch.Sorted(s.Slots, s.places)
	}
}

// Deltas sets dst row i, weights and state, to what row at[i] of Slots was before the
// epoch XOR what it is at its end.
func (s *Set) Deltas(dst kernels.Matrix, at []int32) error {
	s.slotsAt, s.from = resize(s.slotsAt, len(at)), resize(s.from, len(at))
	for i, x := range at {
		s.slotsAt[i], s.from[i] = s.Slots[x], s.places[x]
	}
	return s.shard.Delta(dst, s.epoch, s.from, s.slotsAt)
}

// Rows copies all rows of the set, as they are at the epoch's end, to dst (len(Slots),
// width + state).
func (s *Set) Rows(dst kernels.Matrix) error { return s.shard.ReadWhole(dst, s.Slots) }

// Sink takes sealed sets to where they are safe. Its methods belong to the training
// goroutine, and all ranks call the same ones at the same steps.
//
// A rank is prepared for what all its sinks are prepared for. One that may lag behind
// says that it is prepared at once.
type Sink interface {
	// Begin makes the rows as they are the commit of a step. drawn says that all are as
	// they were drawn.
	Begin(step int64, drawn bool)
	// Seal takes a set, whose rows are as they were at its end until Seal returns: what
	// it needs of them later it copies. The rest it does in the background.
	Seal(s *Set) error
	// Wait waits for what is done in the background, and returns its error. The sink is
	// then prepared for the newest set.
	Wait() error
	// Prepared is the step of the newest set that will be there whatever is lost, as far
	// as this rank can tell, once all ranks say so.
	Prepared() int64
	// Commit makes final the sets up to a step, for which all ranks are prepared.
	Commit(step int64)
	// Roll commits up to a step, for which this rank is prepared, and forgets all sets
	// that came later.
	Roll(step int64)
	// Close frees all; nothing is in the background then.
	Close()
}
