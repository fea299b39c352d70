package commit

import (
	"fmt"
	"sync/atomic"

	"github.com/ecrec/ecrec/ec"
	"github.com/ecrec/ecrec/internal/probe"
	"github.com/ecrec/ecrec/kernels"
)

// rebuild is the state of the rebuild of a rank's lost rows and parities. Rows are decoded and
// parities encoded from the shards of other members of the group, in rounds of all ranks. A rank
// that lost nothing only sends replies.
type rebuild struct {
	lost     []Loss       // by rank
	patterns []pattern    // by stripe modulo the group's size
	missing  bitset       // slots that are yet to be decoded
	left     atomic.Int64 // bits of missing
	slot     int64        // the next slot in the search for missing rows
	row      int64        // the next row in the search for unbuilt parities
	rebuilt  int64        // rows and parities that were requested
	onDemand int64        // of these, rows that were about to be read
	read     int64        // bytes received for them

	asksTo, asksFrom []int // 4 for each rank that this one sends requests to, and receives them from
	round            round
}

// pattern describes the stripes that are equal modulo the group's size: all have the same holder
// of each shard, and have lost the same shards.
type pattern struct {
	shard   int         // this rank's
	decoder *ec.Decoder // nil if it is not lost
	readers []int       // the ranks that hold decoder.Reads
}

// Loss counts the rows and parities that a rank has lost and not rebuilt yet.
type Loss struct{ Rows, Parities int64 }

// Any reports whether there is anything.
func (l Loss) Any() bool { return l.Rows > 0 || l.Parities > 0 }

// includesShard reports whether a shard of a group is part of the loss.
func (l Loss) includesShard(shard int, g ec.Group) bool {
	if shard < g.Data() {
		return l.Rows > 0
	}
	return l.Parities > 0
}

// Unrecoverable is the error of a loss that exceeds the code: more members of a group lost
// their shards than the group has parities.
type Unrecoverable struct {
	Group int
	Ranks []int
	Spare int
	// Dense is true if no rank has the dense part of the commit any more.
	Dense bool
}

func (e *Unrecoverable) Error() string {
	if e.Dense {
		return fmt.Sprintf("all ranks that held the dense parameters of the last commit are lost, more than ec.r = %d", e.Spare)
	}
	return fmt.Sprintf("ranks %v of group %d lost their rows, more than the ec.r = %d that the code can rebuild", e.Ranks, e.Group, e.Spare)
}

// CheckLoss returns an error for the first group that has lost more than it can rebuild, nil if
// there is none. lost is by rank.
func (p *Parity) CheckLoss(lost []Loss) *Unrecoverable {
	for g := range p.o.Layout.Groups() {
		group := p.o.Layout.Group(g)
		for stripe := range group.Size {
			if ranks := p.lostHolders(lost, group, int64(stripe)); len(ranks) > group.Parity {
				return &Unrecoverable{Group: g, Ranks: ranks, Spare: group.Parity}
			}
		}
	}
	return nil
}

// lostHolders are the ranks that have lost their shard of a stripe.
func (p *Parity) lostHolders(lost []Loss, group ec.Group, stripe int64) (ranks []int) {
	for owner := group.First; owner < group.First+group.Size; owner++ {
		if shard, _ := group.Shard(stripe, owner); lost[p.o.First+owner].includesShard(shard, group) {
			ranks = append(ranks, p.o.First+owner)
		}
	}
	return ranks
}

// forgetMissing makes all rows present.
func (b *rebuild) forgetMissing() {
	clear(b.missing)
	b.left.Store(0)
}

// Lose makes all rows of this rank missing. It follows Begin(step, false), on a new rank of a
// job that has trained.
func (p *Parity) Lose() {
	if !p.ownsRows() {
		return
	}
	n := p.o.Shard.Slots()
	p.rebuild.missing = newBitset(n)
	p.rebuild.missing.fill(n)
	p.rebuild.left.Store(n)
}

// Rebuilt is how many rows and parities this rank has rebuilt since it was made, how many of
// them because they were about to be read, and the bytes that it received for that.
func (p *Parity) Rebuilt() (shards, onDemand, bytes int64) {
	return p.rebuild.rebuilt, p.rebuild.onDemand, p.rebuild.read
}

// Left is the Loss of this rank.
func (p *Parity) Left() Loss {
	if !p.ownsRows() {
		return Loss{}
	}
	return Loss{p.rebuild.left.Load(), p.parityRows.missing.Load()}
}

