package train

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/ecrec/ecrec/checkpoint"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/probe"
)

// kindsOf lists which checkpoints of a folder are increments, by ascending step.
func kindsOf(t *testing.T, dir string) (increments []bool, rows []int64) {
	t.Helper()
	found, err := checkpoint.List(env.Real(), dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range slices.Backward(found) {
		if f.Err != nil {
			t.Fatal(f.Err)
		}
		n := int64(0)
		for _, file := range f.Files {
			n += file.Rows
		}
		increments, rows = append(increments, f.IsIncrement()), append(rows, n)
	}
	return increments, rows
}

// consolidated returns a folder with full checkpoints, one for each checkpoint of a folder.
func consolidated(t *testing.T, dir string) string {
	t.Helper()
	to, isFull := t.TempDir(), true
	for name := range checkpointsIn(t, dir) {
		c, err := checkpoint.Open(env.Real(), filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		isFull = isFull && !c.IsIncrement()
		if _, err := c.Consolidate(to); err != nil {
			t.Fatal(err)
		}
	}
	if isFull {
		return dir
	}
	return to
}

// anyKind draws the kind of checkpoints.
func anyKind(r *rand.Rand) string { return []string{"full", "incremental"}[r.IntN(2)] }

// TestIncrementsResume: a run with increments that stops and continues, on as many ranks or on others, ends as one that
// never stopped, and each of its checkpoints, made full, is that of a run with full ones.
func TestIncrementsResume(t *testing.T) {
	r := seeded(t)
	for n := range fewerInRaces(6) {
		sets := append(anySets(r), "train.iterations=40", fmt.Sprint("job.digests=", r.IntN(2) == 0), "ec.code=none", "job.seed=7")
		sets, frames := anyTier(r, sets)
		full, dir := t.TempDir(), t.TempDir()
		ranks := 1 + n%4
		of := func(ranks int) []string { return append(slices.Clone(sets), fmt.Sprint("job.ranks=", ranks)) }
		store := func() string { return "store.path=" + filepath.Join(t.TempDir(), "store") }
		want := run(t, Options{Frames: frames}, adagrad,
			append(of(ranks), store(), "checkpoint.keep=0", "checkpoint.every=4", "checkpoint.dir="+full)...)
		with := []string{"checkpoint.keep=0", "checkpoint.every=4", "checkpoint.dir=" + dir, "checkpoint.kind=incremental"}
		stop := 1 + r.IntN(30)
		var seen atomic.Int64 // each rank calls Stop
		o := Options{Frames: frames, Stop: func() bool { return seen.Add(1) > int64(stop) }}
		run(t, o, adagrad, append(append(of(ranks), store()), with...)...)
		got := run(t, Options{Frames: frames, Resume: "auto"}, adagrad, append(append(of(ranks), store()), with...)...)
		if got.Digest != want.Digest {
			t.Fatalf("%v, %d ranks: digest %s, want %s", sets, ranks, got.Digest, want.Digest)
		}
		paused := checkpointsIn(t, full)
		for name, files := range checkpointsIn(t, consolidated(t, dir)) {
			for file, text := range paused[name] {
				if slices.Contains([]string{"manifest.json", "history.bin"}, file) { // a resume is part of the history
					continue
				}
				if files[file] != text {
					t.Fatalf("%v, %d ranks: %s/%s is not that of a full save", sets, ranks, name, file)
				}
			}
		}
		if kinds, rows := kindsOf(t, dir); kinds[0] || !slices.Contains(kinds, true) {
			t.Errorf("%v, %d ranks: increments %v of %v rows", sets, ranks, kinds, rows)
		}
	}
}

// TestIncrementFollowsResume: the first checkpoint after a resume is an increment of the one that was loaded, if the run is the same.
// On another number of ranks it is full.
func TestIncrementFollowsResume(t *testing.T) {
	for _, ranks := range []int{2, 3} {
		dir := t.TempDir()
		sets := []string{"train.iterations=40", "checkpoint.dir=" + dir, "checkpoint.kind=incremental", "checkpoint.every=21"}
		run(t, Options{Until: 20}, adagrad, append(sets, "job.ranks=2")...)
		o := Options{Resume: "auto", Until: 21}
		if ranks != 2 {
			o.Resume, o.Allow = dir, []string{"job.ranks"}
		}
		run(t, o, adagrad, append(sets, fmt.Sprint("job.ranks=", ranks))...)
		c, problems, err := checkpoint.Find(env.Real(), dir, 0)
		if err != nil || len(problems) > 0 || c.Step != 21 {
			t.Fatalf("%+v, %v, %v", c, problems, err)
		}
		if ranks == 2 && (c.Parent == nil || c.Parent.Step != 20) || ranks != 2 && c.IsIncrement() {
			t.Errorf("%d ranks: the parent is %+v", ranks, c.Parent)
		}
	}
}

// TestIncrementWithoutParents: checkpoint.dir is removed while the job runs. The next checkpoint is full.
func TestIncrementWithoutParents(t *testing.T) {
	dir := t.TempDir()
	inject := func(rank int, step int64, at probe.Point) error {
		if rank == 0 && step == 15 && at == probe.Status {
			return os.RemoveAll(dir)
		}
		return nil
	}
	run(t, Options{Inject: inject, PauseSaves: true}, adagrad, "job.ranks=2", "train.iterations=30", "checkpoint.every=5", "checkpoint.keep=0",
		"checkpoint.kind=incremental", "checkpoint.dir="+dir)
	c, problems, err := checkpoint.Find(env.Real(), dir, 0)
	if err != nil || len(problems) > 0 || c == nil || c.Step != 30 {
		t.Fatalf("%+v, %v, %v", c, problems, err)
	}
	if kinds, _ := kindsOf(t, dir); kinds[0] || !slices.Contains(kinds, true) {
		t.Errorf("increments: %v", kinds)
	}
}
