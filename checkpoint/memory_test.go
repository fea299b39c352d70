package checkpoint

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// resident reads a line of /proc/self/status, in bytes.
func resident(t *testing.T, key string) (bytes int64) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skipf("no /proc here: %v", err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, key+":"); ok {
			if _, err := fmt.Sscanf(value, "%d kB", &bytes); err != nil {
				t.Fatal(err)
			}
			return bytes << 10
		}
	}
	t.Skipf("/proc/self/status has no %s", key)
	return 0
}

// peakGrowth is the growth of the peak of resident memory during f.
func peakGrowth(t *testing.T, f func()) int64 {
	t.Helper()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		t.Skipf("the peak of resident memory cannot be reset: %v", err)
	}
	before := resident(t, "VmRSS")
	f()
	return resident(t, "VmHWM") - before
}

// The memory for saving does not grow with the number of rows.
func TestSavingTakesLittleMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("saves 400 MB")
	}
	const table = 400 << 20 // bytes
	model := Model{Kind: "dlrm", Seed: 1, Tables: []Table{{"a", table / 1024}}, Width: 256, Tensors: []Tensor{{"b", []int64{9}}}}
	w := newWorld(model, 2)
	defer w.close()
	if grew := peakGrowth(t, func() {
		for _, h := range w.shards {
			if err := h.TouchAll(); err != nil {
				t.Fatal(err)
			}
		}
	}); grew < table*9/10 {
		t.Fatalf("%d MB of rows took %d MB: resident memory tells nothing here", table>>20, grew>>20)
	}
	dir := t.TempDir()
	grew := peakGrowth(t, func() {
		if err := w.save(Save{Dir: dir, Step: 1}); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("saving %d MB takes %d MB of memory", table>>20, grew>>20)
	if grew > table/4 {
		t.Errorf("saving %d MB takes %d MB of memory", table>>20, grew>>20)
	}
}
