package train

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/safetensors"
)

// expected is PyTorch's result; see testdata/golden/README.md.
type expected struct {
	TrainLoss   []float64 `json:"train_loss"`
	EvalLogloss float64   `json:"eval_logloss"`
	EvalAUC     float64   `json:"eval_auc"`
	DenseParams int       `json:"dense_params"`
}

const (
	lossTolerance   = 2e-4
	tensorTolerance = 1e-3
	evalTolerance   = 1e-3
)

// quiet observes a job and keeps its Info.
type quiet struct{ info Info }

func (q *quiet) Started(i Info) error              { q.info = i; return nil }
func (q *quiet) Step(StepInfo)                     {}
func (q *quiet) Checkpointed(int64, string, error) {}
func (q *quiet) SkippedCheckpoint(string, error)   {}
func (q *quiet) Warned(string)                     {}
func (q *quiet) Recovered(Recovery)                {}
func (q *quiet) Evaluated(Eval)                    {}
func (q *quiet) Committed(int64, string)           {}

// run trains a config with changed settings and returns the result.
func run(t testing.TB, o Options, path string, sets ...string) *Result {
	t.Helper()
	cfg, err := config.Load(path, append([]string{"job.out=" + t.TempDir()}, sets...))
	if err != nil {
		t.Fatal(err)
	}
	if o.Observer == nil {
		o.Observer = &quiet{}
	}
	if o.Stop == nil {
		o.Stop = func() bool { return false }
	}
	result, err := Run(env.Real(), cfg, o)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// references holds the results of reference, by the settings that decide them.
var references = map[string]*Result{}

// reference returns the result of a config that trains on the CPU, without cache and code. Each is computed once.
func reference(t *testing.T, path string, sets ...string) *Result {
	t.Helper()
	sets = slices.DeleteFunc(slices.Clone(sets), func(set string) bool {
		section, _, _ := strings.Cut(set, ".")
		return section == "ec" || section == "cache" || section == "oracle"
	})
	sets = append(sets, "cache.mode=none", "job.device=cpu")
	key := path + " " + strings.Join(sets, " ")
	if references[key] == nil {
		references[key] = run(t, Options{}, path, sets...)
	}
	return references[key]
}

var golden = flag.String("golden", "testdata/golden", "the folder of golden runs; tools/python/golden.py makes others")

func goldenCases(t testing.TB) []string {
	dirs, err := filepath.Glob(filepath.Join(*golden, "*", "config.toml"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("%s: no golden cases: %v", *golden, err)
	}
	return dirs
}

// Every golden run agrees with PyTorch on 1, 2 and 4 ranks.
func TestGolden(t *testing.T) {
	for _, path := range goldenCases(t) {
		dir := filepath.Dir(path)
		var want expected
		b, err := os.ReadFile(filepath.Join(dir, "expected.json"))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, &want); err != nil {
			t.Fatal(err)
		}
		for _, ranks := range []int{2, 1, 4} {
			if testing.Short() && ranks != 2 {
				break
			}
			t.Run(fmt.Sprintf("%s/%d-ranks", filepath.Base(dir), ranks), func(t *testing.T) {
				saved := filepath.Join(t.TempDir(), "model.safetensors")
				q := &quiet{}
				got := run(t, Options{SaveTo: saved, Observer: q}, path, fmt.Sprintf("job.ranks=%d", ranks))
				if q.info.DenseParams != want.DenseParams {
					t.Errorf("%d dense parameters, want %d", q.info.DenseParams, want.DenseParams)
				}
				compareRun(t, got, want)
				compareTensors(t, saved, filepath.Join(dir, "final.safetensors"))
			})
		}
	}
}

func compareRun(t *testing.T, got *Result, want expected) {
	t.Helper()
	if len(got.TrainLoss) != len(want.TrainLoss) || len(got.Eval) != 1 {
		t.Fatalf("%d losses and %d evaluations, want %d and 1", len(got.TrainLoss), len(got.Eval), len(want.TrainLoss))
	}
	worst := 0.0
	for i, w := range want.TrainLoss {
		d := math.Abs(got.TrainLoss[i] - w)
		worst = max(worst, d)
		if !(d <= lossTolerance) {
			t.Errorf("step %d: loss %v, want %v", i+1, got.TrainLoss[i], w)
		}
	}
	e := got.Eval[0]
	if !(math.Abs(e.Logloss-want.EvalLogloss) <= evalTolerance) || !(math.Abs(e.AUC-want.EvalAUC) <= evalTolerance) {
		t.Errorf("evaluation %+v, want logloss %v, AUC %v", e, want.EvalLogloss, want.EvalAUC)
	}
	t.Logf("largest difference: loss %.2g, logloss %.2g, AUC %.2g", worst, math.Abs(e.Logloss-want.EvalLogloss), math.Abs(e.AUC-want.EvalAUC))
}

func compareTensors(t *testing.T, gotPath, wantPath string) {
	t.Helper()
	got, want := openTensors(t, gotPath), openTensors(t, wantPath)
	if len(got) != len(want) {
		t.Fatalf("%d tensors, want %d", len(got), len(want))
	}
	worst, where := 0.0, ""
	for name, w := range want {
		g := got[name]
		if len(g) != len(w) {
			t.Fatalf("%s: %d values, want %d", name, len(g), len(w))
		}
		for i := range w {
			if d := math.Abs(float64(g[i]) - float64(w[i])); !(d <= worst) {
				worst, where = d, fmt.Sprintf("%s[%d]", name, i)
			}
		}
	}
	if !(worst <= tensorTolerance) {
		t.Errorf("final tensors differ by %v at %s", worst, where)
	}
	t.Logf("largest difference of a tensor: %.2g at %s", worst, where)
}

func openTensors(t *testing.T, path string) map[string][]float32 {
	t.Helper()
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all := map[string][]float32{}
	for _, x := range f.Tensors() {
		b := make([]byte, x.Size())
		if _, err := x.ReadAt(b, 0); err != nil {
			t.Fatal(err)
		}
		values := make([]float32, len(b)/4)
		for i := range values {
			values[i] = math.Float32frombits(uint32(b[4*i]) | uint32(b[4*i+1])<<8 | uint32(b[4*i+2])<<16 | uint32(b[4*i+3])<<24)
		}
		all[x.Name] = values
	}
	return all
}
