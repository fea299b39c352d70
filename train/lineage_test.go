package train

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ecrec/ecrec/checkpoint"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/probe"
	"github.com/ecrec/ecrec/transport"
)

// begun records the start of a run.
type begun struct {
	watcher
	info  Info
	steps int
	said  []string
}

func (b *begun) Started(i Info) error {
	b.info = i
	return nil
}
func (b *begun) Step(StepInfo)      { b.steps++ }
func (b *begun) Warned(text string) { b.said = append(b.said, text) }

// resumed runs a config that resumes.
func resumed(t *testing.T, path, from string, allow []string, sets ...string) (*Result, *begun, error) {
	t.Helper()
	cfg, err := config.Load(path, append([]string{"job.out=" + t.TempDir()}, sets...))
	if err != nil {
		t.Fatal(err)
	}
	b := &begun{}
	got, err := Run(env.Real(), cfg, Options{Resume: from, Allow: allow, Observer: b, Stop: func() bool { return false }})
	return got, b, err
}

// namesBoth checks that an error refuses a checkpoint before anything is trained, with all
// of these words.
func namesBoth(t *testing.T, what string, b *begun, err error, words ...string) {
	t.Helper()
	if !errors.Is(err, config.ErrInvalid) || b.steps > 0 {
		t.Errorf("%s: %v after %d steps, want an error of the config", what, err, b.steps)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v: does not say %s", what, err, word)
		}
	}
}

// A checkpoint of another run is refused, with both runs and the key that differs. If the key is
// allowed, the run is a fork, which can be resumed without it.
func TestForeignCheckpoints(t *testing.T) {
	dir := copyCase(t)
	path, ck := filepath.Join(dir, "config.toml"), filepath.Join(dir, "checkpoints")
	base := []string{"job.ranks=2", "train.iterations=4", "checkpoint.dir=" + ck, "train.eval_every=2"}
	run(t, Options{}, path, base...)
	there := filepath.Join(ck, "step-000000000004")
	data, err := os.ReadFile(filepath.Join(dir, "train.bin"))
	if err != nil {
		t.Fatal(err)
	}
	data[0] ^= 1 // a label
	if err := os.WriteFile(filepath.Join(dir, "other.bin"), data, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		key, set string
		fixed    bool
	}{
		{"optimizer.dense.lr", "optimizer.dense.lr=0.01", false},
		{"train.global_batch", "train.global_batch=64", false},
		{"data.train", `data.train=["other.bin"]`, false},
		{"job.ranks", "job.ranks=3", false},
		{"data.shuffle", "data.shuffle=block", false},
		{"job.seed", "job.seed=8", true},
		{"model.top_mlp", "model.top_mlp=[16,1]", true},
	} {
		sets := append(slices.Clone(base), c.set, "train.iterations=6")
		if c.key == "model.top_mlp" {
			sets = append(sets, "model.init_from=")
		}
		_, b, err := resumed(t, path, "auto", nil, sets...)
		namesBoth(t, c.key+", auto", b, err, c.key+" is ", ck, `run "golden" (lineage `)
		_, b, err = resumed(t, path, there, nil, sets...)
		namesBoth(t, c.key, b, err, c.key+" is ", there)
		_, b, err = resumed(t, path, there, []string{c.key}, sets...)
		if c.fixed {
			namesBoth(t, c.key+", allowed", b, err, "cannot change")
			continue
		}
		if err != nil || b.steps != 2 || !b.info.Origin.Forked || b.info.Origin.Path != there {
			t.Errorf("%s, allowed: %v after %d steps, origin %+v", c.key, err, b.steps, b.info.Origin)
			continue
		}
		forks := b.info.Run.Forks
		if len(forks) != 1 || forks[0].Step != 4 || b.info.Run.Lineage == forks[0].Lineage {
			t.Errorf("%s, allowed: run %+v", c.key, b.info.Run)
		}
		lineage := b.info.Run.Lineage
		_, b, err = resumed(t, path, "auto", nil, sets...)
		if err != nil || b.steps != 0 || b.info.Began != 6 || b.info.Run.Lineage != lineage {
			t.Errorf("%s: the fork resumed: %v after %d steps from %d, run %+v", c.key, err, b.steps, b.info.Began, b.info.Run)
		}
	}
	_, b, err := resumed(t, path, "auto", nil, base...)
	if err != nil || b.info.Began != 4 || len(b.info.Run.Forks) != 0 || len(b.passed) != 5 {
		t.Errorf("the first run: %v from step %d, %+v, skipped %q", err, b.info.Began, b.info.Run, b.passed)
	}
}

