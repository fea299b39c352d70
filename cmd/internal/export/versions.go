package export

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/ecrec/ecrec/internal/atomicfile"
)

// unfinished begins the names of folders that are no versions: Triton ignores names that are no numbers.
const unfinished = ".version-"

// AddTritonVersion writes a model as another version of a folder of a Triton model repository, by one rename. Of the versions up to it
// the newest are kept, as many as keep; 0: all. Later versions are of a run that this one replaces: they are removed.
func AddTritonVersion(dir string, version int64, m Model, keep int) error {
	if version < 1 {
		return fmt.Errorf("version %d: Triton has versions from 1 on", version)
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	left, err := filepath.Glob(filepath.Join(dir, unfinished+"*"))
	for _, path := range left {
		err = errors.Join(err, os.RemoveAll(path)) // of a process that died
	}
	if err != nil {
		return err
	}
	made := filepath.Join(dir, unfinished+strconv.FormatInt(version, 10))
	defer os.RemoveAll(made)
	if err := os.Mkdir(made, 0o777); err != nil {
		return err
	}
	if err := WriteONNX(filepath.Join(made, "model.onnx"), m); err != nil {
		return err
	}
	config, path := describeTriton(m), filepath.Join(dir, tritonConfig)
	if old, err := os.ReadFile(path); err != nil || !bytes.Equal(old, config) {
		if err := atomicfile.WriteFile(path, config); err != nil {
			return err
		}
	}
	if err := showVersion(made, filepath.Join(dir, strconv.FormatInt(version, 10))); err != nil {
		return err
	}
	return removeVersions(dir, version, keep)
}

// showVersion gives a folder the name of its version. A version that is there already is replaced if it differs.
func showVersion(made, version string) error {
	if equal, err := equalFolders(made, version); equal || err != nil {
		return err
	}
	if err := atomicfile.SyncDir(made); err != nil {
		return err
	}
	away := made + "-old"
	if err := os.Rename(version, away); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Rename(made, version); err != nil {
		return err
	}
	return errors.Join(atomicfile.SyncDir(filepath.Dir(version)), os.RemoveAll(away))
}

// equalFolders reports whether two folders have the same files.
func equalFolders(a, b string) (bool, error) {
	list, err := os.ReadDir(a)
	if err != nil {
		return false, err
	}
	other, err := os.ReadDir(b)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(list) != len(other) {
		return false, nil
	}
	for i, e := range list {
		if err == nil && e.Name() != other[i].Name() {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		var equal bool
		if equal, err = equalFiles(filepath.Join(a, e.Name()), filepath.Join(b, e.Name())); !equal {
			return false, err
		}
	}
	return true, err
}

// equalFiles reports whether two files have the same bytes.
func equalFiles(a, b string) (bool, error) {
	x, err := os.Open(a)
	if err != nil {
		return false, err
	}
	defer x.Close()
	y, err := os.Open(b)
	if err != nil {
		return false, err
	}
	defer y.Close()
	var p, q [64 << 10]byte
	for {
		n, err := io.ReadFull(x, p[:])
		k, other := io.ReadFull(y, q[:])
		if n != k || !bytes.Equal(p[:n], q[:k]) {
			return false, nil
		}
		for _, err := range []error{err, other} {
			if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
				return false, err
			}
		}
		if err != nil {
			return true, nil
		}
	}
}

// removeVersions removes the versions after the newest one, and all but some of those up to it; keep 0: none of those.
func removeVersions(dir string, newest int64, keep int) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var there []int64
	for _, e := range entries {
		n, err := strconv.ParseInt(e.Name(), 10, 64)
		switch {
		case err != nil || !e.IsDir() || strconv.FormatInt(n, 10) != e.Name():
		case n > newest:
			if err := removeVersion(dir, n); err != nil {
				return err
			}
		default:
			there = append(there, n)
		}
	}
	slices.Sort(there)
	for keep > 0 && len(there) > keep {
		if err := removeVersion(dir, there[0]); err != nil {
			return err
		}
		there = there[1:]
	}
	return nil
}

// removeVersion removes a version, of which no part remains visible.
func removeVersion(dir string, version int64) error {
	name := strconv.FormatInt(version, 10)
	away := filepath.Join(dir, unfinished+name+"-old")
	if err := os.Rename(filepath.Join(dir, name), away); err != nil {
		return err
	}
	return os.RemoveAll(away)
}
