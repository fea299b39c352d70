package train

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ecrec/ecrec/commit"
	"github.com/ecrec/ecrec/internal/probe"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/lineage"
	"github.com/ecrec/ecrec/lrpp"
	"github.com/ecrec/ecrec/transport"
)

// Died ends a rank that loses all it holds, in a process that survives.
type Died struct {
	Rank int
	Step int64
}

func (e *Died) Error() string { return fmt.Sprintf("rank %d died at step %d", e.Rank, e.Step) }

// IsConsequence reports whether a rank's error is the consequence of another rank's.
func IsConsequence(err error) bool {
	return errors.As(err, new(*transport.PeerLost)) || errors.As(err, new(*transport.JoinError)) || errors.As(err, new(*lrpp.PeerGaveUp)) ||
		errors.As(err, new(*refused))
}

// phase is the progress of a rank, from world to world.
type phase uint64

const (
	phaseNew       phase = iota // it holds nothing
	phaseJoining                // it holds nothing, and the job has trained
	phaseRestoring              // it holds nothing, and the job restores a checkpoint
	phaseBegun                  // it holds the model that the run starts from
	phaseTraining               // all ranks have begun; or it was rolled back to a commit
	phases
)

// new reports whether the rank is new to a job that may have trained.
func (p phase) new() bool { return p <= phaseJoining }

// worldState is the state of all ranks at the start of a new world.
type worldState struct {
	lost      []commit.Loss // by rank, of the rows and parities as of the last commit
	fresh     []bool        // by rank: all is lost
	committed int64         // the last commit
	saved     int64         // the step of the last checkpoint
	saveAge   time.Duration // the time since the last save began
	hit       int64         // the step that the loss hit

	joined, agreed, rolled time.Duration // when this rank had joined the world, ...
}

// catchUp brings the rank to the state of the job in a new world: the last commit, if any
// rank has trained before, or the start of the run.
func (p *protection) catchUp() error {
	if p.parity == nil { // there is nothing to roll back to
		return p.beginRun()
	}
	r := p.rank
	p.rebuilding = false // that was in the world before
	if err := r.probe.Reach(r.done, probe.Join); err != nil {
		return err
	}
	joined, left := r.env.Now(), p.lossLeft()
	all, err := r.conns.ctl.gather([]uint64{uint64(p.phase), uint64(p.commits.Committed()), uint64(left.Rows),
		uint64(left.Parities), uint64(r.checkpoints.saved), uint64(r.done), uint64(r.env.Now() - r.checkpoints.lastSave)})
	if err != nil {
		return err
	}
	if err := r.probe.Reach(r.done, probe.States); err != nil {
		return err
	}
	state, has := worldState{saveAge: math.MaxInt64, joined: joined, agreed: r.env.Now()}, [phases]bool{}
	for id, w := range all {
		theirs := phase(w[0])
		has[theirs] = true
		loss := commit.Loss{Rows: int64(w[2]), Parities: int64(w[3])}
		if theirs.new() {
			loss = r.job.lossOfNew(id)
		} else {
			state.saveAge = min(state.saveAge, time.Duration(w[6]))
		}
		state.lost = append(state.lost, loss)
		state.fresh = append(state.fresh, theirs.new())
		state.committed = max(state.committed, int64(w[1]))
		state.saved = max(state.saved, int64(w[4]))
		state.hit = max(state.hit, int64(w[5])+1)
	}
	switch {
	case has[phaseRestoring]:
		return p.joinRestore()
	case has[phaseTraining]:
	case (has[phaseJoining] || r.job.world.Trained) && !has[phaseBegun]: // every rank that held the last commit is lost
		return p.restoreFromCheckpoint(p.parity.CheckLoss(state.lost))
	default: // no rank has trained
		return p.beginRun()
	}
	err = p.rollBack(&state)
	if fatal := (*commit.Unrecoverable)(nil); errors.As(err, &fatal) {
		return p.restoreFromCheckpoint(fatal)
	}
	if err == nil {
		p.phase = phaseTraining
	}
	return err
}

// beginRun starts the run, in a world none of whose ranks has trained.
func (p *protection) beginRun() error {
	r := p.rank
	r.shard.Reset()
	p.recovery = openRecovery{}
	// A world that ended before training may have loaded another model.
	r.done, r.checkpoints.saved, r.evaluated, r.checkpoints.loaded = 0, 0, 0, nil
	r.history = history{TrainLoss: r.history.TrainLoss[:0]}
	if err := r.setUpRun(); err != nil {
		return err
	}
	if err := p.beginCommits(); err != nil {
		return err
	}
	p.phase = phaseBegun
	return nil
}

// lossOfNew is the loss of a rank that holds nothing.
func (j *job) lossOfNew(id int) commit.Loss {
	if j.roles.ownerOf(id) < 0 {
		return commit.Loss{}
	}
	return commit.Loss{Rows: 1, Parities: 1}
}

