package train

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/cuda/standin"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/transport"
)

const deepfm = "testdata/golden/deepfm-sgd/config.toml"

// busy lets deepfm have all that it can have: batch norm, dropout and vectors of dense features.
var busy = []string{"model.init_from=", "model.dropout=0.3", "model.dense_embedding=true", "job.ranks=3", "train.iterations=6"}

// TestDeepFMOnEveryProcessor trains deepfm with everything on plain Go, vectors and a GPU, and in
// all ways of moving rows.
func TestDeepFMOnEveryProcessor(t *testing.T) {
	want := run(t, Options{}, deepfm, append(busy, "cache.mode=none", "job.device=cpu")...)
	same := func(what string, sets ...string) {
		t.Helper()
		got := run(t, Options{}, deepfm, append(busy[:len(busy):len(busy)], sets...)...)
		if got.Digest != want.Digest || fmt.Sprint(got.TrainLoss, got.Eval) != fmt.Sprint(want.TrainLoss, want.Eval) {
			t.Errorf("%s: digest %s, losses %v, %v; want %s, %v, %v", what, got.Digest, got.TrainLoss, got.Eval, want.Digest, want.TrainLoss, want.Eval)
		}
	}
	for _, isa := range []string{"plain", "avx2", "avx512"} {
		t.Setenv("ECREC_CPU", isa)
		same(isa, "job.device=cpu", "job.threads=5")
	}
	t.Setenv("ECREC_CPU", "")
	same("coded", "job.device=cpu", "cache.mode=lrpp", "ec.code=xor", "ec.k=2", "ec.commit_every=2")
	standin.Use(t, kernels.CUDASource(), 1)
	same("a GPU", "job.device=cuda", "cache.mode=lrpp", "ec.code=xor", "ec.k=2", "ec.commit_every=2")
}

// TestDropoutIsIndependentOfRanks compares the losses of runs on other numbers of ranks: only the
// order of sums may differ.
func TestDropoutIsIndependentOfRanks(t *testing.T) {
	var want []float64
	for _, ranks := range []string{"job.ranks=1", "job.ranks=2", "job.ranks=5"} {
		got := run(t, Options{}, deepfm, append(busy, ranks)...).TrainLoss
		for i := range want {
			if !(math.Abs(got[i]-want[i]) < 1e-5) {
				t.Errorf("%s: loss %v in step %d, with one rank %v", ranks, got[i], i+1, want[i])
			}
		}
		want = got
	}
	if got := run(t, Options{}, deepfm, append(busy, "model.dropout=0.31")...).TrainLoss; math.Abs(got[0]-want[0]) < 1e-5 {
		t.Error("another rate of dropout gives the same loss")
	}
}

// TestBatchOfOne ends an epoch with a batch of one sample: its batch norm has no variance. The
// step moves the running mean and leaves the running variance.
func TestBatchOfOne(t *testing.T) {
	const batches = 19 // of 101 samples: of 1920 one is left
	for _, ranks := range []string{"job.ranks=1", "job.ranks=3"} {
		before, after := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
		sets := []string{ranks, "train.global_batch=101", "data.eval=[]"}
		run(t, Options{SaveTo: before}, deepfm, append(sets, fmt.Sprint("train.iterations=", batches))...)
		got := run(t, Options{SaveTo: after}, deepfm, append(sets, fmt.Sprint("train.iterations=", batches+1))...)
		if l := got.TrainLoss[batches]; math.IsNaN(l) || l > 10 {
			t.Errorf("%s: the loss of one sample is %v", ranks, l)
		}
		a, b := openTensors(t, before), openTensors(t, after)
		for i := range 3 {
			mean, variance := fmt.Sprintf("bn.%d.running_mean", i), fmt.Sprintf("bn.%d.running_var", i)
			if slices.Equal(a[mean], b[mean]) || !slices.Equal(a[variance], b[variance]) {
				t.Errorf("%s: %s %v, then %v; the variance %v, then %v", ranks, mean, a[mean], b[mean], a[variance], b[variance])
			}
		}
	}
}

// TestFailuresWithinPasses lets one rank fail at many moments of a short job whose passes add up
// over the ranks. Every time the job ends with that failure.
func TestFailuresWithinPasses(t *testing.T) {
	const ranks = 2
	sets := append(busy[:len(busy):len(busy)], "job.out="+t.TempDir(), fmt.Sprint("job.ranks=", ranks), "train.iterations=1", "data.eval=[]")
	ended := 0
	for n := int64(0); ended < ranks; n++ {
		ended = 0
		for bad := range ranks {
			cfg, err := config.Load(deepfm, sets)
			if err != nil {
				t.Fatal(err)
			}
			var left atomic.Int64
			left.Store(n)
			o := Options{Observer: &quiet{}, Stop: func() bool { return false },
				WrapStream: func(rank int, s kernels.Stream) kernels.Stream {
					if rank == bad {
						return failingAt{s, &left}
					}
					return s
				}}
			within(t, 20*time.Second, func() { _, err = Run(env.Real(), cfg, o) })
			switch {
			case err == nil:
				ended++ // it needs no more Syncs
			case !errors.Is(err, errDevice) || errors.As(err, new(*transport.PeerLost)):
				t.Fatalf("rank %d at its Sync %d: %v", bad, n, err)
			}
		}
	}
}

// TestCheckpointsOfStatistics checks that a checkpoint of running averages names what its reader
// must support.
func TestCheckpointsOfStatistics(t *testing.T) {
	for path, want := range map[string]bool{deepfm: true, adagrad: false} {
		dir := t.TempDir()
		run(t, Options{}, path, "train.iterations=2", "checkpoint.dir="+dir)
		found, err := filepath.Glob(filepath.Join(dir, "*", "manifest.json"))
		if err != nil || len(found) != 1 {
			t.Fatal(found, err)
		}
		text, err := os.ReadFile(found[0])
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(text), `"statistics"`); got != want {
			t.Errorf("%s: a manifest that names statistics: %v, want %v", path, got, want)
		}
	}
}

// TestUnreadColumns trains deepfm on a file with columns of numbers. Without vectors for them it
// warns.
func TestUnreadColumns(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "run.toml")
	for name, text := range map[string]string{
		"a.csv": "label,x,c\n1,2,3\n0,1,4\n1,1,3\n0,5,4\n",
		"run.toml": "[data]\nformat = \"csv\"\ntrain = [\"a.csv\"]\n[data.csv]\ndense = [\"x\"]\ncategorical = [\"c\"]\n" +
			"[model]\nkind = \"deepfm\"\ntables = [9]\ntop_mlp = [4, 1]\n[train]\nglobal_batch = 2\niterations = 2\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for set, want := range map[string]int{"model.dense_embedding=false": 1, "model.dense_embedding=true": 0} {
		w := &warned{}
		run(t, Options{Observer: w}, path, set)
		if len(w.said) != want || want > 0 && !strings.Contains(w.said[0], "model.dense_embedding") {
			t.Errorf("%s: warned %q", set, w.said)
		}
	}
}
