package train

import (
	"fmt"

	"github.com/ecrec/ecrec/internal/trace"
)

// tracks are a rank's lines in the timeline of a job. They are nil if there is no timeline.
type tracks struct{ stages, delayed, planner, dense *trace.Track }

// newTracks adds a rank's tracks to a recorder, which may be nil.
func newTracks(rec *trace.Recorder, process, rank int) tracks {
	line := func(what string) *trace.Track {
		return rec.Track(process, fmt.Sprintf("rank %d %s", rank, what))
	}
	return tracks{stages: line("step"), delayed: line("delayed rows"), planner: line("planner"), dense: line("dense gradients")}
}
