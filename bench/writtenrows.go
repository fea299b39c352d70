package bench

import (
	"math/rand/v2"
	"sync"

	"github.com/ecrec/ecrec/commit"
)

// writtenRows records the rows that a job changes, for loops that move the same rows and do nothing else.
type writtenRows struct {
	keep   int                // epochs to record
	spread int64              // bytes of memory that the rows of a rank are spread over at least; 0: they follow each other
	mu     sync.Mutex         // of epochs: the ranks seal theirs at the same time
	epochs map[int][][]int32  // by rank: the places of the rows of the first epochs
	sizes  map[int]placedRows // by rank
}

// placedRows is the rows of a rank that epochs write, of stride floats. They follow each other in memory in the order of their first use,
// without the rows that no recorded epoch writes. Or they are at random places, like those of a job that begins with all rows touched
// in random order (train.Trial.TouchAll).
type placedRows struct {
	places map[int32]int32 // by slot
	order  []int32         // of the first places; later ones follow each other
	stride int
}

// newWrittenRows records the rows of at least three epochs and the given number of steps.
func newWrittenRows(every, steps int) *writtenRows {
	return &writtenRows{keep: max(3, steps/every), epochs: map[int][][]int32{}, sizes: map[int]placedRows{}}
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
			s.w.sizes[s.o.Rank] = s.w.newPlacedRows(set.RowBytes(), s.o.Shard.Slots())
		}
		s.w.epochs[s.o.Rank] = append(e, s.w.sizes[s.o.Rank].placesOf(set.Slots))
	}
	return nil
}

// newPlacedRows returns places for some of the rows of a rank.
func (w *writtenRows) newPlacedRows(bytes int, rows int64) placedRows {
	r := placedRows{map[int32]int32{}, make([]int32, min(rows, w.spread/int64(bytes))), bytes / 4}
	for i := range r.order {
		r.order[i] = int32(i)
	}
	rand.New(rand.NewPCG(1, 0)).Shuffle(len(r.order), func(i, k int) { r.order[i], r.order[k] = r.order[k], r.order[i] })
	return r
}

// placesOf returns the places of slots, and gives free ones to those that have none.
func (r placedRows) placesOf(slots []int32) []int32 {
	places := make([]int32, len(slots))
	for i, slot := range slots {
		at, ok := r.places[slot]
		if !ok {
			if at = int32(len(r.places)); int(at) < len(r.order) {
				at = r.order[at]
			}
			r.places[slot] = at
		}
		places[i] = at
	}
	return places
}

// rows is the number of rows that the memory has.
func (r placedRows) rows() int { return max(len(r.order), len(r.places)) }
