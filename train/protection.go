package train

import (
	"slices"

	"github.com/ecrec/ecrec/commit"
	"github.com/ecrec/ecrec/internal/probe"
	"github.com/ecrec/ecrec/kernels"
)

// protection is one rank's part in commits and in recovery. A nil protection belongs to a
// job that commits nothing: its methods do nothing. Without a code there is no recovery: the
// job commits epochs for its sinks alone, and a loss ends it.
//
// The training loop calls it between steps and around them:
//
//   - sealCached before a step, with cache.mode lrpp, or sealBefore within it, in the other
//     modes: an epoch that has ended is sealed. sealBefore also commits the epochs that all
//     ranks are prepared for. It is called through lrpp.Options.Between in each Exchange.End,
//     before a gradient of the step is applied.
//   - addTo and takeStatus, in each step: the part of the step status that is about protection.
//   - finishStep, when a step is done: commits and losses that the status of all ranks
//     reports are dealt with.
//   - finishRebuild, before an evaluation, a checkpoint and the end of a job: all rows that
//     were lost are rebuilt.
//   - commitAll, at the end: the last steps are committed too.
//
// A new world calls catchUp, which rolls back to the last commit and starts to rebuild
// (rollback.go), or restores a checkpoint (restore.go). rebuildRows then rebuilds rows
// beside training.
type protection struct {
	rank      *rank
	commits   *commit.Committer
	parity    *commit.Parity // nil: rows are not coded
	snapshots snapshots      // of commits that may be rolled back to
	digests   digests        // of the model at commits
	log       storing        // of the rows of commits, on a disk
	stream    streaming      // of the same, to readers elsewhere

	phase     phase
	announced int64                 // the last commit that was reported
	fatal     *commit.Unrecoverable // why the rank restores a checkpoint
	prepared  []int64               // scratch of decideCommits: by rank

	rebuilding  bool // a rank has lost something and not rebuilt all of it
	rebuild     rebuilding
	recovery    openRecovery
	redundantAt int64 // the step after which all was fully redundant again
}

// openProtection makes the rank's protection, if the job commits epochs.
func (r *rank) openProtection() error {
	j := r.job
	if !j.commits() {
		return nil
	}
	p := &protection{rank: r, snapshots: snapshots{env: j.env, dev: j.dev, stream: r.s}}
	sinks, err := p.openSinks()
	if err != nil {
		for _, s := range sinks {
			s.Close()
		}
		return err
	}
	p.commits = commit.New(commit.Options{Env: j.env, Shard: r.shard, Every: int64(j.cfg.EC.CommitEvery), Sinks: sinks, Reach: r.probe.Reach})
	r.protection = p
	return nil
}

// openSinks opens the digests, the parity if rows are coded, and all sinks of Options.Sinks. With an error
// it returns the sinks that are open.
func (p *protection) openSinks() (sinks []commit.Sink, err error) {
	r, j := p.rank, p.rank.job
	if hashes(j) {
		p.digests.rows = commit.NewDigests()
		sinks = append(sinks, p.digests.rows)
	}
	if j.coded() {
		if p.parity, err = commit.NewParity(commit.ParityOptions{Env: j.env, Device: j.dev, Shard: r.shard, Layout: j.layout, Code: j.cfg.EC.Code,
			Slots: j.place.Slots(0), Owner: j.roles.ownerOf(r.id), First: j.roles.first, Reach: r.probe.Reach, Deferred: true}); err != nil {
			return nil, err
		}
		sinks = append(sinks, p.parity)
	}
	if j.stores() {
		if err := p.log.open(p); err != nil {
			return sinks, err
		}
		sinks = append(sinks, p.log.store)
	}
	if streams(j) {
		if err := p.stream.openStream(p); err != nil {
			return sinks, err
		}
		sinks = append(sinks, p.stream.store)
	}
	for _, open := range j.o.Sinks {
		s, err := open(commit.SinkOptions{Env: j.env, Device: j.dev, Rank: r.id, Shard: r.shard})
		if err != nil {
			return sinks, err
		}
		sinks = append(sinks, s)
	}
	return sinks, nil
}

// close frees all memory.
func (p *protection) close() {
	if p == nil {
		return
	}
	p.commits.Close()
	p.snapshots.free()
}

