package train

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/probe"
)

// judged are settings under which evaluations get better and worse: the rates are far too high.
var judged = []string{"job.ranks=5", "train.iterations=24", "train.eval_every=3", "optimizer.dense.lr=0.5",
	"optimizer.sparse.lr=0.9", "train.best_by=auc"}

// bestOf returns the best of a run's evaluations.
func bestOf(evals []Eval, by string) (best Eval) {
	best = evals[0]
	for i := range evals {
		if isBetter(by, &evals[i], &best) {
			best = evals[i]
		}
	}
	return best
}

// checkKept checks that a run saved the model of its best evaluation: the file is the model of a run
// that ends there.
func checkKept(t *testing.T, what string, got *Result, saved, path string, sets ...string) {
	t.Helper()
	best := bestOf(got.Eval, "auc")
	if got.ModelEval == nil || *got.ModelEval != best {
		t.Fatalf("%s: kept %+v, the best is %+v", what, got.ModelEval, best)
	}
	want := filepath.Join(t.TempDir(), "m")
	there := run(t, Options{SaveTo: want}, path, append(slices.Clone(sets), fmt.Sprint("train.iterations=", best.Step), "train.keep=last",
		"train.patience=0")...)
	a, err := os.ReadFile(saved)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	b, err := os.ReadFile(want)
	if err != nil {
		t.Fatal(err)
	}
	if tensors(a) != tensors(b) {
		t.Errorf("%s: the file is not the model after step %d", what, best.Step)
	}
	if got.ModelDigest != there.ModelDigest || got.ModelDigest == "" {
		t.Errorf("%s: model digest %q, want %q", what, got.ModelDigest, there.ModelDigest)
	}
}

// tensors is the part of a safetensors file after its header.
func tensors(file []byte) string { return string(file[8+binary.LittleEndian.Uint64(file):]) }

// filesOf returns the names of the models that a folder holds.
func filesOf(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.Contains(e.Name(), "model-best") {
			names = append(names, e.Name())
		}
	}
	return names
}

