package train

import (
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/ecrec/ecrec/internal/probe"
)

// TestDeathWithLog: a rank dies after the first commit of a job with logs and without digests, so that the ranks that stay have
// reported a seal that the new one has not. The new one is on another machine, with an empty folder.
func TestDeathWithLog(t *testing.T) {
	sets := []string{"job.ranks=3", "ec.code=xor", "ec.k=2", "ec.commit_every=6", "train.iterations=30"}
	want := reference(t, adagrad, sets...)
	for _, step := range []int64{7, 11, 14} {
		k := &killer{spare: 1, dead: map[int]uint64{}, kills: []kill{{1, step, probe.Step}, {2, step + 7, probe.Status}}}
		o := Options{World: lasting(3, k), Inject: k.inject, Observer: k}
		got := run(t, o, adagrad, append(slices.Clone(sets), "store.path="+filepath.Join(t.TempDir(), "store"))...)
		if len(k.hit) == 0 || got.Digest != want.Digest || !slices.Equal(got.TrainLoss, want.TrainLoss) {
			t.Errorf("step %d: %v died; digest %s, want %s", step, k.hit, got.Digest, want.Digest)
		}
	}
}

// TestCommitsOfSavesAreReported: commits are reported to the launcher also if each is made for a checkpoint.
func TestCommitsOfSavesAreReported(t *testing.T) {
	k := &killer{spare: 1, dead: map[int]uint64{}, kills: []kill{{1, 12, probe.Step}}}
	var reported atomic.Bool
	o := Options{World: lasting(3, k), Observer: k, Inject: func(rank int, step int64, at probe.Point) error {
		if step == 11 && at == probe.Step && k.committed.Load() {
			reported.Store(true)
		}
		return k.inject(rank, step, at)
	}}
	run(t, o, adagrad, "job.ranks=3", "job.digests=true", "ec.code=xor", "ec.k=2", "ec.commit_every=5", "train.iterations=20",
		"checkpoint.every=5", "checkpoint.dir="+t.TempDir())
	if !reported.Load() {
		t.Error("no commit was reported in the first 10 steps, with one for each checkpoint after 5 steps")
	}
}

// TestRecoveryThatEndsWithALoss: a rank is lost while the ranks record that an earlier one is rebuilt. Both recoveries are on record.
func TestRecoveryThatEndsWithALoss(t *testing.T) {
	k := &killer{spare: 2, dead: map[int]uint64{}, kills: []kill{{2, 9, probe.Status}, {3, 0, probe.Rebuilt}}}
	got := run(t, Options{World: lasting(5, k), Inject: k.inject, Observer: k}, adagrad, "job.ranks=5", "ec.code=xor", "ec.k=4",
		"train.iterations=24", "ec.commit_every=3")
	if len(k.hit) != 2 || len(got.Recoveries) != 2 {
		t.Fatalf("%v died; %d recoveries: %+v", k.hit, len(got.Recoveries), got.Recoveries)
	}
	for i, rank := range []int{2, 3} {
		if x := got.Recoveries[i]; !slices.Equal(x.Ranks, []int{rank}) || x.WholeMS <= 0 {
			t.Errorf("recovery %d: %+v", i, x)
		}
	}
}

// TestRecoveryOfRankWithoutRows: a trainer that owns no rows is lost. Nothing is to be rebuilt, and the record says when the job was
// whole.
func TestRecoveryOfRankWithoutRows(t *testing.T) {
	k := &killer{spare: 1, dead: map[int]uint64{}, kills: []kill{{0, 9, probe.Status}}}
	got := run(t, Options{World: lasting(5, k), Inject: k.inject, Observer: k}, adagrad, "job.ranks=5", "ranks.trainers=2", "ranks.servers=3",
		"ec.code=xor", "ec.k=2", "train.iterations=24", "ec.commit_every=3")
	if len(k.hit) != 1 || len(got.Recoveries) != 1 || got.Recoveries[0].WholeMS <= 0 {
		t.Errorf("%v died: %+v", k.hit, got.Recoveries)
	}
}

// TestDeathBeforeSave: a rank dies when a save is due, before the save is under way. It is taken after the recovery.
func TestDeathBeforeSave(t *testing.T) {
	k := &killer{spare: 1, dead: map[int]uint64{}, kills: []kill{{0, 60, probe.Checkpoint}, {3, 120, probe.Checkpoint}}}
	w := &savingKiller{killer: k}
	// Training waits for each save, so that no save is late because of the disk.
	o := Options{World: lasting(5, k), Observer: w, Inject: k.inject, PauseSaves: true}
	run(t, o, adagrad, "job.ranks=5", "job.digests=true", "ec.code=xor", "ec.k=4", "train.iterations=180", "checkpoint.keep=0",
		"checkpoint.kind=incremental", "checkpoint.every=60", "checkpoint.dir="+t.TempDir())
	if len(k.hit) != 2 || len(w.steps) != 3 || w.steps[0] >= 120 {
		t.Errorf("%v died; saves of steps %v, want three", k.hit, w.steps)
	}
}

// TestDeltasFollowTheRowsOfAStep: the deltas of an epoch are sent once the rows of the next step have arrived, and not while the gradients
// of a step are sent.
func TestDeltasFollowTheRowsOfAStep(t *testing.T) {
	for mode, seals := range map[string]int64{"none": 2, "planned": 2, "lrpp": 1} { // in which step after the epoch deltas are sent
		var planned [3]atomic.Int64
		var sent atomic.Int64
		inject := func(rank int, step int64, at probe.Point) error {
			switch {
			case at == probe.Planned:
				planned[rank].Store(step)
			case at == probe.Send && step < 24: // there is no step after that one
				sent.Add(1)
				if now := planned[rank].Load(); now < step+seals {
					t.Errorf("%s: rank %d sends the deltas of step %d in step %d", mode, rank, step, now)
				}
			}
			return nil
		}
		run(t, Options{Inject: inject}, adagrad, "job.ranks=3", "ec.code=xor", "ec.k=2", "ec.commit_every=6", "train.iterations=24", "cache.mode="+mode)
		if sent.Load() != 9 {
			t.Errorf("%s: deltas were sent %d times, want 9", mode, sent.Load())
		}
	}
}
