package train

import (
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/transport"
)

// World spreads a job's ranks over processes: rank i runs on process i mod
// Processes (DESIGN.md section 3). The result depends on the ranks alone.
type World struct {
	Process, Processes int
	// Present are the processes that host ranks; all when nil.
	Present []int
	// Neighbours is how many of the processes share this one's machine, itself
	// included: they share its cores and its memory.
	Neighbours int
	// Join connects this process with the others and returns the endpoints of the
	// ranks that it hosts, ascending.
	Join func(hosted []int) ([]transport.Endpoint, error)
	// LostAgo is how long ago that happened for which there is this world; 0 where
	// that is not known, or nothing did.
	LostAgo time.Duration
	// Trained says, alike to all, that there was a commit in a world before: if nobody is
	// left who knows it, that is lost.
	Trained bool
	// Renew returns the world that follows this one, which ended with an error here; nil
	// where none does. Where it is nil itself, the loss of a rank ends the job.
	Renew func(error) *World
	// Hosted are the ranks of this process, ascending, where they are not those that
	// rank i mod Processes gives it.
	Hosted []int
	// Machine, if set, tells ranks on one machine from those on others.
	Machine func(rank int) string
	// Done, if set, is told that the ranks of this process are done, while they still
	// hold all they have. It reports false where others need them again, in the world
	// that Renew returns.
	Done func(*Result) (over bool, err error)
	// Committed is told, if set, that there was a commit in this world; whole: and nothing is
	// missing any more of what was lost.
	Committed func(whole bool)
}

// alone is the world of one process.
func alone(e env.Env, ranks int) *World {
	return &World{Processes: 1, Neighbours: 1, Join: func([]int) ([]transport.Endpoint, error) {
		return transport.NewMem(e, ranks, 1), nil
	}}
}

// present lists the processes that host ranks.
func (w *World) present() []int {
	if w.Present != nil {
		return w.Present
	}
	all := make([]int, w.Processes)
	for p := range all {
		all[p] = p
	}
	return all
}

// hosted lists this process's ranks, ascending.
func (w *World) hosted(ranks int) (ids []int) {
	if w.Hosted != nil {
		return w.Hosted
	}
	for id := w.Process; id < ranks; id += w.Processes {
		ids = append(ids, id)
	}
	return ids
}
