package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestDeepFMKilled kills processes of a job with batch norm and dropout, at points of a step in
// which ranks add up over each other. Losses, digest and saved model are those of a whole job.
func TestDeepFMKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	whole, out := filepath.Join(t.TempDir(), "whole"), filepath.Join(t.TempDir(), "out")
	sets := []string{"model.init_from=", "model.dropout=0.3", "model.dense_embedding=true", "job.ranks=4", "train.iterations=60",
		"train.eval_every=25", "ec.code=xor", "ec.k=3", "ec.commit_every=7"}
	if r := run(t, ecrec(t), nil, train(golden("deepfm-sgd"), whole, sets...)...); r.code != 0 {
		t.Fatal(r.stderr)
	}
	r := run(t, ecrec(t), nil, append(train(golden("deepfm-sgd"), out, sets...), "--np", "4",
		"--chaos", "kill:1@10:forward", "--chaos", "kill:0@26:backward", "--chaos", "kill:3@42:push")...)
	if r.code != 0 {
		t.Fatal(r.stderr)
	}
	got := readSummary(t, out)
	equal(t, "killed", got, readSummary(t, whole))
	if n := len(got.Recoveries); n != 3 {
		t.Errorf("%d recoveries, want 3", n)
	}
	a, errA := os.ReadFile(filepath.Join(whole, "model.safetensors"))
	b, errB := os.ReadFile(filepath.Join(out, "model.safetensors"))
	if errA != nil || errB != nil || !bytes.Equal(a, b) {
		t.Errorf("the saved models differ (%v, %v)", errA, errB)
	}
}
