package rundir

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/pelletier/go-toml/v2"
)

const (
	maxFileBytes = 256 << 20 // of a summary: a loss for each of ten million steps
	tailBytes    = 64 << 10  // of metrics.jsonl
	headBytes    = 1 << 20   // of a log
	recentLines  = 10        // the rate is the mean of their rates

	endOfYears = 253402300800 * 1000 // year 10000, which time.Time cannot encode in JSON, in Unix milliseconds
)

// open opens a regular file. Opening a FIFO could block.
func open(dir fs.FS, name string) (fs.File, int64, error) {
	info, err := fs.Stat(dir, name)
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s: not a regular file", name)
	}
	f, err := dir.Open(name)
	return f, info.Size(), err
}

// read returns at most the first most bytes of a file.
func read(dir fs.FS, name string, most int64) ([]byte, error) {
	f, _, err := open(dir, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most))
}

// tail returns the complete lines in the last most bytes of a file.
func tail(dir fs.FS, name string, most int64) ([]byte, error) {
	f, size, err := open(dir, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if s, ok := f.(io.Seeker); ok && size > most {
		if _, err := s.Seek(size-most, io.SeekStart); err != nil {
			return nil, err
		}
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	if int64(len(text)) > most || size > most { // the first line is incomplete
		_, text, _ = bytes.Cut(text[max(0, int64(len(text))-most):], []byte("\n"))
	}
	return text[:bytes.LastIndexByte(text, '\n')+1], nil
}

// summary is the content of summary.json. Older versions lack some keys.
type summary struct {
	Name        string     `json:"name"`
	Digest      string     `json:"digest"`
	Steps       int64      `json:"steps"`
	Ranks       int        `json:"ranks"`
	Started     time.Time  `json:"started"`
	Ended       time.Time  `json:"ended"`
	WallS       float64    `json:"wall_s"`
	TrainLoss   []*float64 `json:"train_loss"`
	Evals       []Eval     `json:"eval"`
	SamplesPerS float64    `json:"samples_per_s"`
	Recoveries  []struct{} `json:"recoveries"`
	Stopped     bool       `json:"stopped"`
	Hosts       []string   `json:"hosts"`
	Version     string     `json:"version"`
	Commit      string     `json:"commit"`
	Command     []string   `json:"command"`
	Error       string     `json:"error"`
	Versions    struct {
		Ecrec string `json:"ecrec"`
	} `json:"versions"`
}

func readSummary(dir fs.FS, name string) (*summary, error) {
	text, err := read(dir, name, maxFileBytes)
	if err != nil {
		return nil, err
	}
	s := &summary{}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("not the summary of a run: %w", err)
	}
	return s, nil
}

// takeSummary adds the result of the run.
func (r *Run) takeSummary(s *summary) {
	r.Digest, r.Error, r.Step, r.Recoveries, r.Command = s.Digest, s.Error, s.Steps, len(s.Recoveries), s.Command
	first(&r.Name, s.Name, r.Name)
	first(&r.Version, s.Version, s.Versions.Ecrec, r.Version)
	first(&r.Commit, s.Commit, r.Commit)
	first(&r.Started, s.Started, r.Started)
	first(&r.Ended, s.Ended, r.Ended)
	first(&r.WallS, s.WallS)
	first(&r.Ranks, s.Ranks, r.Ranks)
	first(&r.SamplesPerS, s.SamplesPerS, r.SamplesPerS)
	if len(s.Hosts) > 0 {
		r.Hosts = s.Hosts
	}
	if n := len(s.TrainLoss); r.Loss == nil && n > 0 {
		r.Loss = s.TrainLoss[n-1]
	}
	if n := len(s.Evals); n > 0 {
		r.Eval = &s.Evals[n-1]
	}
	switch {
	case s.Error != "":
		r.State = Failed
	case s.Stopped:
		r.State = Stopped
	default:
		r.State = Finished
	}
}

// first sets to to the first value that is not zero.
func first[T comparable](to *T, values ...T) {
	var zero T
	for _, v := range values {
		if v != zero {
			*to = v
			return
		}
	}
}

// line is a line of metrics.jsonl. Lines of events have no rate.
type line struct {
	Step        int64    `json:"step"`
	Loss        *float64 `json:"loss"`
	SamplesPerS *float64 `json:"samples_per_s"`
	StepMS      float64  `json:"step_ms"`
	UnixMS      int64    `json:"unix_ms"`
	Rebuild     *Rebuild `json:"rebuild"`
}

// takeMetrics adds the newest figures.
func (r *Run) takeMetrics(dir fs.FS, name string) {
	text, err := tail(dir, name, tailBytes)
	if err != nil {
		return // a run that has just begun has none
	}
	var recent []line
	for l := range bytes.Lines(text) {
		var m line
		if json.Unmarshal(l, &m) == nil && m.SamplesPerS != nil {
			recent = append(recent, m)
		}
	}
	if len(recent) == 0 {
		return
	}
	last := recent[len(recent)-1]
	r.Step, r.Loss, r.Rebuild = last.Step, last.Loss, last.Rebuild
	if last.UnixMS > 0 && last.UnixMS < endOfYears {
		r.SeenAt = time.UnixMilli(last.UnixMS).UTC()
	}
	recent = recent[max(0, len(recent)-recentLines):]
	for _, m := range recent {
		r.SamplesPerS += *m.SamplesPerS / float64(len(recent))
		r.stepMS += m.StepMS / float64(len(recent))
	}
}

// stepsOfLogs returns the last step of the run, as logged by the process that hosts rank 0. Versions
// before 0.5.0 logged it with "start".
func stepsOfLogs(dir fs.FS) (steps int64) {
	logs, err := fs.Glob(dir, "process-*.log")
	if err != nil {
		return 0
	}
	newest := time.Time{}
	for _, name := range logs {
		text, err := read(dir, name, headBytes)
		if err != nil {
			continue
		}
		for l := range bytes.Lines(text) {
			var x struct {
				Message string    `json:"message"`
				Steps   int64     `json:"steps"`
				Time    time.Time `json:"time"`
			}
			if json.Unmarshal(l, &x) == nil && (x.Message == "train" || x.Message == "start") && x.Steps > 0 && !x.Time.Before(newest) {
				newest, steps = x.Time, x.Steps
			}
		}
	}
	return steps
}

// takeConfig adds the name and the settings.
func (r *Run) takeConfig(dir fs.FS, name string) {
	text, err := read(dir, name, maxFileBytes)
	if err != nil {
		return
	}
	var all map[string]any
	if err := toml.Unmarshal(text, &all); err != nil {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%s: %v", name, err))
		return
	}
	r.Config = map[string]string{}
	flatten(r.Config, "", all)
	r.Name = r.Config["job.name"]
	fmt.Sscan(r.Config["train.iterations"], &r.Steps) // 0: it counts epochs
	fmt.Sscan(r.Config["job.ranks"], &r.Ranks)
	if code := r.Config["ec.code"]; code != "" && code != "none" {
		spares := 0
		fmt.Sscan(r.Config["elastic.spares"], &spares)
		r.Spares = &spares
	}
}

// flatten lists the values of nested tables by their full keys.
func flatten(to map[string]string, prefix string, table map[string]any) {
	for k, v := range table {
		if below, ok := v.(map[string]any); ok {
			flatten(to, prefix+k+".", below)
			continue
		}
		to[prefix+k] = fmt.Sprint(v)
	}
}
