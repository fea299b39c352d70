package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is how long a test waits for an event that takes milliseconds on an idle machine.
const patience = 30 * time.Second

// until waits for a condition.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for begin := time.Now(); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Since(begin) > patience {
			t.Fatalf("waited %v for %s", patience, what)
		}
	}
}

// After a signal a run finishes its step. The output is that of a complete run of fewer steps.
func TestSignalsLeaveAWholeRun(t *testing.T) {
	program := ecrec(t)
	for signal, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		out := filepath.Join(t.TempDir(), "out")
		cmd, _, errs := start(program, nil, train(golden("dlrm-adagrad"), out, "job.ranks=2", "train.iterations=100000000",
			"train.log_every=1")...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer cmd.Process.Kill()
		until(t, "the first steps", func() bool {
			lines, _ := os.ReadFile(filepath.Join(out, "metrics.jsonl"))
			return strings.Count(string(lines), `"loss":`) > 3
		})
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if got := exitCode(t, cmd.Wait()); got != code {
			t.Fatalf("%v: exit code %d, want %d\n%s", signal, got, code, errs)
		}
		if text := errs.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "stopped by a signal") {
			t.Errorf("%v: stderr %q", signal, text)
		}
		got := readSummary(t, out)
		if !got.Stopped || got.Steps < 4 || len(got.Eval) == 0 {
			t.Fatalf("%v: stopped %v after %d steps, evaluation %s", signal, got.Stopped, got.Steps, got.Eval)
		}

		whole := filepath.Join(t.TempDir(), "whole")
		if r := run(t, program, nil, train(golden("dlrm-adagrad"), whole, "job.ranks=2",
			fmt.Sprintf("train.iterations=%d", got.Steps))...); r.code != 0 {
			t.Fatalf("exit code %d\n%s", r.code, r.stderr)
		}
		want := readSummary(t, whole)
		if want.Stopped {
			t.Error("a run that was not stopped reports that it was")
		}
		equal(t, fmt.Sprintf("%v after %d steps", signal, got.Steps), got, want)
	}
}

// A slow command of job.on_event does not delay the result of a run that a signal stops.
func TestSlowCommandDoesNotDelayTheResult(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	cmd, _, errs := start(ecrec(t), nil, train(golden("dlrm-adagrad"), out, "job.ranks=2", "train.iterations=100000000", "train.log_every=1",
		"checkpoint.dir="+filepath.Join(dir, "saved"), `job.on_event="until [ -e done ]; do sleep 0.1; done"`)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		write(t, filepath.Join(out, "done"), "")
	}()
	until(t, "the first steps", func() bool {
		lines, _ := os.ReadFile(filepath.Join(out, "metrics.jsonl"))
		return strings.Count(string(lines), `"loss":`) > 3
	})
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	until(t, "the summary", func() bool { return exists(filepath.Join(out, "summary.json")) })
	if !exists(filepath.Join(out, "model.safetensors")) {
		t.Errorf("no model: %s", errs)
	}
	events, _ := os.ReadFile(filepath.Join(out, "events.jsonl"))
	if !strings.Contains(string(events), `"event":"checkpoint"`) {
		t.Errorf("no command ran: %s", events)
	}
}

