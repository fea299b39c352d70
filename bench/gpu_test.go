package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/cuda/standin"
	"github.com/ecrec/ecrec/kernels"
)

// barred are figures that gpu/bars.sh asks for, as a tiny run names them, and those of other products beside.
var barred = map[string][]string{
	"kernels": {"gather, of a copy", "segment sums, of a copy", "segment sums and sgd, of a copy",
		"segment sums and rowwise adagrad, of a copy",
		"segment sums and adagrad, of a copy", "segment sums and adam, of a copy", "13x8, forward, exact",
		"13x8, forward, exact-tc", "13x8, forward, cublas", "13x8, forward, cublas-tf32"},
	"train":    {"tiny batch 64 training"},
	"overhead": {"tiny batch 64 ranks 5 xor k 2 r 1 every 2: with / without the code"},
}

// The benchmarks of a GPU run, tiny, where a CPU stands in for it: the figures mean nothing
// there, the calls are the same.
func TestGPUBenchmarksRunTiny(t *testing.T) {
	standin.Use(t, kernels.CUDASource(), 1)
	for name, run := range map[string]func(*bytes.Buffer) (*Report, error){
		"kernels": func(out *bytes.Buffer) (*Report, error) {
			return kernelsBench.Run(out, Options{Tiny: true, Args: []string{"device=cuda"}})
		},
		"train": func(out *bytes.Buffer) (*Report, error) {
			return trainBench.Run(out, Options{Tiny: true, Args: []string{"device=cuda"}})
		},
		"overhead": func(out *bytes.Buffer) (*Report, error) {
			return overheadBench.Run(out, Options{Tiny: true, Args: []string{"device=cuda", "code=xor", "r=1"}})
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
		for _, figure := range barred[name] {
			if !slices.ContainsFunc(r.Figures, func(f Figure) bool { return f.Name == figure }) {
				t.Errorf("no figure %q:\n%s", figure, &out)
			}
		}
	}
}

func TestNoGPUIsSaid(t *testing.T) {
	if _, err := kernels.NewCUDA(kernels.CUDAConfig{}); err == nil {
		t.Skip("skipped: there is a GPU")
	}
	for _, device := range []string{"device=cuda", "device=tpu"} {
		if _, err := kernelsBench.Run(io.Discard, Options{Tiny: true, Args: []string{device}}); !errors.Is(err, ErrSetting) ||
			!strings.Contains(err.Error(), device) {
			t.Errorf("%s: %v", device, err)
		}
	}
	for _, b := range []Bench{trainBench, overheadBench} {
		if _, err := b.Run(io.Discard, Options{Tiny: true, Args: []string{"device=tpu"}}); !errors.Is(err, ErrSetting) ||
			!strings.Contains(err.Error(), "device=tpu") {
			t.Errorf("device=tpu: %v", err)
		}
		if _, err := b.Run(io.Discard, Options{Tiny: true, Args: []string{"device=cuda"}}); err == nil ||
			!strings.Contains(err.Error(), `job.device = "cuda"`) {
			t.Errorf("device=cuda: %v", err)
		}
	}
}

// TestBars compares figures of a GPU with their bars. A figure that was not measured claims nothing.
func TestBars(t *testing.T) {
	dir := t.TempDir()
	bars := func() (string, error) {
		out, err := exec.Command("bash", "gpu/bars.sh", dir).CombinedOutput()
		return string(out), err
	}
	report := func(file string, median float64, figures ...string) {
		r := &Report{Figures: []Figure{{Name: "another", Median: 1}}}
		for _, name := range figures {
			r.Figures = append(r.Figures, Figure{Name: name, Median: median})
		}
		text, err := json.MarshalIndent(r, "", " ")
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, file), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if out, err := bars(); err != nil || strings.Count(out, ": not measured\n") != 13 {
		t.Errorf("nothing is measured: %v\n%s", err, out)
	}
	report("kernels.json", 70.5, barred["kernels"]...)
	report("train.json", 1.5e6, "mlperf batch 65536 training")
	report("train-cublas.json", 2.5e6, "mlperf batch 65536 training")
	report("train-cublas-tf32.json", 3e6, "mlperf batch 65536 training")
	report("dcnv2.json", 500_000, "dcnv2 batch 65536 training")
	report("dcnv2-cublas-tf32.json", 1.7e6, "dcnv2 batch 65536 training")
	report("overhead.json", 0.9999999, "dim48 batch 16384 ranks 5 xor k 4 r 1 every 10: with / without the code")
	for file, rates := range map[string][]string{"bench-torch.txt": {"990,000", "1,250,000", "1,000,000"}, "bench-torch-tf32.txt": {"1,200,000"}} {
		var text strings.Builder
		for _, rate := range rates {
			fmt.Fprintf(&text, "PyTorch 2.11.0+cu130, float32, NVIDIA X, batch 65536: %s samples/s, loss 0.5\n", rate)
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	recovered := func(ms ...float64) {
		var text strings.Builder
		for _, x := range ms {
			fmt.Fprintf(&text, "recovered in %f ms\n", x)
		}
		if err := os.WriteFile(filepath.Join(dir, "recovery.txt"), []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	recovered(900, 1999, 3)
	out, err := bars()
	if err != nil || strings.Count(out, ": holds\n") != 13 || !strings.Contains(out, "beside PyTorch: 2.50 times") ||
		!strings.Contains(out, "beside PyTorch, TF32: 2.50 times") {
		t.Errorf("%v\n%s", err, out)
	}
	report("overhead.json", 1.0101, "dim48 batch 16384 ranks 5 xor k 4 r 1 every 10: with / without the code")
	report("kernels.json", 69.9, "gather, of a copy") // and the others of this report are not there
	if out, err := bars(); err == nil || strings.Count(out, ": MISSED\n") != 7 {
		t.Errorf("%v\n%s", err, out)
	}
	recovered()
	if out, err := bars(); err == nil || strings.Count(out, ": MISSED\n") != 8 {
		t.Errorf("%v\n%s", err, out)
	}
	recovered(3, 2001, 3)
	report("train.json", 1e9, "a figure of another name")
	report("train-cublas.json", 1e9, "a figure of another name")
	if out, err := bars(); err == nil || strings.Count(out, ": MISSED\n") != 10 {
		t.Errorf("%v\n%s", err, out)
	}
}

// gpuCheck returns a folder with gpu/check.sh and with programs that are a shell script each.
func gpuCheck(t *testing.T, text string) (dir string) {
	script, err := filepath.Abs("gpu")
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	for _, folder := range []string{"build/gpu", "bench", "kernels", "train", "collectives"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(script, filepath.Join(dir, "bench/gpu")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ecrec", "kernels.test", "train.test", "collectives.test"} {
		if err := os.WriteFile(filepath.Join(dir, "build/gpu", name), []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// packed returns a file of the results that gpu/check.sh has packed.
func packed(t *testing.T, archive, name string) string {
	t.Helper()
	text, err := exec.Command("tar", "-xzOf", archive, "results/"+name).Output()
	if err != nil {
		t.Errorf("%s of %s: %v", name, archive, err)
	}
	return string(text)
}

// printsArguments is a program that prints its arguments.
const printsArguments = "echo \"  job.device  ok  cuda\" $ECREC_TEST_GPU \"$@\"\n"

// TestGPUCheckSelects runs gpu/check.sh with programs that only print their arguments.
func TestGPUCheckSelects(t *testing.T) {
	dir := gpuCheck(t, printsArguments)
	check := func(limit string, names ...string) (string, error) {
		c := exec.Command("bash", append([]string{"bench/gpu/check.sh"}, names...)...)
		c.Dir, c.Env = dir, append(os.Environ(), "LIMIT="+limit, "PYTHON=false", "OUT=")
		out, err := c.CombinedOutput()
		return string(out), err
	}
	out, err := check("60", "golden", "bench-train", "bench-torch")
	if err != nil || strings.Count(out, ": passed in") != 2 || !strings.Contains(out, "bench-torch: skipped: no PyTorch") {
		t.Errorf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(dir, "build/gpu/results/golden.txt"))
	if err != nil || !strings.Contains(string(text), "cuda 1 -test.run ^TestGolden$") {
		t.Errorf("%v\n%s", err, text)
	}
	if text := packed(t, filepath.Join(dir, "build/gpu/results.tar.gz"), "golden.txt"); !strings.Contains(text, "TestGolden") {
		t.Errorf("what is packed: %s", text)
	}
	if out, err := check("0", "golden", "nccl"); err == nil || strings.Count(out, "FAILED: no time is left") != 2 {
		t.Errorf("%v\n%s", err, out)
	}
	for text, want := range map[string]string{"  job.device  ok  cpu": "skipped: no GPU", "  gpu0  ok  X\n  job.device  fail  no answer": "FAILED: there is a GPU"} {
		if err := os.WriteFile(filepath.Join(dir, "build/gpu/ecrec"), []byte("#!/bin/sh\necho '"+text+"'\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		if out, err := check("60", "golden"); (err != nil) != strings.HasPrefix(want, "FAILED") || !strings.Contains(out, want) {
			t.Errorf("%s: %v\n%s", text, err, out)
		}
	}
	if out, err := check("60", "goldn"); err == nil || !strings.Contains(out, "there is no check goldn") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestGPUCheckPacked runs gpu/check.sh with packed programs. It ends the script while a check runs: the results up to then are
// in one file.
func TestGPUCheckPacked(t *testing.T) {
	if _, err := exec.LookPath("xz"); err != nil {
		t.Skip("skipped: no xz")
	}
	dir, out := gpuCheck(t, printsArguments+"case \"$@\" in *NCCL*) touch \"$STARTED\"; exec sleep 600;; esac\n"), t.TempDir()
	started := filepath.Join(out, "started")
	if text, err := exec.Command("tar", "-cJf", filepath.Join(dir, "build/gpu.tar.xz"), "-C", filepath.Join(dir, "build"), "gpu").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if err := os.RemoveAll(filepath.Join(dir, "build/gpu")); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("bash", "bench/gpu/check.sh", "golden", "nccl", "digests-of-ranks")
	c.Dir, c.Env = dir, append(os.Environ(), "STARTED="+started, "PYTHON=false", "OUT="+out)
	var text bytes.Buffer
	c.Stdout, c.Stderr = &text, &text
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(started); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err == nil {
		t.Errorf("a check that is ended succeeds\n%s", &text)
	}
	archive := filepath.Join(out, "results.tar.gz")
	if got := packed(t, archive, "digests-of-ranks.txt"); !strings.Contains(got, "OnGPUs") {
		t.Errorf("what is packed: %s\n%s", got, &text)
	}
	if got := packed(t, archive, "nccl.txt"); !strings.Contains(got, "NCCL") {
		t.Errorf("what is packed of the check that is ended: %s", got)
	}
}
