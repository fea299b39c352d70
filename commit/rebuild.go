package commit

import (
	"fmt"
	"math/bits"
	"sync/atomic"

	"github.com/ecrec/ecrec/ec"
	"github.com/ecrec/ecrec/kernels"
)

// Rebuild is how a rank gets back what it lost: rows that are decoded, parities that
// are encoded, from the other members of its group. It goes in rounds that all ranks
// do together; who has lost nothing answers.
type rebuild struct {
	lost    []Loss       // by rank
	answers []answer     // by place of a stripe in a turn: how this rank gets its shard
	missing []uint64     // a bit for each slot that is yet to be decoded
	left    atomic.Int64 // bits of missing
	slot    int64        // where the search for missing rows goes on
	row     int64        // and that for unbuilt parities
	asked   []ask        // of the round under way
	got     int64        // shards that came back
	urgent  int64        // of them rows that were about to be read
	read    int64        // bytes, for them

	// Of a round: stripes that this rank asks for, by rank, and that are asked of it.
	asks, asksOf     [][]int32
	mine, come       []int32 // the same, as they travel
	replies, replied kernels.Buffer
	slots            []int32 // scratch: rows that are sent, or installed
	places           []int   // and where in replies
	rows             kernels.Buffer
	draw             []float32
	found            []byte // rows to install
}

// answer says from whom the shards come that a lost one is decoded from.
type answer struct {
	decoder *ec.Decoder
	shard   int   // that is lost here
	readers []int // ranks, in the order of decoder.Reads
}

// ask is one stripe that is asked for.
type ask struct {
	stripe int64
	data   bool  // a row, else a parity
	at     int64 // its slot, or parity row
}

// Loss is what a rank has yet to get back.
type Loss struct{ Rows, Parities int64 }

// Any reports whether there is something.
func (l Loss) Any() bool { return l.Rows > 0 || l.Parities > 0 }

// has reports whether a shard of a group is among what is lost.
func (l Loss) has(shard int, g ec.Group) bool {
	if shard < g.Data() {
		return l.Rows > 0
	}
	return l.Parities > 0
}

// Beyond says that more members of a group have lost what they held than it can spare.
type Beyond struct {
	Group int
	Ranks []int
	Spare int
	// Dense says that it is the dense part that nobody has any more.
	Dense bool
}

func (e *Beyond) Error() string {
	if e.Dense {
		return fmt.Sprintf("all ranks are lost that held the dense parameters of the last commit, more than ec.r = %d", e.Spare)
	}
	return fmt.Sprintf("ranks %v of group %d have lost their rows, more than the ec.r = %d that the others make good", e.Ranks, e.Group, e.Spare)
}

// Survivable reports, as a Beyond, whether a group has lost more than it can spare.
func (c *Committer) Survivable(lost []Loss) error {
	for g := range c.o.Layout.Groups() {
		group := c.o.Layout.Group(g)
		for at := range group.Size {
			if gone := c.gone(lost, group, int64(at)); len(gone) > group.Parity {
				return &Beyond{Group: g, Ranks: gone, Spare: group.Parity}
			}
		}
	}
	return nil
}

// gone is the ranks that have lost their shards of a stripe.
func (c *Committer) gone(lost []Loss, group ec.Group, stripe int64) (ranks []int) {
	for owner := group.First; owner < group.First+group.Size; owner++ {
		if shard, _ := group.Shard(stripe, owner); lost[c.o.First+owner].has(shard, group) {
			ranks = append(ranks, c.o.First+owner)
		}
	}
	return ranks
}

// Lose makes a rank that has just been made anew part of a job that goes on, after
// the commit of a step: all its rows are missing, and its parities unbuilt.
func (c *Committer) Lose(step int64) {
	c.Begin(step, false)
	if c.parity == nil {
		return
	}
	n := c.o.Shard.Slots()
	c.rebuild.missing = make([]uint64, (n+63)/64)
	for slot := range n {
		c.rebuild.missing[slot>>6] |= 1 << (slot & 63)
	}
	c.rebuild.left.Store(n)
}

