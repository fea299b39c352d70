package train

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/probe"
	"github.com/ecrec/ecrec/rowlog"
	"github.com/ecrec/ecrec/store"
)

// ending is a fault that ends a job: one rank fails at a point of a step, or at any other point after it.
type ending struct {
	rank int
	step int64
	at   probe.Point
}

func (e ending) inject(rank int, step int64, at probe.Point) error {
	if rank == e.rank && at != probe.Plan && (step == e.step && at == e.at || step > e.step) { // the planner is ahead
		return errDevice
	}
	return nil
}

// TestRestartFromLogs ends jobs at any point, several times each, and lets the next one go on from the logs. The result is that of a
// job that nothing has ended.
func TestRestartFromLogs(t *testing.T) {
	const steps = 24
	r := seeded(t)
	began, lives := 0, 0
	for _, ranks := range []int{1, 2, 4} {
		for _, code := range [][]string{{"ec.code=none"}, {"ec.code=xor", "ec.k=1"}} {
			if ranks == 1 && code[0] != "ec.code=none" {
				continue
			}
			sets := slices.Concat(anySets(r), code, []string{fmt.Sprint("job.ranks=", ranks), fmt.Sprint("train.iterations=", steps),
				"train.eval_every=5", fmt.Sprint("job.digests=", r.IntN(2) == 0), fmt.Sprint("ec.commit_every=", 1+r.IntN(5))})
			if r.IntN(2) == 0 {
				sets = append(sets, "model.init_from=")
			}
			want := run(t, Options{}, adagrad, sets...)
			sets = append(sets, "store.path="+filepath.Join(t.TempDir(), "store"))
			var o Options
			sets, o.Frames = anyTier(r, sets)
			name, step := fmt.Sprint(sets), int64(1)
			for {
				lives++
				e := ending{r.IntN(ranks), step + r.Int64N(12), probe.All()[r.IntN(len(probe.All()))]}
				o.Inject, o.Resume, o.Observer = e.inject, "auto", &quiet{}
				if e.step >= steps {
					o.Inject = nil
				}
				got, err := runAnyway(t, o, adagrad, sets...)
				name += fmt.Sprintf("\nfrom %d: %+v", got.Began, e)
				if got.Began > 0 {
					began++
				}
				if err == nil {
					if got.Digest != want.Digest || !slices.Equal(got.TrainLoss, want.TrainLoss) || !slices.Equal(got.Eval, want.Eval) {
						t.Fatalf("%s\ndigest %s, want %s; losses %v, want %v; evaluations %v, want %v", name, got.Digest, want.Digest,
							got.TrainLoss, want.TrainLoss, got.Eval, want.Eval)
					}
					break
				}
				if !errors.Is(err, errDevice) {
					t.Fatalf("%s\n%v", name, err)
				}
				step = min(e.step+1, steps)
			}
			if _, err := runAnyway(t, Options{Observer: &quiet{}, Frames: o.Frames}, adagrad, sets...); err == nil || !strings.Contains(err.Error(), "give --resume auto") {
				t.Errorf("a new run over the logs: %v", err)
			}
		}
	}
	t.Logf("%d jobs, %d of which went on from logs", lives, began)
	if began == 0 {
		t.Error("no job went on from its logs")
	}
}