// TestBestModelIsKept: the model saved is that of the best evaluation, though training continues, and
// without train.keep = "best" it is the last.
func TestBestModelIsKept(t *testing.T) {
	dir := t.TempDir()
	saved := filepath.Join(dir, "m")
	got := run(t, Options{SaveTo: saved}, adagrad, judged...)
	if best := bestOf(got.Eval, "auc"); best.Step == got.Steps || len(got.Eval) != 8 {
		t.Fatalf("the last is the best of %+v: the test needs another", got.Eval)
	}
	checkKept(t, "best", got, saved, adagrad, judged...)
	if left := filesOf(t, dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	last := run(t, Options{SaveTo: saved}, adagrad, append(slices.Clone(judged), "train.keep=last")...)
	if last.ModelEval == nil || last.ModelEval.Step != last.Steps || last.Digest != got.Digest || last.ModelDigest == got.ModelDigest {
		t.Errorf("keep = \"last\": %+v of step %+v, digest %s, want %s", last.ModelDigest, last.ModelEval, last.Digest, got.Digest)
	}
	logloss := run(t, Options{SaveTo: saved}, adagrad, append(slices.Clone(judged), "train.best_by=logloss")...)
	if want := bestOf(got.Eval, "logloss"); *logloss.ModelEval != want {
		t.Errorf("by logloss: kept %+v, want %+v", *logloss.ModelEval, want)
	}
	none := run(t, Options{}, adagrad, judged...)
	if none.ModelDigest != "" || none.ModelEval != nil || none.Digest != got.Digest {
		t.Errorf("without a file: %+v", none)
	}
}

// TestBestModelSurvivesDeaths: ranks die, rank 0 among them; the run keeps the same model, ends after
// the same step, and lowers the rates at the same steps.
func TestBestModelSurvivesDeaths(t *testing.T) {
	r := seeded(t)
	sets := append(slices.Clone(judged), "train.patience=5", "train.plateau_patience=2", "train.plateau_factor=0.5", "ec.code=xor", "ec.k=4")
	want := run(t, Options{SaveTo: filepath.Join(t.TempDir(), "m")}, adagrad, sets...)
	rounds := 2
	if testing.Short() {
		rounds = 1
	}
	for range rounds {
		saved := filepath.Join(t.TempDir(), "m")
		some := append(slices.Clone(sets), fmt.Sprintf("ec.commit_every=%d", 1+r.IntN(6)))
		some = append(some, anySets(r)...)
		k := &killer{spare: 1, dead: map[int]uint64{}}
		points := append(slices.Repeat([]probe.Point{probe.Evaluate, probe.Scored, probe.Digest, probe.Count}, 10), probe.All()...)
		for range 1 + r.IntN(3) {
			k.kills = append(k.kills, kill{r.IntN(2) * r.IntN(5), int64(3 * r.IntN(9)), points[r.IntN(len(points))]})
		}
		name := fmt.Sprint(some, k.kills)
		got := run(t, Options{World: lasting(5, k), Inject: k.inject, Observer: k, SaveTo: saved}, adagrad, some...)
		if got.Digest != want.Digest || got.Steps != want.Steps || got.EndedEarly != want.EndedEarly || !slices.Equal(got.Eval, want.Eval) {
			t.Errorf("%s (%d died): digest %s after %d steps, want %s after %d; %v, want %v", name, len(k.hit), got.Digest, got.Steps,
				want.Digest, want.Steps, got.Eval, want.Eval)
		}
		checkKept(t, name, got, saved, adagrad, some...)
	}
}

// TestBestModelWithoutItsFolder: a world that ends before it has made checkpoint.dir leaves that to
// the next one, which has no checkpoint when it keeps its first model. Here the folder is removed.
func TestBestModelWithoutItsFolder(t *testing.T) {
	dir, saved := filepath.Join(t.TempDir(), "checkpoints"), filepath.Join(t.TempDir(), "model.safetensors")
	got := run(t, Options{SaveTo: saved, Inject: func(rank int, step int64, at probe.Point) error {
		if rank == 0 && step == 1 && at == probe.Status {
			return os.RemoveAll(dir)
		}
		return nil
	}}, adagrad, append(slices.Clone(judged), "checkpoint.dir="+dir)...)
	checkKept(t, "without its folder", got, saved, adagrad, judged...)
}

// TestBestModelSurvivesResume: a run that is stopped and resumed, on any number of processes, keeps
// the same model, also one from before it stopped; a longer run that resumes at the end does too.
func TestBestModelSurvivesResume(t *testing.T) {
	r := seeded(t)
	sets := append(slices.Clone(judged), "train.plateau_patience=2", "train.patience=6")
	saved := filepath.Join(t.TempDir(), "m")
	want := run(t, Options{SaveTo: saved}, adagrad, sets...)
	dir := t.TempDir()
	with := append(slices.Clone(sets), "checkpoint.dir="+dir, fmt.Sprintf("checkpoint.every=%d", 2+r.IntN(5)), "checkpoint.keep=2")
	last := int64(4 + r.IntN(18))
	var asked atomic.Int64
	stop := func() bool { return asked.Add(1) > 5*(last-1) }
	first := run(t, Options{Stop: stop, SaveTo: saved}, adagrad, with...)
	if !first.Stopped || first.Steps != last {
		t.Fatalf("stopped %v after step %d, want %d", first.Stopped, first.Steps, last)
	}
	got := spread(t, 1+r.IntN(3), 5, Options{Resume: "auto", SaveTo: saved}, adagrad, with...)[0]
	if got.Digest != want.Digest || got.Steps != want.Steps || !slices.Equal(got.Eval, want.Eval) || got.ModelDigest != want.ModelDigest {
		t.Errorf("stopped after %d and resumed: digest %s, model %s, %v; want %s, %s, %v", last, got.Digest, got.ModelDigest, got.Eval,
			want.Digest, want.ModelDigest, want.Eval)
	}
	checkKept(t, fmt.Sprintf("stopped after %d", last), got, saved, adagrad, sets...)
	again := run(t, Options{Resume: "auto", SaveTo: saved}, adagrad, with...)
	if again.Digest != want.Digest || again.ModelDigest != want.ModelDigest || !slices.Equal(again.Eval, want.Eval) {
		t.Errorf("resumed at its end: digest %s, model %s, %v; want %s, %s, %v", again.Digest, again.ModelDigest, again.Eval,
			want.Digest, want.ModelDigest, want.Eval)
	}
	longer := append(slices.Clone(with), "train.iterations=30")
	whole := run(t, Options{SaveTo: saved}, adagrad, append(slices.Clone(sets), "train.iterations=30")...)
	got = run(t, Options{Resume: "auto", SaveTo: saved}, adagrad, longer...)
	if got.Digest != whole.Digest || got.ModelDigest != whole.ModelDigest || !slices.Equal(got.Eval, whole.Eval) {
		t.Errorf("made longer: digest %s, model %s, %v; want %s, %s, %v", got.Digest, got.ModelDigest, got.Eval, whole.Digest,
			whole.ModelDigest, whole.Eval)
	}
	if left := filesOf(t, dir); len(left) == 0 || len(left) > 3 {
		t.Errorf("checkpoint.dir holds %v, want one to three models", left)
	}
}

// TestBestModelWithoutCheckpoints: a run that resumes, and saves no checkpoint itself, keeps the best model of the run
// before, and leaves that in its folder.
func TestBestModelWithoutCheckpoints(t *testing.T) {
	dir := t.TempDir()
	best := bestOf(run(t, Options{}, adagrad, judged...).Eval, "auc").Step
	run(t, Options{Until: best + 1, SaveTo: filepath.Join(t.TempDir(), "m")}, adagrad, append(slices.Clone(judged), "checkpoint.dir="+dir)...)
	before := filesOf(t, dir)
	saved := filepath.Join(t.TempDir(), "m")
	got := run(t, Options{Resume: dir, SaveTo: saved}, adagrad, judged...)
	if got.Began != best+1 {
		t.Fatalf("resumed after step %d, want %d", got.Began, best+1)
	}
	checkKept(t, "without checkpoint.dir", got, saved, adagrad, judged...)
	if after := filesOf(t, dir); len(before) == 0 || !slices.Equal(after, before) {
		t.Errorf("checkpoint.dir holds %v, want %v", after, before)
	}
	if left := filesOf(t, filepath.Dir(saved)); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestVerdict checks the decisions on lists of evaluations.
func TestVerdict(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		by       string
		patience int
		plateau  int
		evals    []float64
		factor   float64
		over     bool
	}{
		{"logloss", 2, 0, []float64{3, 2, 2.5}, 1, false},
		{"logloss", 2, 0, []float64{3, 2, 2.5, 2}, 1, true}, // a tie is not better
		{"auc", 2, 0, []float64{3, 2, 2.5}, 1, true},
		{"auc", 0, 1, []float64{3, 2, 2.5}, 0.25, false},
		{"auc", 9, 2, []float64{3, 2, 2.5, 1, 4, 1, 1, 1}, 0.25, false},
		{"auc", 1, 0, []float64{nan, 2}, 1, false},
		{"auc", 1, 0, []float64{2, nan}, 1, true},
	} {
		j := job{topology: topology{cfg: config.Default()}}
		j.cfg.Train.BestBy, j.cfg.Train.Patience, j.cfg.Train.PlateauPatience, j.cfg.Train.PlateauFactor = c.by, c.patience, c.plateau, 0.5
		j.cfg.Train.EvalEvery = 10
		evals := []Eval{{Step: 5, Logloss: 0, AUC: 9}} // of a run that was stopped there
		for i, x := range c.evals {
			evals = append(evals, Eval{Step: int64(10 * (i + 1)), Logloss: x, AUC: x})
		}
		if factor, over := j.judgeEvals(evals); factor != c.factor || over != c.over {
			t.Errorf("%+v: %v, %v", c, factor, over)
		}
	}
}
