package train

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ecrec/ecrec/checkpoint"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/probe"
)

// A run that is stopped after any step, with a checkpoint, and resumed on any number of
// processes ends like a run that was never stopped.
func TestStopAndResume(t *testing.T) {
	r := seeded(t)
	for _, path := range someCases(t, r) {
		t.Run(filepath.Base(filepath.Dir(path)), func(t *testing.T) {
			const steps = 12
			sets := []string{fmt.Sprintf("train.iterations=%d", steps), "train.eval_every=4"}
			want := run(t, Options{}, path, append(sets, "job.ranks=4")...)
			last := int64(1 + r.IntN(steps-1))
			dir := t.TempDir()
			sets = append(sets, "checkpoint.dir="+dir)
			var asked atomic.Int64
			stop := func() bool { return asked.Add(1) > 4*(last-1) }
			first := run(t, Options{Stop: stop}, path, append(sets, "job.ranks=4")...)
			if !first.Stopped || first.Steps != last {
				t.Fatalf("stopped %v after step %d, want %d", first.Stopped, first.Steps, last)
			}
			processes := 1 + r.IntN(4)
			got := spread(t, processes, 4, Options{Resume: "auto"}, path, sets...)[0]
			if got.Began != last || got.Steps != steps || got.Digest != want.Digest {
				t.Errorf("stopped after %d, resumed by %d processes from %d: %d steps, digest %s; want %s",
					last, processes, got.Began, got.Steps, got.Digest, want.Digest)
			}
			if !slices.Equal(got.TrainLoss, want.TrainLoss) || !slices.Equal(got.Eval, want.Eval) {
				t.Errorf("losses or evaluations differ:\n%v\n%v\n%v\n%v", got.TrainLoss, want.TrainLoss, got.Eval, want.Eval)
			}
		})
	}
}

// watcher records the reports of checkpoints.
type watcher struct {
	quiet
	steps  []int64
	passed []string
}

func (w *watcher) Checkpointed(step int64, _ string, err error) {
	if err != nil {
		step = -step
	}
	w.steps = append(w.steps, step)
}
func (w *watcher) SkippedCheckpoint(path string, err error) {
	w.passed = append(w.passed, path+": "+err.Error())
}

// Checkpoints are saved every N steps and at the end, and the newest ones are kept. A damaged
// one is named, and the one before is used.
func TestEveryKeepAndDamage(t *testing.T) {
	for rank := range 2 { // whose rows are damaged
		t.Run(fmt.Sprintf("rank %d", rank), func(t *testing.T) { everyKeepAndDamage(t, rank) })
	}
}

func everyKeepAndDamage(t *testing.T, rank int) {
	dir := t.TempDir()
	sets := []string{"job.ranks=2", "train.iterations=10", "checkpoint.dir=" + dir, "checkpoint.every=3", "checkpoint.keep=2"}
	w := &watcher{}
	want := run(t, Options{Observer: w, PauseSaves: true}, adagrad, sets...)
	if !slices.Equal(w.steps, []int64{3, 6, 9, 10}) {
		t.Errorf("checkpoints after steps %v", w.steps)
	}
	stay, err := filepath.Glob(dir + "/step-*")
	if err != nil || len(stay) != 2 {
		t.Fatalf("%d checkpoints stay, want 2 (%v)", len(stay), err)
	}
	newest := stay[1]
	files, _ := filepath.Glob(newest + "/rows-*")
	b, _ := os.ReadFile(files[rank])
	b[len(b)-1] ^= 1
	if err := os.WriteFile(files[rank], b, 0o644); err != nil {
		t.Fatal(err)
	}
	w = &watcher{}
	got := run(t, Options{Observer: w, Resume: "auto"}, adagrad, sets...)
	if got.Began != 9 || got.Digest != want.Digest || !slices.Equal(got.TrainLoss, want.TrainLoss) {
		t.Errorf("resumed from %d, digest %s, want %s", got.Began, got.Digest, want.Digest)
	}
	if len(w.passed) != 1 || !strings.Contains(w.passed[0], newest) ||
		!strings.Contains(w.passed[0], filepath.Base(files[rank])+": torn or damaged: its sum is ") {
		t.Errorf("passed over %v, want %s for its sum", w.passed, files[rank])
	}
}

// The cause of an error is cut to its room, between characters.
func TestReasons(t *testing.T) {
	for _, c := range []struct{ says, want string }{
		{"checkpoint: disk full", "checkpoint: rank 3: disk full"},
		{"", "checkpoint: rank 3: "},
		{strings.Repeat("x", causeBytes), "checkpoint: rank 3: " + strings.Repeat("x", causeBytes)},
		{strings.Repeat("x", causeBytes+1), "checkpoint: rank 3: " + strings.Repeat("x", causeBytes-3) + "..."},
		{strings.Repeat("äöü", causeBytes), "checkpoint: rank 3: " + strings.Repeat("äöü", causeBytes)[:causeBytes-4] + "..."},
	} {
		if got := unpackCause(3, packCause(errors.New(c.says))).Error(); got != c.want {
			t.Errorf("%q: got %q, want %q", c.says, got, c.want)
		}
	}
}

