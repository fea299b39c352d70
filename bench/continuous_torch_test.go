package bench

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// fakeTorch returns a folder with a module torch that saves and loads bytes by Pickle. Its function save begins with the given statement.
func fakeTorch(t *testing.T, first string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"torch.py": "import math, pickle\n" +
			"def ones(shape): return bytes(4 * math.prod(shape))\n" +
			"def save(model, path):\n    " + first + "\n    pickle.dump(model, open(path, 'wb'))\n" +
			"def load(path): return pickle.load(open(path, 'rb'))\n",
		"torch-0.1.dist-info/METADATA": "Metadata-Version: 2.1\nName: torch\nVersion: 0.1\n",
	} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func findPython3(t *testing.T) string {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3")
	}
	return python
}

// torch.save takes turns with our checkpoints: it saves all rows and the dense part at the end of each epoch, and is loaded.
func TestTorchSavesTakeTurns(t *testing.T) {
	python := findPython3(t)
	t.Setenv("PYTHONPATH", fakeTorch(t, "pass"))
	var out bytes.Buffer
	r, err := continuousBench.Run(&out, Options{Tiny: true, Args: []string{"python=" + python}})
	if err != nil {
		t.Fatal(err)
	}
	if why := r.Missing[sysTorch]; why != "" || r.Against != "torch 0.1" {
		t.Errorf("missing: %q, against %q", why, r.Against)
	}
	const epochs, rowBytes = 3, 26 * 50 * 4 * 4 // of tinyShape
	if mb := r.mustFind(t, "bytes", "system", sysTorch, "every", "1").Median; mb < epochs*rowBytes/1e6 || mb > 2*epochs*rowBytes/1e6 {
		t.Errorf("%v MB in %d saves of rows of %d bytes", mb, epochs, rowBytes)
	}
	two, err := continuousBench.Run(io.Discard, Options{Tiny: true, Args: []string{"python=" + python, "every=2"}})
	if err != nil {
		t.Fatal(err)
	}
	one, last := r.mustFind(t, "bytes", "system", sysTorch).Median, two.mustFind(t, "bytes", "system", sysTorch, "every", "2").Median
	if math.Abs(3*last-2*one) > 1e-9 { // after the second epoch and the third, the last one
		t.Errorf("%v MB in saves every 2 epochs, %v every epoch", last, one)
	}
	for _, name := range []string{"saving", "time", "of full"} {
		if x := r.mustFind(t, name, "system", sysTorch, "every", "1").Median; x <= 0 {
			t.Errorf("%s: %v", name, x)
		}
	}
	if x := r.mustFind(t, "load", "system", sysTorch).Median; x <= 0 {
		t.Errorf("load: %v", x)
	}
	saved := r.mustFind(t, "lost", "system", sysTorch, "every", "1").Median
	if full := r.mustFind(t, "lost", "system", "full", "store", "disk", "every", "1").Median; saved != full {
		t.Errorf("torch.save loses %v steps, full checkpoints as often lose %v", saved, full)
	}
	if !strings.Contains(out.String(), "torch.save, every epoch") {
		t.Errorf("%s", &out)
	}
}

// A benchmark ends with the error of a save that fails, and without a Python it runs without torch.save.
func TestTorchSavesFail(t *testing.T) {
	python := findPython3(t)
	t.Setenv("PYTHONPATH", fakeTorch(t, "raise OSError('no space')"))
	_, err := continuousBench.Run(io.Discard, Options{Tiny: true, Args: []string{"python=" + python}})
	if err == nil || !strings.Contains(err.Error(), "OSError: no space") {
		t.Errorf("%v", err)
	}
	noisy := fakeTorch(t, "pass")
	if err := os.WriteFile(filepath.Join(noisy, "torch.py"), []byte("print('hello')\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PYTHONPATH", noisy)
	_, err = continuousBench.Run(io.Discard, Options{Tiny: true, Args: []string{"python=" + python}})
	if err == nil || !strings.Contains(err.Error(), `wrote "hello"`) {
		t.Errorf("%v", err)
	}
	if _, err := continuousBench.Run(io.Discard, Options{Tiny: true, Args: []string{"python=/none/python"}}); !errors.Is(err, ErrSetting) {
		t.Errorf("%v, want ErrSetting", err)
	}
	t.Setenv("PYTHONPATH", t.TempDir())
	r, err := continuousBench.Run(io.Discard, Options{Tiny: true, Args: []string{"python=" + python}})
	if err != nil {
		t.Fatal(err)
	}
	if why := r.Missing[sysTorch]; !strings.HasPrefix(why, "not installed: ") && r.Against == "" { // this Python may have PyTorch
		t.Errorf("missing: %q", why)
	}
}
