package cuda

import (
	"os"
	"path/filepath"
	"slices"
)

// PathVariable names folders, colons between, that are looked in for NVIDIA's libraries
// before all others.
const PathVariable = "ECREC_CUDA_PATH"

const (
	driverName = "libcuda.so.1"
	// compilerNames are those of the compiler, the newest first.
	compilerNames = "libnvrtc.so.13 libnvrtc.so.12"
	ncclName      = "libnccl.so.2"
	cublasNames   = "libcublas.so.13 libcublas.so.12"
)

// folders are where libraries may be that the system's loader does not find: CUDA's own
// places, and NVIDIA's wheels in Python installations. The driver's is in none of them.
func folders() (all []string) {
	for _, home := range []string{os.Getenv("CUDA_HOME"), os.Getenv("CUDA_PATH"), "/usr/local/cuda"} {
		if home != "" {
			all = append(all, filepath.Join(home, "lib64"))
		}
	}
	var pythons []string
	for _, root := range []string{os.Getenv("VIRTUAL_ENV"), os.Getenv("CONDA_PREFIX"), "/usr/local", "/usr", "/opt/conda", "/opt/venv"} {
		if root != "" {
			pythons = append(pythons, filepath.Join(root, "lib", "python3*", "site-packages"), filepath.Join(root, "lib", "python3", "dist-packages"),
				filepath.Join(root, "lib", "python3*", "dist-packages"))
		}
	}
	if home, err := os.UserHomeDir(); err == nil {
		pythons = append(pythons, filepath.Join(home, ".local", "lib", "python3*", "site-packages"), filepath.Join(home, ".pyenv", "versions", "*", "lib", "python3*", "site-packages"))
	}
	for _, p := range pythons {
		for _, lib := range []string{"cu13/lib", "*/lib"} {
			found, _ := filepath.Glob(filepath.Join(p, "nvidia", lib)) // the pattern is well formed
			all = append(all, found...)
		}
	}
	return all
}

// Folders are where libraries are looked for beside where the system's loader does.
func Folders() []string { return append(filepath.SplitList(os.Getenv(PathVariable)), folders()...) }

// Named is where a library is in the folders that the user has named, "" if it is in none.
func Named(library string) string {
	for _, path := range within(filepath.SplitList(os.Getenv(PathVariable)), []string{library}) {
		return path
	}
	return ""
}

// candidates are the paths to open a library under one of some names by, best first: in the
// folders that the user has named, by the bare names, which ask the system's loader, and in
// some more folders.
func candidates(names, more []string) []string {
	paths := within(filepath.SplitList(os.Getenv(PathVariable)), names)
	paths = append(paths, names...)
	return append(paths, within(more, names)...)
}

// within are the files of some names in folders.
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

// besides are the files of a pattern in the folder of a path; none of a bare name, whose
// folder nobody has told.
func besides(path, pattern string) (files []string) {
	if filepath.Base(path) != path {
		files, _ = filepath.Glob(filepath.Join(filepath.Dir(path), pattern)) // the pattern is well formed
	}
	return files
}
