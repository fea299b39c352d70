package commit

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"github.com/ecrec/ecrec/ec"
	"github.com/ecrec/ecrec/kernels"
)

// Parity is the Sink that keeps sets in the memory of other ranks: it sends deltas to the
// holders of their parities, and is a holder itself. On ranks that own nothing it holds
// nothing.
type Parity struct {
	*parityRows // nil where nothing is owned
	o           *Options
	holders     []int // [slot mod data * parities + j]: rank
	peers       []int // 4 for each other rank of the group, the bytes of a count
	machine     holder
	arrived     atomic.Int64 // the newest epoch whose deltas are all here
	staged      []*staging   // that are not in the parities, oldest first
	idle        []*staging   // whose memory can be used again
	out         outgoing
	link        *link // nil between worlds
	stats       *Stats
	moved       atomic.Int64 // Stats.Moved
}

// staging is the deltas of an epoch that came.
type staging struct {
	step    int64
	perRank []int   // rows from each rank
	slots   []int32 // of the senders, by rank
	rows    kernels.Buffer
}

// outgoing is the deltas of an epoch of this owner's.
type outgoing struct {
	perRank, next []int   // rows for each rank; scratch
	slots, at     []int32 // by rank: the row's slot, and its place in the set
	rows          kernels.Buffer
}

// newParity makes a rank's.
func newParity(o *Options, stats *Stats) (*Parity, error) {
	p := &Parity{o: o, stats: stats}
	if o.Owner < 0 {
		return p, nil
	}
	group := o.Layout.GroupOf(o.Owner)
	if stripes := group.Stripes(o.Slots); stripes > math.MaxInt32 { // they travel as int32
		return nil, fmt.Errorf("commit: %d rows a rank make %d stripes, at most %d work: use more ranks, or a larger ec.k", o.Slots, stripes, math.MaxInt32)
	}
	code, err := ec.NewCode(o.Code, group.Data(), group.Parity)
	if err != nil {
		return nil, err
	}
	if p.parityRows, err = newParityRows(o, code); err != nil {
		return nil, err
	}
	for slot := range group.Data() {
		stripe, _ := group.Stripe(o.Owner, int64(slot))
		for j := range group.Parity {
			holder, _ := group.Holder(stripe, group.Data()+j)
			p.holders = append(p.holders, o.First+holder)
		}
	}
	return p, nil
}

// join enters a world.
func (p *Parity) join(l *link) {
	p.link, p.peers = l, make([]int, l.comm.Size())
	if p.parityRows == nil {
		return
	}
	for owner := p.group.First; owner < p.group.First+p.group.Size; owner++ {
		if owner != p.owner {
			p.peers[p.o.First+owner] = 4
		}
	}
}

// Begin implements Sink. Parities of rows that are not as they were drawn are yet to be
// built.
func (p *Parity) Begin(step int64, drawn bool) {
	p.carryOut(event{kind: began, step: step})
	p.arrived.Store(step)
	if p.parityRows != nil && !drawn {
		p.forget()
	}
}

// Seal implements Sink.
func (p *Parity) Seal(s *Set) error {
	if err := p.copyDeltas(s); err != nil {
		return err
	}
	if err := p.o.chaos(s.Step, "deltas"); err != nil {
		return err
	}
	p.carryOut(event{kind: sealed, step: s.Step})
	return nil
}

// Wait implements Sink.
func (p *Parity) Wait() error { return p.link.wait() }

// Prepared implements Sink.
func (p *Parity) Prepared() int64 {
	if step := p.arrived.Load(); step > p.machine.prepared {
		p.carryOut(event{kind: staged, step: step})
	}
	return p.machine.prepared
}

// Commit implements Sink.
func (p *Parity) Commit(step int64) {
	p.Prepared()
	p.carryOut(event{kind: decided, step: step})
}

// Roll implements Sink.
func (p *Parity) Roll(step int64) {
	p.Prepared()
	p.carryOut(event{kind: rolled, step: step})
	p.arrived.Store(step)
}

// carryOut does what the machine wants done about an event.
func (p *Parity) carryOut(e event) {
	for _, a := range p.machine.step(e) {
		switch a.kind {
		case stage:
			s := p.newStaging(a.step)
			p.staged = append(p.staged, s)
			p.link.start(func() error { return p.exchange(s) })
		case fold, drop:
			s := p.staged[0]
			if s.step != a.step {
				panic(fmt.Sprintf("commit: %v, but what is staged is of step %d", a, s.step))
			}
			p.staged = append(p.staged[:0], p.staged[1:]...)
			if a.kind == fold {
				p.fold(s)
			}
			p.idle = append(p.idle, s)
		}
	}
}

