package rundir

import (
	"encoding/json"
	"io/fs"
	"path"

	"github.com/ecrec/ecrec/internal/event"
)

// Series is the history of a run, by step.
type Series struct {
	Points []Point
	Evals  []Eval
	Losses []int64 // the steps at which ranks were lost
}

// Point is a line of metrics.jsonl.
type Point struct {
	Step        int64              `json:"step"`
	Loss        *float64           `json:"loss"` // nil: not finite
	SamplesPerS *float64           `json:"samples_per_s"`
	StageMS     map[string]float64 `json:"stage_ms"`
}

// ReadSeries returns the history of the run in a folder.
func ReadSeries(dir fs.FS) *Series {
	s := &Series{}
	name := metricsFile
	if _, err := fs.Stat(dir, path.Join(unfinished, configFile)); err == nil {
		name = path.Join(unfinished, metricsFile)
	}
	if f, _, err := open(dir, name); err == nil {
		defer f.Close()
		_ = event.Lines(f, func(line []byte) { // the readable part is shown
			var p Point
			if json.Unmarshal(line, &p) == nil && p.SamplesPerS != nil {
				s.Points = append(s.Points, p)
			}
		})
	}
	if f, _, err := open(dir, event.File); err == nil {
		defer f.Close()
		all, _ := event.Read(f) // the readable part is shown
		for _, e := range event.LastRun(all) {
			switch e.Event {
			case event.Eval:
				s.Evals = append(s.Evals, Eval{Step: e.Step, LogLoss: e.LogLoss, AUC: e.AUC})
			case event.Recovered:
				s.Losses = append(s.Losses, e.Step)
			}
		}
	}
	return s
}
