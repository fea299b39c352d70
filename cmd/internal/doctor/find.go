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

// libraryDirs returns the folders in which ecrec, or the dynamic linker of common systems, searches
// for libraries.
func libraryDirs() []string {
	dirs := append(cuda.Folders(), filepath.SplitList(os.Getenv("LD_LIBRARY_PATH"))...)
	return append(dirs, "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/lib64",
		"/usr/local/lib", "/usr/local/cuda/lib64", "/usr/local/nvidia/lib64", "/opt/nccl/lib")
}

// library finds the library with this file name. user names the setting that needs it.
func library(name, user string) Check {
	for _, dir := range libraryDirs() {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			return Check{Status: OK, Value: path}
		}
	}
	return Check{Status: Absent, Value: "not found", Detail: "no " + name + " in the linker's folders or " +
		cuda.PathVariable + "; needed only for " + user}
}

// program is an installed program.
type program struct {
	name, path string
	version    string // one line; empty if the program did not report it
	err        error  // why not
}

// pipeDelay is how long the output of a killed program may stay open.
const pipeDelay = 100 * time.Millisecond

// find searches PATH for a program and runs it with --version.
func find(ctx context.Context, name string, version func(output string) string) (p program, found bool) {
	path, err := exec.LookPath(name)
	if err != nil {
		return p, false
	}
	p = program{name: name, path: path}
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.WaitDelay = pipeDelay
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a script's children end with it
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out, err := cmd.Output()
	var exit *exec.ExitError
	switch p.version = version(string(out)); {
	case errors.As(err, &exit) && firstLine(string(exit.Stderr)) != "":
		p.err = errors.New(firstLine(string(exit.Stderr)))
	case err != nil:
		p.err = err
	case p.version == "":
		p.err = errors.New("it printed nothing")
	}
	return p, true
}

func firstLine(s string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return strings.TrimSpace(first)
}

// readWord returns the first line of a small file, empty if it cannot be read.
func readWord(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return firstLine(string(b))
}
