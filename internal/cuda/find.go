package cuda

import (
	"os"
	"path/filepath"
	"slices"
)

// PathVariable is the environment variable with the folders, separated by colons, that are
// searched for NVIDIA's libraries before all others.
const PathVariable = "ECREC_CUDA_PATH"

const (
	driverName = "libcuda.so.1"
	// compilerNames are the names of the compiler's library, newest first.
	compilerNames = "libnvrtc.so.13 libnvrtc.so.12"
	ncclName      = "libnccl.so.2"
	cublasNames   = "libcublas.so.13 libcublas.so.12"
)

// folders returns folders with libraries that the system's loader does not find: CUDA's own,
// and those of NVIDIA's wheels in Python installations. The driver is in none of them.
func folders() (all []string) {
	for _, home := range []string{os.Getenv("CUDA_HOME"), os.Getenv("CUDA_PATH"), "/usr/local/cuda"} {
		if home != "" {
			all = append(all, filepath.Join(home, "lib64"))
		}
	}
	var pythons []string
	for _, root := range []string{os.Getenv("VIRTUAL_ENV"), os.Getenv("CONDA_PREFIX"), "/usr/local", "/usr", "/opt/conda", "/opt/venv"} {
		if root != "" {
			pythons = append(pythons, filepath.Join(root, "lib", "python3*", "site-packages"),
				filepath.Join(root, "lib", "python3", "dist-packages"),
				filepath.Join(root, "lib", "python3*", "dist-packages"))
		}
	}
	if home, err := os.UserHomeDir(); err == nil {
		pythons = append(pythons, filepath.Join(home, ".local", "lib", "python3*", "site-packages"),
			filepath.Join(home, ".pyenv", "versions", "*", "lib", "python3*", "site-packages"))
	}
	for _, p := range pythons {
		for _, lib := range []string{"cu13/lib", "*/lib"} {
			found, _ := filepath.Glob(filepath.Join(p, "nvidia", lib)) // the pattern is well formed
			all = append(all, found...)
		}
	}
	return all
}

// Folders returns the folders that are searched in addition to those of the system's loader.
func Folders() []string { return append(filepath.SplitList(os.Getenv(PathVariable)), folders()...) }

// Named returns the path of a library in the folders that the user has named, "" if it is in
// none.
func Named(library string) string {
	for _, path := range within(filepath.SplitList(os.Getenv(PathVariable)), []string{library}) {
		return path
	}
	return ""
}

// candidates returns the paths to try for a library with some names, best first: in the
// folders that the user has named, then the bare names, which the system's loader resolves,
// then in more folders.
func candidates(names, more []string) []string {
	paths := within(filepath.SplitList(os.Getenv(PathVariable)), names)
	paths = append(paths, names...)
	return append(paths, within(more, names)...)
}

// within returns the files with some names in folders.
func within(folders, names []string) (paths []string) {
	for _, folder := range folders {
		for _, name := range names {
			path := filepath.Join(folder, name)
			if _, err := os.Stat(path); err == nil && !slices.Contains(paths, path) {
				paths = append(paths, path)
			}
		}
	}
	return paths
}

// besides returns the files of a pattern in the folder of a path. It returns none for a bare
// name, whose folder is unknown.
func besides(path, pattern string) (files []string) {
	if filepath.Base(path) != path {
		files, _ = filepath.Glob(filepath.Join(filepath.Dir(path), pattern)) // the pattern is well formed
	}
	return files
}
