package data

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ecrec/ecrec/internal/env"
)

// ListFiles returns the files that names mean, in the order in which they are read. A name is
// that of a file; of a folder, for the files in it; or a pattern as in filepath.Match, for the
// files that match and the files in folders that match. The files of one name are sorted by the
// bytes of their paths. Files in a folder that begin with "." or "_" are left out, and
// folders in it are not entered. A name that exists is not taken as a pattern. A pattern
// or a folder without files is an error that names it. A file of ids of criteo-numpy means the files of its day.
func ListFiles(e env.Env, names []string) (files []string, err error) {
	for _, name := range names {
		var list []string
		if err := e.Do("list "+name, func() (err error) {
			list, err = listFiles(name)
			return err
		}); err != nil {
			return nil, err
		}
		files = append(files, list...)
	}
	return completeDays(files), nil
}

// listFiles lists the files of one name. A missing file is left to its opening.
func listFiles(name string) ([]string, error) {
	if st, err := os.Stat(name); err == nil && st.IsDir() {
		return filesIn(name)
	} else if err == nil || !strings.ContainsAny(name, `*?[`) {
		return []string{name}, nil
	}
	paths, err := matchPaths(name)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, path := range paths {
		if st, err := os.Stat(path); err == nil && st.IsDir() {
			inside, err := readFolder(path)
			if err != nil {
				return nil, err
			}
			files = append(files, inside...)
		} else {
			files = append(files, path)
		}
	}
	if len(files) == 0 {
		return nil, fileErr(name, "no file matches this pattern; check the path, and the characters * ? [ in it")
	}
	slices.Sort(files)
	return files, nil
}

// filesIn lists the files of samples in a folder, one at least.
func filesIn(dir string) ([]string, error) {
	files, err := readFolder(dir)
	if err == nil && len(files) == 0 {
		err = fileErr(dir, `it is a folder, not a regular file, and has no file of samples; files that begin with "." or "_", and folders in it, are not read`)
	}
	return files, err
}

// readFolder lists the files of samples in a folder, sorted.
func readFolder(dir string) (files []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, openErr(dir, err)
	}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		if entry.Name()[0] == '.' || entry.Name()[0] == '_' {
			continue
		}
		if st, err := os.Stat(path); err == nil && st.IsDir() {
			continue
		}
		files = append(files, path)
	}
	return files, nil
}

// matchPaths returns the paths that match a pattern, one component after the other. A component
// that exists as it is written is not taken as a pattern.
func matchPaths(pattern string) ([]string, error) {
	paths := []string{""}
	if filepath.IsAbs(pattern) {
		paths[0] = string(filepath.Separator)
	}
	for _, part := range strings.Split(filepath.Clean(pattern), string(filepath.Separator)) {
		if _, err := filepath.Match(part, ""); err != nil {
			return nil, fileErr(pattern, "%q is no pattern: close its bracket, or name a file that exists", part)
		}
		if part == "" {
			continue
		}
		var next []string
		for _, path := range paths {
			next = append(next, matchPart(path, part)...)
		}
		paths = next
	}
	return paths, nil
}

// matchPart returns the entries of a folder that match one component of a pattern. A folder that
// cannot be read has none.
func matchPart(dir, part string) (paths []string) {
	whole := filepath.Join(dir, part)
	if _, err := os.Lstat(whole); err == nil {
		return []string{whole}
	}
	if dir == "" {
		dir = "."
	}
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		hidden := entry.Name()[0] == '.' && part[0] != '.'
		if ok, _ := filepath.Match(part, entry.Name()); ok && !hidden {
			paths = append(paths, filepath.Join(dir, entry.Name()))
		}
	}
	return paths
}

// listsFile reports whether a folder or a pattern lists a file, which need not be there.
func listsFile(name, file string) bool {
	dir := filepath.Dir(file)
	if st, err := os.Stat(name); err == nil {
		in, err := os.Stat(dir)
		return err == nil && st.IsDir() && os.SameFile(st, in)
	}
	pattern, _ := filepath.Abs(name)
	for _, path := range []string{file, dir} {
		path, _ = filepath.Abs(path)
		if ok, _ := filepath.Match(pattern, path); ok {
			return true
		}
	}
	return false
}
