package commit

import (
	"slices"
	"time"

	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/probe"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/shard"
)

// Options make a Committer.
type Options struct {
	Env env.Env
	// Shard is this rank's rows, of which there may be none. New opens its journal.
	Shard *shard.Shard
	// Every is how many steps an epoch has.
	Every int64
	// Sinks take the sealed sets. The Committer closes them.
	Sinks []Sink
	// Reach, if set, is called at each point that package probe lists for commits, with the
	// step of the epoch or commit. Its error is the caller's.
	Reach Reach
}

// Reach is called where a rank reaches a point, with the step of the epoch or commit that it
// works on. It may be nil. Its error is the caller's.
type Reach func(step int64, at probe.Point) error

// reachPoint calls f, unless it is nil.
func (f Reach) reachPoint(step int64, at probe.Point) error {
	if f == nil {
		return nil
	}
	return f(step, at)
}

// Committer is one rank's part in commits. Its methods are called by the training
// goroutine, and all ranks call the same ones at the same steps. It outlives worlds, which
// Join enters and Leave ends.
type Committer struct {
	o        Options
	owner    owner
	decision decision
	set      Set
	deltas   Deltas // of set
	stats    Stats
	comm     *collectives.Comm // nil between worlds
}

// New makes a Committer, and opens the shard's journal: with pre-images if a sink needs
// them. Commit 0 is the initial random rows; a run that starts from other rows calls Begin.
func New(o Options) *Committer {
	keep := shard.KeepHashes
	if slices.ContainsFunc(o.Sinks, Sink.NeedsPreImages) {
		keep = shard.KeepRows
	}
	o.Shard.OpenJournal(keep, o.Env.Now)
	c := &Committer{o: o}
	c.deltas.set = &c.set
	return c
}

// Join enters a world. The Committer uses comm for barriers, after the sinks' work in the background
// has ended. Sinks may share comm for that work; nothing else uses it.
func (c *Committer) Join(comm *collectives.Comm) { c.comm = comm }

// Leave ends the part in a world.
func (c *Committer) Leave() { c.comm = nil }

// Begin declares the present rows to be the commit of a step. drawn is true if every row equals
// its init.
func (c *Committer) Begin(step int64, drawn bool) {
	_ = c.carryOut(c.owner.step(event{kind: began, step: step}))
	c.decision.step(event{kind: began, step: step})
	for _, s := range c.o.Sinks {
		s.Begin(step, drawn)
	}
}

// Close closes the sinks.
func (c *Committer) Close() {
	for _, s := range c.o.Sinks {
		s.Close()
	}
}

// Committed is the step of the last commit.
func (c *Committer) Committed() int64 { return c.owner.committed }

// Prepared is the step of the newest epoch that every sink of this rank is prepared for.
func (c *Committer) Prepared() int64 {
	least := c.o.Sinks[0].Prepared()
	for _, s := range c.o.Sinks[1:] {
		least = min(least, s.Prepared())
	}
	return least
}

// Due reports whether an epoch ends with a step.
func (c *Committer) Due(step int64) bool { return step%c.o.Every == 0 && step > c.owner.newestSealed() }

// Seal ends an epoch; step is its last. All updates of step are done, and none of a later step has
// begun. dense is a snapshot of the dense part, on ranks that keep one. Sinks may then work in the
// background.
func (c *Committer) Seal(step int64, dense ...kernels.Buffer) error {
	began := c.o.Env.Now()
	if err := c.waitForSinks(); err != nil {
		return err
	}
	if err := c.o.Reach.reachPoint(step, probe.Delivered); err != nil {
		return err
	}
	c.set.dense = dense
	c.stats.Waited += c.o.Env.Now() - began
	return c.carryOut(c.owner.step(event{kind: boundary, step: step}))
}

// waitForSinks waits for the sinks' work in the background.
func (c *Committer) waitForSinks() error {
	for _, s := range c.o.Sinks {
		if err := s.Wait(); err != nil {
			return err
		}
	}
	return nil
}

