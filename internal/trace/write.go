package trace

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ecrec/ecrec/internal/atomicfile"
)

// event is one of Chrome's trace format: a complete one ("X") or metadata ("M").
type event struct {
	Name      string `json:"name"`
	Phase     string `json:"ph"`
	Process   int    `json:"pid"`
	Track     int    `json:"tid"`
	Timestamp micros `json:"ts"`
	Duration  micros `json:"dur"`
	Args      any    `json:"args"`
}

// micros is a time in the unit of the format: microseconds, with three decimals.
type micros time.Duration

func (m micros) MarshalJSON() ([]byte, error) {
	sign := ""
	if m < 0 {
		sign, m = "-", -m
	}
	return fmt.Appendf(nil, "%s%d.%03d", sign, m/1000, m%1000), nil
}

type (
	nameArgs struct {
		Name    string `json:"name"`
		Dropped int64  `json:"dropped,omitempty"` // oldest spans of the track
	}
	stepArgs struct {
		Step int64 `json:"step"`
	}
)

// PartPath is the path of a process's part of the trace at path.
func PartPath(path string, process int) string {
	if process == 0 {
		return path
	}
	ext := filepath.Ext(path)
	return fmt.Sprintf("%s.%d%s", strings.TrimSuffix(path, ext), process, ext)
}

// WriteFile writes a process's part of the trace at path, atomically.
func (r *Recorder) WriteFile(path string, process int) error {
	if r == nil {
		return nil
	}
	return write(PartPath(path, process), r.writeEvents)
}

func (r *Recorder) writeEvents(out *events) error {
	r.mon.Lock()
	tracks, zero := slices.Clone(r.tracks), r.zero
	r.mon.Unlock()
	named := map[int]bool{}
	for i, t := range tracks {
		id := i + 1
		if !named[t.process] {
			named[t.process] = true
			if err := out.addEvent(event{Name: "process_name", Phase: "M", Process: t.process,
				Args: nameArgs{Name: fmt.Sprintf("process %d", t.process)}}); err != nil {
				return err
			}
		}
		spans, dropped := t.copySpans()
		if err := out.addEvent(event{Name: "thread_name", Phase: "M", Process: t.process, Track: id,
			Args: nameArgs{t.name, dropped}}); err != nil {
			return err
		}
		for _, s := range spans {
			if err := out.addEvent(event{Name: s.name, Phase: "X", Process: t.process, Track: id,
				Timestamp: micros(s.begin - zero), Duration: micros(s.end - s.begin), Args: stepArgs{s.step}}); err != nil {
				return err
			}
		}
	}
	return nil
}

// Merge joins the parts that these processes have written to one file at path, and removes
// them.
func Merge(path string, processes []int) error {
	if len(processes) == 1 && processes[0] == 0 {
		return nil
	}
	if err := write(path, func(out *events) error {
		for _, p := range processes {
			if err := out.addFile(PartPath(path, p)); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	var err error
	for _, p := range processes {
		if p != 0 {
			err = errors.Join(err, os.Remove(PartPath(path, p)))
		}
	}
	return err
}

// events is a file that is being written, with one event per line.
type events struct {
	w     *bufio.Writer
	began bool
}

func write(path string, fill func(*events) error) error {
	err := func() error {
		f, err := atomicfile.Create(path)
		if err != nil {
			return err
		}
		defer f.Abort()
		out := &events{w: bufio.NewWriter(f)} // keeps its first error for Flush
		out.w.WriteString(`{"displayTimeUnit":"ms","traceEvents":[`)
		if err := fill(out); err != nil {
			return err
		}
		out.w.WriteString("\n]}\n")
		if err := out.w.Flush(); err != nil {
			return err
		}
		return f.Commit()
	}()
	if err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	return nil
}

func (out *events) addEvent(x any) error {
	line, err := json.Marshal(x)
	if err != nil {
		return err
	}
	separator := ",\n"
	if !out.began {
		out.began, separator = true, "\n"
	}
	_, err = out.w.WriteString(separator)
	if err == nil {
		_, err = out.w.Write(line)
	}
	return err
}

// addFile adds the events of a file.
func (out *events) addFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	in := json.NewDecoder(bufio.NewReader(f))
	for {
		token, err := in.Token()
		if err == io.EOF {
			return fmt.Errorf("%s: no traceEvents; is it a trace?", path)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if token == "traceEvents" {
			break
		}
	}
	if _, err := in.Token(); err != nil { // the bracket
		return fmt.Errorf("%s: %w", path, err)
	}
	for in.More() {
		var x json.RawMessage
		if err := in.Decode(&x); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if err := out.addEvent(x); err != nil {
			return err
		}
	}
	return nil
}
