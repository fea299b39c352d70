package train

import (
	"slices"
	"testing"

	"github.com/ecrec/ecrec/internal/probe"
	"github.com/ecrec/ecrec/lrpp"
)

// witness records the commits and losses that rank 0 reports.
type witness struct {
	*killer
	meter   *Meter
	commits []int64
	seen    []Redundancy
	missing int64 // the most
}

func (w *witness) Committed(step int64, _ string) { w.commits = append(w.commits, step) }
func (w *witness) Step(i StepInfo) {
	if n := len(w.seen); n == 0 || w.seen[n-1] != i.Redundancy {
		w.seen = append(w.seen, i.Redundancy)
	}
	w.missing = max(w.missing, w.meter.MissingRows.Load())
}

var metered = []string{"job.ranks=6", "ec.code=rs", "ec.k=2", "ec.r=1", "train.iterations=24", "ec.commit_every=5"}

// The Meter of a run agrees with the run's result, and the Observer receives each commit.
func TestMeterCountsWhatMoves(t *testing.T) {
	w := &witness{killer: &killer{}, meter: &Meter{}}
	got := run(t, Options{Observer: w, Meter: w.meter}, adagrad, metered...)
	for _, c := range []struct {
		class Class
		want  lrpp.Traffic
	}{{ClassCritical, got.Moved.Critical}, {ClassDelayed, got.Moved.Delayed}} {
		if got := (lrpp.Traffic{Rows: w.meter.Rows[c.class].Load(), Bytes: w.meter.Bytes[c.class].Load()}); got != c.want || got.Bytes == 0 {
			t.Errorf("%v: %+v, want %+v", c.class, got, c.want)
		}
	}
	if bytes := w.meter.Bytes[ClassParity].Load(); bytes != got.Protection.SentBytes || bytes == 0 || w.meter.Rows[ClassParity].Load() == 0 {
		t.Errorf("parity: %d bytes, want %d", bytes, got.Protection.SentBytes)
	}
	all, n := []int64{0, 5, 10, 15, 20, 24}, len(w.commits)
	isOther := func(step int64) bool { return !slices.Contains(all, step) }
	// On a busy machine a commit may follow so late that no step ends between it and the next one.
	if n < 3 || w.commits[0] != 0 || w.commits[n-1] != 24 || !slices.IsSorted(w.commits) || slices.ContainsFunc(w.commits, isOther) {
		t.Errorf("commits %v, want %v", w.commits, all)
	}
	if want := []Redundancy{{Groups: 2, Survivable: 1}}; !slices.Equal(w.seen, want) {
		t.Errorf("redundancy %v, want %v", w.seen, want)
	}
}

// While a lost rank is rebuilt, its group survives no further loss.
func TestRedundancyWhileARankIsRebuilt(t *testing.T) {
	k := &killer{spare: 1, dead: map[int]uint64{}, kills: []kill{{4, 12, probe.Status}}}
	w := &witness{killer: k, meter: &Meter{}}
	run(t, Options{Observer: w, Meter: w.meter, World: lasting(6, k), Inject: k.inject, RebuildRows: 1}, adagrad, metered...)
	whole := Redundancy{Groups: 2, Survivable: 1}
	if want := []Redundancy{whole, {Groups: 2, NoSpare: 1, Rebuilding: 1}, whole}; !slices.Equal(w.seen, want) &&
		!slices.Equal(w.seen, want[:2]) {
		t.Errorf("redundancy %v, want %v", w.seen, want)
	}
	if w.missing == 0 || w.meter.Rows[ClassRebuild].Load() == 0 || w.meter.Bytes[ClassRebuild].Load() == 0 {
		t.Errorf("at most %d rows were missing, %d are rebuilt", w.missing, w.meter.Rows[ClassRebuild].Load())
	}
	m := w.meter
	if m.MissingRows.Load() != 0 || m.MissingParities.Load() != 0 || m.Ranks.Load() != 0 || m.RowBytes.Load() != 0 ||
		m.ParityBytes.Load() != 0 {
		t.Errorf("after the run: %d rows and %d parities are missing, %d ranks with %d and %d bytes", m.MissingRows.Load(),
			m.MissingParities.Load(),
			m.Ranks.Load(), m.RowBytes.Load(), m.ParityBytes.Load())
	}
}
