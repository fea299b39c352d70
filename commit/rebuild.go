package commit

import (
	"fmt"
	"sync/atomic"

	"github.com/ecrec/ecrec/ec"
	"github.com/ecrec/ecrec/kernels"
)

// Rebuild is how a rank gets back what it lost: rows that are decoded, parities that
// are encoded, from the other members of its group. It goes in rounds that all ranks
// do together; who has lost nothing answers.
type rebuild struct {
	lost     []Loss       // by rank
	patterns []pattern    // how this rank gets its shards back
	missing  bitset       // slots that are yet to be decoded
	left     atomic.Int64 // bits of missing
	slot     int64        // where the search for missing rows goes on
	row      int64        // and that for unbuilt parities
	got      int64        // shards that came back
	urgent   int64        // of them rows that were about to be read
	read     int64        // bytes, for them

	asksTo, asksFrom []int // 4 for each rank that this one asks, and that asks this one
	round            round
}

// pattern is what the stripes that are equal modulo a group's size share: who holds
// which shard, and who has lost it.
type pattern struct {
	shard   int         // this rank's
	decoder *ec.Decoder // nil where it is not lost
	readers []int       // ranks, in the order of decoder.Reads
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

// Survivable is the first group that has lost more than it can spare, nil if none has.
func (c *Committer) Survivable(lost []Loss) *Beyond {
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

// forget is for when nothing is missing.
func (b *rebuild) forget() {
	clear(b.missing)
	b.left.Store(0)
}

// Lose makes a rank that has just been made anew part of a job that goes on, after
// the commit of a step: all its rows are missing, and its parities unbuilt.
func (c *Committer) Lose(step int64) {
	c.Begin(step, false)
	if !c.owns() {
		return
	}
	n := c.o.Shard.Slots()
	c.rebuild.missing = newBitset(n)
	c.rebuild.missing.fill(n)
	c.rebuild.left.Store(n)
}

// Rebuilt is how many rows and parities this rank got back since it was made, how many
// of them because they were about to be read, and the bytes that it read for that.
func (c *Committer) Rebuilt() (shards, onDemand, bytes int64) {
	return c.rebuild.got, c.rebuild.urgent, c.rebuild.read
}

// Left is what this rank has yet to get back.
func (c *Committer) Left() Loss {
	if !c.owns() {
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
	b.slot, b.row, b.patterns = 0, 0, b.patterns[:0]
	if beyond := c.Survivable(lost); beyond != nil {
		return beyond
	}
	comm := c.link.comm
	n := comm.Size()
	sends, comes := make([]int, n), make([]int, n)
	b.asksTo, b.asksFrom = make([]int, n), make([]int, n)
	var mine []uint64
	words := 0
	if c.owns() {
		group := c.parity.group
		words = int(group.Stripes(c.o.Slots)+63) / 64
		for owner := group.First; owner < group.First+group.Size; owner++ {
			rank := c.o.First + owner
			if rank == comm.Rank() {
				continue
			}
			if lost[rank].Any() {
				sends[rank], b.asksFrom[rank] = 8*words, 4
				mine = append(mine, c.matters(owner)...)
			}
			if lost[comm.Rank()].Any() {
				comes[rank], b.asksTo[rank] = 8*words, 4
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
	if err := c.o.chaos(c.owner.committed, "surveyed"); err != nil {
		return err
	}
	if !c.owns() || !lost[comm.Rank()].Any() {
		return nil
	}
	any := make(bitset, words)
	for i, w := range come {
		any[i%words] |= w
	}
	c.forgo(any)
	return c.findPatterns()
}

// matters has a bit for each stripe of the group, as far as this rank can tell: whether
// the shard that an owner has lost may differ from zeros.
func (c *Committer) matters(owner int) bitset {
	p, group := c.parity, c.parity.group
	stripes, slots, touched := group.Stripes(c.o.Slots), c.o.Shard.Slots(), bitset(c.o.Shard.TouchedBits())
	set := newBitset(stripes)
	for first := range min(int64(group.Size), stripes) {
		theirs, _ := group.Shard(first, owner)
		turn := p.turns[first]
		shard := turn.Shard
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
			may = func(at int64) bool { return at < slots && touched.has(at) }
		default:
			continue // a parity knows better
		}
		eachTurn(turn, first, int64(group.Size), stripes, func(s, at int64) {
			if may(at) {
				set.set(s)
			}
		})
	}
	return set
}

// eachTurn visits the stripes that are equal to first modulo a group's size, with the row
// of an owner's shard of each.
func eachTurn(t ec.Turn, first, size, stripes int64, f func(stripe, at int64)) {
	at := t.Row
	for s := first; s < stripes; s += size {
		f(s, at)
		at += t.Step
	}
}

// forgo counts as back what has always been zeros.
func (c *Committer) forgo(any bitset) {
	b, group := &c.rebuild, c.parity.group
	stripes := group.Stripes(c.o.Slots)
	for first := range min(int64(group.Size), stripes) {
		turn := c.parity.turns[first]
		eachTurn(turn, first, int64(group.Size), stripes, func(s, at int64) {
			switch {
			case any.has(s):
			case turn.Shard >= group.Data():
				c.parity.built(at)
			default:
				b.back(at)
			}
		})
	}
}

func (b *rebuild) isMissing(slot int64) bool {
	return b.left.Load() > 0 && b.missing.has(slot)
}

// back says that a row is no longer missing.
func (b *rebuild) back(slot int64) {
	if slot < int64(64*len(b.missing)) && b.isMissing(slot) {
		b.missing.unset(slot)
		b.left.Add(-1)
	}
}

// findPatterns works out whom to ask for what.
func (c *Committer) findPatterns() error {
	b, group := &c.rebuild, c.parity.group
	for stripe := range int64(group.Size) {
		mine := c.parity.turns[stripe].Shard
		p := pattern{shard: mine}
		if b.lost[c.o.First+c.parity.owner].has(mine, group) {
			var lost []int
			for _, rank := range c.gone(b.lost, group, stripe) {
				shard, _ := group.Shard(stripe, rank-c.o.First)
				lost = append(lost, shard)
			}
			var err error
			if p.decoder, err = c.parity.code.Decoder(lost, []int{mine}); err != nil {
				return err
			}
			for _, shard := range p.decoder.Reads {
				owner, _ := group.Holder(stripe, shard)
				p.readers = append(p.readers, c.o.First+owner)
			}
		}
		b.patterns = append(b.patterns, p)
	}
	return nil
}
