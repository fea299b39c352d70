package cli

import "github.com/ecrec/ecrec/train"

// observer follows a training job on the process that hosts rank 0: it is the part of
// train.Observer that comes after Started. A session passes each call to its observers in
// turn: the recorder of events, the metrics for Prometheus, the run folder, the curves for
// TensorBoard, the console.
type observer interface {
	Step(train.StepInfo)
	Evaluated(train.Eval)
	Committed(step int64, digest string)
	Checkpointed(step int64, path string, err error)
	SkippedCheckpoint(path string, err error)
	Recovered(train.Recovery)
	Warned(what string)
}

// unobserved ignores every call. Observers embed it and define the methods that they need.
type unobserved struct{}

func (unobserved) Step(train.StepInfo)               {}
func (unobserved) Evaluated(train.Eval)              {}
func (unobserved) Committed(int64, string)           {}
func (unobserved) Checkpointed(int64, string, error) {}
func (unobserved) SkippedCheckpoint(string, error)   {}
func (unobserved) Recovered(train.Recovery)          {}
func (unobserved) Warned(string)                     {}

// Step implements train.Observer, as do the methods below.
func (s *session) Step(i train.StepInfo) {
	for _, o := range s.observers {
		o.Step(i)
	}
}

func (s *session) Evaluated(e train.Eval) {
	for _, o := range s.observers {
		o.Evaluated(e)
	}
}

func (s *session) Committed(step int64, digest string) {
	for _, o := range s.observers {
		o.Committed(step, digest)
	}
}

func (s *session) Checkpointed(step int64, path string, err error) {
	for _, o := range s.observers {
		o.Checkpointed(step, path, err)
	}
}

func (s *session) SkippedCheckpoint(path string, err error) {
	for _, o := range s.observers {
		o.SkippedCheckpoint(path, err)
	}
}

func (s *session) Recovered(x train.Recovery) {
	for _, o := range s.observers {
		o.Recovered(x)
	}
}

func (s *session) Warned(what string) {
	for _, o := range s.observers {
		o.Warned(what)
	}
}
