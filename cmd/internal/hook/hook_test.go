package hook

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/ecrec/ecrec/internal/event"
)

func shell(t *testing.T, script string) (h *Hooks, dir string, log *bytes.Buffer) {
	t.Helper()
	dir, log = t.TempDir(), &bytes.Buffer{}
	return New([]string{"/bin/sh", "-c", script}, dir, zerolog.New(log)), dir, log
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The command receives the event's JSON and name. It runs in the order of events, one at a time,
// and its output is logged.
func TestCommandsGetTheirEvents(t *testing.T) {
	h, dir, log := shell(t, `mkdir lock && echo $ECREC_EVENT >> names; cat >> lines; echo said; rmdir lock`)
	for _, n := range []event.Name{event.Loss, event.Eval, event.Checkpoint, event.Failed} { // eval: not for hooks
		h.Add(event.Event{Event: n, Node: "n3"})
	}
	h.Close(time.Minute)
	if got := read(t, filepath.Join(dir, "names")); got != "loss\ncheckpoint\nfailed\n" {
		t.Errorf("names %q", got)
	}
	all, err := event.ReadFile(filepath.Join(dir, "lines"))
	if err != nil || len(all) != 3 || all[0].Node != "n3" {
		t.Errorf("%v, %+v", err, all)
	}
	if got := strings.Count(log.String(), `"output":"said"`); got != 3 {
		t.Errorf("log: %s", log)
	}
}

// A command that hangs is killed with its children. One that fails, or writes without end, causes
// one line of the log.
func TestCommandsThatMisbehave(t *testing.T) {
	h, _, log := shell(t, `case $ECREC_EVENT in loss) sleep 100 & wait;; end) exit 3;; *) yes;; esac`)
	h.limit = 200 * time.Millisecond
	begin := time.Now()
	for _, n := range []event.Name{event.Loss, event.Failed, event.End} {
		h.Add(event.Event{Event: n})
	}
	h.Close(time.Minute)
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
	for _, want := range []string{"deadline exceeded", "exit status 3"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %q in the log: %.300s", want, log)
		}
	}
	if log.Len() > 3*maxOutputBytes {
		t.Errorf("%d bytes of log", log.Len())
	}
}

// Add never waits: events beyond the queue are skipped and logged.
func TestAddDoesNotWait(t *testing.T) {
	h, dir, log := shell(t, `until [ -e go ]; do sleep 0.01; done`)
	for range maxQueued + 10 {
		h.Add(event.Event{Event: event.Loss})
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	h.Close(time.Minute)
	if n := strings.Count(log.String(), "on_event skipped"); n < 9 || n > 10 {
		t.Errorf("%d events were skipped", n)
	}
}

// Close ends a command that exceeds its limit, and those of the events behind it.
func TestCloseEndsCommands(t *testing.T) {
	h, dir, log := shell(t, `echo $ECREC_EVENT >> names; sleep 1000`)
	for _, n := range []event.Name{event.Checkpoint, event.End} {
		h.Add(event.Event{Event: n})
	}
	for begin := time.Now(); time.Since(begin) < 30*time.Second; time.Sleep(time.Millisecond) {
		if info, err := os.Stat(filepath.Join(dir, "names")); err == nil && info.Size() > 0 { // the shell makes the file before it writes
			break
		}
	}
	h.Close(time.Millisecond)
	if got := read(t, filepath.Join(dir, "names")); got != "checkpoint\n" {
		t.Errorf("commands ran for %q", got)
	}
	if n := strings.Count(log.String(), "context canceled"); n != 2 {
		t.Errorf("%d lines: %s", n, log)
	}
}

// A child in the background may write after its command has ended.
func TestChildInBackground(t *testing.T) {
	h, dir, log := shell(t, `setsid sh -ec 'until [ -e go ]; do sleep 0.01; done; echo x; echo y; touch done' & echo said`)
	h.Add(event.Event{Event: event.Checkpoint})
	h.Close(time.Minute)
	if !strings.Contains(log.String(), `"output":"said"`) || strings.Contains(log.String(), "error") {
		t.Errorf("log: %s", log)
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for begin := time.Now(); time.Since(begin) < 30*time.Second; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(dir, "done")); err == nil {
			return
		}
	}
	t.Error("the child has ended at its first output")
}

func TestNoCommand(t *testing.T) {
	h := New(nil, "", zerolog.Nop())
	h.Add(event.Event{Event: event.Loss})
	h.Close(time.Minute)
}
