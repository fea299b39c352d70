package bench

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// program is the path of ecrec as built for these tests: benchmarks start jobs of it.
var program string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "ecrec-bench")
	if err != nil {
		panic(err)
	}
	program = filepath.Join(dir, "ecrec")
	if out, err := exec.Command("go", "build", "-o", program, "../cmd/ecrec").CombinedOutput(); err != nil {
		panic(string(out))
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}
