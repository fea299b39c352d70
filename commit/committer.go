package commit

import (
	"github.com/ecrec/ecrec/ec"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/shard"
)

// Options make a Committer.
type Options struct {
	Env env.Env
	// Device is where rows lie, and others' parities.
	Device kernels.Device
	// Shard is this rank's rows; it keeps a journal.
	Shard *shard.Shard
	// Layout says which owners code together, Code how (ec.XOR or ec.RS).
	Layout ec.Layout
	Code   string
	// Slots is the most rows that an owner has.
	Slots int64
	// Owner is this rank's number among the owners, -1 if it owns nothing; owner 0 is
	// rank First.
	Owner, First int
	// Every is how many steps an epoch has.
	Every int64
	// Sinks are where sealed sets go beside Parity.
	Sinks []Sink
	// Chaos, if set, is called where faults may be injected: with the step of the
	// epoch or commit that is worked on. Its error is the caller's.
	Chaos func(step int64, point string) error
}

// chaos is where a fault may be injected.
func (o *Options) chaos(step int64, point string) error {
	if o.Chaos == nil {
		return nil
	}
	return o.Chaos(step, point)
}

// Committer is one rank's part in commits. Its methods belong to the training goroutine,
// but for Round, and all ranks call the same ones at the same steps. It outlives worlds:
// Join and Leave say in which one it is.
type Committer struct {
	o        Options
	owner    owner
	decision decision
	parity   *Parity
	sinks    []Sink // the parity first
	set      Set
	stats    Stats
	link     *link // nil between worlds
	rebuild  rebuild
}

// New makes a Committer. Begin or Lose follows, where a run does not start from rows
// as they are drawn.
func New(o Options) (*Committer, error) {
	c := &Committer{o: o}
	var err error
	if c.parity, err = newParity(&c.o, &c.stats); err != nil {
		return nil, err
	}
	c.sinks = append([]Sink{c.parity}, o.Sinks...)
	return c, nil
}

// owns reports whether this rank owns rows.
func (c *Committer) owns() bool { return c.o.Owner >= 0 }

// Begin makes the rows as they are the commit of a step. drawn says that all are as
// they were drawn; else the parities are yet to be built.
func (c *Committer) Begin(step int64, drawn bool) {
	_ = c.carryOut(c.owner.step(event{kind: began, step: step}))
	c.decision.step(event{kind: began, step: step})
	for _, s := range c.sinks {
		s.Begin(step, drawn)
	}
	c.rebuild.forget()
}

// Close frees the parities and all else.
func (c *Committer) Close() {
	for _, s := range c.sinks {
		s.Close()
	}
	x := &c.rebuild.round
	free(c.o.Device, x.mine.rows, x.theirs.rows, x.found)
}

func free(dev kernels.Device, buffers ...kernels.Buffer) {
	for _, b := range buffers {
		if b.Bytes() > 0 {
			dev.Free(b)
		}
	}
}

// Committed is the step of the last commit.
func (c *Committer) Committed() int64 { return c.owner.committed }

// Prepared is the step of the newest epoch that this rank is prepared for.
func (c *Committer) Prepared() int64 {
	least := c.sinks[0].Prepared()
	for _, s := range c.sinks[1:] {
		least = min(least, s.Prepared())
	}
	return least
}

// Due reports whether an epoch ends with a step.
func (c *Committer) Due(step int64) bool { return step%c.o.Every == 0 && step > c.owner.newest() }

// Seal ends the epoch up to a step, which is the one that was trained last: every
// update of it is done, and none of a later one. dense is a snapshot of the dense part,
// where this rank takes one. What the sinks do then goes on in the background.
func (c *Committer) Seal(step int64, dense ...kernels.Buffer) error {
	began := c.o.Env.Now()
	if err := c.wait(); err != nil {
		return err
	}
	if err := c.o.chaos(step, "travelled"); err != nil {
		return err
	}
	c.set.Dense = dense
	c.stats.Waited += c.o.Env.Now() - began
	return c.carryOut(c.owner.step(event{kind: boundary, step: step}))
}

// wait waits for what sinks do in the background.
func (c *Committer) wait() error {
	for _, s := range c.sinks {
		if err := s.Wait(); err != nil {
			return err
		}
	}
	return nil
}

// carryOut does what the owner's machine wants done.
func (c *Committer) carryOut(actions []action) error {
	for _, a := range actions {
		switch a.kind {
		case meet:
			began := c.o.Env.Now()
			if err := c.meet(a.step); err != nil {
				return err
			}
			c.stats.Waited += c.o.Env.Now() - began
			if err := c.decided(a.step); err != nil {
				return err
			}
		case seal:
			if err := c.seal(a.step); err != nil {
				return err
			}
		case forget:
			if c.owns() {
				c.o.Shard.Journal().Commit()
			}
		case undo:
			if c.owns() {
				if err := c.o.Shard.Rollback(0); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// seal gives the sinks what was written.
func (c *Committer) seal(step int64) error {
	began := c.o.Env.Now()
	var rows *shard.Shard
	if c.owns() {
		rows = c.o.Shard
	}
	c.set.seal(step, rows)
	for _, s := range c.sinks {
		if err := s.Seal(&c.set); err != nil {
			return err
		}
	}
	c.stats.Epochs++
	c.stats.Sealed += c.o.Env.Now() - began
	return nil
}

// Decide hears how far each rank is prepared, as the words of a step say, and commits
// what all are prepared for. It returns the step of the last commit.
func (c *Committer) Decide(prepared []int64) (int64, error) {
	c.decision.listen(len(prepared))
	for rank, step := range prepared {
		for _, a := range c.decision.step(event{kind: word, step: step, rank: rank}) {
			if err := c.decided(a.step); err != nil {
				return c.owner.committed, err
			}
		}
	}
	return c.owner.committed, nil
}

// decided commits the epochs up to a step, for which all ranks are prepared.
func (c *Committer) decided(step int64) error {
	c.decision.step(event{kind: decided, step: step})
	for _, s := range c.sinks {
		s.Commit(step)
	}
	return c.carryOut(c.owner.step(event{kind: decided, step: step}))
}

// meet returns as soon as every rank is prepared for all that is sealed.
func (c *Committer) meet(step int64) error {
	if err := c.o.chaos(step, "meet"); err != nil {
		return err
	}
	if err := c.link.comm.Barrier().Wait(); err != nil {
		return err
	}
	return c.o.chaos(step, "met")
}

// Settle has all that was done up to a step committed. dense is as in Seal.
func (c *Committer) Settle(step int64, dense ...kernels.Buffer) error {
	if step > c.owner.newest() {
		if err := c.Seal(step, dense...); err != nil {
			return err
		}
	}
	if err := c.wait(); err != nil {
		return err
	}
	if err := c.meet(c.owner.newest()); err != nil {
		return err
	}
	return c.decided(c.owner.newest())
}

// Clear forgets all commits; Begin follows.
func (c *Committer) Clear() error { return c.Roll(c.owner.committed) }

// Roll goes to a commit that some rank knows: forward, where this one is prepared
// for it, and back from all that came later. It is for between worlds.
func (c *Committer) Roll(step int64) error {
	for _, s := range c.sinks {
		s.Roll(step)
	}
	c.decision.step(event{kind: rolled, step: step})
	return c.carryOut(c.owner.step(event{kind: rolled, step: step}))
}

func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4)
	}
	return s[:n]
}
