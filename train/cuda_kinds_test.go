package train

import (
	"fmt"
	"testing"

	"github.com/ecrec/ecrec/internal/cuda/standin"
	"github.com/ecrec/ecrec/kernels"
)

// TestKindsOnGPUs checks that a GPU computes the bits of a CPU for the kinds and forms of models that
// no golden run has.
func TestKindsOnGPUs(t *testing.T) {
	standin.Use(t, kernels.CUDASource(), 1)
	const wdl, dcn, deepfm = "testdata/golden/wdl-adagrad/config.toml", "testdata/golden/dcn-adam/config.toml", "testdata/golden/deepfm-sgd/config.toml"
	for _, c := range []struct {
		path string
		sets []string
	}{
		{wdl, nil},
		{wdl, []string{"model.linear=true", "model.bottom_mlp=[]", "model.top_mlp=[9, 1]"}},
		{dcn, nil},
		{dcn, []string{"model.cross=vector", "model.structure=parallel"}},
		{dcn, []string{"model.cross=full"}},
		{dcn, []string{"model.cross=full", "model.structure=parallel", "model.batch_norm=true", "model.dropout=0.25"}},
		{deepfm, []string{"model.dropout=0.25", "model.dense_embedding=true"}},
		{adagrad, []string{"model.interaction=cat"}},
		{adagrad, []string{"model.interaction=sum"}},
	} {
		sets := append([]string{"train.iterations=3", "job.ranks=2", "model.init_from=", "data.eval=[]"}, c.sets...)
		want := run(t, Options{}, c.path, append(sets, "job.device=cpu")...)
		got := run(t, Options{}, c.path, append(sets, "job.device=cuda")...)
		if got.Digest != want.Digest || fmt.Sprint(got.TrainLoss) != fmt.Sprint(want.TrainLoss) {
			t.Errorf("%s %v: digest %s, losses %v; on the CPU %s, %v", c.path, c.sets, got.Digest, got.TrainLoss, want.Digest, want.TrainLoss)
		}
	}
}

// TestLongListsOnGPUs checks that steps use the right long lists, which are copied to a GPU ahead of them: bags of 214 ids a
// sample, on one rank and on two.
func TestLongListsOnGPUs(t *testing.T) {
	standin.Use(t, kernels.CUDASource(), 1)
	for _, ranks := range []string{"job.ranks=2", "job.ranks=1"}[:fewerInRaces(2)] {
		sets := []string{ranks, "train.iterations=4", "train.global_batch=11000", "data.format=synthetic", "data.train=[]", "data.eval=[]", "data.hots=mlperf",
			"model.init_from=", "model.embedding_dim=2", "model.bottom_mlp=[4, 2]", "model.top_mlp=[4, 1]"}
		want := run(t, Options{}, adagrad, append(sets, "job.device=cpu")...)
		got := run(t, Options{}, adagrad, append(sets, "job.device=cuda")...)
		if got.Digest != want.Digest || fmt.Sprint(got.TrainLoss) != fmt.Sprint(want.TrainLoss) {
			t.Errorf("%s: digest %s, losses %v; on the CPU %s, %v", ranks, got.Digest, got.TrainLoss, want.Digest, want.TrainLoss)
		}
	}
}