// Rebuilt is how many rows and parities this rank got back since it was made, how many
// of them because they were about to be read, and the bytes that it read for that.
func (c *Committer) Rebuilt() (shards, onDemand, bytes int64) {
	return c.rebuild.got, c.rebuild.urgent, c.rebuild.read
}

// Left is what this rank has yet to get back.
func (c *Committer) Left() Loss {
	if c.parity == nil {
		return Loss{}
	}
	return Loss{c.rebuild.left.Load(), c.parity.missing.Load()}
}

// Survey begins to rebuild in a world where lost says which ranks have something
// left to get back. Those learn from the others which of it ever differed from its
// init: the rest is back at once.
func (c *Committer) Survey(lost []Loss) error {
	b := &c.rebuild
	b.lost = append(b.lost[:0], lost...)
	b.slot, b.row = 0, 0
	if err := c.Survivable(lost); err != nil {
		return err
	}
	comm := c.link.comm
	n := comm.Size()
	sends, comes := make([]int, n), make([]int, n)
	var mine []uint64
	words := 0
	if c.parity != nil {
		group := c.parity.group
		words = int(group.Stripes(c.o.Slots)+63) / 64
		for owner := group.First; owner < group.First+group.Size; owner++ {
			rank := c.o.First + owner
			if rank == comm.Rank() {
				continue
			}
			if lost[rank].Any() {
				sends[rank] = 8 * words
				mine = append(mine, c.matters(owner)...)
			}
			if lost[comm.Rank()].Any() {
				comes[rank] = 8 * words
			}
		}
	}
	total := 0
	for _, k := range comes {
		total += k / 8
	}
	come := make([]uint64, total)
	if err := comm.AllToAllV(kernels.HostBuffer(come), comes, kernels.HostBuffer(mine), sends).Wait(); err != nil {
		return err
	}
	if err := c.chaos(c.committed, "surveyed"); err != nil {
		return err
	}
	if c.parity == nil || !lost[comm.Rank()].Any() {
		return nil
	}
	any := make([]uint64, words)
	for i, w := range come {
		any[i%words] |= w
	}
	c.forgo(any)
	return c.findAnswers()
}

// matters has a bit for each stripe of the group, as far as this rank can tell: whether
// the shard that an owner has lost may differ from zeros.
func (c *Committer) matters(owner int) []uint64 {
	p, group := c.parity, c.parity.group
	stripes, slots, touched := group.Stripes(c.o.Slots), c.o.Shard.Slots(), c.o.Shard.TouchedBits()
	set := make([]uint64, (stripes+63)/64)
	for first := range min(int64(group.Size), stripes) {
		theirs, _ := group.Shard(first, owner)
		shard, at := group.Shard(first, p.owner)
		if c.rebuild.lost[c.o.First+p.owner].has(shard, group) {
			continue // the others know
		}
		var may func(at int64) bool
		switch {
		case shard >= group.Data() && theirs < group.Data():
			may = func(at int64) bool { return p.marked(at, theirs) }
		case shard >= group.Data():
			may = func(at int64) bool { return !p.zero(at) }
		case theirs >= group.Data():
			may = func(at int64) bool { return at < slots && touched[at>>6]>>(at&63)&1 != 0 }
		default:
			continue // a parity knows better
		}
		eachTurn(group, shard, first, at, stripes, func(s, at int64) {
			if may(at) {
				set[s>>6] |= 1 << (s & 63)
			}
		})
	}
	return set
}

// eachTurn visits the stripes that are equal to first modulo the group's size, with the
// row of an owner's shard of each, which is at in the first.
func eachTurn(g ec.Group, shard int, first, at, stripes int64, f func(stripe, at int64)) {
	step := int64(g.Data())
	if shard >= g.Data() {
		step = int64(g.Parity)
	}
	for s := first; s < stripes; s += int64(g.Size) {
		f(s, at)
		at += step
	}
}