// rollBack rolls back to the last commit of any rank. Ranks that hold it send the
// dense part and the history to the others; lost rows are rebuilt from there.
func (p *protection) rollBack(w *worldState) error {
	r := p.rank
	if fatal := p.parity.CheckLoss(w.lost); fatal != nil {
		return fatal
	}
	if err := r.probe.Reach(w.hit, probe.Agree); err != nil {
		return err
	}
	digestLost, err := p.shareDigest(w.committed, w.fresh)
	if err != nil {
		return err
	}
	if p.phase.new() {
		p.phase = phaseJoining
		r.checkpoints.lastSave = r.env.Now() - w.saveAge
		p.log.lose()
		p.stream.lose()
		p.commits.Begin(w.committed, false)
		p.parity.Lose()
	} else if err := p.commits.Roll(w.committed); err != nil {
		return err
	}
	w.rolled = r.env.Now()
	if err := r.probe.Reach(w.hit, probe.Rollback); err != nil {
		return err
	}
	r.intake.noteUndone(r.history.Input, w.committed)
	p.restoreDigests(w.committed, w.fresh, digestLost)
	if err := p.distributeDense(w); err != nil {
		return err
	}
	p.recordLoss(w)
	if err := r.probe.Reach(w.hit, probe.Dense); err != nil {
		return err
	}
	r.done, r.checkpoints.saved, r.evaluated = w.committed, w.saved, 0
	if k := &r.checkpoints; k.again <= k.saved { // another rank saw that the save was complete
		k.again = 0
	}
	for _, e := range r.history.Eval {
		r.evaluated = max(r.evaluated, e.Step)
	}
	if err := p.parity.Survey(w.lost); err != nil {
		return err
	}
	if err := p.reportAudit(w.committed); err != nil {
		return err
	}
	p.recovery.SurveyMS = p.recovery.sinceLoss(r.env.Now())
	if err := r.probe.Reach(w.hit, probe.Survey); err != nil {
		return err
	}
	p.rebuilding = slices.ContainsFunc(w.lost, commit.Loss.Any)
	if !p.rebuilding { // the lost ranks own no rows
		p.recordRebuilt()
	}
	p.beginRebuild()
	r.updateMeter()
	return nil
}

// runRecord is sent to all ranks with the dense part of a commit.
type runRecord struct {
	History history
	Lineage lineage.ID
	Forks   []lineage.Fork
}

// distributeDense sets the dense part and the history of all ranks to those of the commit.
// The first rank that has a snapshot of it sends them.
func (p *protection) distributeDense(w *worldState) error {
	r := p.rank
	mine := p.snapshots.at(w.committed)
	var has, losses uint64
	var record []byte
	if mine != nil && !w.fresh[r.id] {
		has = 1
		var err error
		losses = uint64(len(r.history.TrainLoss.at(w.committed)))
		if record, err = p.recordAt(w.committed); err != nil {
			return err
		}
	}
	all, err := r.conns.ctl.gather([]uint64{has, uint64(len(record)), losses})
	if err != nil {
		return err
	}
	root := slices.IndexFunc(all, func(x []uint64) bool { return x[0] != 0 })
	if root < 0 {
		return &commit.Unrecoverable{Dense: true, Spare: r.job.cfg.EC.R}
	}
	if err := r.probe.Reach(w.committed, probe.Root); err != nil {
		return err
	}
	params := r.model.Params()
	if r.id == root {
		r.s.Copy(params.Weights, mine.weights)
		r.s.Copy(r.state, mine.state)
		if err := r.s.Sync(); err != nil {
			return err
		}
	} else {
		record = make([]byte, all[root][1])
	}
	for _, b := range []kernels.Buffer{params.Weights, r.state, kernels.HostBuffer(record)} {
		if err := r.conns.ctl.comm.Broadcast(b, root).Wait(); err != nil {
			return err
		}
	}
	if err := p.takeRecord(record, root, w); err != nil {
		return err
	}
	if err := p.distributeLosses(w, root, int(all[root][2])); err != nil {
		return err
	}
	p.snapshots.dropAll()
	return p.takeSnapshot(w.committed)
}

// recordAt returns this rank's runRecord as of a commit, as JSON and without losses.
func (p *protection) recordAt(committed int64) ([]byte, error) {
	r := p.rank
	past := r.history.upTo(committed)
	if p.recovery.open { // it did not finish
		past.Recoveries = append(slices.Clone(past.Recoveries), p.recovery.Recovery)
	}
	return json.Marshal(runRecord{past, r.lineage.Lineage, r.lineage.Forks})
}

// takeRecord sets history and lineage to those in a runRecord of the root. The losses stay
// those of this rank.
func (p *protection) takeRecord(text []byte, root int, w *worldState) error {
	r := p.rank
	had := r.history.TrainLoss.at(w.committed)
	if w.fresh[r.id] {
		had = had[:0]
	}
	var record runRecord
	if err := json.Unmarshal(text, &record); err != nil {
		return fmt.Errorf("train: the run's history from rank %d: %w", root, err)
	}
	p.recovery.open = false // the record lists it
	r.history, r.lineage = record.History, r.job.run
	r.lineage.Lineage, r.lineage.Forks = record.Lineage, record.Forks
	r.history.TrainLoss = had
	return nil
}

// distributeLosses sends n losses from the root to each new rank that keeps them.
func (p *protection) distributeLosses(w *worldState, root, n int) error {
	r := p.rank
	for id, fresh := range w.fresh {
		if !fresh || !r.job.keepsLosses(id) {
			continue
		}
		to, from := make([]int, len(w.fresh)), make([]int, len(w.fresh))
		var sent, received losses
		switch r.id {
		case root:
			sent, to[id] = r.history.TrainLoss[:n], 8*n
		case id:
			received, from[root] = append(r.lossRoom(), make(losses, n)...), 8*n
			r.history.TrainLoss = received
		}
		if err := r.conns.ctl.comm.AllToAllV(kernels.HostBuffer(received), from, kernels.HostBuffer(sent), to).Wait(); err != nil {
			return err
		}
	}
	return nil
}
