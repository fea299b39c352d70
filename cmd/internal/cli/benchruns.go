package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ecrec/ecrec/bench/paper"
	"github.com/ecrec/ecrec/internal/machine"
)

// reportRuns measures the runs of a report. Each is a process of its own: a crash of one does not end the others, and its memory is free
// after it.
type reportRuns struct {
	*app
	program string        // the executable that measures
	dir     string        // of the report files
	limit   time.Duration // of a run
	lanes   int           // runs of counts and virtual time beside each other
	begun   time.Time
	before  float64 // seconds of earlier sessions

	mu      sync.Mutex // guards out, and what follows
	session *paper.Session
}

// runLimit is the longest time of a run. None should take a tenth of it.
const runLimit = time.Hour

// measureAll measures the runs that are not done. Those with times run alone, one after the other. Then the others, of counts and virtual
// time, run beside each other. It returns an error only if the record of the session cannot be written.
func (r *reportRuns) measureAll() error {
	r.stop.setBegun()
	r.session.Stopped = ""
	r.before, r.begun = r.session.Seconds, time.Now()
	if err := r.writeSession(); err != nil { // a report that is killed in its first run can be resumed
		return err
	}
	for _, part := range []struct {
		timed bool
		lanes int
	}{{true, 1}, {false, r.lanes}} {
		var g errgroup.Group
		g.SetLimit(max(1, part.lanes))
		for i := range r.session.Runs {
			if x := &r.session.Runs[i]; x.Run.IsTimed() == part.timed {
				g.Go(func() error { return r.measureRun(i, x) }) // waits for a lane
			}
		}
		if err := g.Wait(); err != nil {
			return err
		}
	}
	all := len(r.session.Runs)
	if r.stop.isRequested() {
		if done := countDone(r.session.Runs); done < all {
			r.session.Stopped = fmt.Sprintf("%d of %d runs", done, all)
		}
	}
	return r.writeSession()
}

// measureRun measures run i, unless it is done or a stop is requested, and records it.
func (r *reportRuns) measureRun(i int, x *paper.RunRecord) error {
	if r.stop.isRequested() {
		return nil
	}
	all := len(r.session.Runs)
	number := fmt.Sprintf("%*d/%d", len(strconv.Itoa(all)), i+1, all)
	r.mu.Lock()
	fmt.Fprintf(r.out, "%s  %s  (%s)\n", number, x.Run, strings.Join(x.Figures, ", "))
	if x.Done {
		fmt.Fprintf(r.out, "%s  measured before\n", number)
		r.mu.Unlock()
		return nil
	}
	r.mu.Unlock()
	begun := time.Now()
	err := r.measure(x.Run, x.File)
	r.mu.Lock()
	defer r.mu.Unlock()
	x.Seconds = time.Since(begun).Seconds()
	switch {
	case r.stop.isRequested() && err != nil:
		x.Seconds = 0 // its part is dropped
	case err != nil:
		x.Error = err.Error()
		fmt.Fprintf(r.out, "%s  failed after %.1f s: %v\n", number, x.Seconds, err)
	default:
		x.Done, x.Program = true, r.session.Program
		fmt.Fprintf(r.out, "%s  %.1f s\n", number, x.Seconds)
	}
	return r.writeSession()
}

// laneMemory is the memory that a run of counts or virtual time may take. One of 60 simulated ranks with a code took 7 GB. One of 64
// without a code takes about 11 GB, and those beside it less.
const laneMemory = 10 << 30

// countLanes returns how many runs of counts and virtual time fit beside each other.
func countLanes() int {
	n := runtime.GOMAXPROCS(0)
	if left, ok := machine.AvailableMemory(); ok {
		n = min(n, int(left/laneMemory))
	}
	return max(1, n)
}

func countDone(runs []paper.RunRecord) (n int) {
	for _, x := range runs {
		if x.Done || x.Error != "" {
			n++
		}
	}
	return n
}

func (r *reportRuns) writeSession() error {
	r.session.Seconds = r.before + time.Since(r.begun).Seconds()
	return writeAtomically(filepath.Join(r.dir, sessionFile), func(out io.Writer) error {
		e := json.NewEncoder(out)
		e.SetIndent("", " ")
		return e.Encode(r.session)
	})
}
