package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// File is a file being written.
type File struct {
	*os.File
	path string
	done bool
}

// temporary returns the prefix of the names of path's temporary files. Digits follow it.
func temporary(path string) string { return "." + filepath.Base(path) + ".tmp-" }

// Create starts writing the file at path.
func Create(path string) (*File, error) {
	f, err := os.CreateTemp(filepath.Dir(path), temporary(path)+"*")
	if err != nil {
		return nil, err
	}
	return &File{File: f, path: path}, nil
}

// Commit flushes the file to the disk and renames it to its path. After an error the
// temporary file is removed and path is unchanged.
func (f *File) Commit() error {
	if f.done {
		return fmt.Errorf("%s: committed or aborted before", f.path)
	}
	err := f.Chmod(0o644)
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(f.Name(), f.path)
	}
	f.done = true
	if err != nil {
		os.Remove(f.Name())
		return err
	}
	return SyncDir(filepath.Dir(f.path))
}

// MakeDir makes a folder, and those above it that are missing. Their names are durable then.
func MakeDir(path string, mode os.FileMode) error {
	var missing []string
	for dir := filepath.Clean(path); ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		missing = append(missing, dir)
	}
	err := os.MkdirAll(path, mode)
	for _, dir := range missing {
		if err == nil {
			err = SyncDir(filepath.Dir(dir))
		}
	}
	return err
}

// Abort removes the temporary file; after Commit it does nothing, so that it
// can be deferred.
func (f *File) Abort() {
	if f.done {
		return
	}
	f.done = true
	f.Close()
	os.Remove(f.Name())
}

// RemoveLeftovers removes the temporary files of path that processes left when they died
// while writing. No process may be writing path during the call.
func RemoveLeftovers(path string) error {
	dir := filepath.Dir(path)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		digits, ours := strings.CutPrefix(e.Name(), temporary(path))
		if !ours || digits == "" || strings.Trim(digits, "0123456789") != "" || !e.Type().IsRegular() {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// WriteFile writes data to path.
func WriteFile(path string, data []byte) error {
	f, err := Create(path)
	if err != nil {
		return err
	}
	defer f.Abort()
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.Commit()
}

// SyncDir makes a rename in dir survive a loss of power.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
