package train

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ecrec/ecrec/commit"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/lrpp"
	"github.com/ecrec/ecrec/transport"
)

// Died ends a rank that loses all it holds, in a process that lives on.
type Died struct {
	Rank int
	Step int64
}

func (e *Died) Error() string { return fmt.Sprintf("rank %d died at step %d", e.Rank, e.Step) }

// Follows reports whether a rank's error is the consequence of another rank's.
func Follows(err error) bool {
	return errors.As(err, new(*transport.PeerLost)) || errors.As(err, new(*transport.JoinError)) || errors.As(err, new(*lrpp.PeerGaveUp))
}

// phase is how far a rank has come.
type phase uint64

const (
	phaseFresh    phase = iota // it holds nothing
	phaseJoining               // nor does it, and the job has trained
	phaseFalling               // nor does it, and the job goes back to a checkpoint
	phaseBegun                 // it holds what the run starts from
	phaseTraining              // and so do all others; or a commit, and knows what it has not back
	phases
)

// new reports whether the rank is new to a job that may have trained.
func (p phase) new() bool { return p <= phaseJoining }

// start brings a rank to where the job stands in a new world: at its beginning, or at
// the last commit where some rank has trained before.
func (r *rank) start() error {
	if r.commits == nil {
		return r.begin()
	}
	r.rebuilding = false // of the world before
	if err := r.chaos(r.done, "join"); err != nil {
		return err
	}
	joined, left := r.env.Now(), r.commits.Left()
	all, err := r.ctl.gather([]uint64{uint64(r.phase), uint64(r.commits.Committed()), uint64(left.Rows), uint64(left.Parities), uint64(r.saved), uint64(r.done)})
	if err != nil {
		return err
	}
	if err := r.chaos(r.done, "stand"); err != nil {
		return err
	}
	stands, has := standing{joined: joined, agreed: r.env.Now()}, [phases]bool{}
	for id, w := range all {
		p := phase(w[0])
		has[p] = true
		loss := commit.Loss{Rows: int64(w[2]), Parities: int64(w[3])}
		if p.new() {
			loss = r.lossOfAll(id)
		}
		stands.lost = append(stands.lost, loss)
		stands.fresh = append(stands.fresh, p.new())
		stands.committed = max(stands.committed, int64(w[1]))
		stands.saved = max(stands.saved, int64(w[4]))
		stands.hit = max(stands.hit, int64(w[5])+1)
	}
	switch {
	case has[phaseFalling]:
		return r.fallOn()
	case has[phaseTraining]:
	case (has[phaseJoining] || r.job.world.Trained) && !has[phaseBegun]: // those who could bring others to a commit are lost
		return r.fallBack(r.commits.Survivable(stands.lost))
	default: // nobody has trained
		r.shard.Reset()
		r.healing = healing{}
		if err := r.begin(); err != nil {
			return err
		}
		if err := r.protect(); err != nil {
			return err
		}
		r.phase = phaseBegun
		return nil
	}
	err = r.recover(&stands)
	if beyond := (*commit.Beyond)(nil); errors.As(err, &beyond) {
		return r.fallBack(beyond)
	}
	if err == nil {
		r.phase = phaseTraining
	}
	return err
}

// lossOfAll is what a rank has lost that is made anew.
func (r *rank) lossOfAll(id int) commit.Loss {
	if r.job.roles.owner(id) < 0 {
		return commit.Loss{}
	}
	return commit.Loss{Rows: 1, Parities: 1}
}

// standing is what the ranks of a new world say of themselves.
type standing struct {
	lost      []commit.Loss // by rank, of what it had at the last commit
	fresh     []bool        // all is lost
	committed int64
	saved     int64
	hit       int64 // the step that the loss hit

	joined, agreed, rolled time.Duration // when this rank was in the new world, ...
}

// recover goes back to the last commit that any rank knows of; those that know of it
// bring the others there.
func (r *rank) recover(s *standing) error {
	if beyond := r.commits.Survivable(s.lost); beyond != nil {
		return beyond
	}
	if err := r.chaos(s.hit, "agree"); err != nil {
		return err
	}
	if r.phase.new() {
		r.phase = phaseJoining
		r.commits.Lose(s.committed)
	} else if err := r.commits.Roll(s.committed); err != nil {
		return err
	}
	s.rolled = r.env.Now()
	if err := r.chaos(s.hit, "rollback"); err != nil {
		return err
	}
	if err := r.bringDense(s); err != nil {
		return err
	}
	r.heal(s)
	if err := r.chaos(s.hit, "dense"); err != nil {
		return err
	}
	r.done, r.saved, r.evaluated = s.committed, s.saved, 0
	for _, e := range r.history.Eval {
		r.evaluated = max(r.evaluated, e.Step)
	}
	if err := r.commits.Survey(s.lost); err != nil {
		return err
	}
	if err := r.audit(s.committed); err != nil {
		return err
	}
	r.healing.SurveyMS = sinceMS(r.healing.lost, r.env.Now())
	if err := r.chaos(s.hit, "survey"); err != nil {
		return err
	}
	r.rebuilding, r.repaired = false, r.env.Now()
	for _, l := range s.lost {
		r.rebuilding = r.rebuilding || l.Any()
	}
	return nil
}

