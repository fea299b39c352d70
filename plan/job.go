package plan

import (
	"github.com/ecrec/ecrec/ec"
	"github.com/ecrec/ecrec/internal/placement"
)

// Job describes a job, as far as its traffic depends on it.
type Job struct {
	// Ranks 0 to Trainers-1 train. Ranks First to First+Place.Owners-1 own the rows.
	Ranks, Trainers, First int
	Place                  placement.Map

	// Width is the weights of a row, and Stride its weights and optimizer state, in floats.
	Width, Stride int
	// Split is set in cache mode planned: rows and gradients are sent early and late.
	Split bool
	// DelayedSync and AllRows are those of lrpp.PlanOptions.
	DelayedSync, AllRows bool

	// Buckets are the floats of each dense gradient that is reduced on its own.
	Buckets []int
	// OneHost is set if all ranks can read each other's memory.
	OneHost bool

	// Coded is set if deltas are sent to parities, in groups of Layout.
	Coded  bool
	Layout ec.Layout
	// Commits is set if there are epochs, of CommitEvery steps.
	Commits     bool
	CommitEvery int
	// StatusBytes is the length of a step status, and SealBytes how much longer one is in each epoch.
	StatusBytes, SealBytes int
}

// Class is a kind of message.
type Class int

// The classes of the messages of a step.
const (
	Lists      Class = iota // which rows a slice reads, and whether they are late; sent ahead of training
	LateRows                // rows that a step waits for
	EarlyRows               // rows that are sent while the step before computes
	Gradients               // of rows, which a step waits for
	LaterGrads              // of rows, sent while the next step computes
	Dense                   // the all-reduce of dense gradients, under the backward pass
	Status                  // the step status
	Deltas                  // of rows, to the holders of parities, in the background
	Classes
)

var classNames = [Classes]string{"lists of rows", "rows, waited for", "rows, ahead", "gradients, waited for", "gradients, later",
	"dense all-reduce", "step status", "deltas to parities"}

func (c Class) String() string { return classNames[c] }

// Traffic counts messages and the bytes of their payloads.
type Traffic struct{ Messages, Bytes int64 }

// Add adds o.
func (t *Traffic) Add(o Traffic) { t.Messages, t.Bytes = t.Messages+o.Messages, t.Bytes+o.Bytes }

// Rank counts the messages and the rows of one rank.
type Rank struct {
	Sent, Received [Classes]Traffic
	// Of its slices: lookups, and distinct rows.
	Lookups, Rows int64
	// As owner: rows sent to the trainers, itself included, of which late; gradients received
	// from them, of which now; distinct rows updated, of which now.
	Served, ServedLate, Summed, SummedNow, Updated, UpdatedNow int64
	// Changed counts the rows of its epochs, Folded the deltas that it receives.
	Changed, Folded int64
}
