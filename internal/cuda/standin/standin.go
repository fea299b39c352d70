package standin

import (
	"embed"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/internal/cuda"
)

//go:embed cpp
var sources embed.FS

// ErrNoCompiler is the error that there is no C++ compiler.
var ErrNoCompiler = errors.New("no C++ compiler (c++) in PATH")

// RealVariable is the environment variable that makes tests use the machine's GPU instead.
const RealVariable = "ECREC_TEST_GPU"

// Use gives a test a number of GPUs and an NCCL that run on the CPU, for a CUDA source; or this
// machine's GPUs, which may be fewer. It skips the test if there are neither.
func Use(t testing.TB, source string, gpus int) {
	t.Helper()
	if !cuda.Built {
		t.Skip("skipped: this build has no cgo to open libraries with")
	}
	t.Setenv("XDG_CACHE_HOME", cache(t))
	if os.Getenv(RealVariable) != "" {
		return
	}
	folder, err := Build(source)
	if errors.Is(err, ErrNoCompiler) {
		t.Skip("skipped: the stand-in of a GPU is not built: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(cuda.PathVariable, folder)
	t.Setenv("ECREC_STANDIN_GPUS", fmt.Sprint(gpus))
}

// cache is the folder of compiled kernels of a real GPU, shared by all tests.
func cache(t testing.TB) string {
	if os.Getenv(RealVariable) != "" {
		return filepath.Join(os.TempDir(), "ecrec-gpu-cache")
	}
	return t.TempDir()
}

// kernel matches the kernels of a source, and the struct that each takes.
var kernel = regexp.MustCompile(`(?m)^KERNEL (?:__launch_bounds__\([^)]*\) )?(\w+)\((\w+) p\)`)

// Build builds the stand-ins of a driver with the kernels of a CUDA source, and of a compiler
// that accepts this source. It returns their folder, for cuda.PathVariable. A folder that was
// built before is used again.
func Build(source string) (string, error) {
	compiler, err := exec.LookPath("c++")
	if err != nil {
		return "", ErrNoCompiler
	}
	h := fnv.New64a()
	h.Write([]byte(source))
	hash := fmt.Sprintf("%016x", h.Sum64())
	files, err := sources.ReadDir("cpp")
	if err != nil {
		return "", err
	}
	for _, f := range files {
		text, err := sources.ReadFile("cpp/" + f.Name())
		if err != nil {
			return "", err
		}
		h.Write(text)
	}
	folder := filepath.Join(os.TempDir(), fmt.Sprintf("ecrec-standin-%d-%016x", os.Getuid(), h.Sum64()))
	if _, err := os.Stat(folder); err == nil {
		return folder, nil
	}
	dir, err := os.MkdirTemp("", "ecrec-standin-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	for _, f := range files {
		text, _ := sources.ReadFile("cpp/" + f.Name()) // as above
		if err := os.WriteFile(filepath.Join(dir, f.Name()), text, 0o644); err != nil {
			return "", err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "kernels.cpp"), []byte(unit(source, hash)), 0o644); err != nil {
		return "", err
	}
	flags := []string{"-std=c++17", "-O2", "-march=native", "-ffp-contract=off", "-fPIC", "-shared", "-pthread", "-Wall",
		"-Wno-unknown-pragmas", "-Wno-unused-function"}
	for _, library := range [][]string{{"libcuda.so.1", "driver.cpp", "fibers.cpp", "kernels.cpp"},
		{"libnvrtc.so.12", "nvrtc.cpp"}, {"libnccl.so.2", "nccl.cpp", "-ldl"}, {"libcublas.so.12", "cublas.cpp", "-ldl"},
		{"libnvidia-ml.so.1", "nvml.cpp", "-ldl"}} {
		cmd := exec.Command(compiler, append(append(flags[:len(flags):len(flags)], "-o", library[0]), library[1:]...)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%v: %w\n%s", cmd, err, out)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	if err := os.Rename(dir, folder); err != nil {
		if _, there := os.Stat(folder); there != nil { // no other process was faster
			return "", err
		}
	}
	return folder, nil
}

// unit returns a source as C++, with the list of its kernels.
func unit(source, hash string) string {
	var s strings.Builder
	s.WriteString("#include \"shim.h\"\n" + source + "\n")
	s.WriteString("template <typename P, void (*F)(P)> static void call(const void *p) { F(*(const P *)p); }\n")
	s.WriteString("const Kernel kernels[] = {\n")
	n := 0
	for _, k := range kernel.FindAllStringSubmatch(source, -1) {
		fmt.Fprintf(&s, "\t{\"%s\", call<%s, %s>, sizeof(%s)},\n", k[1], k[2], k[1], k[2])
		n++
	}
	fmt.Fprintf(&s, "};\nconst int kernelCount = %d;\nconst char *const sourceHash = \"%s\";\n", n, hash)
	return s.String()
}
