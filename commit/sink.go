package commit

import (
	"slices"

	"github.com/ecrec/ecrec/internal/digest"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/shard"
)

// Sink takes the sealed sets of one rank to a place where they are safe: the memory of other
// ranks (Parity), a file, a stream.
//
// All methods are called by the training goroutine, and all ranks call the same ones at the
// same steps. The order of calls is
//
//	Begin { Seal | Wait | Prepared | Commit | Roll | Begin } Close
//
// with these rules, for the sets between two calls of Begin:
//
//   - Steps of sets ascend. Wait is called before each Seal, and all earlier sets are
//     committed when Seal is called.
//   - Commit(step) is called when all ranks are prepared for step, and never with an older
//     step than before. The same step may be committed twice.
//   - Roll is called between worlds, after a loss: step is that of the last commit, or of a
//     set that this rank is prepared for and that another rank has committed.
//
// Begin, Commit and Roll return no error: a sink that fails there returns the error from the
// next Seal or Wait. An error of a sink ends the rank.
//
// Package sinktest tests these rules for any Sink.
type Sink interface {
	// NeedsPreImages reports whether the sink reads Set.Deltas, or has to roll rows back.
	// If no sink of a rank does, the rank keeps no pre-images.
	NeedsPreImages() bool
	// Begin declares the present rows to be the commit of a step, and drops all sets. drawn
	// is true if every row equals its init. If not, the rows are those of a checkpoint, or this
	// rank replaces a lost one at the last commit.
	//
	// Sets list only rows that an epoch wrote. A reader of later sets combines them with the
	// rows of this step, from the checkpoint or from the sets of the lost rank.
	//
	// The lost rank may have been prepared for the set of step and have died before Commit,
	// when other ranks had committed it. If the store of a sink survives its rank, Begin
	// commits that set there, and discards all sets of later steps.
	Begin(step int64, drawn bool)
	// Seal takes a set, which is valid until Seal returns. The sink copies the parts that it
	// needs later, and may continue with these copies in the background.
	Seal(s *Set) error
	// Wait waits for the work in the background, and returns its error. Afterwards the sink
	// is prepared for the newest set.
	Wait() error
	// Prepared is the step of the newest set that survives any tolerated loss once all ranks
	// are prepared for it. A sink that may lag behind reports each set as soon as it is
	// sealed. The step does not fall, except by Roll and Begin.
	Prepared() int64
	// Commit makes the sets up to a step final.
	Commit(step int64)
	// Roll commits the sets up to a step, and drops all later ones. Work in the background
	// has ended, or is ended by the sink.
	Roll(step int64)
	// Close ends the work in the background and frees all memory. A second call does nothing.
	Close()
}

// Taker is a Sink that takes all rows of most sets (Set.TakeRows).
type Taker interface {
	Sink
	// WillTake reports whether the next Seal will take the rows of its set, which are then read once for the digest and for
	// the sink. A wrong answer costs time only.
	WillTake() bool
}

// SinkOptions describe the rank that a sink is made for.
type SinkOptions struct {
	Env    env.Env
	Device kernels.Device // that has the rows
	Rank   int
	// Shard is the rank's rows, of which there may be none. Its Options have the owner, and
	// the map from slots to rows of tables. A sink reads rows only by Set.
	Shard *shard.Shard
}

// SinkFactory makes the sink of one rank. A rank that moves to another process gets a new
// sink there, which begins at the last commit.
type SinkFactory func(SinkOptions) (Sink, error)

// Set is a sealed set: the rows that a rank wrote in an epoch, and the dense part after it.
// It is valid until Seal returns.
type Set struct {
	Step int64 // the last step of the epoch
	// Slots are the rows that the epoch wrote, ascending. A row is listed even if its bytes
	// are the same again; see Changed. It is empty on ranks that own nothing.
	Slots []int32
	// Deltas reads the deltas of rows. It is nil for sinks that need no pre-images.
	Deltas *Deltas

	places []int32 // of Slots in the epoch
	epoch  *shard.Epoch
	shard  *shard.Shard
	dense  []kernels.Buffer // weights and optimizer state; empty on ranks that keep no snapshots

	rows  []byte // memory of the bytes of Slots
	read  bool   // they are there
	takes bool   // a sink will take them
}

// sealRows makes s the set that a shard has written, up to a step. takes is set if a sink will take the rows.
func (s *Set) sealRows(step int64, h *shard.Shard, takes bool) {
	s.Step, s.shard, s.epoch = step, h, h.Journal().Seal()
	s.read, s.takes = false, takes
	s.Slots, s.places = s.epoch.Sorted(s.Slots[:0], s.places[:0])
}

// Changed appends to slots the rows of the set whose bytes, weights and state, differ from
// those before the epoch, ascending.
func (s *Set) Changed(slots []int32) ([]int32, error) {
	return s.shard.Changed(slots, s.epoch, s.places, s.Slots)
}

// DigestChange is the digest of the rank's rows at the end of the epoch minus that before it. If a sink will take
// the rows, they are read once for both.
func (s *Set) DigestChange() (sum digest.Sum, err error) {
	var rows []byte
	if s.takes {
		n := len(s.Slots) * s.RowBytes()
		s.rows = slices.Grow(s.rows[:0], n)[:n]
		rows = s.rows
	}
	sum, err = s.shard.DigestChange(s.epoch, s.places, s.Slots, rows)
	s.read = s.takes && err == nil
	return sum, err
}

// TakeRows returns the bytes of all of Slots at the end of the epoch, one row after the other. They are the caller's from
// now on, and spare, which the caller does not use any more, may serve a later set.
func (s *Set) TakeRows(spare []byte) ([]byte, error) {
	if !s.read {
		return s.Rows(spare[:0], s.Slots)
	}
	rows := s.rows
	s.rows, s.read = spare, false
	return rows, nil
}

// RowBytes is the length of a row, weights and state.
func (s *Set) RowBytes() int { return s.shard.RowBytes() }

// Rows appends to rows the bytes of some of Slots, in the given order, as they are at the end
// of the epoch.
func (s *Set) Rows(rows []byte, slots []int32) ([]byte, error) {
	n := len(slots) * s.RowBytes()
	rows = slices.Grow(rows, n)
	to := rows[len(rows) : len(rows)+n]
	return rows[:len(rows)+n], s.shard.ReadBytes(to, slots)
}

// Dense appends to dense the bytes of the model's dense part at the end of the epoch, weights
// and then optimizer state. It appends nothing on ranks that keep no snapshots; rank 0 does.
func (s *Set) Dense(dense []byte) ([]byte, error) {
	for _, b := range s.dense {
		dense = slices.Grow(dense, b.Bytes())
		to := dense[len(dense) : len(dense)+b.Bytes()]
		s.shard.Stream().Download(to, b)
		dense = dense[:len(dense)+len(to)]
	}
	return dense, s.shard.Stream().Sync()
}

// Deltas reads the deltas of rows.
type Deltas struct {
	set            *Set
	slots, sources []int32 // scratch
}

// Read sets dst row i, weights and state, to row at[i] of the set's Slots as it was before
// the epoch XOR as it is at its end. dst is memory of the rank's device.
func (d *Deltas) Read(dst kernels.Matrix, at []int32) error {
	d.slots, d.sources = resize(d.slots, len(at)), resize(d.sources, len(at))
	for i, x := range at {
		d.slots[i], d.sources[i] = d.set.Slots[x], d.set.places[x]
	}
	return d.set.shard.Delta(dst, d.set.epoch, d.sources, d.slots)
}