// carryOut carries out the actions of the owner's state machine. It and commitEpochs call each other:
// the seal of an epoch first commits the one before it, and that commit may lead to further
// actions. The machine allows one epoch that is sealed and not committed, which bounds the depth.
func (c *Committer) carryOut(actions []action) error {
	for _, a := range actions {
		switch a.kind {
		case meet:
			began := c.o.Env.Now()
			if err := c.meetRanks(a.step); err != nil {
				return err
			}
			c.stats.Waited += c.o.Env.Now() - began
			if err := c.commitEpochs(a.step); err != nil {
				return err
			}
		case seal:
			if err := c.sealSet(a.step); err != nil {
				return err
			}
		case forget:
			c.o.Shard.Journal().Commit()
		case undo:
			if err := c.o.Shard.Rollback(0); err != nil {
				return err
			}
		}
	}
	return nil
}

// sealSet seals the rows of the epoch and gives the set to the sinks.
func (c *Committer) sealSet(step int64) error {
	began := c.o.Env.Now()
	takes := slices.ContainsFunc(c.o.Sinks, func(s Sink) bool {
		t, ok := s.(Taker)
		return ok && t.WillTake()
	})
	c.set.sealRows(step, c.o.Shard, takes)
	for _, s := range c.o.Sinks {
		c.set.Deltas = nil
		if s.NeedsPreImages() {
			c.set.Deltas = &c.deltas
		}
		if err := s.Seal(&c.set); err != nil {
			return err
		}
	}
	c.stats.Epochs++
	c.stats.Sealed += c.o.Env.Now() - began
	return nil
}

// Decide commits the epochs that all ranks are prepared for. It takes the prepared step of each
// rank, from the status of a step, and returns the step of the last commit.
func (c *Committer) Decide(prepared []int64) (int64, error) {
	c.decision.expectRanks(len(prepared))
	for rank, step := range prepared {
		for _, a := range c.decision.step(event{kind: status, step: step, rank: rank}) {
			if err := c.commitEpochs(a.step); err != nil {
				return c.owner.committed, err
			}
		}
	}
	return c.owner.committed, nil
}

// commitEpochs commits the epochs up to a step, for which all ranks are prepared. It calls carryOut.
func (c *Committer) commitEpochs(step int64) error {
	c.decision.step(event{kind: decided, step: step})
	for _, s := range c.o.Sinks {
		s.Commit(step)
	}
	return c.carryOut(c.owner.step(event{kind: decided, step: step}))
}

// meetRanks returns when every rank is prepared for all sealed epochs.
func (c *Committer) meetRanks(step int64) error {
	if err := c.o.Reach.reachPoint(step, probe.Barrier); err != nil {
		return err
	}
	if err := c.comm.Barrier().Wait(); err != nil {
		return err
	}
	return c.o.Reach.reachPoint(step, probe.Settled)
}

// Sealed is the step of the newest sealed epoch, or of the last commit.
func (c *Committer) Sealed() int64 { return c.owner.newestSealed() }

// Settle commits all steps up to step, which is the last that was trained. dense is as in Seal.
func (c *Committer) Settle(step int64, dense ...kernels.Buffer) error {
	if step > c.owner.newestSealed() {
		if err := c.Seal(step, dense...); err != nil {
			return err
		}
	}
	if err := c.waitForSinks(); err != nil {
		return err
	}
	if err := c.meetRanks(c.owner.newestSealed()); err != nil {
		return err
	}
	return c.commitEpochs(c.owner.newestSealed())
}

// Clear drops all epochs that are not committed. Begin follows.
func (c *Committer) Clear() error { return c.Roll(c.owner.committed) }

// Roll rolls to the newest commit that any rank has: forward, if this rank is prepared for it and
// has not committed it yet, and back from all later writes. It is called between worlds, and
// needs pre-images.
func (c *Committer) Roll(step int64) error {
	for _, s := range c.o.Sinks {
		s.Roll(step)
	}
	c.decision.step(event{kind: rolled, step: step})
	return c.carryOut(c.owner.step(event{kind: rolled, step: step}))
}

// Stats are the costs of commits for one rank, since its Committer was made.
type Stats struct {
	Epochs       int64
	JournalBytes int64         // memory of pre-images or hashes
	PreImages    time.Duration // recording them
	Waited       time.Duration // at a seal, for the epochs before
	Sealed       time.Duration // taking sets to sinks, without Waited
}

// Stats returns the costs so far.
func (c *Committer) Stats() Stats {
	s := c.stats
	s.PreImages = c.o.Shard.Journal().Took()
	s.JournalBytes = c.o.Shard.Journal().Bytes()
	return s
}

func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4)
	}
	return s[:n]
}
