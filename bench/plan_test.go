package bench

import (
	"bytes"
	"runtime"
	"strings"
	"testing"
)

// The memory of a job is predicted within 10 % of its peak.
func TestPlanPredictsMemory(t *testing.T) {
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
	for _, f := range r.Figures {
		if strings.HasSuffix(f.Name, "memory predicted / measured") && (f.Median < 0.9 || f.Median > 1.1) {
			t.Errorf("%s: %.2f\n%s", f.Name, f.Median, &out)
		}
	}
}
