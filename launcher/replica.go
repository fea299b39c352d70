package launcher

import (
	"encoding/json"
	"io"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// replica is a keeper's copy of the job, and what followed from the events that it has
// taken. It is the consensus library's state machine; where the host decides alone it
// takes events itself.
type replica struct {
	self  int
	group *group        // nil: the host decides alone
	wake  chan struct{} // has a value when something was decided

	mu      sync.Mutex // guards what follows
	job     *job
	decided []decision
}

// decision is what follows from an event, and who tells people of it.
type decision struct {
	actions []action
	speaker int
}

func newReplica(self int, s shape, lim limits) *replica {
	return &replica{self: self, wake: make(chan struct{}, 1), job: newJob(s, lim)}
}

// propose has the job take an event. It may be lost together with the leader: who told of
// it tells again.
func (r *replica) propose(e event) {
	e.By, e.At = r.self, time.Now().UnixNano()
	if r.group == nil {
		r.apply(e)
		return
	}
	text, err := json.Marshal(e)
	if err != nil {
		panic(err) // every field can be written
	}
	r.group.propose(text)
}

func (r *replica) apply(e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.decided = append(r.decided, decision{r.job.apply(e), r.job.speaker()})
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// take is what was decided since it was asked last.
func (r *replica) take() []decision {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.decided
	r.decided = nil
	return d
}

// view shows the job as it stands.
func (r *replica) view(look func(j *job)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	look(r.job)
}

// Apply implements raft.FSM, as do the methods that follow.
func (r *replica) Apply(l *raft.Log) any {
	var e event
	if err := json.Unmarshal(l.Data, &e); err != nil {
		panic(err) // propose has written it
	}
	r.apply(e)
	return nil
}

// Snapshot is the job's state.
func (r *replica) Snapshot() (raft.FSMSnapshot, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return snapshot(r.job.snapshot()), nil
}

// Restore takes the state of another's snapshot.
func (r *replica) Restore(from io.ReadCloser) error {
	defer from.Close()
	text, err := io.ReadAll(from)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.job.restore(text)
}

type snapshot []byte

func (s snapshot) Persist(to raft.SnapshotSink) error {
	if _, err := to.Write(s); err != nil {
		_ = to.Cancel() // the first error counts
		return err
	}
	return to.Close()
}

func (s snapshot) Release() {}