// Changes that affect no bit keep the run: more steps, other evaluations, data that moved, a first model that is gone, or
// another name if the checkpoint is named.
func TestResumeOfTheSameRun(t *testing.T) {
	dir := copyCase(t)
	path, ck := filepath.Join(dir, "config.toml"), filepath.Join(dir, "checkpoints")
	sets := func(more ...string) []string {
		return append([]string{"job.ranks=2", "checkpoint.dir=" + ck, "job.save_model=false"}, more...)
	}
	run(t, Options{}, path, sets("train.iterations=4")...)
	want := run(t, Options{}, path, "job.ranks=2", "train.iterations=6")
	if err := os.Remove(filepath.Join(dir, "init.safetensors")); err != nil {
		t.Fatal(err)
	}
	moved := filepath.Join(t.TempDir(), "moved.bin")
	if err := os.Rename(filepath.Join(dir, "train.bin"), moved); err != nil {
		t.Fatal(err)
	}
	more := sets("train.iterations=6", `data.train=["`+moved+`"]`, "data.eval=[]", "cache.mode=none", "checkpoint.keep=3")
	_, b, err := resumed(t, path, "auto", nil, append(more, "job.name=other")...)
	namesBoth(t, "another name", b, err, `job.name is "golden" there, "other" here`)
	got, b, err := resumed(t, path, ck, nil, append(more, "job.name=other")...)
	if err != nil || got.Digest != want.Digest || b.info.Origin.Forked || len(b.info.Run.Forks) > 0 || len(b.info.Origin.Differences) != 2 {
		t.Errorf("%v: digest %s, want %s; origin %+v", err, got.Digest, want.Digest, b.info.Origin)
	}
	_, b, err = resumed(t, path, "auto", nil, append(more, "job.name=other", "train.iterations=5")...)
	namesBoth(t, "past the end", b, err, "step 6 of run \"other\"", "ends at step 5", "train.iterations = 5")
}

// A run whose model.init_from is gone resumes, and continues its logs, if a checkpoint has the identity of the file. If none has, or if the run
// is new, the error names the file. A run that never had a file is another one.
func TestResumeWithoutTheFirstModel(t *testing.T) {
	dir := copyCase(t)
	path, ck, gone := filepath.Join(dir, "config.toml"), filepath.Join(dir, "checkpoints"), filepath.Join(dir, "init.safetensors")
	both := []string{"job.ranks=2", "checkpoint.dir=" + ck, "store.path=" + filepath.Join(dir, "both")}
	logs := []string{"job.ranks=2", "store.path=" + filepath.Join(dir, "logs")}
	other := []string{"job.ranks=2", "checkpoint.dir=" + filepath.Join(dir, "other"), "train.iterations=4"}
	run(t, Options{}, path, append(slices.Clone(both), "train.iterations=4")...)
	run(t, Options{}, path, append(slices.Clone(logs), "train.iterations=4")...)
	run(t, Options{}, path, append(slices.Clone(other), "model.init_from=")...)
	want := run(t, Options{}, path, "job.ranks=2", "train.iterations=6")
	if err := os.Remove(gone); err != nil {
		t.Fatal(err)
	}
	got, b, err := resumed(t, path, "auto", nil, append(slices.Clone(both), "train.iterations=6")...)
	if err != nil || got.Digest != want.Digest || b.info.Began != 4 {
		t.Errorf("%v: digest %s, want %s; began at step %d", err, got.Digest, want.Digest, b.info.Began)
	}
	same := b.info.Run.Lineage
	_, b, err = resumed(t, path, "auto", nil, append(slices.Clone(logs), "train.iterations=6")...)
	namesBoth(t, "logs alone", b, err, "model.init_from: "+gone+" cannot be read", "put it back")
	if err != nil && strings.Contains(err.Error(), "remove the folder") {
		t.Errorf("logs alone: %v", err)
	}
	_, b, err = resumed(t, path, "auto", nil, other...)
	namesBoth(t, "a run without the file", b, err, `model.init_from is "none" there, "a file that cannot be read" here`)
	_, b, err = resumed(t, path, "", nil, "job.ranks=2")
	namesBoth(t, "a new run", b, err, "model.init_from: ", gone)

	cfg, err := config.Load(path, append([]string{"job.out=" + t.TempDir()}, both...))
	if err != nil {
		t.Fatal(err)
	}
	w := alone(env.Real(), 2)
	w.Later = true // as in a process that replaces a lost one
	j := newJob(env.Real(), cfg, Options{Observer: &quiet{}, World: w})
	if err := j.open(); err != nil {
		t.Fatal(err)
	}
	defer j.close()
	if j.run.Lineage != same || len(j.unread) > 0 {
		t.Errorf("lineage %v in a later world, want %v", j.run.Lineage, same)
	}
}