// bringDense sets the dense part and the history of all ranks to those of the commit,
// from the first rank that has a snapshot of it.
func (r *rank) bringDense(s *standing) error {
	var mine *snapshot
	for i := range r.snapshots {
		if r.snapshots[i].step == s.committed {
			mine = &r.snapshots[i]
		}
	}
	var has, losses uint64
	var past []byte
	if mine != nil && !s.fresh[r.id] {
		has = 1
		var err error
		losses = uint64(len(r.history.TrainLoss.at(s.committed)))
		before := r.history.upTo(s.committed)
		if r.healing.open { // it has not come to its end
			before.Recoveries = append(slices.Clone(before.Recoveries), r.healing.Recovery)
		}
		if past, err = json.Marshal(before); err != nil {
			return err
		}
	}
	all, err := r.ctl.gather([]uint64{has, uint64(len(past)), losses})
	if err != nil {
		return err
	}
	root := 0
	for root < len(all) && all[root][0] == 0 {
		root++
	}
	if root == len(all) {
		return &commit.Beyond{Dense: true, Spare: r.job.cfg.EC.R}
	}
	if err := r.chaos(s.committed, "root"); err != nil {
		return err
	}
	p := r.model.Params()
	if r.id == root {
		r.s.Copy(p.Weights, mine.weights)
		r.s.Copy(r.state, mine.state)
		if err := r.s.Sync(); err != nil {
			return err
		}
	}
	if past == nil || r.id != root {
		past = make([]byte, all[root][1])
	}
	for _, b := range []kernels.Buffer{p.Weights, r.state, kernels.HostBuffer(past)} {
		if err := r.ctl.comm.Broadcast(b, root).Wait(); err != nil {
			return err
		}
	}
	had := r.history.TrainLoss.at(s.committed)
	if s.fresh[r.id] {
		had = had[:0]
	}
	r.history = history{}
	if err := json.Unmarshal(past, &r.history); err != nil {
		return fmt.Errorf("train: the run's history, as rank %d has it: %w", root, err)
	}
	r.history.TrainLoss = had
	if err := r.bringLosses(s, root, int(all[root][2])); err != nil {
		return err
	}
	r.forgetSnapshots()
	return r.snap(s.committed)
}

// bringLosses gives n losses, from one that has them, to the new ranks that keep them.
func (r *rank) bringLosses(s *standing, root, n int) error {
	for id, fresh := range s.fresh {
		if !fresh || !r.job.remembers(id) {
			continue
		}
		to, from := make([]int, len(s.fresh)), make([]int, len(s.fresh))
		var mine, come losses
		switch r.id {
		case root:
			mine, to[id] = r.history.TrainLoss[:n], 8*n
		case id:
			come, from[root] = append(r.lossRoom(), make(losses, n)...), 8*n
			r.history.TrainLoss = come
		}
		if err := r.ctl.comm.AllToAllV(kernels.HostBuffer(come), from, kernels.HostBuffer(mine), to).Wait(); err != nil {
			return err
		}
	}
	return nil
}

// fallOn goes back to the newest checkpoint, as a world before this one began to, and
// tells those that are new why.
func (r *rank) fallOn() error {
	var mine []byte
	if r.phase == phaseFalling {
		var err error
		if mine, err = json.Marshal(r.beyond); err != nil {
			return err
		}
	}
	all, err := r.ctl.gather([]uint64{uint64(len(mine))})
	if err != nil {
		return err
	}
	root := slices.IndexFunc(all, func(w []uint64) bool { return w[0] > 0 })
	if r.id != root {
		mine = make([]byte, all[root][0])
	}
	if err := r.ctl.comm.Broadcast(kernels.HostBuffer(mine), root).Wait(); err != nil {
		return err
	}
	beyond := new(commit.Beyond)
	if err := json.Unmarshal(mine, beyond); err != nil {
		return fmt.Errorf("train: what was lost, as rank %d has it: %w", root, err)
	}
	return r.fallBack(beyond)
}

// fallBack goes back to the newest checkpoint, since more was lost than can be
// decoded.
func (r *rank) fallBack(beyond *commit.Beyond) error {
	none := fmt.Errorf("%w; there is no checkpoint to fall back to: set checkpoint.dir, or a larger ec.r", beyond)
	if r.job.cfg.Checkpoint.Dir == "" {
		return none
	}
	r.phase, r.beyond = phaseFalling, beyond // until all of it is there
	if err := r.commits.Clear(); err != nil {
		return err
	}
	if err := r.chaos(r.done, "fall"); err != nil {
		return err
	}
	r.shard.Reset()
	r.done, r.saved, r.evaluated, r.history, r.healing = 0, 0, 0, history{}, healing{}
	resumed, err := r.resumeFrom("auto")
	if err != nil {
		return err
	}
	if !resumed {
		return none
	}
	if r.id == 0 {
		r.job.o.Observer.Warned(fmt.Sprintf("%v: the run goes on from the checkpoint of step %d", beyond, r.done))
	}
	if err := r.chaos(r.done, "fallen"); err != nil {
		return err
	}
	if err := r.protect(); err != nil {
		return err
	}
	r.phase = phaseTraining
	return nil
}