// Survey begins a rebuild, given the loss of each rank in a new world. Ranks that lost something
// receive from the others which rows and parities may differ from zeros. The rest counts as
// rebuilt at once.
func (p *Parity) Survey(lost []Loss) error {
	b := &p.rebuild
	b.lost = append(b.lost[:0], lost...)
	b.slot, b.row, b.patterns = 0, 0, b.patterns[:0]
	if fatal := p.CheckLoss(lost); fatal != nil {
		return fatal
	}
	comm := p.background.comm
	n := comm.Size()
	sendBytes, recvBytes := make([]int, n), make([]int, n)
	b.asksTo, b.asksFrom = make([]int, n), make([]int, n)
	var mine []uint64
	words := 0
	if p.ownsRows() {
		words = int(p.group.Stripes(p.o.Slots)+63) / 64
		for owner := p.group.First; owner < p.group.First+p.group.Size; owner++ {
			rank := p.o.First + owner
			if rank == comm.Rank() {
				continue
			}
			if lost[rank].Any() {
				sendBytes[rank], b.asksFrom[rank] = 8*words, 4
				mine = append(mine, p.mayDiffer(owner)...)
			}
			if lost[comm.Rank()].Any() {
				recvBytes[rank], b.asksTo[rank] = 8*words, 4
			}
		}
	}
	received := make([]uint64, sum(recvBytes)/8)
	if err := comm.AllToAllV(kernels.HostBuffer(received), recvBytes, kernels.HostBuffer(mine), sendBytes).Wait(); err != nil {
		return err
	}
	if err := p.o.Reach.reachPoint(p.committed, probe.Surveyed); err != nil {
		return err
	}
	if !p.ownsRows() || !lost[comm.Rank()].Any() {
		return nil
	}
	differs := make(bitset, words)
	for i, w := range received {
		differs[i%words] |= w
	}
	p.skipZeros(differs)
	return p.findPatterns()
}

// few: a set with a member in fewer than one of this many places is visited member by member, which
// takes longer for each than a visit of all places in their order.
const few = 32

// mayDiffer has a bit for each stripe of the group: whether the shard that an owner has lost
// may differ from zeros, according to the shard of this rank. All ranks wait for it.
func (p *Parity) mayDiffer(owner int) bitset {
	set, touched := newBitset(p.group.Stripes(p.o.Slots)), bitset(p.o.Shard.TouchedBits())
	if few*touched.count() < p.o.Shard.Slots() && few*p.folded.count() < 64*int64(len(p.folded)) {
		p.markMembers(set, touched, owner)
	} else {
		p.markStripes(set, touched, owner)
	}
	return set
}

// markStripes is mayDiffer by visits of all stripes of which this rank reports the shard.
func (p *Parity) markStripes(set, touched bitset, owner int) {
	group, lost := p.group, p.rebuild.lost[p.o.First+p.owner]
	stripes, size, data := group.Stripes(p.o.Slots), int64(group.Size), int64(group.Data())
	for first := range min(size, stripes) {
		shard, _ := group.Shard(first, owner)
		theirs, own := int64(shard), p.series[first]
		if lost.includesShard(own.Shard, group) {
			continue // other members report it
		}
		n := (stripes - first + size - 1) / size
		if own.Shard < group.Data() {
			if theirs >= data { // else the holder of a parity reports it
				n = min(n, (p.o.Shard.Slots()-own.Row+own.Step-1)/own.Step)
				set.addAt(first, size, n, touched.pick(own.Row, own.Step, n))
			}
			continue
		}
		from, upTo := theirs, theirs+1
		if theirs >= data { // a parity differs with any of its columns
			from, upTo = 0, data
		}
		for column := from; column < upTo; column++ {
			set.addAt(first, size, n, p.folded.pick(own.Row*data+column, own.Step*data, n))
		}
	}
}

// markMembers is mayDiffer by visits of the rows that were touched, and of the columns that were
// folded into parities.
func (p *Parity) markMembers(set, touched bitset, owner int) {
	group, lost := p.group, p.rebuild.lost[p.o.First+p.owner]
	stripes, size, data, parity := group.Stripes(p.o.Slots), int64(group.Size), int64(group.Data()), int64(group.Parity)
	theirs := make([]int64, size)                                         // by stripe modulo size: their shard
	ofRow, ofParity := make([]int64, data), make([]int64, max(parity, 1)) // the first stripe of the rows that are equal modulo data, or parity
	for first := range min(size, stripes) {
		shard, _ := group.Shard(first, owner)
		theirs[first] = int64(shard)
		if own := p.series[first]; own.Shard < group.Data() {
			ofRow[own.Row] = first
		} else {
			ofParity[own.Row] = first
		}
	}
	if lost.Rows == 0 {
		n := p.o.Shard.Slots()
		for slot := touched.next(0, n); slot < n; slot = touched.next(slot+1, n) {
			first := ofRow[slot%data]
			if s := slot/data*size + first; theirs[first] >= data && s < stripes {
				set.set(s)
			}
		}
	}
	if lost.Parities == 0 {
		n := p.Rows() * data
		for bit := p.folded.next(0, n); bit < n; bit = p.folded.next(bit+1, n) {
			row, column := bit/data, bit%data
			first := ofParity[row%parity]
			if s := row/parity*size + first; (theirs[first] >= data || theirs[first] == column) && s < stripes {
				set.set(s)
			}
		}
	}
}