// A checkpoint whose manifest names no run can be resumed from. Its model is compared.
func TestUnnamedCheckpoints(t *testing.T) {
	ck := t.TempDir()
	if err := os.CopyFS(filepath.Join(ck, "step-000000000003"), os.DirFS("../checkpoint/testdata/format-1")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "run.toml")
	if err := os.WriteFile(path, []byte(`
data = { format = "synthetic" }
model = { embedding_dim = 2, tables = [3, 20], bottom_mlp = [2], top_mlp = [1] }
train = { global_batch = 8, iterations = 5 }`), 0o644); err != nil {
		t.Fatal(err)
	}
	want := run(t, Options{}, path, "job.ranks=2")
	got, b, err := resumed(t, path, "auto", nil, "job.ranks=2", "checkpoint.dir="+ck)
	if err != nil || got.Digest != want.Digest || !b.info.Origin.Unnamed || len(b.info.Run.Forks) != 1 {
		t.Errorf("%v: digest %s, want %s; origin %+v", err, got.Digest, want.Digest, b.info.Origin)
	}
	_, b, err = resumed(t, path, "auto", nil, "job.ranks=2", "checkpoint.dir="+ck)
	if err != nil || b.info.Began != 5 || b.info.Origin.Unnamed {
		t.Errorf("again: %v, origin %+v", err, b.info.Origin)
	}
	_, b, err = resumed(t, path, filepath.Join(ck, "step-000000000003"), nil, "job.ranks=3")
	namesBoth(t, "ranks", b, err, "job.ranks is 2 there, 3 here", "does not name")
	_, b, err = resumed(t, path, filepath.Join(ck, "step-000000000003"), nil, "job.ranks=2", "job.seed=7")
	namesBoth(t, "seed", b, err, "job.seed is 42 there, 7 here")
}

// With two lineages of one recipe in a folder, the user must name a checkpoint.
func TestAmbiguousCheckpoints(t *testing.T) {
	ck := t.TempDir()
	sets := []string{"job.ranks=2", "train.iterations=2", "checkpoint.dir=" + ck}
	run(t, Options{}, adagrad, sets...)
	slow := append(slices.Clone(sets), "optimizer.dense.lr=0.01", "train.iterations=3")
	run(t, Options{Resume: ck, Allow: []string{"optimizer.dense.lr"}}, adagrad, slow...)
	run(t, Options{}, adagrad, slow...)
	_, b, err := resumed(t, adagrad, "auto", nil, slow...)
	namesBoth(t, "ambiguous", b, err, "two lineages", "step-000000000003-")
	_, b, err = resumed(t, adagrad, filepath.Join(ck, "step-000000000003"), nil, slow...)
	if err != nil || len(b.info.Run.Forks) != 1 {
		t.Errorf("named: %v, %+v", err, b.info.Run)
	}
}

