package train

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/safetensors"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/train/feed"
	"github.com/ecrec/ecrec/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const adagrad = "testdata/golden/dlrm-adagrad/config.toml"

// The digest is that of the config, the seed and the number of ranks; repeats,
// threads and the kernels' bodies do not change it.
func TestOneDigest(t *testing.T) {
	for _, path := range someCases(t, seeded(t)) {
		t.Run(filepath.Base(filepath.Dir(path)), func(t *testing.T) {
			few := "train.iterations=4"
			want := run(t, Options{}, path, "job.ranks=2", few)
			same := func(what string, sets ...string) {
				got := run(t, Options{}, path, append([]string{"job.ranks=2", few}, sets...)...)
				if got.Digest != want.Digest {
					t.Errorf("%s: digest %s, want %s", what, got.Digest, want.Digest)
				}
				for i, l := range want.TrainLoss {
					if got.TrainLoss[i] != l {
						t.Errorf("%s: step %d: loss %v, want %v", what, i+1, got.TrainLoss[i], l)
					}
				}
			}
			same("again")
			for threads := range 4 {
				same(fmt.Sprintf("%d threads", threads+1), fmt.Sprintf("job.threads=%d", threads+1))
			}
			for _, isa := range []string{"plain", "avx2", "avx512"} {
				t.Setenv("ECREC_CPU", isa)
				same("ECREC_CPU=" + isa)
			}
			other := run(t, Options{}, path, "job.ranks=2", few, "optimizer.dense.lr=0.0501")
			if other.Digest == want.Digest {
				t.Error("another learning rate gives the same digest")
			}
		})
	}
}

// A job that is stopped ends after the same step on all ranks, with the model of
// a job with that number of steps.
func TestStop(t *testing.T) {
	const last = 5
	var asked atomic.Int64
	stop := func() bool { return asked.Add(1) > 3*(last-1) } // 3 ranks ask once per step
	got := run(t, Options{Stop: stop}, adagrad, "job.ranks=3")
	if !got.Stopped || got.Steps != last || len(got.TrainLoss) != last || len(got.Eval) != 1 {
		t.Fatalf("stopped %v after %d steps with %d losses and %d evaluations; want %d", got.Stopped, got.Steps,
			len(got.TrainLoss), len(got.Eval), last)
	}
	want := run(t, Options{}, adagrad, "job.ranks=3", fmt.Sprintf("train.iterations=%d", last))
	if got.Digest != want.Digest {
		t.Errorf("digest %s, want %s", got.Digest, want.Digest)
	}
}

func fails(t *testing.T, path string, sets ...string) error {
	t.Helper()
	cfg, err := config.Load(path, append([]string{"job.out=" + t.TempDir()}, sets...))
	if err != nil {
		return err
	}
	_, err = Run(env.Real(), cfg, Options{Observer: &quiet{}, Stop: func() bool { return false }})
	if err == nil {
		t.Fatal("the job did not fail")
	}
	return err
}

// A loss that is not a number ends the job with its step and where the largest
// gradient is, and that step is not applied.
func TestDiverged(t *testing.T) {
	err := fails(t, adagrad, "job.ranks=2", "optimizer.dense.lr=3e38", "optimizer.dense.kind=sgd")
	var d *Diverged
	if !errors.As(err, &d) || d.Step < 2 || d.Tensor == "" {
		t.Fatalf("%v", err)
	}
}

