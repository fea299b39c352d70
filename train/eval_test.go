package train

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/safetensors"
)

// A model whose products overflow has no evaluation, though all its weights are finite.
func TestEvaluationOfInfiniteLogits(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/golden/wdl-adagrad")); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "init.safetensors")
	f, err := safetensors.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := os.ReadFile(name)
	for _, x := range f.Tensors() {
		if _, at, n := x.Outer(); !strings.HasPrefix(x.Name, "emb_l") {
			for ; n > 0; n, at = n-4, at+4 {
				binary.LittleEndian.PutUint32(b[at:], math.Float32bits(1e10))
			}
		}
	}
	f.Close()
	if err := os.WriteFile(name, b, 0o644); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(filepath.Join(dir, "config.toml"), []string{"job.ranks=2"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := Run(env.Real(), cfg, Options{EvalOnly: true, Observer: &quiet{}, Stop: func() bool { return false }})
	if !errors.Is(err, errNaNPrediction) {
		t.Fatalf("%v, evaluations %v", err, got.Eval)
	}
}
