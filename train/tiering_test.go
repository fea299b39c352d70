package train

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// anyTier draws whether rows are on the disk, and how many of them are in memory.
func anyTier(r *rand.Rand, sets []string) (with []string, frames int) {
	if r.IntN(2) == 0 {
		return sets, 0
	}
	return append(slices.Clone(sets), "store.tier=file", "store.dram_bytes=1GiB"), 1 + r.IntN(1+r.IntN(600))
}

// TestTieredRows: the result of a job does not depend on how many rows are in memory. Ranks, cache, optimizer, code, roles and saves are drawn.
func TestTieredRows(t *testing.T) {
	const steps = 20
	r := seeded(t)
	for n := range fewerInRaces(9) {
		ranks := []int{1, 2, 4}[n%3]
		sets := slices.Concat(anySets(r), []string{fmt.Sprint("job.ranks=", ranks), fmt.Sprint("train.iterations=", steps), "train.eval_every=7",
			fmt.Sprint("job.digests=", r.IntN(2) == 0), fmt.Sprint("ec.commit_every=", 1+r.IntN([]int{5, 1000}[r.IntN(2)]))})
		if ranks > 1 && r.IntN(2) == 0 {
			sets = append(sets, "ec.code=xor", "ec.k=1")
		} else {
			sets = append(sets, "ec.code=none")
		}
		if r.IntN(2) == 0 {
			sets = append(sets, "model.init_from=")
		}
		dir := t.TempDir()
		saves := []string{"checkpoint.every=6", "checkpoint.dir=" + filepath.Join(dir, "dram")}
		want := run(t, Options{}, adagrad, append(slices.Clone(sets), saves...)...)
		for k, frames := range []int{1 + r.IntN(30), 1 + r.IntN(3000)} {
			sets := append(slices.Clone(sets), "checkpoint.every=6", "checkpoint.dir="+filepath.Join(dir, fmt.Sprint(k)), "store.tier=file",
				"store.dram_bytes=1GiB", "store.path="+filepath.Join(dir, fmt.Sprint("store", k)))
			meter := &Meter{}
			got := run(t, Options{Frames: frames, Meter: meter}, adagrad, sets...)
			read, spilled := meter.Rows[ClassRead].Load(), meter.Rows[ClassSpill].Load()
			if read == 0 && frames < 10 || meter.Bytes[ClassRead].Load() < read || meter.Bytes[ClassSpill].Load() < spilled {
				t.Errorf("%d frames: %d rows were read, and %d spilled", frames, read, spilled)
			}
			if got.Digest != want.Digest || !slices.Equal(got.TrainLoss, want.TrainLoss) || !slices.Equal(got.Eval, want.Eval) {
				t.Fatalf("%d frames, %v:\ndigest %s, want %s; losses %v, want %v; evaluations %v, want %v", frames, sets, got.Digest, want.Digest,
					got.TrainLoss, want.TrainLoss, got.Eval, want.Eval)
			}
		}
	}
}

// TestEarlyCommits: all ranks end an epoch once it has written much of the rows in the memory of one. The commit has the digest of a run
// that ends there.
func TestEarlyCommits(t *testing.T) {
	const steps = 20
	r := seeded(t)
	for _, ranks := range []int{1, 3} {
		sets := append(anySets(r), fmt.Sprint("job.ranks=", ranks), "job.digests=true", "ec.commit_every=1000")
		length := fmt.Sprint("train.iterations=", steps)
		tier := []string{"store.tier=file", "store.dram_bytes=1GiB"}
		commits, early := [2]*commitLog{}, []int64(nil)
		meters := [2]*Meter{{}, {}}
		for i := range commits {
			commits[i] = newCommitLog(t)
			// More frames than the ranks have rows, and a few.
			run(t, Options{Frames: []int{1 << 20, 5000 / ranks}[i], Observer: commits[i], Meter: meters[i]}, adagrad,
				slices.Concat(sets, tier, []string{length, "store.path=" + t.TempDir()})...)
		}
		for step := range commits[1].digests {
			if step > 0 && step < steps {
				early = append(early, step)
			}
		}
		if len(commits[0].digests) != 2 || len(early) == 0 || commits[0].digests[steps] != commits[1].digests[steps] {
			t.Fatalf("%d ranks: commits %v, and with few frames %v", ranks, commits[0].digests, commits[1].digests)
		}
		step := early[r.IntN(len(early))]
		want := run(t, Options{}, adagrad, append(sets, fmt.Sprint("train.iterations=", step))...).Digest
		if got := commits[1].digests[step]; got != want {
			t.Errorf("%d ranks: the commit of step %d has digest %s, want %s", ranks, step, got, want)
		}
		t.Logf("%d ranks: %d early commits, %d rows spilled", ranks, len(early), meters[1].Rows[ClassSpill].Load())
	}
}

// TestTieredEvaluation: a job that only evaluates a model need not have its rows in memory, and leaves no file behind.
func TestTieredEvaluation(t *testing.T) {
	saved, rows := filepath.Join(t.TempDir(), "model.safetensors"), filepath.Join(t.TempDir(), "rows")
	trained := run(t, Options{SaveTo: saved}, adagrad, "job.ranks=2")
	want := trained.Eval[len(trained.Eval)-1]
	for _, ranks := range []int{1, 2, 5} {
		got := run(t, Options{EvalOnly: true, Frames: 30}, adagrad, "model.init_from="+saved, fmt.Sprint("job.ranks=", ranks), "store.tier=file",
			"store.dram_bytes=1GiB", "store.path="+rows).Eval[0]
		if got.AUC != want.AUC || math.Abs(got.Logloss-want.Logloss) > 1e-12 {
			t.Errorf("%d ranks: %+v, want %+v", ranks, got, want)
		}
	}
	if left, err := os.ReadDir(rows); err != nil || len(left) > 0 { // rows that did not fit were there
		t.Errorf("%v %v are left", err, left)
	}
}