// copyCase copies a golden case, so that its files can be changed.
func copyCase(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"config.toml", "train.bin", "eval.bin", "init.safetensors"} {
		b, err := os.ReadFile(filepath.Join(filepath.Dir(adagrad), name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// spoils breaks the label of a record when the job has started: a job with an error that is
// found earlier does not start.
type spoils struct {
	quiet
	name   string
	record int
}

func (s *spoils) Started(Info) error {
	f, err := os.OpenFile(s.name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteAt([]byte{7}, int64(s.record)*160)
	return err
}

// A model whose weights are no numbers has no digest, even if no loss shows it.
func TestSpoiltWeights(t *testing.T) {
	dir := copyCase(t)
	name := filepath.Join(dir, "init.safetensors")
	f, err := safetensors.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	bias, _ := f.Tensor("top_l.0.bias")
	_, at, _ := bias.Outer()
	f.Close()
	b, _ := os.ReadFile(name)
	copy(b[at:], []byte{0, 0, 0x80, 0x7f}) // +Inf
	if err := os.WriteFile(name, b, 0o644); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(filepath.Join(dir, "config.toml"), []string{"data.eval=[]", "job.ranks=2"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Run(env.Real(), cfg, Options{EvalOnly: true, Observer: &quiet{}, Stop: func() bool { return false }})
	if err == nil || !strings.Contains(err.Error(), "top_l.0.bias[0] is not a finite number") {
		t.Fatalf("%v", err)
	}
}

// Bad data on one rank ends all ranks with that rank's error.
func TestBadRecordEndsAllRanks(t *testing.T) {
	r := seeded(t)
	for name, record := range map[string]int{"train.bin": 1700, "eval.bin": 1900} {
		for readers := range 3 { // they meet it in place of those that train
			dir := copyCase(t)
			o := Options{Observer: &spoils{name: filepath.Join(dir, name), record: record}, Stop: func() bool { return false }}
			cfg, err := config.Load(filepath.Join(dir, "config.toml"), append(anySets(r), "job.out="+t.TempDir(), "job.ranks=4",
				"train.eval_every=2", fmt.Sprintf("ranks.readers=%d", readers)))
			if err != nil {
				t.Fatal(err)
			}
			within(t, 20*time.Second, func() { _, err = Run(env.Real(), cfg, o) })
			if !errors.Is(err, data.ErrInput) || errors.As(err, new(*transport.PeerLost)) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s, %d readers: %v", name, readers, err)
			}
		}
	}
}

func TestInitFromAnotherModel(t *testing.T) {
	for sets, words := range map[string]string{
		"model.bottom_mlp=[64,16]":            "bot_l.",
		"model.init_from=config.toml":         "safetensors",
		"model.init_from=missing.safetensors": "missing.safetensors",
	} {
		err := fails(t, adagrad, sets)
		if !errors.Is(err, config.ErrInvalid) || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v", sets, err)
		}
	}
}

// The last batch of an epoch may have fewer samples than there are ranks; ranks
// without samples take part all the same.
func TestLastBatchSmallerThanRanks(t *testing.T) {
	sets := []string{"train.iterations=0", "train.epochs=1", "train.global_batch=349"} // 3840 = 11*349 + 1
	want := run(t, Options{}, adagrad, append(sets, "job.ranks=1")...)
	if want.Steps != 12 {
		t.Fatalf("%d steps, want 12", want.Steps)
	}
	for _, ranks := range []int{2, 3, 5} {
		got := run(t, Options{}, adagrad, append(sets, fmt.Sprintf("job.ranks=%d", ranks))...)
		for i, l := range want.TrainLoss {
			if d := math.Abs(got.TrainLoss[i] - l); !(d < 1e-5) {
				t.Errorf("%d ranks, step %d: loss %v, on one rank %v", ranks, i+1, got.TrainLoss[i], l)
			}
		}
	}
}

// A saved model evaluates as it did when it was saved, on any number of ranks,
// and evaluation changes nothing.
func TestSavedModelEvaluatesTheSame(t *testing.T) {
	saved := filepath.Join(t.TempDir(), "model.safetensors")
	trained := run(t, Options{SaveTo: saved}, adagrad, "job.ranks=2", "train.eval_every=10")
	if n := len(trained.Eval); n != 3 { // steps 10, 20 and, at the end, 30
		t.Fatalf("%d evaluations", n)
	}
	if plain := run(t, Options{}, adagrad, "job.ranks=2"); plain.Digest != trained.Digest {
		t.Errorf("evaluating in between changes the digest")
	}
	want := trained.Eval[2]
	for _, ranks := range []int{1, 2, 5} {
		got := run(t, Options{EvalOnly: true}, adagrad, "model.init_from="+saved, fmt.Sprintf("job.ranks=%d", ranks)).Eval[0]
		if got.AUC != want.AUC || math.Abs(got.Logloss-want.Logloss) > 1e-12 {
			t.Errorf("%d ranks: %+v, want %+v", ranks, got, want)
		}
	}
}

func TestTooLittleMemoryIsSaidBefore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.toml")
	write := func(tables int) {
		text := fmt.Sprintf("[data]\nformat = \"synthetic\"\n[model]\nembedding_dim = 1\nbottom_mlp = [1]\ntop_mlp = [1]\ntables = [%s]\n[train]\niterations = 1\nglobal_batch = 4096\n[optimizer.sparse]\nkind = \"adam\"\n",
			strings.Repeat("4000000000, ", tables))
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const width = "1048576" // the widest
	for _, c := range []struct {
		tables int
		sets   []string
		word   string
	}{
		{1, []string{"job.ranks=2", "model.embedding_dim=64", "model.bottom_mlp=[64]"}, "memory: "},
		{1, []string{"job.ranks=1"}, "use more job.ranks"},
		{270, []string{"job.ranks=4096", "model.embedding_dim=" + width, "model.bottom_mlp=[" + width + "]"}, "memory: "}, // more than 2^63 bytes
	} {
		write(c.tables)
		err := fails(t, path, c.sets...)
		if !errors.Is(err, config.ErrInvalid) || !strings.Contains(err.Error(), c.word) {
			t.Errorf("%d tables, %v: %v", c.tables, c.sets, err)
		}
	}
}

func TestScheduleOfTheReference(t *testing.T) {
	s := Schedule{LR: 2, Warmup: 4, DecayStart: 10, DecaySteps: 4}
	want := map[int64]float64{1: 0.5, 3: 1.5, 4: 1.5, 9: 1.5, 10: 2, 11: 2 * 9. / 16, 13: 2. / 16, 14: 2. / 16, 100: 2. / 16}
	for step, lr := range want {
		if got := s.At(step).LR; got != float32(lr) {
			t.Errorf("step %d: %v, want %v", step, got, lr)
		}
	}
}

// within fails the test when f does not return: a hang is a failure, not a wait.
func within(t *testing.T, d time.Duration, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(d):
		t.Fatal("it hangs")
	}
}

// A job that is stopped does not wait for batches that cannot be read: those
// were only prepared ahead.
func TestStopBeforeABadRecord(t *testing.T) {
	const last, batch, ranks = 5, 128, 3
	r := seeded(t)
	for ahead := 1; ahead <= feed.WorkAhead; ahead++ {
		for bad := range ranks {
			dir := copyCase(t)
			spoil := &spoils{name: filepath.Join(dir, "train.bin"), record: (last+ahead-1)*batch + bad*batch/ranks} // the rank's first sample
			var asked atomic.Int64
			stop := func() bool { return asked.Add(1) > ranks*(last-1) }
			within(t, 20*time.Second, func() {
				got := run(t, Options{Stop: stop, Observer: spoil}, filepath.Join(dir, "config.toml"), append(anySets(r), "job.ranks=3")...)
				if !got.Stopped || got.Steps != last || len(got.Eval) != 1 || got.Digest == "" {
					t.Errorf("bad record %d steps ahead: stopped %v after %d steps, digest %q", ahead, got.Stopped, got.Steps, got.Digest)
				}
			})
		}
	}
}

// An evaluation alone has nothing to save: it stops at once.
func TestStopOfAnEvaluation(t *testing.T) {
	cfg, err := config.Load(adagrad, []string{"job.out=" + t.TempDir(), "job.ranks=3"})
	if err != nil {
		t.Fatal(err)
	}
	within(t, 20*time.Second, func() {
		_, err = Run(env.Real(), cfg, Options{Observer: &quiet{}, EvalOnly: true, Stop: func() bool { return true }})
	})
	if !errors.Is(err, ErrStopped) {
		t.Errorf("got %v", err)
	}
}

// A stop at the last step has no effect.
func TestStopAtTheLastStep(t *testing.T) {
	var asked atomic.Int64
	stop := func() bool { return asked.Add(1) > 2*2 }
	got := run(t, Options{Stop: stop}, adagrad, "job.ranks=2", "train.iterations=3")
	if got.Stopped || got.Steps != 3 {
		t.Errorf("stopped %v after %d of 3 steps", got.Stopped, got.Steps)
	}
}

// failing is a stream whose Sync fails.
type failing struct{ kernels.Stream }

var errDevice = errors.New("the device is lost")

func (failing) Sync() error { return errDevice }

// Started is called when every rank has read and allocated everything. If a rank fails before,
// nothing has been written.
func TestStartedComesAfterAllRanksAreReady(t *testing.T) {
	cfg, err := config.Load(adagrad, []string{"job.out=" + t.TempDir(), "job.ranks=3"})
	if err != nil {
		t.Fatal(err)
	}
	e, q := env.Real(), &quiet{}
	_, err = Run(e, cfg, Options{Observer: q, Stop: func() bool { return false }, WrapStream: func(rank int, s kernels.Stream) kernels.Stream {
		if rank == 2 {
			e.Sleep(100 * time.Millisecond) // the others are ready long before
			return failing{s}
		}
		return s
	}})
	if !errors.Is(err, errDevice) || errors.As(err, new(*transport.PeerLost)) {
		t.Errorf("got %v", err)
	}
	if q.info.Ranks != 0 {
		t.Error("the job was said to have started")
	}
}

// A job that cannot save its model fails, on all ranks. Its digest holds.
func TestModelCannotBeSaved(t *testing.T) {
	cfg, err := config.Load(adagrad, []string{"job.out=" + t.TempDir(), "job.ranks=3", "train.iterations=2"})
	if err != nil {
		t.Fatal(err)
	}
	within(t, 20*time.Second, func() {
		got, err := Run(env.Real(), cfg, Options{Observer: &quiet{}, Stop: func() bool { return false },
			SaveTo: filepath.Join(t.TempDir(), "none", "model.safetensors")})
		if !errors.Is(err, os.ErrNotExist) || errors.As(err, new(*transport.PeerLost)) {
			t.Errorf("got %v", err)
		}
		if want := run(t, Options{}, adagrad, "job.ranks=3", "train.iterations=2").Digest; got.Digest != want ||
			got.Steps != 2 || len(got.TrainLoss) != 2 {
			t.Errorf("after %d steps: digest %q, losses %v", got.Steps, got.Digest, got.TrainLoss)
		}
	})
}
