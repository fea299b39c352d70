package doctor

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/ecrec/ecrec/internal/cuda"
)

// libraryDirs are where ecrec looks for NVIDIA's libraries, and the dynamic linker on the
// systems that we know.
func libraryDirs() []string {
	dirs := append(cuda.Folders(), filepath.SplitList(os.Getenv("LD_LIBRARY_PATH"))...)
	return append(dirs, "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/lib64",
		"/usr/local/lib", "/usr/local/cuda/lib64", "/usr/local/nvidia/lib64", "/opt/nccl/lib")
}

// library is where the library with this file name is, which only its user needs.
func library(name, user string) Check {
	for _, dir := range libraryDirs() {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			return Check{Status: OK, Value: path}
		}
	}
	return Check{Status: Absent, Value: "not found", Detail: "no " + name + " where the linker looks, or in " + cuda.PathVariable + "; only " + user + " would need it"}
}

// program is one that was found, and what it says of its version.
type program struct {
	name, path string
	version    string // a line; "" where it would not tell
	err        error  // why
}

// pipeDelay is how long a program that was killed may leave its output open.
const pipeDelay = 100 * time.Millisecond

// find looks for a program in PATH and asks it for its version.
func find(ctx context.Context, name string, version func(output string) string) (p program, found bool) {
	path, err := exec.LookPath(name)
	if err != nil {
		return p, false
	}
	p = program{name: name, path: path}
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.WaitDelay = pipeDelay
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // it may be a script: what that started ends with it
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out, err := cmd.Output()
	var exit *exec.ExitError
	switch p.version = version(string(out)); {
	case errors.As(err, &exit) && firstLine(string(exit.Stderr)) != "":
		p.err = errors.New(firstLine(string(exit.Stderr)))
	case err != nil:
		p.err = err
	case p.version == "":
		p.err = errors.New("it says nothing")
	}
	return p, true
}

func firstLine(s string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return strings.TrimSpace(first)
}

// readWord is the first line of a small file, "" when it cannot be read.
func readWord(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return firstLine(string(b))
}
