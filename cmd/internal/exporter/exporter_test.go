package exporter

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ecrec/ecrec/internal/event"
	"github.com/ecrec/ecrec/internal/probe"
	"github.com/ecrec/ecrec/train"
)

// open returns an Exporter of process 0 of a run.
func open(t *testing.T) *Exporter {
	t.Helper()
	e := New(Options{Run: "r", Version: "1", Model: "dlrm", Node: "n0", Spares: 2, LogEvery: 2,
		Events: filepath.Join(t.TempDir(), event.File), Meter: &train.Meter{}})
	t.Cleanup(func() { goleak.VerifyNone(t) })
	return e
}

// shows returns the figures that an Exporter serves over HTTP.
func shows(t *testing.T, e *Exporter) string {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	answer, err := client.Get("http://" + e.Serves() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%v, %s: %s", err, answer.Status, text)
	}
	return string(text)
}

// expect checks that the output has lines. A line that begins with "no " must not be there.
func expect(t *testing.T, text string, want ...string) {
	t.Helper()
	lines := strings.Split(text, "\n")
	for _, line := range want {
		if absent, ok := strings.CutPrefix(line, "no "); ok {
			if strings.Contains(text, absent) {
				t.Errorf("%s is shown", absent)
			}
		} else if !slices.Contains(lines, line) {
			name, _, _ := strings.Cut(line, " ")
			t.Errorf("want %s\ngot  %v", line, slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return !strings.HasPrefix(l, name) }))
		}
	}
}

func TestFiguresOfAJob(t *testing.T) {
	e := open(t)
	if err := e.Listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	expect(t, shows(t, e), `ecrec_process_info{node="n0",process="0",run="r"} 1`, "no ecrec_step", "no ecrec_losses_total")

	e.Started(train.Info{Device: "cpu", Ranks: 5, Began: 10, Steps: 100, Recoveries: []train.Recovery{{ResumeMS: 50, StepsRedone: 3}}})
	expect(t, shows(t, e), `ecrec_info{device="cpu",lineage="unknown",model="dlrm",run="r",version="1"} 1`,
		`ecrec_running{run="r"} 1`, `ecrec_step{run="r"} 10`,
		`ecrec_steps_planned{run="r"} 100`, "no ecrec_loss", "no ecrec_losses_total", "no ecrec_last_commit",
		"# TYPE go_goroutines gauge", "no ecrec_gpu")

	coded := train.Redundancy{Groups: 2, NoSpare: 1, Rebuilding: 1}
	for step := int64(11); step <= 14; step++ {
		i := train.StepInfo{Step: step, Last: 100, Loss: float64(step), Samples: 8, Took: 3 * time.Millisecond, Redundancy: coded}
		i.Stages[probe.StageForward] = time.Second
		e.Step(i)
	}
	e.Committed(12)
	e.o.Meter.Bytes[train.ClassDelayed].Store(77)
	e.o.Meter.MissingRows.Store(5)
	text := shows(t, e)
	expect(t, text, `ecrec_step{run="r"} 14`, `ecrec_samples_total{run="r"} 32`, `ecrec_loss{run="r"} 13.5`,
		`ecrec_stage_seconds_total{run="r",stage="forward"} 4`, `ecrec_step_seconds_bucket{run="r",le="0.004"} 4`,
		`ecrec_step_seconds_bucket{run="r",le="0.002"} 0`,
		`ecrec_groups{run="r"} 2`, `ecrec_groups_without_spare{run="r"} 1`, `ecrec_losses_survivable{run="r"} 0`,
		`ecrec_ranks_rebuilding{run="r"} 1`,
		`ecrec_recovery_seconds_count{phase="resume",run="r"} 1`, `ecrec_steps_redone_total{run="r"} 3`, `ecrec_last_commit_step{run="r"} 12`,
		`ecrec_moved_bytes_total{class="delayed",process="0",run="r"} 77`, `ecrec_missing_rows{process="0",run="r"} 5`,
		`ecrec_losses_total{cause="signal",run="r"} 0`, `ecrec_spares{run="r"} 2`)
	if !strings.Contains(text, "ecrec_resident_memory_bytes{") {
		t.Error("no resident memory")
	}

	e.Moved() // rank 0 is in another process
	expect(t, shows(t, e), "no ecrec_step", `ecrec_missing_rows{process="0",run="r"} 5`)
	e.Step(train.StepInfo{Step: 15, Last: 100})
	e.Ended(fmt.Errorf("failed: %w", &train.Diverged{Step: 15, Loss: math.Inf(1)}), false)
	expect(t, shows(t, e), `ecrec_loss{run="r"} NaN`, `ecrec_running{run="r"} 0`, `ecrec_failed{run="r"} 1`)
}