// A run that Prometheus scrapes shows its end to one more scrape.
func TestEndIsScraped(t *testing.T) {
	address := regexp.MustCompile(`"address":"([^"]+)".*"metrics"`)
	for _, np := range []string{"1", "2"} {
		out := filepath.Join(t.TempDir(), "out")
		cmd, _, errs := start(ecrec(t), nil, append(train(golden("dlrm-adagrad"), out, "job.ranks=2", "train.iterations=100000000",
			"metrics.listen=127.0.0.1:0"), "--np", np)...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer cmd.Process.Kill()
		var url, last string
		until(t, "the address", func() bool {
			text, _ := os.ReadFile(filepath.Join(out, "process-0.log"))
			if m := address.FindSubmatch(text); m != nil {
				url = "http://" + string(m[1]) + "/metrics"
			}
			return url != ""
		})
		scrape := func() bool {
			reply, err := http.Get(url)
			if err != nil {
				return false
			}
			defer reply.Body.Close()
			text, err := io.ReadAll(reply.Body)
			if err != nil {
				return false
			}
			last = string(text)
			return true
		}
		until(t, "a step", func() bool { return scrape() && strings.Contains(last, "ecrec_loss{") })
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		for scrape() {
			time.Sleep(50 * time.Millisecond)
		}
		if code := exitCode(t, cmd.Wait()); code != 143 {
			t.Errorf("%s processes: exit code %d: %s", np, code, errs)
		}
		if !regexp.MustCompile(`(?m)^ecrec_running\{[^}]*\} 0$`).MatchString(last) {
			t.Errorf("%s processes: the end was not shown: %.300s", np, last)
		}
	}
}

// A follower that a signal ends before its step does not end as if it were there.
func TestStoppedFollower(t *testing.T) {
	dir := t.TempDir()
	topic, made := "file:"+filepath.Join(dir, "topic"), filepath.Join(dir, "made")
	if r := run(t, ecrec(t), nil, train(golden("dlrm-adagrad"), filepath.Join(dir, "out"), "job.ranks=2", "train.iterations=20",
		"ec.commit_every=5", "job.digests=true", "stream.to="+topic)...); r.code != 0 {
		t.Fatal(r.stderr)
	}
	cmd, out, errs := start(ecrec(t), nil, "follow", topic, "--to", made, "--at", "1000", "--every", "1ms")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	until(t, "the checkpoint", func() bool { return exists(filepath.Join(made, stepFolder(20))) })
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	code, text := exitCode(t, cmd.Wait()), errs.String()
	if code != 143 || !strings.Contains(text, "stopped by a signal at step 20, before --at 1000; the same command continues") {
		t.Errorf("exit code %d: %s%s", code, text, out)
	}
}

// slow is a run whose first step takes long.
const slow = `[data]
format = "synthetic"
[model]
embedding_dim = 16
tables = [9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9]
bottom_mlp = [1024, 1024, 16]
top_mlp = [1024, 1024, 1]
[train]
global_batch = 16384
iterations = 100
`

// The second signal does not wait for the step.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	dir := t.TempDir()
	config, out := filepath.Join(dir, "run.toml"), filepath.Join(dir, "out")
	if err := os.WriteFile(config, []byte(slow), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd, _, errs := start(ecrec(t), []string{"ECREC_CPU=plain"}, train(config, out)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	ended := make(chan error, 1)
	until(t, "the start of the run", func() bool { return exists(filepath.Join(out, "config.toml")) })
	go func() { ended <- cmd.Wait() }()
	signals := 0
	begin := time.Now()
	for {
		select {
		case err := <-ended:
			if got := exitCode(t, err); got != 130 || signals < 2 {
				t.Fatalf("exit code %d after %d signals, want 130 after 2\n%s", got, signals, errs)
			}
			if exists(filepath.Join(out, "summary.json")) {
				t.Error("summary.json was written: the run did not end at once")
			}
			return
		case <-time.After(200 * time.Millisecond): // apart, for two at once would count as one
		}
		if time.Since(begin) > patience {
			t.Fatalf("the run continues after %d signals", signals)
		}
		if err := cmd.Process.Signal(syscall.SIGINT); err == nil {
			signals++
		}
	}
}

// A run survives a closed stdout, as in `ecrec train ... | head -1`: none of its processes dies.
func TestUnheard(t *testing.T) {
	program, want := ecrec(t), ""
	for _, processes := range []string{"1", "2"} {
		out := filepath.Join(t.TempDir(), "out")
		args := append(train(golden("dlrm-adagrad"), out, "job.ranks=2", "train.iterations=20", "train.log_every=1",
			"ec.code=xor", "ec.k=1"), "--np", processes)
		reads, writes, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		reads.Close()
		cmd, _, _ := start(program, nil, args...)
		cmd.Stdout, cmd.Stderr = writes, writes
		if code := exitCode(t, cmd.Run()); code != 0 {
			t.Errorf("%s processes: exit code %d", processes, code)
		}
		writes.Close()
		got := readSummary(t, out)
		if got.Steps != 20 || len(got.Recoveries) > 0 || got.Digest == "" || want != "" && got.Digest != want {
			t.Errorf("%s processes: %d steps, %d recoveries, digest %q; want 20, none and %q", processes, got.Steps,
				len(got.Recoveries), got.Digest, want)
		}
		want = got.Digest
	}
}