// joinWorld enters a world, with communicators and a view of the shard of its own.
func (p *protection) joinWorld() {
	if p == nil {
		return
	}
	r := p.rank
	p.log.sent = unsent // new ranks have sent none: all report in the first status
	comm := r.conns.openComm(r.conns.ep, chanCommit)
	p.commits.Join(comm)
	if p.parity != nil {
		p.parity.Join(comm, r.conns.openComm(r.conns.ep, chanRebuild), r.conns.base.DelayedShard())
	}
}

// leaveWorld leaves it. The endpoint is closed already, so that nothing blocks.
func (p *protection) leaveWorld() {
	if p == nil {
		return
	}
	if p.parity != nil {
		p.parity.Leave()
	}
	p.commits.Leave()
}

// beginCommits makes the model that the run starts from the first commit. Parities of rows
// that differ from their init are encoded now.
func (p *protection) beginCommits() error {
	r := p.rank
	drawn := r.done == 0 && r.job.cfg.Model.InitFrom == ""
	p.snapshots.dropAll() // those of a run before restoreFromCheckpoint
	if err := p.takeSnapshot(r.done); err != nil {
		return err
	}
	if err := p.beginDigests(drawn); err != nil {
		return err
	}
	p.commits.Begin(r.done, drawn)
	if err := p.stream.checkRun(); err != nil || drawn || p.parity == nil {
		return err
	}
	lost := make([]commit.Loss, r.job.ranks)
	for id := range lost {
		lost[id].Parities = r.job.lossOfNew(id).Parities
	}
	if err := p.parity.Survey(lost); err != nil {
		return err
	}
	if err := p.parity.RebuildAll(); err != nil {
		return err
	}
	return p.reportAudit(r.done)
}

// startTraining is called when all ranks of a world are ready to train.
func (p *protection) startTraining() {
	if p != nil {
		p.phase = phaseTraining
	}
}

// lossLeft counts the rows and parities that this rank has lost and not rebuilt yet.
func (p *protection) lossLeft() commit.Loss {
	if p == nil || p.parity == nil {
		return commit.Loss{}
	}
	return p.parity.Left()
}

// sealBefore is called in each step, by Exchange.End through lrpp.Options.Between. At that time
// every update of earlier steps is done, no gradient of this step is applied, and the status of
// all ranks in this step has been received. An epoch that ended with the step before is sealed.
func (p *protection) sealBefore(step int64) error {
	if p == nil {
		return nil
	}
	if err := p.decideCommits(); err != nil {
		return err
	}
	if !p.isDue(step - 1) {
		return nil
	}
	if err := p.rank.probe.Reach(step-1, probe.Commit); err != nil {
		return err
	}
	return p.sealEpoch(step - 1)
}

// isDue reports whether an epoch ends with a step, by the status that was exchanged last.
func (p *protection) isDue(step int64) bool {
	return p.commits.Due(step) || step > p.commits.Sealed() && p.log.endsEarly()
}

// sealCached seals, with cache.mode lrpp, an epoch that ended with the step that was
// trained last. Cached rows return to their owners first.
func (p *protection) sealCached() error {
	if p == nil {
		return nil
	}
	r := p.rank
	if r.conns.cache == nil || !p.isDue(r.done) {
		return nil
	}
	if err := r.probe.Reach(r.done, probe.Flush); err != nil {
		return err
	}
	if err := r.conns.exchange.Settle(); err != nil {
		return err
	}
	return p.sealEpoch(r.done)
}

// finishStep ends a step. Commits and losses that the status of all ranks reports take effect on
// all ranks at this point.
func (p *protection) finishStep(step int64) error {
	if p == nil {
		return nil
	}
	p.recordStep(step)
	p.log.noteDirty()
	if err := p.decideCommits(); err != nil {
		return err
	}
	degraded := slices.ContainsFunc(p.rank.conns.ctl.last, func(s status) bool { return s.degraded })
	if p.rebuilding && !degraded {
		p.rebuilding = false
		p.recordRebuilt()
	}
	if p.rebuilding {
		p.paceRebuild()
	}
	if !p.rebuilding && step >= p.recovery.Step {
		return p.closeRecovery()
	}
	return nil
}

