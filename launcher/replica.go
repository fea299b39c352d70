package launcher

import (
	"encoding/json"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/ecrec/ecrec/launcher/control"
)

// replica is a member's copy of the job, and the decisions that followed from its events. It
// is the state machine of the consensus library. In a job without voters the host applies
// events itself.
type replica struct {
	self      int
	consensus *consensus    // nil: the host decides alone
	wake      chan struct{} // has a value if there are decisions

	mu      sync.Mutex // guards the fields below
	job     *control.Job
	decided []decision
}

// decision is the actions that follow from an event, and the member that prints their
// messages.
type decision struct {
	actions []control.Action
	printer int
}

// endsJob reports whether the event ended the job.
func (d decision) endsJob() bool {
	return slices.ContainsFunc(d.actions, func(a control.Action) bool {
		return a.Do == control.DoBroadcast && a.Message.Kind == control.KindEnd
	})
}

func newReplica(self int, s control.Shape, lim limits) *replica {
	return &replica{self: self, wake: make(chan struct{}, 1), job: control.NewJob(s, lim.Limits)}
}

// propose has the job take an event. The event may be lost together with the leader; its
// sender repeats it to the next.
func (r *replica) propose(e control.Event) {
	e.By, e.At = r.self, time.Now().UnixNano()
	if r.consensus == nil {
		r.applyEvent(e)
		return
	}
	text, err := json.Marshal(e)
	if err != nil {
		panic(err) // every field can be encoded
	}
	r.consensus.propose(text)
}

func (r *replica) applyEvent(e control.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.decided = append(r.decided, decision{r.job.Step(e), r.job.Printer()})
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// takeDecisions returns the decisions since its last call.
func (r *replica) takeDecisions() []decision {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.decided
	r.decided = nil
	return d
}

// withJob calls read with the job. read must not change it.
func (r *replica) withJob(read func(j *control.Job)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	read(r.job)
}

// Apply implements raft.FSM, as do the methods that follow.
func (r *replica) Apply(l *raft.Log) any {
	var e control.Event
	if err := json.Unmarshal(l.Data, &e); err != nil {
		panic(err) // propose has encoded it
	}
	r.applyEvent(e)
	return nil
}

// Snapshot is the job's state.
func (r *replica) Snapshot() (raft.FSMSnapshot, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return snapshot(r.job.Snapshot()), nil
}

// Restore replaces the job's state by that of another member's snapshot.
func (r *replica) Restore(from io.ReadCloser) error {
	defer from.Close()
	text, err := io.ReadAll(from)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.job.Restore(text)
}

// snapshot implements raft.FSMSnapshot.
type snapshot []byte

// Persist writes the snapshot.
func (s snapshot) Persist(to raft.SnapshotSink) error {
	if _, err := to.Write(s); err != nil {
		_ = to.Cancel() // the first error counts
		return err
	}
	return to.Close()
}

// Release does nothing: the snapshot holds no resource.
func (s snapshot) Release() {}