func (p *Parity) newStaging(step int64) *staging {
	s := &staging{}
	if n := len(p.idle); n > 0 {
		s, p.idle = p.idle[n-1], p.idle[:n-1]
	}
	s.step = step
	return s
}

// copyDeltas puts the deltas of a set where they are sent from, by rank.
func (p *Parity) copyDeltas(s *Set) error {
	out := &p.out
	out.perRank, out.next = resize(out.perRank, len(p.peers)), resize(out.next, len(p.peers))
	clear(out.perRank)
	out.slots, out.at = out.slots[:0], out.at[:0]
	if len(s.Slots) == 0 {
		return nil
	}
	data, r, stride := uint32(p.group.Data()), p.group.Parity, p.o.Shard.RowBytes()
	for _, slot := range s.Slots {
		for _, rank := range p.holders[int(uint32(slot)%data)*r:][:r] {
			out.perRank[rank]++
		}
	}
	n := len(s.Slots) * r
	out.slots, out.at = resize(out.slots, n), resize(out.at, n)
	at := 0
	for rank, rows := range out.perRank {
		out.next[rank] = at
		at += rows
	}
	for i, slot := range s.Slots {
		for _, rank := range p.holders[int(uint32(slot)%data)*r:][:r] {
			out.slots[out.next[rank]], out.at[out.next[rank]] = slot, int32(i)
			out.next[rank]++
		}
	}
	p.stats.SentBytes += int64(n) * int64(stride+4)
	if err := kernels.Grow(p.o.Device, &out.rows, n*stride, kernels.Sent); err != nil {
		return fmt.Errorf("commit: deltas of %d rows: %w", n, err)
	}
	return s.Deltas(kernels.Mat(out.rows, n, stride/4), out.at)
}

// exchange sends the deltas and stages those that come.
func (p *Parity) exchange(s *staging) error {
	began, stride := p.o.Env.Now(), p.o.Shard.RowBytes()
	if err := p.o.chaos(s.step, "send"); err != nil {
		return err
	}
	come, err := p.link.counts(p.out.perRank, p.peers, p.peers)
	if err != nil {
		return err
	}
	if err := p.o.chaos(s.step, "counts"); err != nil {
		return err
	}
	s.perRank = append(s.perRank[:0], come...)
	total := sum(come)
	s.slots = resize(s.slots, total)
	if err := kernels.Grow(p.o.Device, &s.rows, total*stride, kernels.Staging); err != nil {
		return fmt.Errorf("commit: staged deltas of %d rows: %w", total, err)
	}
	if err := p.link.move(kernels.HostBuffer(s.slots), kernels.HostBuffer(p.out.slots), come, p.out.perRank, 4); err != nil {
		return err
	}
	if err := p.o.chaos(s.step, "slots"); err != nil {
		return err
	}
	n := len(p.out.slots)
	if err := p.link.move(s.rows.Slice(0, total*stride), p.out.rows.Slice(0, n*stride), come, p.out.perRank, stride); err != nil {
		return err
	}
	p.moved.Add(int64(p.o.Env.Now() - began))
	if err := p.o.chaos(s.step, "staged"); err != nil {
		return err
	}
	p.arrived.Store(s.step)
	return p.o.chaos(s.step, "prepared")
}

// fold adds what was staged to the parities.
func (p *Parity) fold(s *staging) {
	began := p.o.Env.Now()
	stride, at := p.o.Shard.RowBytes(), 0
	for rank, n := range s.perRank {
		if n > 0 {
			p.parityRows.fold(rank-p.o.First, s.slots[at:at+n], s.rows.Slice(at*stride, n*stride))
			at += n
		}
	}
	_ = p.o.Shard.Stream().Sync() // what fails here stays failed, and whoever works on rows says so
	p.stats.Folded += p.o.Env.Now() - began
}

// sets is for how many epochs there is memory of staged deltas.
func (p *Parity) sets() int { return len(p.staged) + len(p.idle) }

// stagedBytes is the memory of deltas, sent and staged.
func (p *Parity) stagedBytes() int64 {
	n := p.out.rows.Bytes()
	for _, s := range slices.Concat(p.staged, p.idle) {
		n += s.rows.Bytes()
	}
	return int64(n)
}

// Close implements Sink.
func (p *Parity) Close() {
	if p.parityRows != nil {
		p.free()
	}
	free(p.o.Device, p.out.rows)
	for _, s := range slices.Concat(p.staged, p.idle) {
		free(p.o.Device, s.rows)
	}
}
