package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// openTerminal opens a pseudoterminal: reads from screen return the bytes written to tty.
func openTerminal(t *testing.T) (screen, tty *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("skipped: no pseudoterminal can be had: ", err)
	}
	fd := int(screen.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: 200})
	}
	if err == nil {
		tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return screen, tty
}

// shown returns the final content of a terminal.
func shown(text string) (lines []string) {
	for line := range strings.SplitSeq(text, "\n") {
		var row []rune
		at := 0
		for len(line) > 0 {
			if rest, is := strings.CutPrefix(line, "\x1b[K"); is {
				row, line = row[:min(at, len(row))], rest
				continue
			}
			r := []rune(line)[0]
			line = line[len(string(r)):]
			if r == '\r' {
				at = 0
				continue
			}
			for len(row) <= at {
				row = append(row, ' ')
			}
			row[at] = r
			at++
		}
		lines = append(lines, strings.TrimRight(string(row), " "))
	}
	return lines
}

// One of five processes draws on a terminal, and its drawings, even those of a wait for another
// process, are gone at the end of the run. A loss is a separate line.
func TestTerminal(t *testing.T) {
	dir := t.TempDir()
	config, out := filepath.Join(dir, "run.toml"), filepath.Join(dir, "out")
	var csv strings.Builder
	csv.WriteString("label,x,c\n")
	for i := range 60000 {
		fmt.Fprintf(&csv, "%d,%d,v%d\n", i%3/2, i%7, i%20)
	}
	for path, text := range map[string]string{filepath.Join(dir, "t.csv"): csv.String(), config: terminalConfig} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	screen, tty := openTerminal(t)
	defer screen.Close()
	cmd := exec.Command(ecrec(t), "train", config, "--np", "5", "--set", "job.out="+out, "--chaos", "kill:2@300")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "CI=") || strings.HasPrefix(v, "TERM=") })
	cmd.Env = append(cmd.Env, "TERM=xterm")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tty.Close()
	read := make(chan string)
	go func() {
		text, _ := io.ReadAll(screen) // ends with EIO
		read <- string(text)
	}()
	var text string
	select {
	case text = <-read:
	case <-time.After(2 * time.Minute):
		syscall.Kill(cmd.Process.Pid, syscall.SIGKILL)
		t.Fatal("it hangs")
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	text = strings.ReplaceAll(text, "\r\n", "\n")
	if !strings.Contains(text, "\r") || !strings.Contains(text, "step ") {
		t.Fatalf("nothing is drawn: %q", text)
	}
	lines := shown(text)
	for _, line := range lines {
		for _, left := range []string{"waiting", "ETA", "convert", "step ", "|"} {
			if strings.Contains(line, left) && !strings.Contains(line, "recovered") && !strings.Contains(line, "(median)") &&
				!strings.Contains(line, "eval after step") {
				t.Errorf("left on the screen: %q", line)
			}
		}
	}
	for _, want := range []string{"run: dlrm", "5 processes on ", "ecrec: node ", "recovered from the loss of rank 2", "digest "} {
		if n := len(slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return !strings.HasPrefix(l, want) })); n != 1 {
			t.Errorf("%d lines begin with %q:\n%s", n, want, strings.Join(lines, "\n"))
		}
	}
}

const terminalConfig = `
[job]
save_model = false
[data]
format = "csv"
train = ["t.csv"]
[data.csv]
label = "label"
dense = ["x"]
categorical = ["c"]
[model]
embedding_dim = 4
tables = [20]
bottom_mlp = [4]
top_mlp = [1]
[train]
global_batch = 120
epochs = 1
[optimizer.dense]
kind = "sgd"
lr = 0.1
[ec]
code = "xor"
k = 4
`
