package train

import (
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/trace"
)

// Stage is a part of a step.
type Stage int

// The stages of a step in order, then what goes on beside it, at this rank; each
// name stands in metrics and reports.
const (
	StageWait     Stage = iota // for a planned batch
	StageFetch                 // rows from their owners
	StageForward               // including the loss
	StageBackward              // all-reduce under it
	StagePush                  // row gradients to their owners, and their update
	StageReduce                // what is left of the all-reduce
	StageUpdate                // dense parameters
	StageRead                  // beside: a later batch, waiting for the reader included
	StagePlan                  // beside: its plan, together with all other ranks
	StageDelayed               // beside: rows and gradients that may move early or late
	Stages
)

var stageNames = [Stages]string{"wait", "fetch", "forward", "backward", "push", "reduce", "update", "read", "plan", "delayed"}

func (s Stage) String() string { return stageNames[s] }

// stopwatch adds up the time of each stage of a step.
type stopwatch struct {
	e     env.Env
	last  time.Duration
	spent [Stages]time.Duration
	track *trace.Track
	step  int64
}

func (w *stopwatch) start(step int64) {
	w.step = step
	w.last = w.e.Now()
	w.spent = [Stages]time.Duration{}
}

// lap books the time since the last lap on a stage.
func (w *stopwatch) lap(s Stage) {
	now := w.e.Now()
	w.spent[s] += now - w.last
	w.track.Span(s.String(), w.step, w.last, now)
	w.last = now
}
