package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// failure is the loss of a process at a time of a run.
type failure struct {
	At      time.Duration // since the end of the first step
	Process int
}

// drawFailures draws losses whose gaps are exponential with a mean, up to an end. Another mean scales the times of the same losses.
func drawFailures(seed uint64, mean, end time.Duration, processes int) (all []failure) {
	r := rand.New(rand.NewPCG(seed, uint64(processes)))
	for at := 0.0; ; {
		at += r.ExpFloat64() * float64(mean)
		if at > float64(end) {
			return all
		}
		all = append(all, failure{time.Duration(at), r.IntN(processes)})
	}
}

// firedFailure is a failure that was injected.
type firedFailure struct {
	unixMS int64
	hit    bool // there was a process to hit
}

// injector injects the failures of a run, which begins with the first line of metrics.jsonl. A failure that finds its process dead
// hits nothing.
type injector struct {
	out      string // the folder of the run
	program  string
	failures []failure
	do       func(pid int) error

	mutex sync.Mutex
	fired []firedFailure
	ended chan struct{}
	done  chan struct{}
}

// injectPoll is the time between two looks at the run.
const injectPoll = 5 * time.Millisecond

// startInjector begins to inject failures. Call stop at the end of the run.
func startInjector(out, program string, failures []failure, do func(pid int) error) *injector {
	i := &injector{out: out, program: program, failures: failures, do: do, ended: make(chan struct{}), done: make(chan struct{})}
	go i.injectAll()
	return i
}

// stop ends the injector, and returns the failures that were injected.
func (i *injector) stop() []firedFailure {
	close(i.ended)
	<-i.done
	return i.fired
}

// countHits returns the number of failures so far that hit a process, and the time of the first of them since a moment, 0 if there is none.
func (i *injector) countHits(since int64) (hits int, first int64) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	for _, f := range i.fired {
		if !f.hit {
			continue
		}
		hits++
		if first == 0 && f.unixMS >= since {
			first = f.unixMS
		}
	}
	return hits, first
}

// wait waits, and reports whether the run has not ended meanwhile.
func (i *injector) wait(d time.Duration) bool {
	select {
	case <-i.ended:
		return false
	case <-time.After(d):
		return true
	}
}

func (i *injector) injectAll() {
	defer close(i.done)
	if len(i.failures) == 0 {
		return
	}
	var began time.Time
	for began.IsZero() {
		if lines, err := readStepLines(filepath.Join(i.out, "metrics.jsonl")); err == nil && len(lines) > 0 {
			began = time.UnixMilli(lines[0].UnixMS)
		} else if !i.wait(injectPoll) {
			return
		}
	}
	for _, f := range i.failures {
		if !i.wait(time.Until(began.Add(f.At))) {
			return
		}
		now := time.Now().UnixMilli()
		pid, found := workerOf(i.out, i.program, f.Process)
		hit := found && i.do(pid) == nil
		i.mutex.Lock()
		i.fired = append(i.fired, firedFailure{now, hit})
		i.mutex.Unlock()
	}
}

// killProcess ends a process as a lost machine or a full memory does.
func killProcess(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) }

// startLine is the first line of a worker's log.
type startLine struct {
	Message string `json:"message"`
	PID     int    `json:"pid"`
}

// workerOf returns the id of the worker of a process: that of the last start in its log, if that process runs the program. found is
// false if it does not run any more.
func workerOf(out, program string, process int) (pid int, found bool) {
	text, err := os.ReadFile(filepath.Join(out, fmt.Sprintf("process-%d.log", process)))
	if err != nil {
		return 0, false
	}
	for _, line := range bytes.Split(text, []byte("\n")) {
		var s startLine
		// The event "start", which rank 0's worker logs too, has its process id elsewhere.
		if bytes.Contains(line, []byte(`"start"`)) && json.Unmarshal(line, &s) == nil && s.Message == "start" && s.PID != 0 {
			pid = s.PID
		}
	}
	if pid == 0 {
		return 0, false
	}
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)) // another process may have the number by now
	want, err2 := filepath.EvalSymlinks(program)
	if err != nil || err2 != nil {
		return pid, false
	}
	if want, err = filepath.Abs(want); err != nil {
		return pid, false
	}
	return pid, strings.TrimSuffix(exe, " (deleted)") == want
}

// readStepLines reads the lines of steps in metrics.jsonl. It leaves out lines that a killed process did not complete.
func readStepLines(path string) (lines []stepLine, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for _, line := range bytes.Split(text, []byte("\n")) {
		var s stepLine
		if bytes.Contains(line, []byte(`,"event":{`)) || json.Unmarshal(line, &s) != nil || s.Step == 0 {
			continue
		}
		lines = append(lines, s)
	}
	return lines, nil
}
