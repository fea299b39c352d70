package train

import (
	"slices"
	"time"

	"github.com/ecrec/ecrec/commit"
	"github.com/ecrec/ecrec/ec"
	"github.com/ecrec/ecrec/kernels"
)

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
		Slots: j.place.Slots(0), Owner: j.roles.owner(r.id), First: j.roles.first, Every: int64(j.cfg.EC.CommitEvery), Chaos: r.chaos})
	if err == nil && j.roles.owner(r.id) >= 0 {
		r.shard.Keep(j.env.Now)
	}
	return err
}

// protect makes what the run starts from the first commit. Rows that are not as they
// were drawn have their parities encoded now.
func (r *rank) protect() error {
	if r.commits == nil {
		return nil
	}
	drawn := r.done == 0 && r.job.cfg.Model.InitFrom == ""
	r.commits.Begin(r.done, drawn)
	r.forgetSnapshots() // of what a fall to a checkpoint gave up
	if err := r.snap(r.done); err != nil || drawn {
		return err
	}
	lost := make([]commit.Loss, r.job.ranks)
	for id := range lost {
		lost[id].Parities = r.lossOfAll(id).Parities
	}
	if err := r.commits.Survey(lost); err != nil {
		return err
	}
	if err := r.commits.RebuildAll(); err != nil {
		return err
	}
	return r.audit(r.done)
}

// protects reports whether the job's rows are coded: what only evaluates loses nothing.
func (j *job) protects() bool { return j.cfg.EC.Code != ec.None && !j.o.EvalOnly }

// between is called when every update of the steps before one is done and none of
// its own has begun, while its words are known: an epoch that ended there is sealed.
func (r *rank) between(step int64) error {
	if r.commits == nil {
		return nil
	}
	if err := r.decide(); err != nil {
		return err
	}
	if !r.commits.Due(step - 1) {
		return nil
	}
	if err := r.chaos(step-1, "between"); err != nil {
		return err
	}
	return r.seal(step - 1)
}

// sealCached seals, in mode lrpp, an epoch that ends with the step that was trained
// last: rows then stand at their owners.
func (r *rank) sealCached() error {
	if r.commits == nil || r.cache == nil || !r.commits.Due(r.done) {
		return nil
	}
	if err := r.chaos(r.done, "flush"); err != nil {
		return err
	}
	if err := r.exchange.Settle(); err != nil {
		return err
	}
	return r.seal(r.done)
}

// lacks reports whether this rank has not all back that it lost.
func (r *rank) lacks() bool { return r.commits != nil && r.commits.Left().Any() }

// repairs reports whether any rank lacks something.
func (r *rank) repairs() bool { return r.rebuilding }

// repair gets back rows that are about to be read, and as much more as keeps training
// at its speed.
func (r *rank) repair(slots []int32) error {
	now := r.env.Now()
	limit := int(float64(now-r.repaired) * rebuildRate / float64(time.Second) / float64(r.job.bytesPerRow()))
	limit = min(max(limit, leastRepair), mostRepair)
	if n := r.job.o.RepairRows; n > 0 {
		limit = n
	}
	r.repaired = now
	if err := r.chaos(r.done+1, "rebuild"); err != nil {
		return err
	}
	return r.commits.Round(slots, limit)
}

const (
	// rebuildRate is how much is rebuilt beside training, in bytes a second: 100 MB in
	// less than 5 s, with a little to spare. What that takes, training has not.
	rebuildRate = 20 << 20
	// leastRepair and mostRepair bound the rows of a step.
	leastRepair, mostRepair = 64, 1 << 15
)

// makeWhole gets all back that any rank lacks.
func (r *rank) makeWhole() error {
	if !r.rebuilding {
		return nil
	}
	r.rebuilding = false
	if err := r.chaos(r.done, "remains"); err != nil {
		return err
	}
	if err := r.commits.RebuildAll(); err != nil {
		return err
	}
	r.whole()
	return nil
}

// prepared is the commit that this rank is prepared for.
func (r *rank) prepared() int64 {
	if r.commits == nil {
		return 0
	}
	return r.commits.Prepared()
}

func (r *rank) seal(step int64) error {
	if err := r.shareDense(); err != nil {
		return err
	}
	if err := r.snap(step); err != nil {
		return err
	}
	if err := r.chaos(step, "snapshot"); err != nil {
		return err
	}
	if err := r.commits.Seal(step, r.snapped(step)...); err != nil {
		return err
	}
	if err := r.audit(step); err != nil {
		return err
	}
	return r.chaos(step, "seal")
}

