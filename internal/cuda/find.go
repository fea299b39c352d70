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
func folders() []string { return foldersIn("/") }

// foldersIn is folders with the usual places below root.
func foldersIn(root string) (all []string) {
	for _, home := range toolkits(root) {
		all = append(all, filepath.Join(home, "lib64"))
		all = append(all, matches(home, "targets", "*", "lib")...)
	}
	for _, packages := range sitePackages(root) {
		for _, lib := range []string{"cu13/lib", "*/lib"} {
			all = append(all, matches(packages, "nvidia", lib)...)
		}
	}
	return all
}

// toolkits returns the folders of CUDA's installations: those that the environment names, the
// default one, then those of single versions, newest first.
func toolkits(root string) (homes []string) {
	for _, home := range []string{os.Getenv("CUDA_HOME"), os.Getenv("CUDA_PATH")} {
		if home != "" {
			homes = append(homes, home)
		}
	}
	versions := matches(root, "usr/local/cuda-*")
	slices.Reverse(versions)
	return append(append(homes, filepath.Join(root, "usr/local/cuda")), versions...)
}

// sitePackages returns the folders of Python's packages, as patterns.
func sitePackages(root string) (all []string) {
	prefixes := []string{os.Getenv("VIRTUAL_ENV"), os.Getenv("CONDA_PREFIX")}
	prefixes = append(prefixes, pythons()...)
	for _, usual := range []string{"usr/local", "usr", "opt/conda", "opt/venv"} {
		prefixes = append(prefixes, filepath.Join(root, usual))
	}
	for _, prefix := range prefixes {
		if prefix != "" {
			all = append(all, filepath.Join(prefix, "lib", "python3*", "site-packages"),
				filepath.Join(prefix, "lib", "python3", "dist-packages"),
				filepath.Join(prefix, "lib", "python3*", "dist-packages"))
		}
	}
	if home, err := os.UserHomeDir(); err == nil {
		all = append(all, filepath.Join(home, ".local", "lib", "python3*", "site-packages"),
			filepath.Join(home, ".pyenv", "versions", "*", "lib", "python3*", "site-packages"))
	}
	return all
}

// pythons returns the prefixes of the Pythons in PATH. A virtual environment's python3 is a symbolic
// link to another Python: the prefixes of both are returned, its own first.
func pythons() (prefixes []string) {
	for _, folder := range filepath.SplitList(os.Getenv("PATH")) {
		path := filepath.Join(folder, "python3")
		for range 8 { // links
			info, err := os.Lstat(path)
			if err != nil {
				break
			}
			if prefix := filepath.Dir(filepath.Dir(path)); !slices.Contains(prefixes, prefix) {
				prefixes = append(prefixes, prefix)
			}
			if info.Mode()&os.ModeSymlink == 0 {
				break
			}
			target, err := os.Readlink(path)
			if err != nil {
				break
			}
			if !filepath.IsAbs(target) {
				target = filepath.Join(filepath.Dir(path), target)
			}
			path = target
		}
	}
	return prefixes
}

// matches returns the files of a pattern that is given in parts.
func matches(parts ...string) []string {
	found, _ := filepath.Glob(filepath.Join(parts...)) // the pattern is well formed
	return found
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
