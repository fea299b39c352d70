package traintest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ecrec/ecrec/checkpoint"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/safetensors"
	"github.com/ecrec/ecrec/lrpp"
	"github.com/ecrec/ecrec/model"
	"github.com/ecrec/ecrec/sim"
	"github.com/ecrec/ecrec/train"
	"github.com/ecrec/ecrec/train/modelfile"
)

// simulated is how many simulated clusters train the kind, and simulatedShort how many of them do in short tests.
const simulated, simulatedShort = 12, 3

// Kind runs the suite on the model kind that the sets ("model.kind=...") choose, for
// samples of 3 numbers and 3 categories. The model has few weights, so that a job
// takes milliseconds.
func Kind(t *testing.T, sets ...string) { KindWithTables(t, 1, sets...) }

// KindWithTables is Kind for a model kind that needs more than one table: least, at most 3. The
// simulated clusters of Kind draw from 1 to 4.
func KindWithTables(t *testing.T, least int, sets ...string) { runSuite(t, newJobs(t, sets), least) }

// KindInModes is Kind for sets that only some cache modes allow.
func KindInModes(t *testing.T, modes []string, sets ...string) {
	j := newJobs(t, sets)
	j.modes = modes
	runSuite(t, j, 1)
}

// KindWithoutCode is KindInModes for sets that allow no erasure code: no rank is lost.
func KindWithoutCode(t *testing.T, modes []string, sets ...string) {
	j := newJobs(t, sets)
	j.modes, j.uncoded = modes, true
	runSuite(t, j, 1)
}

func runSuite(t *testing.T, j *jobs, least int) {
	t.Run("Ranks", j.testRanks)
	t.Run("Resume", j.testResume)
	t.Run("File", j.testFile)
	if j.uncoded {
		return
	}
	t.Run("Losses", func(t *testing.T) { testLosses(t, least, j) })
}

// Losses is the part of KindWithTables that loses ranks.
func Losses(t *testing.T, least int, sets ...string) { testLosses(t, least, newJobs(t, sets)) }

// Features is Kind without losses, for sets with lists that have an entry for each of the 3
// categories.
func Features(t *testing.T, sets ...string) {
	j := newJobs(t, sets)
	j.uncoded = true
	runSuite(t, j, 1)
}

// Digest trains the job of Kind on two ranks, and returns the digest.
func Digest(t *testing.T, sets ...string) string {
	t.Helper()
	return DigestOn(t, 2, sets...)
}

// DigestOn is Digest on a number of ranks.
func DigestOn(t *testing.T, ranks int, sets ...string) string {
	t.Helper()
	return newJobs(t, sets).train(t, 1, ranks, train.Options{}).Digest
}

// SameOnGPU trains the job of Kind on three ranks on CPUs, then on a GPU in two ways, which must have the same result.
func SameOnGPU(t *testing.T, sets ...string) {
	t.Helper()
	j := newJobs(t, sets)
	want := j.train(t, 1, 3, train.Options{}, "job.device=cpu", "cache.mode=none")
	for _, way := range [][]string{{"cache.mode=none"}, {"cache.mode=lrpp", "ec.code=xor", "ec.k=2", "ec.commit_every=2"}} {
		j.checkSame(t, want, fmt.Sprint(way), j.train(t, 1, 3, train.Options{}, append(way, "job.device=cuda")...))
	}
}

// checkSame compares the results of two ways to train the job.
func (j *jobs) checkSame(t *testing.T, want *train.Result, way string, got *train.Result) {
	t.Helper()
	if got.Digest != want.Digest || !slices.Equal(got.TrainLoss, want.TrainLoss) || !slices.Equal(got.Eval, want.Eval) {
		t.Errorf("%s: digest %s, losses %v, %v; want %s, %v, %v", way, got.Digest, got.TrainLoss, got.Eval, want.Digest, want.TrainLoss, want.Eval)
	}
}

// testRanks trains on 1 to 4 ranks. Neither the cache mode, nor how ranks are spread
// over processes, nor the number of threads changes a bit. Short tests train on one number of ranks, at least 2.
func (j *jobs) testRanks(t *testing.T) {
	some := []int{1, 2, 3, 4}
	if testing.Short() {
		some = []int{2 + rand.IntN(3)}
	}
	for _, ranks := range some {
		want := j.train(t, 1, ranks, train.Options{}, "cache.mode=none")
		for _, mode := range lrpp.Modes {
			if j.modes != nil && !slices.Contains(j.modes, mode.Name) {
				continue
			}
			for _, processes := range slices.Compact([]int{1, ranks}) {
				got := j.train(t, processes, ranks, train.Options{}, "cache.mode="+mode.Name, fmt.Sprint("job.threads=", 1+processes%2))
				j.checkSame(t, want, fmt.Sprintf("%d ranks in %d processes, cache.mode %s", ranks, processes, mode.Name), got)
			}
		}
	}
}

