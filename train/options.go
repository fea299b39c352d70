package train

import (
	"time"

	"github.com/ecrec/ecrec/commit"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/lrpp"
)

// Options are what a job needs beside its config.
type Options struct {
	// Stop is asked once per step by every rank; a step that any rank wants to be
	// the last is. EvalOnly asks once per batch, and ends with ErrStopped.
	Stop func() bool
	// Observer hears of steps and evaluations, from rank 0's goroutine.
	Observer Observer
	// Progress hears of data that has to be converted first.
	Progress func(data.Progress) error
	// SaveTo is where the final model goes (safetensors); nowhere when empty.
	SaveTo string
	// WrapStream, if set, may put something around the stream of a rank, to measure
	// what its operations take.
	WrapStream func(rank int, s kernels.Stream) kernels.Stream
	// World says which ranks this process hosts; all of them when nil.
	World *World
	// Resume goes on from a checkpoint: a folder of it or of several, or "auto" for
	// checkpoint.dir where there is one. Empty: start anew.
	Resume string
	// TraceTo is where the timeline of the job goes (Chrome trace); nowhere when
	// empty.
	TraceTo string
	// Chaos, if set, is called where faults may be injected, by name of the point (see
	// Points): its error is the rank's.
	Chaos func(rank int, step int64, point string) error
	// RepairRows, if set, is how many shards a step rebuilds, those that the next one reads
	// included where there are more; else as many as the time allows.
	RepairRows int
	// Audit, if set, is given what each owner of rows holds when an epoch has been
	// sealed, which ended with a step.
	Audit func(step int64, a *commit.Audit)
	// Check has every read of a row checked for what it should read (package lrpp), as
	// debug builds do.
	Check bool
	// EvalOnly skips training: the model of model.init_from is evaluated.
	EvalOnly bool
}

// Observer hears how a job goes. Its methods return soon.
type Observer interface {
	// Started comes once all is read and allocated, before the first step; its
	// error ends the job.
	Started(Info) error
	Step(StepInfo)
	Evaluated(Eval)
	// Checkpointed comes after each attempt to save; err says why it failed.
	Checkpointed(step int64, path string, err error)
	// PassedOver comes for each checkpoint that cannot be resumed from.
	PassedOver(path string, err error)
	// Recovered comes when all is back that was lost.
	Recovered(Recovery)
	// Warned comes where the job does not do as its config says, and why.
	Warned(what string)
}

// Info describes a job about to start.
type Info struct {
	Device         string
	GPU            [16]byte // its UUID; zeros: there is none
	Ranks, Threads int
	DenseParams    int
	Rows           int64
	Began, Steps   int64 // the step it resumes after, 0 at the start; the last
	BytesPerRow    int
}

// StepInfo describes a finished step.
type StepInfo struct {
	Step, Last int64
	Loss       float64 // mean over the global batch, before the update
	Samples    int
	Took       time.Duration
	Stages     [Stages]time.Duration // on rank 0
}

// Eval is the result of one evaluation. AUC is NaN where the samples have one
// label only.
type Eval struct {
	Step         int64
	Logloss, AUC float64
}

// Result is what a job leaves, also when it failed.
type Result struct {
	Began     int64 // the step of the checkpoint that it resumed from; 0: none
	Steps     int64 // done, those before Began included
	TrainLoss []float64
	Eval      []Eval
	Digest    string     // empty when the job failed
	Stopped   bool       // ended by Stop, before its last step
	Skipped   int64      // malformed samples left out
	Moved     lrpp.Moved // between ranks, by all of them, in training
	// Protection is what commits have cost, on all ranks.
	Protection Protection
	// Recoveries are the losses that the run survived.
	Recoveries []Recovery
}

// Protection is what commits have cost a job: bytes sent in all, memory at the end, and
// how long the rank waited that waited longest.
type Protection struct {
	SentBytes, ParityBytes, JournalBytes, StagedBytes, SnapshotBytes int64
	Waited                                                           time.Duration
}