// The figures of commits do not depend on a code: store.path and stream.to commit too.
func TestCommitsWithoutACode(t *testing.T) {
	e := open(t)
	if err := e.Listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	e.Started(train.Info{Steps: 100})
	e.Step(train.StepInfo{Step: 1})
	expect(t, shows(t, e), "no ecrec_commits_total", "no ecrec_durable_step", "no ecrec_streamed_step", "no ecrec_groups")
	e.Committed(10)
	e.Step(train.StepInfo{Step: 11, Durable: 10, Streamed: 9})
	text := shows(t, e)
	expect(t, text, `ecrec_commits_total{run="r"} 1`, `ecrec_last_commit_step{run="r"} 10`, `ecrec_durable_step{run="r"} 10`,
		`ecrec_streamed_step{run="r"} 9`, "no ecrec_groups", "no ecrec_losses_total")
	if !strings.Contains(text, "ecrec_last_commit_timestamp_seconds") {
		t.Error("no time of the last commit")
	}
}

// Figures of events are read from the file as it grows, and survive the loss of the process.
func TestFiguresOfEvents(t *testing.T) {
	e := open(t)
	if err := e.Listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	e.Started(train.Info{})
	e.Step(train.StepInfo{Redundancy: train.Redundancy{Groups: 1}})
	write := func(all ...event.Event) {
		t.Helper()
		w, err := event.OpenWriter(e.o.Events)
		for _, x := range all {
			err = errors.Join(err, w.Write(x))
		}
		if err = errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
	}
	at := event.At(time.Unix(1000, 500e6))
	write(event.Event{Event: event.Start},
		event.Event{Event: event.Loss, Process: event.Number(1), Ranks: []int{1}, CauseCode: event.Signal,
			ReplacedBy: &event.Process{Process: 1}, Spares: event.Number(2)},
		event.Event{Event: event.Eval, Step: 3, LogLoss: event.Finite(0.5), AUC: event.Finite(math.NaN())},
		event.Event{Event: event.CheckpointFailed, Step: 3})
	expect(t, shows(t, e), `ecrec_losses_total{cause="signal",run="r"} 1`, `ecrec_eval_logloss{run="r"} 0.5`, "no ecrec_eval_auc",
		`ecrec_checkpoints_total{result="failed",run="r"} 1`, "no ecrec_last_checkpoint", `ecrec_spares{run="r"} 2`)
	write(event.Event{Event: event.Loss, Process: event.Number(2), Ranks: []int{2}, CauseCode: event.SupervisorGone,
		ReplacedBy: &event.Process{Process: 5}, Spares: event.Number(1)},
		event.Event{Event: event.Loss, Process: event.Number(3), CauseCode: "of a later version"},
		event.Event{Event: event.Recovered}, event.Event{Time: at, Event: event.Checkpoint, Step: 4})
	expect(t, shows(t, e), `ecrec_losses_total{cause="supervisor_gone",run="r"} 1`,
		`ecrec_losses_total{cause="signal",run="r"} 1`, `ecrec_losses_total{cause="other",run="r"} 1`,
		`ecrec_losses_total{cause="node_gone",run="r"} 0`, `ecrec_recoveries_total{run="r"} 1`,
		`ecrec_spares{run="r"} 1`, `ecrec_last_checkpoint_step{run="r"} 4`, `ecrec_last_checkpoint_timestamp_seconds{run="r"} 1000.5`)
	write(event.Event{Event: event.Resume, Spares: event.Number(2)}) // the same run, with all its spares
	expect(t, shows(t, e), `ecrec_losses_total{cause="signal",run="r"} 1`, `ecrec_spares{run="r"} 2`)
	write(event.Event{Event: event.Start}) // another run
	expect(t, shows(t, e), `ecrec_losses_total{cause="signal",run="r"} 0`, "no ecrec_last_checkpoint")
	if err := os.WriteFile(e.o.Events, []byte(`{"event":"recovered"}`+"\n"+`{"event":"reco`), 0o644); err != nil { // begun anew, and torn
		t.Fatal(err)
	}
	expect(t, shows(t, e), `ecrec_recoveries_total{run="r"} 1`, `ecrec_losses_total{cause="supervisor_gone",run="r"} 0`)
}

