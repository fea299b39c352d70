package train

import (
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/transport"
)

// World spreads a job's ranks over processes: rank i runs on process i mod Processes, unless
// Hosted is set. The result depends on the ranks alone.
type World struct {
	Process, Processes int
	// Present lists the processes that host ranks. Nil: all do.
	Present []int
	// Neighbours is the number of processes on this machine, with this one. They share its
	// cores and its memory.
	Neighbours int
	// Cores is this process's share of them. Zero: they share all cores alike.
	Cores float64
	// Join connects this process with the others and returns the endpoints of the
	// ranks that it hosts, ascending.
	Join func(hosted []int) ([]transport.Endpoint, error)
	// Broken, if set, ends the passes of the ranks once this world has ended, before they wait for a message that does not come.
	Broken *Broken
	// LostAgo is the time since the loss that ended the world before. Zero: there was none, or
	// its time is unknown.
	LostAgo time.Duration
	// Later is set if there was a world before. Its processes may still hold locks.
	Later bool
	// Trained is set, on all processes, if there was a commit in a world before. If no rank
	// holds that commit any more, it is lost.
	Trained bool
	// Renew returns the world after this one, which ended with an error in this process. It
	// returns nil if there is none. Without Renew, the loss of a rank ends the job.
	Renew func(error) *World
	// Hosted lists the ranks of this process, ascending. Nil: rank i runs on process i mod
	// Processes.
	Hosted []int
	// Machine, if set, returns an id of a rank's machine.
	Machine func(rank int) string
	// Done, if set, is called when the ranks of this process are done. They still hold all
	// memory: if it returns false, other ranks need them in the world that Renew returns.
	Done func(*Result) (over bool, err error)
	// Committed, if set, is called after each commit in this world. FullyRedundant reports
	// that everything that was lost is rebuilt.
	Committed func(fullyRedundant bool)
}

// alone is the world of one process.
func alone(e env.Env, ranks int) *World {
	return &World{Processes: 1, Neighbours: 1, Join: func([]int) ([]transport.Endpoint, error) {
		return transport.NewMem(e, ranks, 1), nil
	}}
}

// presentProcesses lists the processes that host ranks.
func (w *World) presentProcesses() []int {
	if w.Present != nil {
		return w.Present
	}
	all := make([]int, w.Processes)
	for p := range all {
		all[p] = p
	}
	return all
}

// hostedRanks lists this process's ranks, ascending.
func (w *World) hostedRanks(ranks int) (ids []int) {
	if w.Hosted != nil {
		return w.Hosted
	}
	for id := w.Process; id < ranks; id += w.Processes {
		ids = append(ids, id)
	}
	return ids
}
