package train

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/internal/safetensors"
	"github.com/ecrec/ecrec/kernels"
)

// readWeights reads all tensors of a model file, in float64.
func readWeights(t *testing.T, path string) map[string][]float64 {
	t.Helper()
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all := map[string][]float64{}
	for _, x := range f.Tensors() {
		n := int64(1)
		for _, d := range x.Shape {
			n *= d
		}
		v := make([]float32, n)
		if _, err := x.ReadAt(kernels.BytesOf(v), 0); err != nil {
			t.Fatal(err)
		}
		for _, w := range v {
			all[x.Name] = append(all[x.Name], float64(w))
		}
	}
	return all
}

// TestClippingAgainstPyTorch compares a step of sgd with the formula of
// torch.nn.utils.clip_grad_norm_ on the gradients that a step without clipping shows.
func TestClippingAgainstPyTorch(t *testing.T) {
	const rate = 100
	before, dir := readWeights(t, filepath.Join(filepath.Dir(adagrad), "init.safetensors")), t.TempDir()
	step := func(sets ...string) (map[string][]float64, string) {
		to := filepath.Join(dir, "model.safetensors")
		got := run(t, Options{SaveTo: to}, adagrad, append(sets, "job.ranks=3", "train.iterations=1", "data.eval=[]", "optimizer.dense.kind=sgd",
			"optimizer.sparse.kind=sgd", fmt.Sprint("optimizer.dense.lr=", rate), fmt.Sprint("optimizer.sparse.lr=", rate))...)
		return readWeights(t, to), got.Digest
	}
	free, digest := step()
	for _, key := range []string{"train.clip_norm", "train.clip_dense"} {
		isClipped := func(name string) bool { return key == "train.clip_norm" || !strings.HasPrefix(name, "emb_l") }
		total := 0.0
		for name, w := range before {
			for i := range w {
				if g := (w[i] - free[name][i]) / rate; isClipped(name) {
					total += g * g
				}
			}
		}
		norm := math.Sqrt(total)
		if _, same := step(fmt.Sprintf("%s=%v", key, 1.01*norm)); same != digest {
			t.Errorf("%s: gradients below the limit are changed", key)
		}
		limit := norm / 3
		clipped, _ := step(fmt.Sprintf("%s=%v", key, limit))
		changed := 0
		for name, w := range before {
			for i := range w {
				want := (w[i] - free[name][i]) / rate
				if isClipped(name) {
					want *= limit / (norm + 1e-6)
				}
				if want != 0 {
					changed++
				}
				if got := (w[i] - clipped[name][i]) / rate; math.Abs(got-want) > 1e-4*norm {
					t.Fatalf("%s: the gradient of %s[%d] is %v, want %v (norm %v)", key, name, i, got, want, norm)
				}
			}
		}
		if changed < 100 {
			t.Errorf("%s: only %d weights have changed", key, changed)
		}
	}
}

// TestSquaresAreExact compares the sum of squares with one of numbers of any length.
func TestSquaresAreExact(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 1))
	for range 200 {
		var all, other squares
		exact := new(big.Float).SetPrec(2000)
		for range 1 + r.IntN(50) {
			v := []float32{math.Float32frombits(r.Uint32()), math.Float32frombits(r.Uint32() % (1 << 25))}
			if v[0]-v[0] != 0 {
				continue
			}
			x := kernels.SumSquares(v)
			exact.Add(exact, big.NewFloat(x))
			if r.IntN(2) == 0 {
				all.addSum(x)
			} else {
				other.addSum(x)
			}
		}
		all.addAll(other[:])
		sum, _ := exact.Float64()
		if got, want := all.norm(), math.Sqrt(sum); math.Abs(got-want) > 1e-15*want {
			t.Fatalf("norm %v, want %v", got, want)
		}
	}
	var s squares
	s.addSum(math.Inf(1))
	if !math.IsNaN(s.norm()) || !math.IsNaN(float64(scaleOf(s.norm(), 1))) {
		t.Error("an infinite sum has a norm")
	}
	for _, e := range []struct {
		norm, limit float64
		want        float32
	}{{0, 1, 1}, {1, 1, float32(1 / (1 + 1e-6))}, {0.5, 1, 1}, {4, 1, float32(1 / (4 + 1e-6))}} {
		if got := scaleOf(e.norm, e.limit); got != e.want {
			t.Errorf("norm %v, limit %v: scale %v, want %v", e.norm, e.limit, got, e.want)
		}
	}
}
