package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestStreamDocKafka runs the commands of docs/stream.md that lead from a broker to a served model. Their last prediction equals that
// of the page, with its digest.
func TestStreamDocKafka(t *testing.T) {
	if !*kafka {
		t.Skip("make test-kafka runs it")
	}
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	page, err := os.ReadFile("../../docs/stream.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, isThere := strings.Cut(string(page), "\n## Serving\n")
	_, block, isBlock := strings.Cut(section, "```console\n")
	block, _, isWhole := strings.Cut(block, "```")
	if !isThere || !isBlock || !isWhole {
		t.Fatal(`docs/stream.md has no commands in its section "Serving"`)
	}
	commands, shown := splitConsole(block)
	if len(commands) != 6 || len(shown) != 3 {
		t.Fatalf("%d commands and %d lines of output, want 6 and 3: %q %q", len(commands), len(shown), commands, shown)
	}

	dir, at := t.TempDir(), "127.0.0.1:"+strconv.Itoa(freePorts(1))
	for name, path := range map[string]string{"examples": "../../examples", "ecrec": ecrec(t)} {
		path, err := filepath.Abs(path)
		if err == nil {
			err = os.Symlink(path, filepath.Join(dir, name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	local := strings.NewReplacer("127.0.0.1:9092", startBroker(t).at, "127.0.0.1:8080", at)
	said := runCommands(t, dir, local.Replace(strings.Join(commands, "\n")))
	if !slices.Contains(strings.Split(said, "\n"), shown[0]) {
		t.Errorf("no line %q in\n%s", shown[0], said)
	}
	step, _, _ := strings.Cut(shown[1], `,"digest"`)
	predict, got := "PATH=.:$PATH\n"+local.Replace(commands[4]), ""
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(200 * time.Millisecond) {
		cmd := exec.Command("bash", "-c", predict)
		cmd.Dir = dir
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", predict, err)
		}
		if got = strings.TrimSpace(string(out)); strings.HasPrefix(got, step+",") {
			break
		}
	}
	if got != shown[1] {
		t.Errorf("docs/stream.md shows the reply\n%s\nit is\n%s", shown[1], got)
	}
}

// splitConsole splits a block of a page into its commands and their output. Lines behind a command that begin with two spaces belong to it.
func splitConsole(block string) (commands, output []string) {
	for line := range strings.Lines(block) {
		line = strings.TrimRight(line, "\n")
		switch command, is := strings.CutPrefix(line, "$ "); {
		case is:
			commands = append(commands, command)
		case strings.HasPrefix(line, "  ") && len(commands) > 0:
			commands[len(commands)-1] += "\n" + line
		default:
			output = append(output, line)
		}
	}
	return commands, output
}

// runCommands runs a script in a folder, and returns its output. Processes that it leaves in the background are stopped with the test.
func runCommands(t *testing.T, dir, script string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	out, err := os.Create(filepath.Join(dir, "output"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.CommandContext(ctx, "bash", "-e", "-c", "PATH=.:$PATH\n"+script)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = cmd.Start()
	if err == nil {
		t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }) // it may have ended
		err = cmd.Wait()
	}
	text, _ := os.ReadFile(out.Name())
	if err != nil {
		t.Fatalf("%v: %s\n%s", err, script, text)
	}
	return string(text)
}
