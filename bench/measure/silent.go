package measure

import "github.com/ecrec/ecrec/train"

// Silent is the observer of a job that is only measured: it ignores all events.
type Silent struct{}

// The events of train.Observer.

func (Silent) Started(train.Info) error          { return nil }
func (Silent) Step(train.StepInfo)               {}
func (Silent) Checkpointed(int64, string, error) {}
func (Silent) SkippedCheckpoint(string, error)   {}
func (Silent) Warned(string)                     {}
func (Silent) Recovered(train.Recovery)          {}
func (Silent) Evaluated(train.Eval)              {}
func (Silent) Committed(int64, string)           {}
