package launcher

import (
	"errors"
	"net"
	"slices"
	"time"

	"github.com/ecrec/ecrec/internal/printable"
	"github.com/ecrec/ecrec/launcher/control"
)

// World is a generation of the job, as a worker sees it. It does not change; Next returns a
// newer one.
type World struct {
	ID         string // the job's, equal in all its worlds
	Generation uint64
	Process    int // this one
	Processes  []control.Process
	// Fresh is true if this worker replaces a lost one: it has none of its ranks' state.
	Fresh bool
	// WasStandby is set if this worker was a standby. It stays set.
	WasStandby bool
	// LostAt is when the loss happened that caused this world; zero for the first world.
	LostAt time.Time
	// Trained is true if there was a commit in an earlier world.
	Trained bool
	// Doubts is the number of worlds in a row before this one, without a commit, that ended
	// because a process could not reach another. All processes may be slow, so time limits
	// should grow with it.
	Doubts int
	// Spares is the number of supervisors that waited for another's loss when the world
	// formed.
	Spares int
	// Incidents are the newest incidents of the job, in the order of their numbers.
	Incidents []control.Incident
	// Secret authenticates the connections of this generation.
	Secret []byte
	// Listener listens at Processes[Process].Addr. Next closes it.
	Listener net.Listener

	agent   *agent
	fired   []int
	changed chan struct{}
}

// ErrChanged ends work in a world that has changed.
var ErrChanged = errors.New("the world has changed")

// ErrEnding is the error of Next when the job ends instead of forming a world. It is an
// Ending if the reason is not another worker's error.
var ErrEnding = errors.New("the job ends: another process failed")

// Ending is an ErrEnding with a reason that is no worker's error. PrintedBy is the process that
// prints it.
type Ending struct {
	Why       string
	PrintedBy int
}

func (e *Ending) Error() string        { return e.Why }
func (e *Ending) Is(target error) bool { return target == ErrEnding }

// Worker returns the world of the job of which this process is a worker, once all processes
// have started; nil if this process is no worker. From here on a worker ignores signals: its
// supervisor passes them on. Worker calls prepare, if it is not nil, in a worker that waits for the
// loss of another (Spec.Standby), with the number of the job's processes.
func Worker(prepare func(processes int)) (*World, error) {
	a, err := newAgent()
	if a == nil || err != nil {
		return nil, err
	}
	a.prepare(prepare)
	w, err := a.nextWorld(&World{})
	if err != nil {
		return nil, err
	}
	w.Fresh, w.WasStandby = w.Processes[w.Process].Incarnation > 1, a.standby > 0
	return w, nil
}

// Changed is closed when a newer generation begins to form: no work in this one will succeed.
func (w *World) Changed() <-chan struct{} { return w.changed }

// Next waits for the world of the newest generation. The caller no longer uses this one.
func (w *World) Next() (*World, error) {
	select {
	case <-w.changed:
	case <-w.agent.leave:
		return nil, w.agent.endingReason()
	}
	w.Listener.Close()
	return w.agent.nextWorld(w)
}

// Lost reports that a process of this world is unreachable though the world has not changed;
// control.None: it is not clear which process. The job collects such reports and forms a new
// world with new connections. A process that is unreachable again, without a commit between,
// and has reported nothing itself, gets a new worker. A worker that died or fell silent is
// detected by its supervisor and needs no report.
func (w *World) Lost(process int) {
	w.agent.send(control.Message{Kind: control.KindUnreachable, Generation: w.Generation, Process: process})
}

// Committed reports a commit in this world. fullyRedundant means that everything lost has been
// rebuilt. Repeated calls cost nothing.
func (w *World) Committed(fullyRedundant bool) {
	first := w.agent.committed.Swap(w.Generation) != w.Generation
	if fullyRedundant && w.agent.redundant.Swap(w.Generation) != w.Generation || first {
		w.agent.send(control.Message{Kind: control.KindCommitted, Generation: w.Generation, FullyRedundant: fullyRedundant})
	}
}

// Done reports that this worker's work is done, and waits for the others. It returns true when
// all are done or the job ends: the process may end then. It returns false when the world has
// changed: this worker is needed again.
func (w *World) Done() bool {
	w.agent.send(control.Message{Kind: control.KindDone, Generation: w.Generation})
	select {
	case <-w.agent.leave:
		return true
	case <-w.changed:
		return false
	}
}

// Fired reports whether a fault had fired when the world formed.
func (w *World) Fired(fault int) bool { return slices.Contains(w.fired, fault) }

// Fire injects a fault into this process, unless it has fired before. It returns if the
// process survives.
func (w *World) Fire(f control.Fault) { w.agent.fireFault(f) }

// StopRequested reports whether the job should stop after this step.
func (w *World) StopRequested() bool { return w.agent.stop.Load() }

// Report reports how the work ended, before the process ends. Only the first report counts.
func (w *World) Report(r control.Report) {
	r.Error = printable.JoinLines(r.Error)
	w.agent.send(control.Message{Kind: control.KindReport, Report: &r})
}
