package commit

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/ecrec/ecrec/internal/probe"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/shard"
)

// round is the memory of one Round. Stripes of one pattern are handled together: each rank
// sends the same shard of all of them, and one Decoder decodes them.
type round struct {
	asked [][]request // by pattern

	mine, theirs requests       // that this rank sends, and that others send to it
	cursors      []cursor       // in the replies, by rank
	found        kernels.Buffer // decoded shards
	urgent       []int32        // requested slots that are about to be read
	slots        []int32        // scratch: shards that are sent (slots of rows and places of parities), or installed
	from         []int32        // scratch: received rows that slots are decoded from
	factors      []byte         // scratch: of these rows
	runs         []run          // of slots
}

// run is a part of slots whose shards are of one kind. It begins at from.
type run struct {
	from   int
	parity bool
}

// cursor is how far the reply of a rank has been read.
type cursor struct{ bit, row int }

// requests are the requests and replies of one direction of a round. Lists are by rank, and for
// each rank by pattern.
type requests struct {
	counts  []int   // of stripes, by rank
	stripes []int32 // whose shards are requested
	// present has a bit for each stripe: whether its shard differs from zeros. The bits of
	// each rank begin a new word.
	present []uint32
	rows    kernels.Buffer // the shards that do
	perRank []int          // of these, by rank
	words   []int          // of present, by rank
}

// request is a request for one shard.
type request struct {
	stripe int32
	at     int32 // its slot or, if this rank holds a parity of the stripe, its parity row
}

// presentWords is how many words the bits of present take for some stripes.
func presentWords(stripes int) int { return (stripes + 31) / 32 }

// Round rebuilds the rows of first, which this rank's owner is about to read, and as many more
// shards as limit allows. All ranks call it at the same step, between the same commits, and
// meanwhile no other goroutine uses their rows.
//
// A reply holds rows XOR their init, as of the last commit. A missing row has not been
// written since then, so that the decoded row is the present one.
func (p *Parity) Round(first []int32, limit int) error {
	x, stride := &p.rebuild.round, p.o.Shard.RowBytes()
	p.chooseShards(first, limit)
	p.listRequests()
	if err := p.o.Reach.reachPoint(p.committed, probe.Ask); err != nil {
		return err
	}
	if err := p.exchangeRequests(); err != nil {
		return err
	}
	if err := p.o.Reach.reachPoint(p.committed, probe.Answer); err != nil {
		return err
	}
	if err := p.gatherReplies(p.rounds.shard); err != nil {
		return err
	}
	if err := p.exchangePresent(); err != nil {
		return err
	}
	received, sent := sum(x.mine.perRank)*stride, sum(x.theirs.perRank)*stride
	if err := kernels.Grow(p.o.Device, &x.mine.rows, received, kernels.Staging); err != nil {
		return fmt.Errorf("commit: %d rows to decode from: %w", received/stride, err)
	}
	if err := p.rounds.exchangeRows(x.mine.rows.Slice(0, received), x.theirs.rows.Slice(0, sent), x.mine.perRank,
		x.theirs.perRank, stride); err != nil {
		return err
	}
	if err := p.o.Reach.reachPoint(p.committed, probe.Install); err != nil {
		return err
	}
	if err := p.installShards(p.rounds.shard); err != nil {
		return err
	}
	return p.o.Reach.reachPoint(p.committed, probe.Installed)
}

// chooseShards chooses the shards that this rank requests: the rows of first that are missing,
// then other rows in order, then parities. limit bounds their number, except that of first.
func (p *Parity) chooseShards(first []int32, limit int) {
	b := &p.rebuild
	x := &b.round
	x.asked = resize(x.asked, len(b.patterns))
	for i := range x.asked {
		x.asked[i] = x.asked[i][:0]
	}
	if !p.Left().Any() {
		return
	}
	n := 0
	add := func(stripe, at int64) {
		i := stripe % int64(p.group.Size)
		x.asked[i] = append(x.asked[i], request{int32(stripe), int32(at)})
		n++
	}
	urgent := x.urgent[:0]
	for _, slot := range first {
		if b.isMissing(int64(slot)) {
			stripe, _ := p.group.Stripe(p.owner, int64(slot))
			add(stripe, int64(slot))
			b.missing.unset(int64(slot)) // so that it is requested once
			urgent = append(urgent, slot)
		}
	}
	x.urgent, b.onDemand = urgent, b.onDemand+int64(len(urgent))
	for slots := p.o.Shard.Slots(); n < limit && b.left.Load() > 0; b.slot++ {
		if b.slot = b.missing.next(b.slot, slots); b.slot == slots {
			break
		}
		stripe, _ := p.group.Stripe(p.owner, b.slot)
		add(stripe, b.slot)
	}
	for _, slot := range urgent {
		b.missing.set(int64(slot))
	}
	for rows := p.Rows(); n < limit && p.missing.Load() > 0; b.row++ {
		if b.row = p.unbuilt.next(b.row, rows); b.row == rows {
			break
		}
		stripe, _ := p.group.ParityStripe(p.owner, b.row)
		add(stripe, b.row)
	}
	b.rebuilt += int64(n)
}

