package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ecrec/ecrec/bench/paper"
	"github.com/ecrec/ecrec/cmd/internal/doctor"
)

// measure runs a benchmark in a child, and keeps its report and its output.
func (r *reportRuns) measure(run paper.Run, file string) error {
	to := filepath.Join(r.dir, file)
	partial := to + ".part"
	defer os.Remove(partial)
	log, err := os.Create(strings.TrimSuffix(to, ".json") + ".txt")
	if err != nil {
		return err
	}
	defer log.Close()
	args := append([]string{"bench", run.Bench}, run.Args...)
	if run.Repeats > 0 {
		args = append(args, "--repeats", strconv.Itoa(run.Repeats))
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, r.program, append(args, "--json", partial)...)
	cmd.Args[0] = os.Args[0]
	var errs strings.Builder
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = log, io.MultiWriter(log, &errs), childOfReport()
	// At the limit the child is asked first: it removes its folders, and ends its own children.
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(syscall.SIGINT) }, 2*stopGrace
	runtime.LockOSThread() // childOfReport ends the child with this thread
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	err = r.wait(cmd.Process, ended)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("stopped after %v", r.limit)
	case err != nil:
		return childError(err, errs.String())
	}
	if _, err := readReport(partial); err != nil {
		return err
	}
	return os.Rename(partial, to)
}

// wait waits for the end of a child. It passes a stop request on, once, and kills the child if that does not end it.
func (r *reportRuns) wait(child *os.Process, ended <-chan error) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var asked time.Time
	for {
		select {
		case err := <-ended:
			return err
		case now := <-tick.C:
			switch {
			case !r.stop.isRequested():
			case asked.IsZero():
				asked = now
				_ = child.Signal(syscall.SIGINT) // fails if it has ended
			case now.Sub(asked) > 2*stopGrace:
				_ = child.Kill() // fails if it has ended
			}
		}
	}
}

// mostErrorLines is the number of last lines of a child's errors that a report shows.
const mostErrorLines = 6

// childError is the error of a child: its last lines, or its exit code.
func childError(err error, text string) error {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	text = strings.Join(lines[max(0, len(lines)-mostErrorLines):], "\n")
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() > 0 && text != "":
		return errors.New(strings.TrimPrefix(text, "ecrec: "))
	case text != "":
		return fmt.Errorf("%w: %s", err, text)
	}
	return err
}

// hashProgram returns a hash of this executable, which identifies it also where no commit is recorded.
func hashProgram() (string, error) {
	path, err := self()
	if err != nil {
		return "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}

// accelerators lists the GPUs of the machine. A process of its own examines them, as for ecrec doctor: a driver may hang.
func accelerators() (all []string) {
	program, err := self()
	if err != nil {
		return nil
	}
	cmd := exec.Command(program, "doctor", "--here")
	cmd.Args[0] = os.Args[0]
	d, err := reportOf(cmd, doctor.Limit+doctorSlack)
	if err != nil {
		return []string{"unknown: " + oneLine(err)}
	}
	for _, c := range d.Checks {
		if _, err := strconv.Atoi(strings.TrimPrefix(c.Name, "gpu")); err == nil {
			all = append(all, c.Value)
		}
	}
	return all
}