func TestResumeWhatIsNotThere(t *testing.T) {
	// auto starts from the beginning if there is none
	if got := run(t, Options{Resume: "auto"}, adagrad, "train.iterations=2", "checkpoint.dir="+t.TempDir()); got.Began != 0 || got.Steps != 2 {
		t.Errorf("%+v", got)
	}
	resume := func(from string, sets ...string) error {
		cfg, err := config.Load(adagrad, append(sets, "job.out="+t.TempDir(), "train.iterations=2"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = Run(env.Real(), cfg, Options{Resume: from, Observer: &quiet{}, Stop: func() bool { return false }})
		return err
	}
	if err := resume(t.TempDir()); !errors.As(err, new(*checkpoint.NotFound)) {
		t.Errorf("an empty folder: %v", err)
	}
	dir := t.TempDir()
	run(t, Options{}, adagrad, "train.iterations=2", "checkpoint.dir="+dir)
	for _, ranks := range []string{"job.ranks=1", "job.ranks=3"} {
		err := resume(dir, ranks, "model.init_from=", "model.embedding_dim=8", "model.bottom_mlp=[8]")
		if !errors.Is(err, config.ErrInvalid) || !strings.Contains(err.Error(), dir) {
			t.Errorf("another model, %s: %v", ranks, err)
		}
	}
}

// spoiler puts a file in the place of checkpoint.dir once training has begun.
type spoiler struct {
	watcher
	dir string
}

func (s *spoiler) Started(Info) error {
	return errors.Join(os.RemoveAll(s.dir), os.WriteFile(s.dir, nil, 0o644))
}

// A folder that can no longer be written costs no step: each save reports it, and the run
// ends only when the last save fails too. A new run is refused at its start.
func TestFailingSaves(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "checkpoints")
	w := &spoiler{dir: dir}
	cfg, err := config.Load(adagrad, []string{"job.ranks=2", "job.out=" + t.TempDir(), "train.iterations=6",
		"checkpoint.every=2", "checkpoint.dir=" + dir})
	if err != nil {
		t.Fatal(err)
	}
	got, err := Run(env.Real(), cfg, Options{Observer: w, PauseSaves: true, Stop: func() bool { return false }})
	if err == nil || errors.Is(err, config.ErrInvalid) || !strings.Contains(err.Error(), dir) {
		t.Errorf("the last save: %v", err)
	}
	if !slices.Equal(w.steps, []int64{-2, -4}) || got.Steps != 6 {
		t.Errorf("reported %v; %d steps", w.steps, got.Steps)
	}
	got, err = Run(env.Real(), cfg, Options{Observer: w, PauseSaves: true, Stop: func() bool { return false }})
	if !errors.Is(err, config.ErrInvalid) || !strings.Contains(err.Error(), dir) || got.Steps != 0 {
		t.Errorf("a folder that is a file: %v after %d steps", err, got.Steps)
	}
}

// A job that resumes at its end saves nothing, and removes what a killed one left of a checkpoint that it was removing.
func TestLeftoversWithoutASave(t *testing.T) {
	dir := t.TempDir()
	sets := []string{"train.iterations=4", "checkpoint.dir=" + dir}
	run(t, Options{}, adagrad, sets...)
	left := filepath.Join(dir, "step-000000000002.tmp-01234567-removed")
	if err := os.MkdirAll(left, 0o755); err != nil {
		t.Fatal(err)
	}
	if got := run(t, Options{Resume: "auto"}, adagrad, sets...); got.Began != 4 {
		t.Errorf("began after step %d", got.Began)
	}
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is left: %v", err)
	}
}

// A checkpoint that cannot be removed fails no save and no job. The run warns once.
func TestOldCheckpointsThatCannotBeRemoved(t *testing.T) {
	dir := t.TempDir()
	w := &stepper{step: func(int64) {}}
	var unmounted error
	inject := func(rank int, step int64, at probe.Point) error {
		if rank != 0 || at != probe.Status || step != 3 && step != 5 {
			return nil
		}
		busy := filepath.Join(dir, fmt.Sprintf("step-%012d", step-1), "busy")
		unmounted = errors.Join(unmounted, os.Mkdir(busy, 0o755), unix.Mount("tmpfs", busy, "tmpfs", 0, "size=64k"))
		return nil
	}
	t.Cleanup(func() {
		all, _ := filepath.Glob(filepath.Join(dir, "*", "busy"))
		for _, busy := range all {
			_ = unix.Unmount(busy, unix.MNT_DETACH)
		}
	})
	run(t, Options{Observer: w, PauseSaves: true, Inject: inject}, adagrad, "job.ranks=2", "train.iterations=8", "checkpoint.every=2",
		"checkpoint.keep=1", "checkpoint.dir="+dir)
	if unmounted != nil {
		t.Skipf("no folder that cannot be removed: %v", unmounted)
	}
	if !slices.Equal(w.steps, []int64{2, 4, 6, 8}) || len(w.warnings) != 1 || !strings.Contains(w.warnings[0], "cannot be removed") {
		t.Errorf("saves after %v; warned %q", w.steps, w.warnings)
	}
	if got := checkpoint.Newest(dir); got != fmt.Sprintf("step-%012d", 8) {
		t.Errorf("the newest is %s", got)
	}
}

// The names of the files of a save have Options.SaveSession, on all ranks.
func TestSaveSession(t *testing.T) {
	var mu sync.Mutex
	files := 0
	do := func(what string, f func() error) error {
		if strings.HasPrefix(what, "create ") && strings.Contains(what, "step-") {
			mu.Lock()
			defer mu.Unlock()
			if files++; !strings.Contains(what, "-this/") {
				t.Errorf("%s: another session", what)
			}
		}
		return f()
	}
	runOn(t, do, Options{Observer: &quiet{}, SaveSession: "this"}, adagrad, "job.ranks=2", "train.iterations=2", "checkpoint.dir="+t.TempDir())
	if files != 3 {
		t.Errorf("%d files, want 3", files)
	}
}
