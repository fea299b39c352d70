package bench

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/internal/cuda/standin"
	"github.com/ecrec/ecrec/kernels"
)

// The benchmarks of a GPU run, tiny, where a CPU stands in for it: the figures mean nothing
// there, the calls are the same.
func TestGPUBenchmarksRunTiny(t *testing.T) {
	standin.Use(t, kernels.CUDASource(), 1)
	for name, run := range map[string]func(*bytes.Buffer) (*Report, error){
		"kernels": func(out *bytes.Buffer) (*Report, error) {
			return runKernels(out, Options{Tiny: true, Args: []string{"device=cuda"}})
		},
		"train": func(out *bytes.Buffer) (*Report, error) {
			return runTrain(out, Options{Tiny: true, Args: []string{"device=cuda"}})
		},
		"overhead": func(out *bytes.Buffer) (*Report, error) {
			return runOverhead(out, Options{Tiny: true, Args: []string{"device=cuda", "code=xor", "r=1"}})
		},
	} {
		var out bytes.Buffer
		r, err := run(&out)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !strings.HasPrefix(r.Machine.Kernels, "cuda ") || len(r.Figures) < 4 {
			t.Errorf("%s on %s: %d figures\n%s", name, r.Machine.Kernels, len(r.Figures), &out)
		}
		if name != "kernels" {
			continue
		}
		if !strings.Contains(out.String(), " cublas-tf32 ") {
			t.Errorf("without cuBLAS beside:\n%s", &out)
		}
		for _, figure := range []string{"gather", "segment sums", "segment sums and sgd", "segment sums and rowwise adagrad", "segment sums and adagrad", "segment sums and adam"} {
			if !slices.ContainsFunc(r.Figures, func(f Figure) bool { return f.Name == figure+", of a copy" }) { // see gpu/bars.sh
				t.Errorf("no figure of %s", figure)
			}
		}
	}
}

func TestNoGPUIsSaid(t *testing.T) {
	if _, err := kernels.NewCUDA(kernels.CUDAConfig{}); err == nil {
		t.Skip("skipped: there is a GPU")
	}
	for _, device := range []string{"device=cuda", "device=tpu"} {
		for _, run := range []func(io.Writer, Options) (*Report, error){runKernels, runTrain, runOverhead} {
			if _, err := run(io.Discard, Options{Tiny: true, Args: []string{device}}); err == nil || !strings.Contains(err.Error(), "device") {
				t.Errorf("%s: %v", device, err)
			}
		}
	}
}

// TestBars: what is measured on a GPU is compared with what is asked of it, and what is not is
// not claimed.
func TestBars(t *testing.T) {
	dir := t.TempDir()
	bars := func() (string, error) {
		out, err := exec.Command("bash", "gpu/bars.sh", dir).CombinedOutput()
		return string(out), err
	}
	report := func(file, figure string, median float64) {
		r := &Report{Figures: []Figure{{Name: "another", Median: 1}, {Name: figure, Median: median}}}
		text, err := json.MarshalIndent(r, "", " ")
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, file), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if out, err := bars(); err != nil || strings.Count(out, ": not measured\n") != 9 {
		t.Errorf("nothing is measured: %v\n%s", err, out)
	}
	report("kernels.json", "gather, of a copy", 70.5)
	report("train.json", "mlperf batch 65536 training", 1.5e6)
	report("train-cublas.json", "mlperf batch 65536 training", 2.5e6)
	report("overhead.json", "dim48 batch 16384 ranks 5 xor k 4 r 1 every 10: overhead", -1e-7)
	text := "PyTorch 2.9, X, batch 65536: 990,000 samples/s, loss 0.5\nPyTorch 2.9, X, batch 65536: 1,250,000 samples/s, loss 0.5\nPyTorch 2.9, X, batch 65536: 1,000,000 samples/s, loss 0.5\n"
	if err := os.WriteFile(filepath.Join(dir, "bench-torch.txt"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := bars()
	if err != nil || strings.Count(out, ": holds\n") != 4 || !strings.Contains(out, "beside PyTorch: 2.50 times") {
		t.Errorf("%v\n%s", err, out)
	}
	report("overhead.json", "dim48 batch 16384 ranks 5 xor k 4 r 1 every 10: overhead", 1.01)
	report("kernels.json", "gather, of a copy", 69.9)
	if out, err := bars(); err == nil || strings.Count(out, ": MISSED\n") != 2 {
		t.Errorf("%v\n%s", err, out)
	}
}