// testResume trains in two halves, with a checkpoint between them.
func (j *jobs) testResume(t *testing.T) {
	const ranks = 3
	want := j.train(t, 1, ranks, train.Options{})
	dir := "checkpoint.dir=" + t.TempDir()
	j.train(t, 1, ranks, train.Options{}, dir, fmt.Sprint("train.iterations=", iterations/2))
	if got := j.train(t, 1, ranks, train.Options{Resume: "auto"}, dir); got.Digest != want.Digest {
		t.Errorf("resumed: digest %s, want %s", got.Digest, want.Digest)
	}
}

// testFile checks the tensors of the final model, those of an export, and that a
// model that is loaded scores as the one that was saved.
func (j *jobs) testFile(t *testing.T) {
	saved, dir := filepath.Join(t.TempDir(), "model.safetensors"), t.TempDir()
	want := j.train(t, 1, 2, train.Options{SaveTo: saved}, "checkpoint.dir="+dir, "train.keep=last")
	j.checkTensors(t, saved)
	exported := filepath.Join(t.TempDir(), "export.safetensors")
	export(t, dir, exported, want.Digest)
	a, errA := os.ReadFile(saved)
	b, errB := os.ReadFile(exported)
	if errA != nil || errB != nil || !bytes.Equal(a, b) {
		t.Errorf("%v, %v: the export of the last checkpoint is not the model that the job saved", errA, errB)
	}
	for ranks := 1; ranks <= 3; ranks++ {
		got := j.train(t, 1, ranks, train.Options{EvalOnly: true}, "model.init_from="+saved)
		if n := len(want.Eval) - 1; got.Eval[0].AUC != want.Eval[n].AUC {
			t.Errorf("loaded on %d ranks: %+v, want %+v", ranks, got.Eval[0], want.Eval[n])
		}
	}
}

// checkTensors compares the names and shapes of a file's tensors with the shape of
// the model.
func (j *jobs) checkTensors(t *testing.T, path string) {
	t.Helper()
	cfg := j.load(t, 1)
	shape, want := model.ShapeOf(cfg.ModelConfig()), map[string][]int64{}
	for _, x := range append(shape.Tensors, shape.Statistics...) {
		want[x.Name] = x.Shape()
	}
	for _, part := range shape.Row {
		for table, rows := range cfg.Model.TableRows() {
			want[part.Tensor(table)] = []int64{rows, int64(part.Width)}
		}
	}
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if len(f.Tensors()) != len(want) {
		t.Errorf("%d tensors in the file, want %d", len(f.Tensors()), len(want))
	}
	for _, x := range f.Tensors() {
		if !slices.Equal(x.Shape, want[x.Name]) {
			t.Errorf("%s is %v in the file, want %v", x.Name, x.Shape, want[x.Name])
		}
	}
}

// export writes the newest checkpoint of a folder, whose model has a digest, as a model file.
func export(t *testing.T, dir, to, digest string) {
	t.Helper()
	c, _, err := checkpoint.Find(env.Real(), dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	out, err := safetensors.Create(to, c.Specs(), modelfile.DescribeRun(c.Run, c.Step, digest, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Abort()
	if err := c.WriteTensors(out); err != nil {
		t.Fatal(err)
	}
	if err := out.Commit(); err != nil {
		t.Fatal(err)
	}
}

// testLosses trains in simulated clusters that lose ranks. sim.Run compares each
// with the same job without losses.
func testLosses(t *testing.T, least int, j *jobs) {
	d, err := sim.NewData(t.TempDir(), j.sets...)
	if err != nil {
		t.Fatal(err)
	}
	d.LeastTables, d.CacheModes = least, j.modes
	var sum sim.Sum
	seeds := rand.Perm(simulated)
	if testing.Short() {
		seeds = seeds[:simulatedShort]
	}
	for _, seed := range seeds {
		o, err := sim.Run(d, uint64(seed), sim.Options{Mode: sim.Liveness})
		if err != nil {
			t.Fatal(err)
		}
		sum.Add(o)
	}
	t.Logf("%v", &sum)
}

// load loads the config of a job.
func (j *jobs) load(t *testing.T, ranks int, sets ...string) *config.Config {
	t.Helper()
	all := slices.Concat(j.sets, []string{"job.out=" + t.TempDir(), fmt.Sprint("job.ranks=", ranks)}, sets)
	cfg, err := config.Load(j.path, all)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}
