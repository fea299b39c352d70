package commit

import (
	"fmt"
	"math"
	"sync/atomic"

	"github.com/ecrec/ecrec/ec"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/shard"
)

// maxSealed bounds the epochs that are sealed and not committed: with the one under
// way two epochs at most would have to be redone.
const maxSealed = 1

// Options make a Committer.
type Options struct {
	Env    env.Env
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
	// Chaos, if set, is called where faults may be injected: with the step of the
	// epoch or commit that is worked on. Its error is the caller's.
	Chaos func(step int64, point string) error
}

// Committer is one rank's part in commits. But for Prepared its methods belong to the
// training goroutine, and all ranks call the same ones at the same steps. It outlives
// worlds: Join and Leave say in which one it is.
type Committer struct {
	o       Options
	parity  *Parity // nil where nothing is owned
	holders []int   // [slot mod data * parities + j]: rank

	committed int64  // the step of the last commit
	sealed    []*set // oldest first
	idle      []*set // whose memory can be used again
	prepared  atomic.Int64
	stats     Stats
	moved     atomic.Int64 // Stats.Moved

	link    *link // nil between worlds
	send    outgoing
	rebuild rebuild
}

// set is what one epoch's deltas brought.
type set struct {
	step    int64
	perRank []int   // rows from each rank
	slots   []int32 // of the senders, by rank
	rows    kernels.Buffer
}

// outgoing is the deltas of an epoch of this owner's.
type outgoing struct {
	perRank      []int   // rows for each rank
	slots, order []int32 // by rank: the row's slot, and its place in the epoch
	rows         kernels.Buffer
	lists        [2]kernels.Buffer // slots and order on the device
}

// New makes a Committer. Begin or Lose follows, where a run does not start from rows
// as they are drawn.
func New(o Options) (*Committer, error) {
	c := &Committer{o: o}
	if o.Owner < 0 {
		return c, nil
	}
	group := o.Layout.GroupOf(o.Owner)
	if stripes := group.Stripes(o.Slots); stripes > math.MaxInt32 { // they travel as int32
		return nil, fmt.Errorf("commit: %d rows a rank make %d stripes, at most %d work: use more ranks, or a larger ec.k", o.Slots, stripes, math.MaxInt32)
	}
	code, err := ec.NewCode(o.Code, group.Data(), group.Parity)
	if err != nil {
		return nil, err
	}
	c.parity, err = newParity(o.Device, o.Layout, code, o.Owner, o.Slots, o.Shard.RowBytes())
	if err != nil {
		return nil, err
	}
	for slot := range group.Data() {
		stripe, _ := group.Stripe(o.Owner, int64(slot))
		for j := range group.Parity {
			holder, _ := group.Holder(stripe, group.Data()+j)
			c.holders = append(c.holders, o.First+holder)
		}
	}
	return c, nil
}

// Begin makes the rows as they are the commit of a step. drawn says that all are as
// they were drawn; else the parities are yet to be built.
func (c *Committer) Begin(step int64, drawn bool) {
	c.committed = step
	c.prepared.Store(step)
	clear(c.rebuild.missing)
	c.rebuild.left.Store(0)
	if c.parity != nil && !drawn {
		c.parity.forget()
	}
}

// Close frees the parities and all else.
func (c *Committer) Close() {
	if c.parity != nil {
		c.parity.free()
	}
	for _, s := range append(c.sealed, c.idle...) {
		c.free(s.rows)
	}
	for _, b := range []kernels.Buffer{c.rebuild.replies, c.rebuild.replied, c.rebuild.rows} {
		c.free(b)
	}
	c.free(c.send.rows)
	c.free(c.send.lists[0])
	c.free(c.send.lists[1])
}

// chaos is where a fault may be injected.
func (c *Committer) chaos(step int64, point string) error {
	if c.o.Chaos == nil {
		return nil
	}
	return c.o.Chaos(step, point)
}

func (c *Committer) free(b kernels.Buffer) {
	if b.Bytes() > 0 {
		c.o.Device.Free(b)
	}
}

