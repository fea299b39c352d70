package bench

import (
	"sync"

	"github.com/ecrec/ecrec/commit"
)

// writtenRows records the rows that a job changes, for loops that move the same rows and do nothing else.
type writtenRows struct {
	keep   int                // epochs to record
	mu     sync.Mutex         // of epochs: the ranks seal theirs at the same time
	epochs map[int][][]int32  // by rank: the places of the rows of the first epochs
	sizes  map[int]placedRows // by rank
}

// placedRows is the rows of a rank that epochs write, of stride floats. Like those of the job they are in memory in the order of their
// first use, but without the rows that no recorded epoch writes.
type placedRows struct {
	places map[int32]int32 // by slot
	stride int
}

// newWrittenRows records the rows of at least three epochs and 30 steps.
func newWrittenRows(every int) *writtenRows {
	return &writtenRows{keep: max(3, 30/every), epochs: map[int][][]int32{}, sizes: map[int]placedRows{}}
}

// writtenSink records the rows of a rank's first epochs. It takes no part in commits.
type writtenSink struct {
	w      *writtenRows
	o      commit.SinkOptions
	newest int64
}

func (w *writtenRows) openSink(o commit.SinkOptions) (commit.Sink, error) {
	return &writtenSink{w: w, o: o}, nil
}

func (s *writtenSink) NeedsPreImages() bool     { return false }
func (s *writtenSink) Begin(step int64, _ bool) { s.newest = step }
func (s *writtenSink) Wait() error              { return nil }
func (s *writtenSink) Prepared() int64          { return s.newest }
func (s *writtenSink) Commit(int64)             {}
func (s *writtenSink) Roll(step int64)          { s.newest = step }
func (s *writtenSink) Close()                   {}
func (s *writtenSink) Seal(set *commit.Set) error {
	s.newest = set.Step
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if e := s.w.epochs[s.o.Rank]; len(e) < s.w.keep && len(set.Slots) > 0 {
		if len(e) == 0 {
			s.w.sizes[s.o.Rank] = placedRows{map[int32]int32{}, set.RowBytes() / 4}
		}
		s.w.epochs[s.o.Rank] = append(e, s.w.sizes[s.o.Rank].placesOf(set.Slots))
	}
	return nil
}

// placesOf returns the places of slots, and gives the next ones to those that have none.
func (r placedRows) placesOf(slots []int32) []int32 {
	places := make([]int32, len(slots))
	for i, slot := range slots {
		at, ok := r.places[slot]
		if !ok {
			at = int32(len(r.places))
			r.places[slot] = at
		}
		places[i] = at
	}
	return places
}

// rows is the number of rows.
func (r placedRows) rows() int { return len(r.places) }