// TestBestModelOfTheLog ends jobs soon after a better evaluation: the next one continues from an earlier commit in the logs, and must find
// the model that was the best then.
func TestBestModelOfTheLog(t *testing.T) {
	sets := append(slices.Clone(judged), "ec.commit_every=4", "job.ranks=1")
	best := run(t, Options{SaveTo: filepath.Join(t.TempDir(), "m")}, adagrad, sets...)
	began := 0
	for i := 1; i < len(best.Eval); i++ {
		if b := bestOf(best.Eval[:i+1], "auc"); b.Step != best.Eval[i].Step {
			continue // an earlier one stays the best
		}
		here := append(slices.Clone(sets), "store.path="+filepath.Join(t.TempDir(), "store"))
		saved := filepath.Join(t.TempDir(), "m")
		e := ending{0, best.Eval[i].Step + 1, probe.Step}
		if _, err := runAnyway(t, Options{Inject: e.inject, Observer: &quiet{}, SaveTo: saved}, adagrad, here...); !errors.Is(err, errDevice) {
			t.Fatal(err)
		}
		w := &warned{}
		got := run(t, Options{Resume: "auto", SaveTo: saved, Observer: w}, adagrad, here...)
		if got.ModelDigest != best.ModelDigest {
			t.Errorf("ended after step %d, resumed at %d: model %s, want %s", e.step, got.Began, got.ModelDigest, best.ModelDigest)
		}
		for _, text := range w.said {
			if strings.Contains(text, "is not there") {
				t.Errorf("ended after step %d, resumed at %d: %s", e.step, got.Began, text)
			}
		}
		if got.Began > 0 && got.Began < best.Eval[i].Step {
			began++
		}
	}
	if began == 0 {
		t.Error("no job went on from a commit before the best evaluation")
	}
}

// TestStopIsNoBetterModel stops jobs after each step. The model there is evaluated, and may be the best so far, but a job without a stop
// does not evaluate it: the one that resumes from the logs keeps the same model as that.
func TestStopIsNoBetterModel(t *testing.T) {
	for _, code := range []string{"xor", "none"}[:fewerInRaces(2)] {
		sets := append(slices.Clone(judged), "ec.code="+code, "ec.k=1", "ec.commit_every=4", "job.ranks=2")
		want := run(t, Options{SaveTo: filepath.Join(t.TempDir(), "m")}, adagrad, sets...)
		better := 0
		for stop := int64(1); stop < want.Steps; stop++ {
			here := append(slices.Clone(sets), "store.path="+filepath.Join(t.TempDir(), "store"))
			saved := filepath.Join(t.TempDir(), "m")
			asked := atomic.Int64{}
			first := run(t, Options{SaveTo: saved, Stop: func() bool { return asked.Add(1) > stop }}, adagrad, here...)
			if !first.Stopped {
				continue
			}
			if k := bestOf(first.Eval, "auc"); k.Step == first.Steps && !slices.ContainsFunc(want.Eval, func(e Eval) bool { return e.Step == k.Step }) {
				better++
			}
			w := &warned{}
			got := run(t, Options{Resume: "auto", SaveTo: saved, Observer: w}, adagrad, here...)
			if got.ModelDigest != want.ModelDigest || len(w.said) > 0 {
				t.Errorf("%s, stopped after step %d: model %s, want %s; warnings %q", code, first.Steps, got.ModelDigest, want.ModelDigest, w.said)
			}
			if left, _ := filepath.Glob(filepath.Join(filepath.Dir(saved), "*best*")); len(left) > 0 {
				t.Errorf("%s, stopped after step %d: %q are left", code, first.Steps, left)
			}
		}
		if better == 0 {
			t.Errorf("%s: no job was stopped at a step whose model is the best", code)
		}
	}
}