// Committed is the step of the last commit.
func (c *Committer) Committed() int64 { return c.committed }

// Prepared is the step of the newest epoch of which this rank has staged all.
func (c *Committer) Prepared() int64 { return c.prepared.Load() }

// Due reports whether an epoch ends with a step.
func (c *Committer) Due(step int64) bool { return step%c.o.Every == 0 && step > c.newest() }

// newest is the step up to which all is sealed.
func (c *Committer) newest() int64 {
	if n := len(c.sealed); n > 0 {
		return c.sealed[n-1].step
	}
	return c.committed
}

// Seal ends the epoch up to a step, which is the one that was trained last: every
// update of it is done, and none of a later one. Its deltas then travel in the
// background.
func (c *Committer) Seal(step int64) error {
	began := c.o.Env.Now()
	if err := c.link.wait(); err != nil {
		return err
	}
	if err := c.chaos(step, "travelled"); err != nil {
		return err
	}
	if len(c.sealed) == maxSealed {
		if err := c.decideAll(); err != nil {
			return err
		}
	}
	sealing := c.o.Env.Now()
	c.stats.Waited += sealing - began
	c.stats.Epochs++
	if err := c.copyDeltas(); err != nil {
		return err
	}
	c.stats.Sealed += c.o.Env.Now() - sealing
	if err := c.chaos(step, "deltas"); err != nil {
		return err
	}
	s := c.newSet(step)
	c.sealed = append(c.sealed, s)
	c.link.start(func() error { return c.exchange(s) })
	return nil
}

func (c *Committer) newSet(step int64) *set {
	s := &set{}
	if n := len(c.idle); n > 0 {
		s, c.idle = c.idle[n-1], c.idle[:n-1]
	}
	s.step = step
	return s
}

// copyDeltas seals the journal's epoch and puts its deltas where they are sent from,
// by rank.
func (c *Committer) copyDeltas() error {
	o, out := &c.o, &c.send
	out.perRank = resize(out.perRank, c.link.comm.Size())
	clear(out.perRank)
	out.slots, out.order = out.slots[:0], out.order[:0]
	if c.parity == nil {
		return nil
	}
	e := o.Shard.Journal().Seal()
	data, parities := c.parity.group.Data(), c.parity.group.Parity
	for _, slot := range e.Slots {
		for _, rank := range c.holders[int(slot)%data*parities:][:parities] {
			out.perRank[rank]++
		}
	}
	n := len(e.Slots) * parities
	if n == 0 {
		return nil
	}
	out.slots, out.order = resize(out.slots, n), resize(out.order, n)
	next := make([]int, len(out.perRank))
	for r, at := 0, 0; r < len(next); r++ {
		next[r] = at
		at += out.perRank[r]
	}
	for i, slot := range e.Slots {
		for _, rank := range c.holders[int(slot)%data*parities:][:parities] {
			out.slots[next[rank]], out.order[next[rank]] = slot, int32(i)
			next[rank]++
		}
	}
	stride := o.Shard.RowBytes()
	c.stats.SentBytes += int64(n) * int64(stride+4)
	if err := kernels.Grow(o.Device, &out.rows, n*stride, kernels.Shared); err != nil {
		return fmt.Errorf("commit: deltas of %d rows: %w", n, err)
	}
	for i, list := range [][]int32{out.slots, out.order} {
		if err := kernels.Grow(o.Device, &out.lists[i], 4*n, kernels.Working); err != nil {
			return fmt.Errorf("commit: list of %d rows: %w", n, err)
		}
		o.Shard.Stream().Upload(out.lists[i].SliceFloats(0, n), kernels.BytesOf(list))
	}
	o.Shard.Delta(kernels.Mat(out.rows, n, stride/4), e, out.lists[1].SliceFloats(0, n), out.lists[0].SliceFloats(0, n))
	return o.Shard.Stream().Sync()
}