// listRequests lists the chosen shards for each rank that sends a shard to decode them from.
func (p *Parity) listRequests() {
	b, m := &p.rebuild, &p.rebuild.round.mine
	m.counts, m.stripes = resize(m.counts, p.rounds.comm.Size()), m.stripes[:0]
	for rank := range m.counts {
		before := len(m.stripes)
		for i, asked := range b.round.asked {
			if slices.Contains(b.patterns[i].readers, rank) {
				for _, a := range asked {
					m.stripes = append(m.stripes, a.stripe)
				}
			}
		}
		m.counts[rank] = len(m.stripes) - before
	}
}

// exchangeRequests sends the requests of this rank and receives those of others.
func (p *Parity) exchangeRequests() error {
	b := &p.rebuild
	x := &b.round
	received, err := p.rounds.exchangeCounts(x.mine.counts, b.asksTo, b.asksFrom)
	if err != nil {
		return err
	}
	x.theirs.counts = append(x.theirs.counts[:0], received...)
	x.theirs.stripes = resize(x.theirs.stripes, sum(received))
	return p.rounds.exchangeRows(kernels.HostBuffer(x.theirs.stripes), kernels.HostBuffer(x.mine.stripes), received, x.mine.counts, 4)
}

// gatherReplies copies the shards that others request to the memory that they are sent from.
func (p *Parity) gatherReplies(h *shard.Shard) error {
	x, t, stride := &p.rebuild.round, &p.rebuild.round.theirs, p.o.Shard.RowBytes()
	t.clearPresent()
	x.slots, x.runs = x.slots[:0], x.runs[:0]
	at, word := 0, 0
	for rank, n := range t.counts {
		before := len(x.slots)
		if n > 0 {
			p.findShards(t.stripes[at:at+n], t.present[word:word+presentWords(n)])
		}
		t.perRank[rank] = len(x.slots) - before
		at, word = at+n, word+presentWords(n)
	}
	if err := kernels.Grow(p.o.Device, &t.rows, len(x.slots)*stride, kernels.Sent); err != nil {
		return fmt.Errorf("commit: %d rows for other ranks to decode from: %w", len(x.slots), err)
	}
	for i, run := range x.runs {
		to := len(x.slots)
		if i+1 < len(x.runs) {
			to = x.runs[i+1].from
		}
		slots := x.slots[run.from:to]
		dst := kernels.Mat(t.rows.Slice(run.from*stride, len(slots)*stride), len(slots), stride/4)
		if run.parity {
			h.Stream().GatherRows(dst, p.rows, kernels.HostBuffer(slots))
			continue
		}
		if err := h.ReadCommitted(dst, slots); err != nil {
			return err
		}
		if err := h.XorInit(dst, slots); err != nil {
			return err
		}
	}
	return h.Stream().Sync()
}

// findShards lists this rank's shards of stripes, rows by slot and parities by place, except zeros, and sets their bits of present. About half of the shards are zeros, so the loop has no branch for that.
func (p *Parity) findShards(stripes []int32, present []uint32) {
	x, size := &p.rebuild.round, uint32(p.group.Size)
	slots, touched := p.o.Shard.Slots(), p.o.Shard.TouchedBits()
	listed := len(x.slots)
	list := slices.Grow(x.slots, len(stripes))[:listed+len(stripes)]
	for i, stripe := range stripes {
		n := uint32(stripe) / size
		own := &p.series[uint32(stripe)-n*size]
		at, parity := own.Row+int64(n)*own.Step, own.Shard >= p.group.Data()
		if n := len(x.runs); n == 0 || x.runs[n-1].parity != parity {
			x.runs = append(x.runs, run{listed, parity})
		}
		var is uint32
		where := int32(at)
		switch {
		case parity && !p.isZero(at):
			is, where = 1, p.placeOf(at)
		case !parity && at < slots:
			is = uint32(touched[at>>6]>>(at&63)) & 1
		}
		present[i/32] |= is << (i % 32)
		list[listed] = where
		listed += int(is)
	}
	x.slots = list[:listed]
}