// A second job is refused at its start while the first one saves to its folder.
func TestTwoJobsInOneFolder(t *testing.T) {
	ck := t.TempDir()
	sets := []string{"job.ranks=2", "train.iterations=3", "checkpoint.dir=" + ck}
	var second error
	run(t, Options{Inject: func(rank int, step int64, point probe.Point) error {
		if rank == 0 && step == 2 && point == probe.Status {
			_, _, second = resumed(t, adagrad, "", nil, append(slices.Clone(sets), "job.seed=9")...)
		}
		return nil
	}}, adagrad, sets...)
	if !errors.As(second, new(*checkpoint.Busy)) || !errors.Is(second, config.ErrInvalid) {
		t.Errorf("the second job: %v", second)
	}
	if err := checkpoint.CheckFree(ck); err != nil {
		t.Errorf("after the first: %v", err)
	}
}

// A running job that restores a checkpoint stays in its lineage, also if it is a fork. It
// ignores newer checkpoints of other lineages of its recipe.
func TestFallStaysInItsLineage(t *testing.T) {
	parent, allow := t.TempDir(), []string{"optimizer.dense.lr"}
	slow := append(slices.Clone(threeRanks), "optimizer.dense.lr=0.01")
	run(t, Options{}, adagrad, append(slices.Clone(threeRanks), "train.iterations=2", "checkpoint.dir="+parent)...)
	want := run(t, Options{Resume: parent, Allow: allow}, adagrad, append(slices.Clone(slow), "checkpoint.dir="+t.TempDir())...)
	for _, kills := range [][]kill{{{1, 9, probe.Status}, {2, 9, probe.Status}}, {{0, 9, probe.Status}, {2, 9, probe.Status}}} {
		ck := t.TempDir()
		run(t, Options{}, adagrad, append(slices.Clone(slow), "checkpoint.dir="+ck, "train.iterations=11")...) // anew
		run(t, Options{}, adagrad, append(slices.Clone(threeRanks), "checkpoint.dir="+ck)...)                  // another run
		k := &killer{spare: 9, dead: map[int]uint64{}, kills: kills}
		b := &warnedKiller{killer: k}
		o := Options{World: lasting(3, k), Observer: b, Inject: k.after(meeting(3, 1, 9, probe.Status)), Resume: parent, Allow: allow,
			PauseSaves: true}
		got, err := runAnyway(t, o, adagrad, append(slices.Clone(slow), "checkpoint.dir="+ck, "checkpoint.every=5")...)
		if err != nil || got.Digest != want.Digest || len(k.kills) > 0 {
			t.Errorf("%v, digest %s, want %s; %v are yet to die", err, got.Digest, want.Digest, k.kills)
		}
		if len(b.warnings) != 1 || !strings.Contains(b.warnings[0], "resuming after step 5 ") {
			t.Errorf("warned %q", b.warnings)
		}
	}
}

// Processes with different files do not train one run, even with equal configs.
func TestProcessesReadTheSameData(t *testing.T) {
	dirs := []string{copyCase(t), copyCase(t)}
	other := filepath.Join(dirs[1], "train.bin")
	data, err := os.ReadFile(other)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-1] ^= 1
	if err := os.WriteFile(other, data, 0o644); err != nil {
		t.Fatal(err)
	}
	e := env.Real()
	eps := transport.NewMem(e, 2, 1)
	errs := make([]error, 2)
	var wait sync.WaitGroup
	for p, dir := range dirs {
		cfg, err := config.Load(filepath.Join(dir, "config.toml"), []string{"job.ranks=2", "job.out=" + t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		w := &World{Process: p, Processes: 2, Neighbours: 2, Join: func(hosted []int) ([]transport.Endpoint, error) { return eps[p : p+1], nil }}
		wait.Go(func() {
			_, errs[p] = Run(e, cfg, Options{World: w, Observer: &quiet{}, Stop: func() bool { return false }})
		})
	}
	wait.Wait()
	for p, err := range errs {
		if !errors.Is(err, config.ErrInvalid) || !strings.Contains(err.Error(), "rank 1 reads other data than rank 0") {
			t.Errorf("process %d: %v", p, err)
		}
	}
}