// exchange sends the deltas and stages those that come.
func (c *Committer) exchange(s *set) error {
	began, stride := c.o.Env.Now(), c.o.Shard.RowBytes()
	if err := c.chaos(s.step, "send"); err != nil {
		return err
	}
	come, err := c.link.counts(c.send.perRank)
	if err != nil {
		return err
	}
	if err := c.chaos(s.step, "counts"); err != nil {
		return err
	}
	s.perRank = append(s.perRank[:0], come...)
	total := 0
	for _, n := range come {
		total += n
	}
	s.slots = resize(s.slots, total)
	if err := kernels.Grow(c.o.Device, &s.rows, total*stride, kernels.Working); err != nil {
		return fmt.Errorf("commit: staged deltas of %d rows: %w", total, err)
	}
	if err := c.link.move(kernels.HostBuffer(s.slots), kernels.HostBuffer(c.send.slots), come, c.send.perRank, 4); err != nil {
		return err
	}
	if err := c.chaos(s.step, "slots"); err != nil {
		return err
	}
	n := len(c.send.slots)
	if err := c.link.move(s.rows.Slice(0, total*stride), c.send.rows.Slice(0, n*stride), come, c.send.perRank, stride); err != nil {
		return err
	}
	c.moved.Add(int64(c.o.Env.Now() - began))
	if err := c.chaos(s.step, "staged"); err != nil {
		return err
	}
	c.prepared.Store(s.step)
	return c.chaos(s.step, "prepared")
}

// Decide commits the epochs up to a step, for which all ranks are prepared. It
// returns the step of the last commit.
func (c *Committer) Decide(prepared int64) int64 {
	for len(c.sealed) > 0 && c.sealed[0].step <= prepared {
		s := c.sealed[0]
		c.sealed = append(c.sealed[:0], c.sealed[1:]...)
		c.fold(s)
		if c.parity != nil {
			c.o.Shard.Journal().Commit()
		}
		c.committed = s.step
		c.idle = append(c.idle, s)
	}
	return c.committed
}

// fold adds what was staged to the parities.
func (c *Committer) fold(s *set) {
	began := c.o.Env.Now()
	defer func() { c.stats.Folded += c.o.Env.Now() - began }()
	stride, at := c.o.Shard.RowBytes(), 0
	rows := s.rows.Host()
	for rank, n := range s.perRank {
		if n > 0 {
			c.parity.fold(rank-c.o.First, s.slots[at:at+n], rows[at*stride:(at+n)*stride])
			at += n
		}
	}
}

// decideAll commits all that is sealed, as soon as every rank is prepared for it.
func (c *Committer) decideAll() error {
	if err := c.chaos(c.newest(), "meet"); err != nil {
		return err
	}
	if err := c.link.comm.Barrier().Wait(); err != nil {
		return err
	}
	if err := c.chaos(c.newest(), "met"); err != nil {
		return err
	}
	c.Decide(c.newest())
	return nil
}

// Settle has all that was done up to a step committed.
func (c *Committer) Settle(step int64) error {
	if step > c.newest() {
		if err := c.Seal(step); err != nil {
			return err
		}
	}
	if err := c.link.wait(); err != nil {
		return err
	}
	return c.decideAll()
}

// Clear forgets all commits; Begin follows.
func (c *Committer) Clear() error { return c.Roll(c.committed) }

// Roll goes to a commit that some rank knows: forward, where this one is prepared
// for it, and back from all that came later. It is for between worlds.
func (c *Committer) Roll(step int64) error {
	if step < c.committed || step > c.prepared.Load() {
		panic(fmt.Sprintf("commit: roll to step %d of a rank that has committed step %d and is prepared for step %d", step, c.committed, c.prepared.Load()))
	}
	c.Decide(step)
	c.idle = append(c.idle, c.sealed...)
	c.sealed = c.sealed[:0]
	c.prepared.Store(step)
	if c.parity == nil {
		return nil
	}
	return c.o.Shard.Rollback(0)
}

func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4)
	}
	return s[:n]
}