// TestLongerRunFromLogs makes finished runs longer that have logs but no checkpoints. The evaluation of the last step is in the log if a
// longer run has it too. The model that was kept is found, also in the file that was saved.
func TestLongerRunFromLogs(t *testing.T) {
	base := append(slices.Clone(judged), "train.plateau_patience=2", "job.ranks=2")
	longer := append(slices.Clone(base), "train.iterations=30")
	want := run(t, Options{SaveTo: filepath.Join(t.TempDir(), "m")}, adagrad, longer...)
	better := 0
	for _, steps := range []int64{10, 12, 13, 21} {
		at := "store.path=" + filepath.Join(t.TempDir(), "store")
		w := &warned{}
		o := Options{SaveTo: filepath.Join(t.TempDir(), "new"), Observer: w, Resume: "auto"}
		o.Saved = filepath.Join(filepath.Dir(o.SaveTo), "m")
		first := run(t, o, adagrad, append(slices.Clone(base), at, fmt.Sprint("train.iterations=", steps))...)
		if first.ModelEval.Step == steps && steps%3 > 0 {
			better++
		}
		if err := os.Rename(o.SaveTo, o.Saved); err != nil {
			t.Fatal(err)
		}
		got := run(t, o, adagrad, append(slices.Clone(longer), at)...)
		if got.Began != steps {
			t.Fatalf("resumed at step %d, want %d", got.Began, steps)
		}
		if got.Digest != want.Digest || got.ModelDigest != want.ModelDigest || !slices.Equal(got.Eval, want.Eval) || len(w.said) > 0 {
			t.Errorf("ended after step %d: digest %s, model %s, %v; want %s, %s, %v; warnings %q", steps, got.Digest, got.ModelDigest, got.Eval,
				want.Digest, want.ModelDigest, want.Eval, w.said)
		}
		if left := filesOf(t, filepath.Dir(o.SaveTo)); len(left) > 0 {
			t.Errorf("ended after step %d: left behind: %v", steps, left)
		}
	}
	if better == 0 {
		t.Error("no run ended with a model that is the best, and that a longer run does not evaluate")
	}
}

// noFiles is the folder of a log on a disk that takes no file.
type noFiles struct{ store.Dir }

func (noFiles) Create(uint64) (rowlog.File, error) { return nil, rowlog.ErrDisk }

// TestLogsOfSomeRanks: a job that ends before a step is durable on all ranks leaves logs to some of them. The next one begins anew. A rank
// whose disk is missing also has no log, and there the job is refused.
func TestLogsOfSomeRanks(t *testing.T) {
	t.Run("drawn", func(t *testing.T) { testLogsOfSomeRanks(t, "model.init_from=") })
	t.Run("of another model", func(t *testing.T) { testLogsOfSomeRanks(t, "train.iterations=24") })
}

func testLogsOfSomeRanks(t *testing.T, set string) {
	const empty = 1 // the rank without a log
	sets := []string{"job.ranks=3", "train.iterations=24", "ec.commit_every=2", set}
	want := run(t, Options{}, adagrad, sets...)
	path := filepath.Join(t.TempDir(), "store")
	sets = append(sets, "store.path="+path)
	o := Options{Inject: ending{0, 12, probe.Step}.inject, Observer: &quiet{}}
	o.StoreDir = func(rank int, path string) (store.Dir, error) {
		d, err := rowlog.OpenDir(env.Real(), path, rowlog.Access{})
		if rank == empty {
			return noFiles{d}, err
		}
		return d, err
	}
	if _, err := runAnyway(t, o, adagrad, sets...); !errors.Is(err, errDevice) {
		t.Fatal(err)
	}
	rows := func() int {
		files, err := filepath.Glob(filepath.Join(path, fmt.Sprintf("rank-%05d", empty), "rows-*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(files)
	}
	if rows() != 0 {
		t.Fatal("the full disk has a log")
	}
	w := &warned{}
	got, err := runAnyway(t, Options{Resume: "auto", Observer: w}, adagrad, sets...)
	if err != nil || got.Began != 0 || got.Digest != want.Digest || !slices.Equal(got.TrainLoss, want.TrainLoss) {
		t.Fatalf("%v, digest %s, want %s", err, got.Digest, want.Digest)
	}
	if len(w.said) != 1 || !strings.Contains(w.said[0], "ended before a step was durable on all ranks") {
		t.Errorf("warned %q", w.said)
	}
	if rows() == 0 {
		t.Error("the next job left no log")
	}
	if err := os.RemoveAll(filepath.Join(path, fmt.Sprintf("rank-%05d", empty))); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the refused job leaves no note
		if _, err := runAnyway(t, Options{Resume: "auto", Observer: &quiet{}}, adagrad, sets...); err == nil || !strings.Contains(err.Error(),
			"some ranks have a log") {
			t.Errorf("a disk is missing: %v", err)
		}
	}
}