// clearPresent makes room for the bits of present, all of them 0.
func (t *requests) clearPresent() {
	n := 0
	for _, count := range t.counts {
		n += presentWords(count)
	}
	t.present, t.perRank = resize(t.present, n), resize(t.perRank, len(t.counts))
	clear(t.present)
}

// exchangePresent exchanges the bits of present, and counts the rows that each rank will
// send.
func (p *Parity) exchangePresent() error {
	x := &p.rebuild.round
	x.mine.clearPresent()
	mine, theirs := x.mine.wordsPerRank(), x.theirs.wordsPerRank()
	if err := p.rounds.exchangeRows(kernels.HostBuffer(x.mine.present), kernels.HostBuffer(x.theirs.present), mine, theirs, 4); err != nil {
		return err
	}
	at := 0
	for rank, n := range mine {
		rows := 0
		for _, word := range x.mine.present[at : at+n] {
			rows += bits.OnesCount32(word)
		}
		x.mine.perRank[rank] = rows
		at += n
	}
	return nil
}

func (t *requests) wordsPerRank() []int {
	t.words = resize(t.words, len(t.counts))
	for rank, n := range t.counts {
		t.words[rank] = presentWords(n)
	}
	return t.words
}

// installShards decodes the requested shards and stores them.
func (p *Parity) installShards(h *shard.Shard) error {
	b, stride := &p.rebuild, p.o.Shard.RowBytes()
	x := &b.round
	x.resetCursors()
	b.read += int64(sum(x.mine.perRank) * stride)
	most := 0
	for _, asked := range x.asked {
		most = max(most, len(asked))
	}
	if err := kernels.Grow(p.o.Device, &x.found, most*stride, kernels.Working); err != nil {
		return fmt.Errorf("commit: %d rows to rebuild: %w", most, err)
	}
	for i, asked := range x.asked {
		if len(asked) == 0 {
			continue
		}
		rows := kernels.Mat(x.found.Slice(0, len(asked)*stride), len(asked), stride/4)
		p.decodeShards(h.Stream(), &b.patterns[i], asked, rows)
		x.slots = x.slots[:0]
		for _, a := range asked {
			x.slots = append(x.slots, a.at)
		}
		if b.patterns[i].shard >= p.group.Data() {
			p.buildRows(h.Stream(), x.slots, rows)
			continue
		}
		if err := h.XorInit(rows, x.slots); err != nil {
			return err
		}
		if err := h.StoreLost(x.slots, rows); err != nil {
			return err
		}
		for _, slot := range x.slots { // not before they are: after an error they are requested again
			b.setPresent(int64(slot))
		}
	}
	return h.Stream().Sync()
}

// resetCursors puts all cursors at the beginnings of the replies.
func (x *round) resetCursors() {
	x.cursors = resize(x.cursors, len(x.mine.counts))
	row, word := 0, 0
	for rank := range x.cursors {
		x.cursors[rank] = cursor{bit: 32 * word, row: row}
		row, word = row+x.mine.perRank[rank], word+presentWords(x.mine.counts[rank])
	}
}

// decodeShards sets found (len(asked), stride) to the requested shards of one pattern.
func (p *Parity) decodeShards(s kernels.Stream, of *pattern, asked []request, found kernels.Matrix) {
	x, stride := &p.rebuild.round, p.o.Shard.RowBytes()
	s.Zero(found.Buf)
	n := sum(x.mine.perRank)
	received := kernels.Mat(x.mine.rows.Slice(0, n*stride), n, stride/4)
	for k, rank := range of.readers {
		x.readPresent(rank, len(asked))
		if of.shard >= p.group.Data() {
			for _, i := range x.slots {
				p.markRead(int64(asked[i].at), of.decoder.Reads[k])
			}
		}
		x.factors = x.factors[:0]
		if factor := of.decoder.Factor(0, k); factor != 1 {
			for range x.slots {
				x.factors = append(x.factors, factor)
			}
		}
		s.FoldRows(found, kernels.HostBuffer(x.slots), received, kernels.HostBuffer(x.from), x.factors)
	}
}

// readPresent reads the next n bits in the reply of a rank. For each shard that differs from
// zeros it lists its number among the n in slots, and the row that holds it in from.
func (x *round) readPresent(rank, n int) {
	at := &x.cursors[rank]
	x.slots, x.from = x.slots[:0], x.from[:0]
	for i := 0; i < n; {
		skip := (at.bit + i) % 32
		most := min(32-skip, n-i)
		for word := x.mine.present[(at.bit+i)/32] >> skip & uint32(1<<most-1); word != 0; word &= word - 1 {
			x.slots, x.from = append(x.slots, int32(i+bits.TrailingZeros32(word))), append(x.from, int32(at.row))
			at.row++
		}
		i += most
	}
	at.bit += n
}
