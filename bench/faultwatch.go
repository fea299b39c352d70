package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// faultWatch does a fault to a process of a run, once a step has ended.
type faultWatch struct {
	program string
	step    int64
	process int
	inject  func(worker int) error // nil: only the time is taken

	then func(out string) bool // called until it returns true; may be nil

	at   int64 // when the fault was done
	done bool  // the fault was done, and then returned true
	err  error
}

// start begins to watch a run. The returned function ends that, and waits until the watch has ended.
func (w *faultWatch) start(out string) (stop func()) {
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(injectPoll)
		defer tick.Stop()
		for lastStep(filepath.Join(out, "metrics.jsonl")) < w.step {
			select {
			case <-ended:
				return
			case <-tick.C:
			}
		}
		at := time.Now().UnixMilli()
		if w.inject != nil {
			pid, found := workerOf(out, w.program, w.process)
			if !found {
				w.err = errors.New("it does not run")
				return
			}
			if w.err = w.inject(pid); w.err != nil {
				return
			}
		}
		w.at = at
		for w.then != nil && !w.then(out) {
			select {
			case <-ended:
				return
			case <-tick.C:
			}
		}
		w.done = true
	}()
	return func() { close(ended); <-done }
}

// lastStep returns the last step in a file of metrics, 0 if it has none.
func lastStep(path string) int64 {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	const tail = 4 << 10 // some lines
	if end, err := f.Seek(0, io.SeekEnd); err != nil || end > tail && seekTo(f, end-tail) != nil {
		return 0
	} else if end <= tail && seekTo(f, 0) != nil {
		return 0
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return 0
	}
	last := int64(0)
	for _, line := range bytes.Split(text, []byte("\n")) {
		var s stepLine
		if !bytes.Contains(line, []byte(`,"event":{`)) && json.Unmarshal(line, &s) == nil && s.Step > 0 {
			last = s.Step
		}
	}
	return last
}

func seekTo(f *os.File, at int64) error {
	_, err := f.Seek(at, io.SeekStart)
	return err
}

// parentOf returns the parent of a process, by /proc.
func parentOf(pid int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, found := strings.Cut(string(text), ") ") // the name may have spaces
	fields := strings.Fields(rest)
	if !found || len(fields) < 2 {
		return 0, fmt.Errorf("/proc/%d/stat: %q", pid, text)
	}
	return strconv.Atoi(fields[1])
}
