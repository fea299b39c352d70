package commit

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/ec"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/probe"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/shard"
)

// ParityOptions make a Parity.
type ParityOptions struct {
	Env env.Env
	// Device has the rows of this rank and the parities of other ranks' rows.
	Device kernels.Device
	// Shard is this rank's rows.
	Shard *shard.Shard
	// Layout divides owners into groups, which are coded together by Code (ec.XOR or ec.RS).
	Layout ec.Layout
	Code   string
	// Slots is the most rows that an owner has.
	Slots int64
	// Owner is this rank's number among the owners, -1 if it owns nothing. Owner 0 is rank
	// First.
	Owner, First int
	// Reach, if set, is called at each point that package probe lists for commits and
	// rebuilds.
	Reach Reach
	// Deferred is set if Start begins to send the deltas of a sealed set, or Wait. Without it Seal does.
	Deferred bool
}

// Parity is the Sink that keeps sets in the memory of other ranks: it sends the deltas of
// this rank's rows to the holders of their parities, and is a holder itself. On a rank that
// owns nothing it holds nothing. After a loss it rebuilds rows and parities (Survey, Round).
//
// Its methods are called by the training goroutine, except Round.
type Parity struct {
	*parityRows // nil on ranks that own nothing
	o           ParityOptions
	committed   int64
	hasBegun    bool
	measured    bool  // by TouchAll
	holders     []int // [slot mod data * parities + j]: rank
	peers       []int // 4, the bytes of a count, for each other rank of the group
	machine     holder
	arrived     atomic.Int64 // the newest epoch whose deltas are all received
	staged      []*staging   // not folded yet, oldest first
	idle        []*staging   // memory to reuse
	out         outgoing
	background  *background // of deltas; nil between worlds
	rounds      channel     // of rebuilds
	rebuild     rebuild
	stats       ParityStats  // except the next two
	exchanged   atomic.Int64 // ParityStats.Moved
	held        atomic.Int64 // ParityStats.StagedBytes
}

// ParityStats are the costs of a Parity for its rank.
type ParityStats struct {
	SentRows    int64         // deltas, to the holders of parities
	SentBytes   int64         // of these
	StagedBytes int64         // memory of deltas, sent and staged
	Folded      time.Duration // adding deltas to parities
	Moved       time.Duration // sending and staging deltas, in the background
}

// staging is the deltas of an epoch that a holder received.
type staging struct {
	step    int64
	perRank []int   // rows from each rank
	slots   []int32 // of the senders, by rank
	rows    kernels.Buffer
}

// outgoing is the deltas of an epoch that an owner sends.
type outgoing struct {
	perRank, next []int   // rows for each rank; scratch
	perColumn     []int   // scratch: by slot modulo data columns
	slots, places []int32 // by rank: the slot of each row, and its place in the epoch
	rows          kernels.Buffer
}

