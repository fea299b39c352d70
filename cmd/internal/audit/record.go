package audit

import (
	"maps"
	"slices"

	"github.com/ecrec/ecrec/internal/event"
)

// Record is the traces that a run has left of its models.
type Record struct {
	// First is the step that the run began after: 0, or that of a checkpoint of another folder.
	First int64
	// Commits are the digests of the model, by the step of the commit.
	Commits map[int64]string
	// Checkpoints are the paths of the checkpoints that the run saved, by their steps.
	Checkpoints map[int64]string
	// End is the last step and EndDigest the digest after it, if the run has ended; else 0 and empty.
	End       int64
	EndDigest string
	// Twice are the steps that the run has committed with two digests, in order. An exact run has none.
	Twice []int64
}

// RecordOf reads the record of a run from all events of its folder, in the order of writing. A run that
// resumes repeats the steps after its checkpoint: earlier records of them no longer count.
func RecordOf(events []event.Event) *Record {
	r := &Record{Commits: map[int64]string{}, Checkpoints: map[int64]string{}}
	begun := false
	for _, e := range events {
		switch e.Event {
		case event.Start, event.Resume:
			if e.Event == event.Start || !begun {
				*r = Record{First: e.Step, Commits: map[int64]string{}, Checkpoints: map[int64]string{}}
			}
			begun = true
			r.dropAfter(e.Step)
		case event.Commit:
			if before, ok := r.Commits[e.Step]; ok && before != e.Digest && !slices.Contains(r.Twice, e.Step) {
				r.Twice = append(r.Twice, e.Step)
			}
			r.Commits[e.Step] = e.Digest
		case event.Checkpoint:
			r.Checkpoints[e.Step] = e.Path
		case event.End:
			r.End, r.EndDigest = e.Step, e.Digest
		}
	}
	slices.Sort(r.Twice)
	return r
}

// dropAfter removes the records of the steps after a step.
func (r *Record) dropAfter(step int64) {
	later := func(at int64, _ string) bool { return at > step }
	maps.DeleteFunc(r.Commits, later)
	maps.DeleteFunc(r.Checkpoints, later)
	r.Twice = slices.DeleteFunc(r.Twice, func(at int64) bool { return at > step })
	r.End, r.EndDigest = 0, ""
}

// Last is the last step of which the run has recorded a digest or a checkpoint.
func (r *Record) Last() int64 {
	last := r.First
	for step := range r.Commits {
		last = max(last, step)
	}
	for step := range r.Checkpoints {
		last = max(last, step)
	}
	if r.EndDigest != "" {
		last = max(last, r.End)
	}
	return last
}

// DigestAt is the digest that the run recorded after a step, empty if it recorded none.
func (r *Record) DigestAt(step int64) string {
	if step == r.End && r.EndDigest != "" {
		return r.EndDigest
	}
	return r.Commits[step]
}