// skipZeros counts as rebuilt all shards that have always been zeros. All ranks wait for it, and in
// most jobs few rows of a large table were ever used.
func (p *Parity) skipZeros(differs bitset) {
	if few*differs.count() < p.group.Stripes(p.o.Slots) {
		p.keepListed(differs)
	} else {
		p.dropUnlisted(differs)
	}
}

// keepListed is skipZeros by visits of the stripes that may differ from zeros.
func (p *Parity) keepListed(differs bitset) {
	stripes, size, b := p.group.Stripes(p.o.Slots), int64(p.group.Size), &p.rebuild
	missing, unbuilt := make(bitset, len(b.missing)), make(bitset, len(p.unbuilt))
	rows, parities := int64(0), int64(0)
	for s := differs.next(0, stripes); s < stripes; s = differs.next(s+1, stripes) {
		own := p.series[s%size]
		at := own.Row + s/size*own.Step
		switch {
		case own.Shard >= p.group.Data():
			if p.isUnbuilt(at) {
				unbuilt.set(at)
				parities++
			}
		case at < b.slots() && b.isMissing(at):
			missing.set(at)
			rows++
		}
	}
	b.missing, p.unbuilt = missing, unbuilt
	b.left.Store(rows)
	p.missing.Store(parities)
}

// dropUnlisted is skipZeros by visits of all stripes.
func (p *Parity) dropUnlisted(differs bitset) {
	size, b := int64(p.group.Size), &p.rebuild
	for first := range min(size, p.group.Stripes(p.o.Slots)) {
		own := p.series[first]
		if own.Shard < p.group.Data() {
			b.left.Add(-b.missing.dropUnlisted(differs, first, size, own, b.left.Load()))
		} else {
			p.missing.Add(-p.unbuilt.dropUnlisted(differs, first, size, own, p.missing.Load()))
		}
	}
}

// dropUnlisted removes the rows of a series of shards, the first of which is of a stripe, whose
// stripes are not listed. It returns how many it has removed of the set's members.
func (b bitset) dropUnlisted(listed bitset, stripe, size int64, of ec.Series, members int64) (dropped int64) {
	if members == 0 { // the set may have no memory
		return 0
	}
	n := min((64*int64(len(b))-of.Row+of.Step-1)/of.Step, (64*int64(len(listed))-stripe+size-1)/size)
	if n <= 0 {
		return 0
	}
	return b.keepAt(of.Row, of.Step, n, listed.pick(stripe, size, n))
}

// slots is a limit above all missing slots.
func (b *rebuild) slots() int64 { return 64 * int64(len(b.missing)) }

func (b *rebuild) isMissing(slot int64) bool {
	return b.left.Load() > 0 && b.missing.has(slot)
}

// setPresent records that a row is not missing any more.
func (b *rebuild) setPresent(slot int64) {
	if slot < b.slots() && b.isMissing(slot) {
		b.missing.unset(slot)
		b.left.Add(-1)
	}
}

// findPatterns finds, for each pattern, the ranks that send shards.
func (p *Parity) findPatterns() error {
	b, group := &p.rebuild, p.group
	for stripe := range int64(group.Size) {
		mine := p.series[stripe].Shard
		x := pattern{shard: mine}
		if b.lost[p.o.First+p.owner].includesShard(mine, group) {
			var lost []int
			for _, rank := range p.lostHolders(b.lost, group, stripe) {
				shard, _ := group.Shard(stripe, rank-p.o.First)
				lost = append(lost, shard)
			}
			var err error
			if x.decoder, err = p.code.Decoder(lost, []int{mine}); err != nil {
				return err
			}
			for _, shard := range x.decoder.Reads {
				owner, _ := group.Holder(stripe, shard)
				x.readers = append(x.readers, p.o.First+owner)
			}
		}
		b.patterns = append(b.patterns, x)
	}
	return nil
}
