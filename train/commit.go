package train

import (
	"github.com/ecrec/ecrec/commit"
	"github.com/ecrec/ecrec/ec"
	"github.com/ecrec/ecrec/kernels"
)

// history is what a run has given up to a step. Every rank keeps it; checkpoints
// and commits hold it.
type history struct {
	TrainLoss []float64 `json:"train_loss"`
	Eval      []Eval    `json:"eval"`
}

// upTo is the history as it was at the end of a step.
func (h *history) upTo(step int64) history {
	past := history{TrainLoss: h.TrainLoss[:min(int64(len(h.TrainLoss)), step)]}
	for _, e := range h.Eval {
		if e.Step <= step {
			past.Eval = append(past.Eval, e)
		}
	}
	return past
}

// snapshot is the dense part of the model at the end of a step.
type snapshot struct {
	step           int64
	weights, state kernels.Buffer
}

// openCommits makes the rank's part in commits, where ec.code asks for them.
func (r *rank) openCommits() (err error) {
	j := r.job
	if !j.protects() {
		return nil
	}
	r.commits, err = commit.New(commit.Options{Env: j.env, Device: j.dev, Shard: r.shard, Layout: j.layout, Code: j.cfg.EC.Code,
		Slots: j.place.Slots(0), Owner: j.roles.owner(r.id), First: j.roles.first, Every: int64(j.cfg.EC.CommitEvery)})
	if err == nil && j.roles.owner(r.id) >= 0 {
		r.shard.Keep()
	}
	return err
}

// protect makes what the run starts from the first commit.
func (r *rank) protect() error {
	if r.commits == nil {
		return nil
	}
	r.commits.Begin(r.done, r.done == 0 && r.job.cfg.Model.InitFrom == "")
	return r.snap(r.done)
}

// protects reports whether the job's rows are coded.
func (j *job) protects() bool { return j.cfg.EC.Code != ec.None }

// between is called when every update of the steps before one is done and none of
// its own has begun: an epoch that ended there is sealed.
func (r *rank) between(step int64) error {
	if r.commits == nil || !r.commits.Due(step-1) {
		return nil
	}
	return r.seal(step - 1)
}

// sealCached seals, in mode lrpp, an epoch that ends with the step that was trained
// last: rows then stand at their owners.
func (r *rank) sealCached() error {
	if r.commits == nil || r.cache == nil || !r.commits.Due(r.done) {
		return nil
	}
	if err := r.exchange.Settle(); err != nil {
		return err
	}
	return r.seal(r.done)
}

// prepared is the commit that this rank is prepared for.
func (r *rank) prepared() int64 {
	if r.commits == nil {
		return 0
	}
	return r.commits.Prepared()
}

func (r *rank) seal(step int64) error {
	if err := r.snap(step); err != nil {
		return err
	}
	return r.commits.Seal(step)
}

// decide commits what all ranks said, in the words of the step before, that they are
// prepared for.
func (r *rank) decide(words []word) {
	if r.commits == nil {
		return
	}
	least := words[0].prepared
	for _, w := range words {
		least = min(least, w.prepared)
	}
	r.committed(r.commits.Decide(least))
}

// committed forgets snapshots older than a commit.
func (r *rank) committed(step int64) {
	kept := r.snapshots[:0]
	for _, s := range r.snapshots {
		if s.step >= step {
			kept = append(kept, s)
		} else {
			r.spare = append(r.spare, s)
		}
	}
	r.snapshots = kept
}

// settle has all that was trained committed.
func (r *rank) settle() error {
	if r.commits == nil {
		return nil
	}
	if r.commits.Committed() == r.done {
		return nil
	}
	if err := r.snap(r.done); err != nil {
		return err
	}
	if err := r.commits.Settle(r.done); err != nil {
		return err
	}
	r.committed(r.done)
	return nil
}

// snap takes a snapshot of the dense part at the end of a step. One of it on more
// ranks than may be lost is enough.
func (r *rank) snap(step int64) error {
	if !r.job.snaps(r.id) {
		return nil
	}
	if n := len(r.snapshots); n > 0 && r.snapshots[n-1].step == step {
		return nil
	}
	p := r.model.Params()
	s := snapshot{}
	if n := len(r.spare); n > 0 {
		s, r.spare = r.spare[n-1], r.spare[:n-1]
	} else {
		for _, b := range []struct {
			to    *kernels.Buffer
			bytes int
		}{{&s.weights, p.Weights.Bytes()}, {&s.state, r.state.Bytes()}} {
			if b.bytes == 0 {
				continue
			}
			var err error
			if *b.to, err = r.job.dev.Alloc(b.bytes, kernels.Working); err != nil {
				return err
			}
		}
	}
	s.step = step
	r.s.Copy(s.weights, p.Weights)
	r.s.Copy(s.state, r.state)
	r.snapshots = append(r.snapshots, s)
	return r.s.Sync()
}

// snaps reports whether a rank takes snapshots: the first r + 1 trainers do, which
// are on different processes where there are so many.
func (j *job) snaps(id int) bool { return j.roles.trains(id) && id <= j.cfg.EC.R }