func TestTextfile(t *testing.T) {
	e := open(t)
	path := filepath.Join(t.TempDir(), "run.prom")
	e.Started(train.Info{Steps: 7})
	e.WriteTo(path)
	for begin := time.Now(); time.Since(begin) < 10*time.Second; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			break
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, string(text), `ecrec_steps_planned{run="r"} 7`, `ecrec_running{run="r"} 1`, "no go_",
		"no process_cpu") // node_exporter has its own
	e.Ended(nil, false)
	e.Close()
	if text, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	expect(t, string(text), `ecrec_running{run="r"} 0`, `ecrec_failed{run="r"} 0`)
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
		t.Errorf("files beside it: %v", entries)
	}
}

// Many connections once used up all file descriptors, and training failed.
func TestCrowd(t *testing.T) {
	e := open(t)
	if err := e.Listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	var crowd []net.Conn
	leave := func() {
		for _, c := range crowd {
			c.Close()
		}
		crowd = nil
	}
	defer leave()
	const over = 10
	for range maxConnections + over {
		c, err := net.DialTimeout("tcp", e.Serves(), 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		crowd = append(crowd, c)
	}
	for _, c := range crowd[maxConnections:] {
		c.SetReadDeadline(time.Now().Add(5 * time.Second)) // sooner than the server ends a silent one
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("a connection over the limit stays open: %v", err)
		}
	}
	leave()
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get("http://" + e.Serves() + "/metrics")
		if err == nil {
			answer.Body.Close()
			return
		}
		if time.Since(begin) > 10*time.Second {
			t.Fatalf("no scrape after the crowd has left: %v", err)
		}
	}
}

// An Exporter waits for a port in use, and Close ends the wait.
func TestPortTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	e := open(t)
	if err := e.Listen(l.Addr().String()); err == nil || e.Serves() != "" {
		t.Errorf("a port that is taken: %v, serves %q", err, e.Serves())
	}
	e.KeepTrying(l.Addr().String())
	e.Close()
	if err := e.Listen("127.0.0.1:0"); err == nil {
		t.Error("it listens after Close")
	}
}

func TestAddr(t *testing.T) {
	for _, c := range []struct {
		listen string
		local  int
		want   string
	}{{":9100", 0, ":9100"}, {"[::1]:9100", 3, "[::1]:9103"}, {"h:0", 3, "h:0"}, {":65535", 1, ""}} {
		if got, err := Addr(c.listen, c.local); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s, process %d: %q, %v", c.listen, c.local, got, err)
		}
	}
}

// A nil Exporter does nothing.
func TestNil(t *testing.T) {
	var e *Exporter
	e.Started(train.Info{})
	e.Step(train.StepInfo{})
	e.Committed(1)
	e.Recovered(train.Recovery{})
	e.Watch(nil)
	e.Moved()
	e.Ended(nil, false)
	e.AwaitScrape(time.Hour, func() bool { return false }, nil)
	e.Close()
	if e.Serves() != "" {
		t.Error("it serves")
	}
}

// The table of doc.go lists exactly the figures.
func TestDocHasEveryFigure(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for line := range strings.Lines(string(doc)) {
		line, ok := strings.CutPrefix(line, "//\t")
		if !ok || strings.HasPrefix(line, " ") {
			continue
		}
		names, _, _ := strings.Cut(line, "  ")
		for name := range strings.SplitSeq(strings.TrimSpace(names), ", ") {
			named["ecrec_"+name] = true
		}
	}
	want := map[string]bool{"ecrec_step_seconds": true, "ecrec_recovery_seconds{phase}": true}
	for _, f := range figures {
		name := f.name
		if len(f.labels) > 0 {
			name += "{" + strings.Join(f.labels, ",") + "}"
		}
		want[name] = true
	}
	for name := range want {
		if !named[name] {
			t.Errorf("doc.go lacks %s", name)
		}
	}
	for name := range named {
		if !want[name] {
			t.Errorf("doc.go has %s, which is not shown", name)
		}
	}
}

// Scrapes neither disturb the ranks nor wait for them (make test runs it with -race).
func TestScrapesWhileTraining(t *testing.T) {
	e := open(t)
	if err := e.Listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	e.WriteTo(filepath.Join(t.TempDir(), "run.prom"))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 20 {
			shows(t, e)
		}
	}()
	for step := int64(1); ; step++ {
		select {
		case <-done:
			return
		default:
		}
		e.Step(train.StepInfo{Step: step, Loss: 1, Redundancy: train.Redundancy{Groups: 1}})
		e.Committed(step)
		e.Recovered(train.Recovery{ResumeMS: 1})
		e.o.Meter.MissingRows.Add(1)
		if step%100 == 0 {
			e.Moved()
		}
	}
}

func BenchmarkStep(b *testing.B) {
	e := New(Options{LogEvery: 10, Meter: &train.Meter{}})
	for b.Loop() {
		e.Step(train.StepInfo{Step: 1, Took: time.Millisecond})
	}
}