// audit shows what this rank holds to whom it concerns.
func (r *rank) audit(step int64) error {
	if r.job.o.Audit == nil {
		return nil
	}
	a, err := r.commits.Audit()
	if err == nil && a != nil {
		a.Snapshots = len(r.snapshots) + len(r.spare)
		r.job.o.Audit(step, a)
	}
	return err
}

// decide commits what all ranks said, in the words of the step that goes on or has just
// ended, that they are prepared for.
func (r *rank) decide() error {
	r.said = r.said[:0]
	for _, w := range r.ctl.words {
		r.said = append(r.said, w.prepared)
	}
	committed, err := r.commits.Decide(r.said)
	if err != nil {
		return err
	}
	r.committed(committed)
	// It may have been decided before, in a seal that had to wait for it.
	if committed > r.announced {
		r.announced = committed
		if tell := r.job.world.Committed; tell != nil {
			tell(!r.healing.open)
		}
	}
	return nil
}

// conclude ends a step: what its words say of commits and losses is done on all ranks.
func (r *rank) conclude() error {
	if r.commits == nil {
		return nil
	}
	if err := r.decide(); err != nil {
		return err
	}
	lost := slices.ContainsFunc(r.ctl.words, func(w word) bool { return w.lost })
	if r.rebuilding && !lost {
		r.rebuilding = false
		r.whole()
	}
	if !r.rebuilding && r.done >= r.healing.Step {
		return r.healed()
	}
	return nil
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

// forgetSnapshots keeps none: there is another to begin from.
func (r *rank) forgetSnapshots() {
	r.spare = append(r.spare, r.snapshots...)
	r.snapshots = r.snapshots[:0]
}

// settle has all that was trained committed.
func (r *rank) settle() error {
	if r.commits == nil {
		return nil
	}
	if r.commits.Committed() == r.done {
		return nil
	}
	if err := r.chaos(r.done, "settle"); err != nil {
		return err
	}
	if err := r.shareDense(); err != nil {
		return err
	}
	if err := r.snap(r.done); err != nil {
		return err
	}
	if err := r.commits.Settle(r.done, r.snapped(r.done)...); err != nil {
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
	began := r.env.Now()
	r.s.Copy(s.weights, p.Weights)
	r.s.Copy(s.state, r.state)
	r.snapshots = append(r.snapshots, s)
	err := r.s.Sync()
	r.snapTook += r.env.Now() - began
	return err
}

// snapped is the snapshot at the end of a step, if this rank took one.
func (r *rank) snapped(step int64) []kernels.Buffer {
	if n := len(r.snapshots); n > 0 && r.snapshots[n-1].step == step {
		return []kernels.Buffer{r.snapshots[n-1].weights, r.snapshots[n-1].state}
	}
	return nil
}

// snaps reports whether a rank takes snapshots: the first r + 1 do, which are on
// different processes where there are so many.
func (j *job) snaps(id int) bool { return id <= j.cfg.EC.R }

// shareDense brings the dense part to ranks that take snapshots and do not train,
// where trainers are few.
func (r *rank) shareDense() error {
	j := r.job
	if j.roles.trainers > j.cfg.EC.R || j.ranks == j.roles.trainers {
		return nil
	}
	for _, b := range []kernels.Buffer{r.model.Params().Weights, r.state} {
		if err := r.ctl.comm.Broadcast(b, 0).Wait(); err != nil {
			return err
		}
	}
	return nil
}

// countCommits tells the job what protection has cost all ranks.
func (r *rank) countCommits() error {
	if r.commits == nil {
		return nil
	}
	p, err := r.protection()
	if err == nil && r.id == 0 {
		r.job.result.Protection = p
	}
	return err
}

// protection adds up what protection has cost all ranks.
func (r *rank) protection() (p Protection, err error) {
	s := r.commits.Stats()
	dense := 0
	for _, x := range append(r.snapshots, r.spare...) {
		dense += x.weights.Bytes() + x.state.Bytes()
	}
	all, err := r.ctl.gather([]uint64{uint64(s.SentBytes), uint64(r.commits.ParityBytes()), uint64(s.JournalBytes), uint64(s.StagedBytes), uint64(dense), uint64(s.Waited)})
	if err != nil {
		return p, err
	}
	for _, w := range all {
		p.SentBytes += int64(w[0])
		p.ParityBytes += int64(w[1])
		p.JournalBytes += int64(w[2])
		p.StagedBytes += int64(w[3])
		p.SnapshotBytes += int64(w[4])
		p.Waited = max(p.Waited, time.Duration(w[5]))
	}
	return p, nil
}
