package export

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// namesIn lists the names in a folder.
func namesIn(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

// TestVersions: the newest versions remain, those of a run that was replaced do not, and a version is there with all of its files or not
// at all.
func TestVersions(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ctr")
	for _, x := range []struct {
		version int64
		keep    int
		want    string
	}{{10, 2, "10"}, {20, 2, "10 20"}, {100, 2, "100 20"}, {100, 2, "100 20"}, {30, 2, "20 30"}, {31, 0, "20 30 31"}, {32, 1, "32"}} {
		if err := os.MkdirAll(filepath.Join(dir, unfinished+"7", "left"), 0o777); err != nil { // of a process that died
			t.Fatal(err)
		}
		if err := AddTritonVersion(dir, x.version, small(), x.keep); err != nil {
			t.Fatal(err)
		}
		if have := namesIn(t, dir); have != x.want+" config.pbtxt" {
			t.Errorf("after version %d: %s, want %s and the config", x.version, have, x.want)
		}
	}
	whole := filepath.Join(t.TempDir(), "ctr")
	if err := WriteTriton(whole, small()); err != nil {
		t.Fatal(err)
	}
	if equal, err := equalFolders(filepath.Join(dir, "32"), filepath.Join(whole, "1")); !equal || err != nil {
		t.Errorf("the version differs from that of WriteTriton: %v", err)
	}

	other := small() // another run's version of the same step replaces it, and one that fails changes nothing
	other.Metadata = map[string]string{"ecrec.lineage": "other"}
	if err := AddTritonVersion(dir, 32, other, 1); err != nil {
		t.Fatal(err)
	}
	if text := string(read(t, filepath.Join(dir, "32", "model.onnx"))); !strings.Contains(text, "other") {
		t.Error("a version of another run remains")
	}
	broken := small()
	broken.Write = func(io.Writer) error { return errors.New("broken") }
	if err := AddTritonVersion(dir, 33, broken, 1); err == nil || namesIn(t, dir) != "32 config.pbtxt" {
		t.Errorf("after an error: %s, %v", namesIn(t, dir), err)
	}
	if err := AddTritonVersion(dir, 0, small(), 1); err == nil {
		t.Error("version 0, which Triton ignores, is written")
	}
}

// TestForeignVersions: a folder with a version or a config of another program stays as it is.
func TestForeignVersions(t *testing.T) {
	own := filepath.Join(t.TempDir(), "ctr")
	if err := AddTritonVersion(own, 7, small(), 1); err != nil {
		t.Fatal(err)
	}
	config, model := read(t, filepath.Join(own, tritonConfig)), read(t, filepath.Join(own, "7", tritonFile))
	for _, x := range []struct {
		name  string
		files map[string][]byte
		right bool
	}{
		{"a later version", map[string][]byte{"20260101/model.onnx": []byte("x")}, false},
		{"an earlier version beside one of ecrec", map[string][]byte{"1/model.savedmodel": nil, "7/model.onnx": model, tritonConfig: config}, false},
		{"a config alone", map[string][]byte{tritonConfig: []byte("platform: \"pytorch_libtorch\"\n")}, false},
		{"a config of a process that died before its first version", map[string][]byte{tritonConfig: config}, true},
		{"names that are no versions", map[string][]byte{"007/model.onnx": nil, "labels.txt": nil}, true},
	} {
		dir := filepath.Join(t.TempDir(), "ctr")
		for name, text := range x.files {
			path := filepath.Join(dir, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, text, 0o666)); err != nil {
				t.Fatal(err)
			}
		}
		before := namesIn(t, dir)
		if err := AddTritonVersion(dir, 10, small(), 1); (err == nil) != x.right {
			t.Errorf("%s: %v", x.name, err)
		}
		if after := namesIn(t, dir); !x.right && after != before {
			t.Errorf("%s: %s, was %s", x.name, after, before)
		}
		for name, text := range x.files {
			if have, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(have) != string(text) {
				t.Errorf("%s: %s is %q: %v", x.name, name, have, err)
			}
		}
	}
}