// NewParity makes the Parity of a rank.
func NewParity(o ParityOptions) (*Parity, error) {
	p := &Parity{o: o}
	if o.Owner < 0 {
		return p, nil
	}
	group := o.Layout.GroupOf(o.Owner)
	if stripes := group.Stripes(o.Slots); stripes > math.MaxInt32 { // stripes are sent as int32
		return nil, fmt.Errorf("commit: %d rows a rank make %d stripes, at most %d work: use more ranks, or a larger ec.k",
			o.Slots, stripes, math.MaxInt32)
	}
	code, err := ec.NewCode(o.Code, group.Data(), group.Parity)
	if err != nil {
		return nil, err
	}
	if p.parityRows, err = newParityRows(&p.o, code); err != nil {
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

// ownsRows reports whether this rank owns rows, and so holds parities.
func (p *Parity) ownsRows() bool { return p.parityRows != nil }

// Join enters a world. Deltas move on the first communicator, in the background, and rounds
// of a rebuild on the second; rows is a view of this rank's shard with the stream of Round's
// caller.
func (p *Parity) Join(deltas, rounds *collectives.Comm, rows *shard.Shard) {
	p.background, p.rounds = newBackground(p.o.Env, deltas), channel{newWire(rounds), rows}
	p.peers = make([]int, deltas.Size())
	if !p.ownsRows() {
		return
	}
	for owner := p.group.First; owner < p.group.First+p.group.Size; owner++ {
		if owner != p.owner {
			p.peers[p.o.First+owner] = 4
		}
	}
}

// Leave ends the part in a world. If deltas may still be on their way, the world's endpoint is
// aborted before.
func (p *Parity) Leave() {
	if p.background == nil {
		return
	}
	p.background.stopJobs()
	p.background, p.rounds = nil, channel{}
}

// NeedsPreImages implements Sink.
func (p *Parity) NeedsPreImages() bool { return true }

// Begin implements Sink. Parities of rows that differ from their init must be rebuilt.
func (p *Parity) Begin(step int64, drawn bool) {
	p.carryOut(event{kind: began, step: step})
	p.arrived.Store(step)
	p.committed = step
	p.rebuild.forgetMissing()
	switch {
	case !p.ownsRows():
	case !drawn:
		p.discardRows()
	case p.hasBegun && !p.measured: // with other rows
		p.resetRows()
	}
	p.hasBegun = true
}

// Seal implements Sink.
func (p *Parity) Seal(s *Set) error {
	if err := p.copyDeltas(s); err != nil {
		return err
	}
	if err := p.o.Reach.reachPoint(s.Step, probe.Deltas); err != nil {
		return err
	}
	p.carryOut(event{kind: sealed, step: s.Step})
	return nil
}

// Start begins to send the deltas of the set that was sealed, if it has not begun. With ParityOptions.Deferred all ranks call it at the
// same steps, after the messages that a step waits for have arrived: deltas would delay them.
func (p *Parity) Start() { p.background.startJob() }

// Wait implements Sink.
func (p *Parity) Wait() error { return p.background.waitForJob() }

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
	p.committed = step
}

// Roll implements Sink.
func (p *Parity) Roll(step int64) {
	p.Prepared()
	p.carryOut(event{kind: rolled, step: step})
	p.arrived.Store(step)
	p.committed = step
}

// carryOut does the actions of the holder's machine.
func (p *Parity) carryOut(e event) {
	for _, a := range p.machine.step(e) {
		switch a.kind {
		case stage:
			s := p.newStaging(a.step)
			p.staged = append(p.staged, s)
			p.background.prepareJob(func() error { return p.exchangeDeltas(s) })
			if !p.o.Deferred {
				p.background.startJob()
			}
		case fold, drop:
			s := p.staged[0]
			if s.step != a.step {
				panic(fmt.Sprintf("commit: %v, but the oldest staged epoch is that of step %d", a, s.step))
			}
			p.staged = append(p.staged[:0], p.staged[1:]...)
			if a.kind == fold {
				p.foldStaged(s)
			}
			if p.background != nil && a.kind == drop {
				p.background.waiting = nil // it is of an epoch that is dropped
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

// copyDeltas copies the deltas of a set to the memory that they are sent from, by rank.
func (p *Parity) copyDeltas(s *Set) error {
	out := &p.out
	out.perRank, out.next = resize(out.perRank, len(p.peers)), resize(out.next, len(p.peers))
	clear(out.perRank)
	out.slots, out.places = out.slots[:0], out.places[:0]
	if len(s.Slots) == 0 {
		return nil
	}
	r, stride := p.group.Parity, p.o.Shard.RowBytes()
	out.perColumn = resize(out.perColumn, p.group.Data())
	clear(out.perColumn)
	for _, slot := range s.Slots {
		_, x := p.divide.quotient(slot)
		out.perColumn[x]++
	}
	for i, rank := range p.holders {
		out.perRank[rank] += out.perColumn[i/r]
	}
	n := len(s.Slots) * r
	out.slots, out.places = resize(out.slots, n), resize(out.places, n)
	at := 0
	for rank, rows := range out.perRank {
		out.next[rank] = at
		at += rows
	}
	for i, slot := range s.Slots {
		_, x := p.divide.quotient(slot)
		for _, rank := range p.holders[int(x)*r:][:r] {
			to := &out.next[rank]
			out.slots[*to], out.places[*to] = slot, s.places[i]
			*to++
		}
	}
	p.stats.SentRows += int64(n)
	p.stats.SentBytes += int64(n) * int64(stride+4)
	if err := p.growBuffer(&out.rows, n*stride, kernels.Sent); err != nil {
		return fmt.Errorf("commit: deltas of %d rows: %w", n, err)
	}
	return s.shard.Delta(kernels.Mat(out.rows, n, stride/4), s.epoch, out.places, out.slots)
}

// exchangeDeltas sends the deltas of this rank and stages those of others.
func (p *Parity) exchangeDeltas(s *staging) error {
	began, stride := p.o.Env.Now(), p.o.Shard.RowBytes()
	if err := p.o.Reach.reachPoint(s.step, probe.Send); err != nil {
		return err
	}
	received, err := p.background.exchangeCounts(p.out.perRank, p.peers, p.peers)
	if err != nil {
		return err
	}
	if err := p.o.Reach.reachPoint(s.step, probe.Counts); err != nil {
		return err
	}
	s.perRank = append(s.perRank[:0], received...)
	total := sum(received)
	s.slots = resize(s.slots, total)
	if err := p.growBuffer(&s.rows, total*stride, kernels.Staging); err != nil {
		return fmt.Errorf("commit: staged deltas of %d rows: %w", total, err)
	}
	if err := p.background.exchangeRows(kernels.HostBuffer(s.slots), kernels.HostBuffer(p.out.slots), received, p.out.perRank, 4); err != nil {
		return err
	}
	if err := p.o.Reach.reachPoint(s.step, probe.Slots); err != nil {
		return err
	}
	n := len(p.out.slots)
	if err := p.background.exchangeRows(s.rows.Slice(0, total*stride), p.out.rows.Slice(0, n*stride), received,
		p.out.perRank, stride); err != nil {
		return err
	}
	p.exchanged.Add(int64(p.o.Env.Now() - began))
	if err := p.o.Reach.reachPoint(s.step, probe.Staged); err != nil {
		return err
	}
	p.arrived.Store(s.step)
	return p.o.Reach.reachPoint(s.step, probe.Prepared)
}

// foldStaged adds staged deltas to the parities.
func (p *Parity) foldStaged(s *staging) {
	began := p.o.Env.Now()
	stride, at := p.o.Shard.RowBytes(), 0
	for rank, n := range s.perRank {
		if n > 0 {
			p.parityRows.foldRows(rank-p.o.First, s.slots[at:at+n], s.rows.Slice(at*stride, n*stride))
			at += n
		}
	}
	_ = p.o.Shard.Stream().Sync() // an error stays in the stream, and its next user returns it
	p.stats.Folded += p.o.Env.Now() - began
}

// growBuffer makes memory of deltas, sent or staged, large enough, and counts it. The
// background grows its buffers while the rank may read the sum.
func (p *Parity) growBuffer(b *kernels.Buffer, bytes int, use kernels.Use) error {
	before := b.Bytes()
	err := kernels.Grow(p.o.Device, b, bytes, use)
	p.held.Add(int64(b.Bytes() - before))
	return err
}

// Stats returns the costs so far.
func (p *Parity) Stats() ParityStats {
	s := p.stats
	s.Moved, s.StagedBytes = time.Duration(p.exchanged.Load()), p.held.Load()
	return s
}

// Close implements Sink.
func (p *Parity) Close() {
	if p.ownsRows() {
		p.freeRows()
	}
	x := &p.rebuild.round
	release(p.o.Device, &p.out.rows, &x.mine.rows, &x.theirs.rows, &x.found)
	for _, s := range slices.Concat(p.staged, p.idle) {
		release(p.o.Device, &s.rows)
	}
}

// release frees buffers that have memory.
func release(dev kernels.Device, buffers ...*kernels.Buffer) {
	for _, b := range buffers {
		if b.Bytes() > 0 {
			dev.Free(*b)
			*b = kernels.Buffer{}
		}
	}
}