// finish ends protection at the end of a job: it closes the recovery under way and adds
// costs to the job's result.
func (p *protection) finish() error {
	if p == nil {
		return nil
	}
	p.log.finish()
	p.stream.finishStream()
	if err := p.closeRecovery(); err != nil {
		return err
	}
	return p.reportCosts()
}

// commitAll commits every step that was trained.
func (p *protection) commitAll() error {
	if p == nil || p.commits.Committed() == p.rank.done {
		return nil
	}
	r := p.rank
	if err := r.probe.Reach(r.done, probe.Settle); err != nil {
		return err
	}
	if err := p.shareDense(); err != nil {
		return err
	}
	if err := p.takeSnapshot(r.done); err != nil {
		return err
	}
	p.log.holdIfBehind()
	p.stream.holdIfBehind(true)
	// No status follows, so the digests are exchanged here: of the epoch before, which Seal
	// commits, and of the last one.
	for _, do := range []func() error{p.exchangeDigests, func() error { return p.sealNow(r.done) }, p.exchangeDigests} {
		if err := do(); err != nil {
			return err
		}
	}
	if err := p.commits.Settle(r.done); err != nil {
		return err
	}
	p.snapshots.dropBefore(r.done)
	r.updateMeter()
	noteCommits(p, r.done)
	return nil
}

// sealNow seals the epoch that ends with a step, unless it is sealed already. Snapshots of the
// step are taken.
func (p *protection) sealNow(step int64) error {
	if p.commits.Sealed() == step {
		return nil
	}
	if err := p.hashDense(step); err != nil {
		return err
	}
	return p.commits.Seal(step, p.snapshotOf(step)...)
}

// sealEpoch seals the epoch that ended with a step.
func (p *protection) sealEpoch(step int64) error {
	if err := p.shareDense(); err != nil {
		return err
	}
	if err := p.takeSnapshot(step); err != nil {
		return err
	}
	if err := p.rank.probe.Reach(step, probe.Snapshot); err != nil {
		return err
	}
	p.log.holdIfBehind()
	p.stream.holdIfBehind(false)
	if err := p.sealNow(step); err != nil {
		return err
	}
	if err := p.reportAudit(step); err != nil {
		return err
	}
	return p.rank.probe.Reach(step, probe.Seal)
}

// decideCommits commits the epochs that all ranks are prepared for, by their last status.
func (p *protection) decideCommits() error {
	p.prepared = p.prepared[:0]
	for _, w := range p.rank.conns.ctl.last {
		p.prepared = append(p.prepared, w.prepared)
	}
	committed, err := p.commits.Decide(p.prepared)
	if err != nil {
		return err
	}
	p.snapshots.dropBefore(committed)
	// Seal may have committed it before, when it had to wait for that.
	if committed > p.announced {
		noteCommits(p, committed)
	}
	return nil
}

// reportAudit reports the rows and parities of this rank to Options.Audit, if set.
func (p *protection) reportAudit(step int64) error {
	report := p.rank.job.o.Audit
	if report == nil || p.parity == nil {
		return nil
	}
	a, err := p.parity.Audit(p.digests.rows)
	if err == nil && a != nil {
		a.Snapshots = p.snapshots.count()
		report(step, a)
	}
	return err
}

// takeSnapshot copies the dense part at the end of a step, on the ranks that keep
// snapshots.
func (p *protection) takeSnapshot(step int64) error {
	r := p.rank
	if !r.job.keepsSnapshots(r.id) {
		return nil
	}
	return p.snapshots.take(step, r.model.Params().Weights, r.state)
}

// snapshotOf returns the dense weights and state at the end of a step, nothing on ranks
// that keep no snapshots.
func (p *protection) snapshotOf(step int64) []kernels.Buffer {
	if s := p.snapshots.at(step); s != nil {
		return []kernels.Buffer{s.weights, s.state}
	}
	return nil
}

// shareDense sends the dense part to ranks that keep snapshots and do not train, where
// there are few trainers.
func (p *protection) shareDense() error {
	r := p.rank
	if t := r.job.roles.trainers; t > r.job.tolerated() || t == r.job.ranks {
		return nil
	}
	for _, b := range []kernels.Buffer{r.model.Params().Weights, r.state} {
		if err := r.conns.ctl.comm.Broadcast(b, 0).Wait(); err != nil {
			return err
		}
	}
	return nil
}
