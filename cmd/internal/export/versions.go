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
	"github.com/ecrec/ecrec/internal/onnx"
)

// unfinished begins the names of folders that are no versions: Triton ignores names that are no numbers.
const unfinished = ".version-"

// AddTritonVersion writes a model as another version of a folder of a Triton model repository, by one rename. Of the versions up to it
// the newest are kept, as many as keep; 0: all. Later versions are of a run that this one replaces: they are removed. A folder that
// CheckTriton refuses stays as it is.
func AddTritonVersion(dir string, version int64, m Model, keep int) error {
	if version < 1 {
		return fmt.Errorf("version %d: Triton has versions from 1 on", version)
	}
	if err := CheckTriton(dir); err != nil {
		return err
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
	if err := WriteONNX(filepath.Join(made, tritonFile), m); err != nil {
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

// CheckTriton returns an error if a folder of a model repository has a version or a config that ecrec did not write: AddTritonVersion
// would replace or remove them. A folder that does not exist is right.
func CheckTriton(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	own := false
	for _, e := range entries {
		if _, err := parseVersion(e.Name()); err != nil {
			continue
		}
		if !isOwnVersion(dir, e.Name()) {
			return fmt.Errorf("%s is not a version that ecrec wrote; choose a folder of its own for the model", filepath.Join(dir, e.Name()))
		}
		own = true
	}
	path := filepath.Join(dir, tritonConfig)
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !own && !bytes.HasPrefix(text, []byte(tritonHead)):
		return fmt.Errorf("%s is of a model that ecrec did not write; choose a folder of its own for the model", path)
	}
	return nil
}

// parseVersion returns the version whose folder has a name.
func parseVersion(name string) (int64, error) {
	n, err := strconv.ParseInt(name, 10, 64)
	if err == nil && strconv.FormatInt(n, 10) != name {
		err = strconv.ErrSyntax
	}
	return n, err
}

// isOwnVersion reports whether ecrec wrote the version in the folder of a name.
func isOwnVersion(dir, name string) bool { return onnx.IsOwn(filepath.Join(dir, name, tritonFile)) }

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

// removeVersions removes ecrec's versions after the newest one, and all but some of those up to it; keep 0: none of those.
func removeVersions(dir string, newest int64, keep int) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var there []int64
	for _, e := range entries {
		n, err := parseVersion(e.Name())
		switch {
		case err != nil || !e.IsDir() || !isOwnVersion(dir, e.Name()):
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
