package bench

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// plannedRun runs the benchmark with a program, and returns the median of a figure.
func plannedRun(t *testing.T, program, figure string) float64 {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	if testing.Short() {
		t.Skip("trains a job of 100 MB")
	}
	var out bytes.Buffer
	r, err := planBench.Run(&out, Options{Repeats: 1, Program: program, Args: []string{"processes=1", "batch=4096", "steps=12"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", &out)
	for _, f := range r.Figures {
		if strings.HasSuffix(f.Name, figure) {
			return f.Median
		}
	}
	t.Fatalf("no figure %q", figure)
	return 0
}

// The memory of a job is predicted within 10 % of its peak.
func TestPlanPredictsMemory(t *testing.T) {
	if x := plannedRun(t, program, plannedMemory); x < 0.9 || x > 1.1 {
		t.Errorf("%s: %.2f", plannedMemory, x)
	}
}

// A program whose file is in memory, as that of these tests may be, counts no more than one on a disk: the file would be shared memory of
// its process.
func TestProgramInMemoryIsNotCounted(t *testing.T) {
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	var measured []float64
	for _, place := range []string{"/var/tmp", "/dev/shm"} {
		dir, err := os.MkdirTemp(place, "bench-test-*")
		if err != nil {
			t.Skipf("it needs a folder on a disk and one in memory: %v", err)
		}
		defer os.RemoveAll(dir)
		path := filepath.Join(dir, "ecrec")
		if err := os.WriteFile(path, text, 0o755); err != nil {
			t.Skipf("it needs room for the program on a disk and in memory: %v", err)
		}
		measured = append(measured, plannedRun(t, path, "memory measured"))
	}
	if x := measured[1] / measured[0]; x > 1.04 || x < 0.96 {
		t.Errorf("%.1f MiB with the program on a disk, %.1f in memory", measured[0], measured[1])
	}
}

// A process that fails ends the others, which would wait for it.
func TestRunTogetherEndsTheOthers(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	began := time.Now()
	if _, err := runTogether([][]string{{"sleep", "60"}, {"sh", "-c", "echo broken >&2; exit 3"}, {"sleep", "60"}}, false); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("the error is %v", err)
	}
	if _, err := runTogether([][]string{{"sleep", "60"}, {"/no/such/program"}}, true); err == nil {
		t.Error("a program that is not there has run")
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("the others ended after %v", took)
	}
}
