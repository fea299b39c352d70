package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/ecrec/ecrec/internal/cuda/standin"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/train/traintest"
)

// TestKilledForms kills ranks of jobs of each form of a model by SIGKILL. Losses, evaluations, digest and saved model are those of
// one process with plain kernels, without losses, caches and a code.
func TestKilledForms(t *testing.T) {
	r := drawing(t)
	for _, f := range few(r, traintest.Forms, 4) {
		seed := r.Uint64()
		t.Run(f.Name, func(t *testing.T) { testKilledForm(t, f, rand.New(rand.NewPCG(seed, 0))) })
	}
}

// TestKilledFormsOnGPUs does so with ranks that compute on a GPU.
func TestKilledFormsOnGPUs(t *testing.T) {
	r := drawing(t)
	ecrec(t) // before Use sets another build cache
	standin.Use(t, kernels.CUDASource(), 1)
	for _, f := range few(r, traintest.Forms, 1) {
		seed := r.Uint64()
		t.Run(f.Name, func(t *testing.T) { testKilledForm(t, f, rand.New(rand.NewPCG(seed, 0)), "job.device=cuda") })
	}
}

func testKilledForm(t *testing.T, f traintest.Form, r *rand.Rand, sets ...string) {
	config, whole, out := traintest.WriteJob(t), filepath.Join(t.TempDir(), "whole"), filepath.Join(t.TempDir(), "out")
	common := append([]string{"job.ranks=4", "train.iterations=40", "train.eval_every=15", "train.keep=last"}, f.Sets...)
	plain := append(common[:len(common):len(common)], "cache.mode=none", "job.device=cpu")
	if got := run(t, ecrec(t), []string{"ECREC_CPU=plain"}, train(config, whole, plain...)...); got.code != 0 {
		t.Fatal(got.stderr)
	}
	code := pick(r, [][]string{{"ec.code=xor", "ec.k=3"}, {"ec.code=rs", "ec.k=2", "ec.r=2"}})
	killed := append(append(append(common[:len(common):len(common)], pick(r, killedModes)...), code...), "ec.commit_every=4")
	args := append(train(config, out, append(killed, sets...)...), "--np", "4")
	for _, step := range []int{6, 27} {
		args = append(args, "--chaos", fmt.Sprintf("kill:%d@%d:%s", r.IntN(4), step+r.IntN(6), pick(r, alwaysMet)))
	}
	got := run(t, ecrec(t), nil, args...)
	if got.code != 0 {
		t.Fatalf("%q: exit code %d\n%s", args, got.code, got.stderr)
	}
	s := readSummary(t, out)
	equal(t, fmt.Sprintf("%q", args), s, readSummary(t, whole))
	if n := losses(got.stderr); n != 2 || len(s.Recoveries) == 0 {
		t.Errorf("%q: %d losses and %d recoveries, want 2\n%s", args, n, len(s.Recoveries), got.stderr)
	}
	a, errA := os.ReadFile(filepath.Join(whole, "model.safetensors"))
	b, errB := os.ReadFile(filepath.Join(out, "model.safetensors"))
	if errA != nil || errB != nil || !bytes.Equal(a, b) {
		t.Errorf("%q: the saved models differ (%v, %v)", args, errA, errB)
	}
}