// forgo counts as back what has always been zeros.
func (c *Committer) forgo(any []uint64) {
	b, group := &c.rebuild, c.parity.group
	stripes := group.Stripes(c.o.Slots)
	for first := range min(int64(group.Size), stripes) {
		shard, at := group.Shard(first, c.parity.owner)
		eachTurn(group, shard, first, at, stripes, func(s, at int64) {
			switch {
			case any[s>>6]>>(s&63)&1 != 0:
			case shard >= group.Data():
				c.parity.build(at, nil) // does nothing where it is built
			default:
				b.back(at)
			}
		})
	}
}

func (b *rebuild) isMissing(slot int64) bool {
	return b.left.Load() > 0 && b.missing[slot>>6]>>(slot&63)&1 != 0
}

// back says that a row is no longer missing.
func (b *rebuild) back(slot int64) {
	if slot < int64(64*len(b.missing)) && b.isMissing(slot) {
		b.missing[slot>>6] &^= 1 << (slot & 63)
		b.left.Add(-1)
	}
}

// findAnswers works out whom to ask, for each place of a stripe in a turn.
func (c *Committer) findAnswers() error {
	b, group := &c.rebuild, c.parity.group
	b.answers = b.answers[:0]
	for at := range group.Size {
		stripe := int64(at)
		mine, _ := group.Shard(stripe, c.parity.owner)
		if !b.lost[c.o.First+c.parity.owner].has(mine, group) {
			b.answers = append(b.answers, answer{})
			continue
		}
		var lost []int
		for _, rank := range c.gone(b.lost, group, stripe) {
			shard, _ := group.Shard(stripe, rank-c.o.First)
			lost = append(lost, shard)
		}
		d, err := c.parity.code.Decoder(lost, []int{mine})
		if err != nil {
			return err
		}
		a := answer{decoder: d, shard: mine}
		for _, shard := range d.Reads {
			owner, _ := group.Holder(stripe, shard)
			a.readers = append(a.readers, c.o.First+owner)
		}
		b.answers = append(b.answers, a)
	}
	return nil
}

// choose lists what this rank asks for in a round: the rows in first that are missing,
// then others in order, and parities, up to so many in all.
func (c *Committer) choose(first []int32, limit int) {
	b, group := &c.rebuild, c.parity.group
	b.asked = b.asked[:0]
	for _, slot := range first {
		if b.isMissing(int64(slot)) {
			stripe, _ := group.Stripe(c.parity.owner, int64(slot))
			b.asked = append(b.asked, ask{stripe, true, int64(slot)})
			b.missing[slot>>6] &^= 1 << (slot & 63) // not twice
		}
	}
	urgent := len(b.asked)
	b.urgent += int64(urgent)
	for ; len(b.asked) < limit && b.left.Load() > 0 && b.slot < c.o.Shard.Slots(); b.slot++ {
		if word := b.missing[b.slot>>6] >> (b.slot & 63); word == 0 {
			b.slot |= 63
			continue
		} else if skip := bits.TrailingZeros64(word); skip > 0 {
			b.slot += int64(skip)
		}
		stripe, _ := group.Stripe(c.parity.owner, b.slot)
		b.asked = append(b.asked, ask{stripe, true, b.slot})
	}
	for i := range urgent {
		slot := b.asked[i].at
		b.missing[slot>>6] |= 1 << (slot & 63)
	}
	for ; len(b.asked) < limit && c.parity.missing.Load() > 0 && b.row < c.parity.Rows(); b.row++ {
		if c.parity.isUnbuilt(b.row) {
			stripe, _ := group.ParityStripe(c.parity.owner, b.row)
			b.asked = append(b.asked, ask{stripe, false, b.row})
		}
	}
}
