package cuda

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestFolders lays out a machine whose CUDA is a single version, and whose PyTorch is in a virtual
// environment that only PATH names, by way of a link.
func TestFolders(t *testing.T) {
	root := t.TempDir()
	place := func(path string) string {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	link := func(to, path string) {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, path); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"CUDA_HOME", "CUDA_PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "HOME"} {
		t.Setenv(name, "")
	}
	t.Setenv("PATH", filepath.Join(root, "none")+string(filepath.ListSeparator)+filepath.Join(root, "bin"))
	link("../opt/torch/.venv/bin/python3", "bin/python3")
	link(filepath.Join(root, "usr/bin/python3.12"), "opt/torch/.venv/bin/python3")
	link("python3", "loop/python3")
	want := []string{
		place("usr/local/cuda-13.0/targets/x86_64-linux/lib/libnvrtc.so.13"),
		place("usr/local/cuda-12.8/targets/x86_64-linux/lib/libnvrtc.so.13"),
		place("opt/torch/.venv/lib/python3.12/site-packages/nvidia/cu13/lib/libnvrtc.so.13"),
		place("usr/lib/python3/dist-packages/nvidia/cu13/lib/libnvrtc.so.13"),
	}
	place("usr/bin/python3.12")
	if got := within(foldersIn(root), []string{"libnvrtc.so.13"}); !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
	nccl := place("opt/torch/.venv/lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2")
	if got := within(foldersIn(root), []string{ncclName}); !slices.Equal(got, []string{nccl}) {
		t.Errorf("found %v, want %s", got, nccl)
	}
	t.Setenv("PATH", filepath.Join(root, "loop")) // python3 links to itself
	if got := within(foldersIn(root), []string{ncclName}); len(got) > 0 {
		t.Errorf("found %v", got)
	}
}
