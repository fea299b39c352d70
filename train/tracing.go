package train

import (
	"fmt"

	"github.com/ecrec/ecrec/internal/trace"
)

// tracks are a rank's lines in the timeline of a job; all nil where none is wanted.
type tracks struct {
	recorder                        *trace.Recorder
	stages, delayed, planner, dense *trace.Track
}

func (j *job) tracksOf(rank int) tracks {
	rec := j.trace
	line := func(what string) *trace.Track {
		return rec.Track(j.world.Process, fmt.Sprintf("rank %d %s", rank, what))
	}
	return tracks{recorder: rec, stages: line("step"), delayed: line("delayed rows"), planner: line("planner"), dense: line("dense gradients")}
}

// saveTrace writes the job's timeline, one file of all processes.
func (r *rank) saveTrace() error {
	j := r.job
	if j.trace == nil {
		return nil
	}
	path := j.o.TraceTo
	if r.id == j.hosted[0] {
		if err := r.env.Do("write "+path, func() error { return j.trace.WriteFile(path, j.world.Process) }); err != nil {
			return err
		}
	}
	if err := r.ctl.comm.Barrier().Wait(); err != nil || r.id != 0 {
		return err
	}
	return r.env.Do("merge "+path, func() error { return trace.Merge(path, j.world.present()) })
}
