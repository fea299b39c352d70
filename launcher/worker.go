package launcher

import (
	"errors"
	"net"
	"slices"
	"time"
)

// World is a generation of the job, as a worker knows it. It does not change; when
// there is a newer one, Next gives that.
type World struct {
	Generation uint64
	Process    int // this one
	Processes  []Process
	// Fresh says that this worker took the place of one that was lost: it has
	// nothing of what its ranks had.
	Fresh bool
	// LostAt is when that happened for which there is this world; zero for the first.
	LostAt time.Time
	// Trained says that there was a commit in a world before.
	Trained bool
	// Secret authenticates the connections of this generation.
	Secret []byte
	// Listener stands at Processes[Process].Addr. Next closes it.
	Listener net.Listener

	agent   *agent
	fired   []int
	changed chan struct{}
}

// ErrChanged is what ends work in a world that has changed.
var ErrChanged = errors.New("the world has changed")

// ErrEnding is what Next returns when the job ends instead of forming a world (Ending, where
// that is not for another worker's error).
var ErrEnding = errors.New("the job ends: another process failed")

// Ending is an ErrEnding with a reason that is no worker's error. Speaker is the process that
// tells people.
type Ending struct {
	Why     string
	Speaker int
}

func (e *Ending) Error() string        { return e.Why }
func (e *Ending) Is(target error) bool { return target == ErrEnding }

// Worker returns the world of the job of which this process is a worker, once all
// processes are there; nil if this process is no worker. A worker hears of
// signals from its supervisor: those to itself are ignored from here on.
func Worker() (*World, error) {
	a, err := newAgent()
	if a == nil || err != nil {
		return nil, err
	}
	w, err := a.next(&World{})
	if err != nil {
		return nil, err
	}
	w.Fresh = w.Processes[w.Process].Incarnation > 1
	return w, nil
}

// Changed is closed when a newer generation begins to form: nothing that this one
// does will end well.
func (w *World) Changed() <-chan struct{} { return w.changed }

// Next waits for the newest generation's world. It is called when nothing uses
// this one any more.
func (w *World) Next() (*World, error) {
	select {
	case <-w.changed:
	case <-w.agent.leave:
		return nil, w.agent.whyEnding()
	}
	w.Listener.Close()
	return w.agent.next(w)
}

// Lost tells that a process of this world, -1 if it is not clear which, is not
// reached any more, though the world has not changed. The job hears what others say of
// theirs, and forms a new world, in which they may find each other again; where they do not,
// without a commit between, the one that could say nothing gets another worker. A process that
// died, or fell silent, is found by its supervisor: no need to tell.
func (w *World) Lost(process int) {
	w.agent.send(message{Kind: kindLost, Generation: w.Generation, Process: process})
}

// Committed tells that there was a commit since the world changed; whole: and nothing is
// missing any more of what was lost. More than once is allowed and costs nothing.
func (w *World) Committed(whole bool) {
	news := w.agent.committed.Swap(w.Generation) != w.Generation
	if whole && w.agent.whole.Swap(w.Generation) != w.Generation || news {
		w.agent.send(message{Kind: kindCommitted, Generation: w.Generation, Whole: whole})
	}
}

// Done tells that this worker's work is done and waits for the others: it is true
// when all are done, or the job ends; the process may end then. It is false when
// the world has changed: others need this worker again.
func (w *World) Done() bool {
	w.agent.send(message{Kind: kindDone, Generation: w.Generation})
	select {
	case <-w.agent.leave:
		return true
	case <-w.changed:
		return false
	}
}

// Fired reports whether a fault has happened, as far as was known when the world
// formed.
func (w *World) Fired(fault int) bool { return slices.Contains(w.fired, fault) }

// Fire has a fault happen to this process, unless it has happened. It returns if
// the process survives that.
func (w *World) Fire(f Fault) { w.agent.fire(f) }

// StopRequested reports whether the job is to stop after this step.
func (w *World) StopRequested() bool { return w.agent.stop.Load() }

// Report tells how the work ended, before the process does. It is called once.
func (w *World) Report(r Report) {
	r.Error = oneLine(r.Error)
	w.agent.send(message{Kind: kindReport, Report: &r})
}
