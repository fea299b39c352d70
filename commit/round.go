package commit

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/shard"
)

// round is the memory of one Round. Stripes of one pattern, those that are equal
// modulo the group's size, go side by side: whoever reads for them reads the same shard
// of each, and one Decoder is theirs.
type round struct {
	asked [][]ask // by pattern

	// What this rank asks others, and others ask it, by rank: stripes, pattern by
	// pattern; of each whether it was more than zeros (a bit); and the rows of those.
	mine, theirs parts
	cursors      []cursor       // in what came, by rank
	found        kernels.Buffer // what was decoded
	urgent       []int32        // of asked, rows that are about to be read
	slots        []int32        // scratch: shards that are sent, or installed
	from         []int32        // scratch: rows that came, of which slots are decoded
	factors      []byte         // scratch: of those
	runs         []run          // of slots
}

// run is shards of one kind, from one of slots on.
type run struct {
	from   int
	parity bool
}

// cursor is how far what a rank sent has been read.
type cursor struct{ bit, row int }

// parts is one side of a round.
type parts struct {
	asks    []int // stripes, by rank
	stripes []int32
	present []uint32 // a word for each 32 stripes of a rank
	rows    kernels.Buffer
	perRank []int // rows, by rank
	words   []int // of present, by rank
}

// ask is one shard that is asked for.
type ask struct {
	stripe int32
	at     int32 // its slot or, where the pattern has this rank hold a parity, its parity row
}

// words is how many of present are a rank's.
func words(asks int) int { return (asks + 31) / 32 }

// Round gets some of what is lost back: the rows of first, which this rank's owner is
// about to read, and up to limit shards in all. All ranks do it at the same step,
// between the same commits, and nobody else works on their rows meanwhile.
//
// A reply is rows XOR their init, as of the last commit. What is missing has not been
// written since that commit or an earlier one, so the decoded row is the one of now.
func (c *Committer) Round(first []int32, limit int) error {
	x, l, stride := &c.rebuild.round, &c.link.lane, c.o.Shard.RowBytes()
	c.choose(first, limit)
	c.listAsks()
	if err := c.o.chaos(c.owner.committed, "ask"); err != nil {
		return err
	}
	if err := c.exchangeAsks(l.wire); err != nil {
		return err
	}
	if err := c.o.chaos(c.owner.committed, "answer"); err != nil {
		return err
	}
	if err := c.answer(l.shard); err != nil {
		return err
	}
	if err := c.exchangePresent(l.wire); err != nil {
		return err
	}
	if err := kernels.Grow(c.o.Device, &x.mine.rows, sum(x.mine.perRank)*stride, kernels.Staging); err != nil {
		return fmt.Errorf("commit: %d rows to decode from: %w", sum(x.mine.perRank), err)
	}
	if err := l.move(x.mine.rows.Slice(0, sum(x.mine.perRank)*stride), x.theirs.rows.Slice(0, sum(x.theirs.perRank)*stride), x.mine.perRank, x.theirs.perRank, stride); err != nil {
		return err
	}
	if err := c.o.chaos(c.owner.committed, "install"); err != nil {
		return err
	}
	if err := c.install(l.shard); err != nil {
		return err
	}
	return c.o.chaos(c.owner.committed, "installed")
}

// choose lists what this rank asks for: the rows in first that are missing, then others
// in order, and parities, up to so many in all.
func (c *Committer) choose(first []int32, limit int) {
	b := &c.rebuild
	x := &b.round
	x.asked = resize(x.asked, len(b.patterns))
	for p := range x.asked {
		x.asked[p] = x.asked[p][:0]
	}
	if !c.Left().Any() {
		return
	}
	group, owner := c.parity.group, c.parity.owner
	n := 0
	add := func(stripe, at int64) {
		p := stripe % int64(group.Size)
		x.asked[p] = append(x.asked[p], ask{int32(stripe), int32(at)})
		n++
	}
	urgent := x.urgent[:0]
	for _, slot := range first {
		if b.isMissing(int64(slot)) {
			stripe, _ := group.Stripe(owner, int64(slot))
			add(stripe, int64(slot))
			b.missing.unset(int64(slot)) // not twice
			urgent = append(urgent, slot)
		}
	}
	x.urgent, b.urgent = urgent, b.urgent+int64(len(urgent))
	for slots := c.o.Shard.Slots(); n < limit && b.left.Load() > 0; b.slot++ {
		if b.slot = b.missing.next(b.slot, slots); b.slot == slots {
			break
		}
		stripe, _ := group.Stripe(owner, b.slot)
		add(stripe, b.slot)
	}
	for _, slot := range urgent {
		b.missing.set(int64(slot))
	}
	for rows := c.parity.Rows(); n < limit && c.parity.missing.Load() > 0; b.row++ {
		if b.row = c.parity.unbuilt.next(b.row, rows); b.row == rows {
			break
		}
		stripe, _ := group.ParityStripe(owner, b.row)
		add(stripe, b.row)
	}
	b.got += int64(n)
}

// listAsks puts what is asked into lists by reader, pattern by pattern.
func (c *Committer) listAsks() {
	b, m := &c.rebuild, &c.rebuild.round.mine
	n := c.link.comm.Size()
	m.asks, m.stripes = resize(m.asks, n), m.stripes[:0]
	for r := range m.asks {
		before := len(m.stripes)
		for p, asked := range b.round.asked {
			if slices.Contains(b.patterns[p].readers, r) {
				for _, a := range asked {
					m.stripes = append(m.stripes, a.stripe)
				}
			}
		}
		m.asks[r] = len(m.stripes) - before
	}
}

// exchangeAsks tells readers what is asked of them.
func (c *Committer) exchangeAsks(w *wire) error {
	b := &c.rebuild
	x := &b.round
	come, err := w.counts(x.mine.asks, b.asksTo, b.asksFrom)
	if err != nil {
		return err
	}
	x.theirs.asks = append(x.theirs.asks[:0], come...)
	x.theirs.stripes = resize(x.theirs.stripes, sum(come))
	return w.move(kernels.HostBuffer(x.theirs.stripes), kernels.HostBuffer(x.mine.stripes), come, x.mine.asks, 4)
}

// answer puts the rows that are asked of this rank where they are sent from.
func (c *Committer) answer(h *shard.Shard) error {
	x, t, stride := &c.rebuild.round, &c.rebuild.round.theirs, c.o.Shard.RowBytes()
	t.clearPresent()
	x.slots, x.runs = x.slots[:0], x.runs[:0]
	at, word := 0, 0
	for r, n := range t.asks {
		before := len(x.slots)
		if n > 0 {
			c.find(t.stripes[at:at+n], t.present[word:word+words(n)])
		}
		t.perRank[r] = len(x.slots) - before
		at, word = at+n, word+words(n)
	}
	if err := kernels.Grow(c.o.Device, &t.rows, len(x.slots)*stride, kernels.Sent); err != nil {
		return fmt.Errorf("commit: %d rows for others to decode from: %w", len(x.slots), err)
	}
	for i, run := range x.runs {
		to := len(x.slots)
		if i+1 < len(x.runs) {
			to = x.runs[i+1].from
		}
		slots := x.slots[run.from:to]
		dst := kernels.Mat(t.rows.Slice(run.from*stride, len(slots)*stride), len(slots), stride/4)
		if run.parity {
			h.Stream().GatherRows(dst, c.parity.rows, kernels.HostBuffer(slots))
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

// find lists this rank's shards of stripes, but those that are zeros; present says which
// are not. About as many rows are as are not, so that for those nothing branches on it.
func (c *Committer) find(stripes []int32, present []uint32) {
	x, p, size := &c.rebuild.round, c.parity, uint32(c.parity.group.Size)
	slots, touched := c.o.Shard.Slots(), c.o.Shard.TouchedBits()
	listed := len(x.slots)
	list := slices.Grow(x.slots, len(stripes))[:listed+len(stripes)]
	for i, stripe := range stripes {
		n := uint32(stripe) / size
		turn := &p.turns[uint32(stripe)-n*size]
		at, parity := turn.Row+int64(n)*turn.Step, turn.Shard >= p.group.Data()
		if n := len(x.runs); n == 0 || x.runs[n-1].parity != parity {
			x.runs = append(x.runs, run{listed, parity})
		}
		var is uint32
		switch {
		case parity && !p.zero(at):
			is = 1
		case !parity && at < slots:
			is = uint32(touched[at>>6]>>(at&63)) & 1
		}
		present[i/32] |= is << (i % 32)
		list[listed] = int32(at)
		listed += int(is)
	}
	x.slots = list[:listed]
}

// clearPresent makes room for what is present, none of which is yet.
func (t *parts) clearPresent() {
	n := 0
	for _, asks := range t.asks {
		n += words(asks)
	}
	t.present, t.perRank = resize(t.present, n), resize(t.perRank, len(t.asks))
	clear(t.present)
}

// exchangePresent tells askers which of the shards that they asked for come.
func (c *Committer) exchangePresent(w *wire) error {
	x := &c.rebuild.round
	x.mine.clearPresent()
	mine, theirs := x.mine.wordsPerRank(), x.theirs.wordsPerRank()
	if err := w.move(kernels.HostBuffer(x.mine.present), kernels.HostBuffer(x.theirs.present), mine, theirs, 4); err != nil {
		return err
	}
	at := 0
	for r, n := range mine {
		rows := 0
		for _, word := range x.mine.present[at : at+n] {
			rows += bits.OnesCount32(word)
		}
		x.mine.perRank[r] = rows
		at += n
	}
	return nil
}

func (t *parts) wordsPerRank() []int {
	t.words = resize(t.words, len(t.asks))
	for r, asks := range t.asks {
		t.words[r] = words(asks)
	}
	return t.words
}

// install decodes what was asked for and puts it in its place.
func (c *Committer) install(h *shard.Shard) error {
	b, stride := &c.rebuild, c.o.Shard.RowBytes()
	x := &b.round
	x.startReading()
	b.read += int64(sum(x.mine.perRank) * stride)
	most := 0
	for _, asked := range x.asked {
		most = max(most, len(asked))
	}
	if err := kernels.Grow(c.o.Device, &x.found, most*stride, kernels.Working); err != nil {
		return fmt.Errorf("commit: %d rows that were lost: %w", most, err)
	}
	for p, asked := range x.asked {
		if len(asked) == 0 {
			continue
		}
		rows := kernels.Mat(x.found.Slice(0, len(asked)*stride), len(asked), stride/4)
		c.decode(h.Stream(), &b.patterns[p], asked, rows)
		x.slots = x.slots[:0]
		for _, a := range asked {
			x.slots = append(x.slots, a.at)
		}
		if b.patterns[p].shard >= c.parity.group.Data() {
			c.parity.build(h.Stream(), x.slots, rows)
			continue
		}
		for _, slot := range x.slots {
			b.back(int64(slot))
		}
		if err := h.XorInit(rows, x.slots); err != nil {
			return err
		}
		if err := h.StoreLost(x.slots, rows); err != nil {
			return err
		}
	}
	return h.Stream().Sync()
}

// startReading puts all cursors at the beginning of what came.
func (x *round) startReading() {
	x.cursors = resize(x.cursors, len(x.mine.asks))
	row, word := 0, 0
	for r := range x.cursors {
		x.cursors[r] = cursor{bit: 32 * word, row: row}
		row, word = row+x.mine.perRank[r], word+words(x.mine.asks[r])
	}
}

// decode sets found (len(asked), stride) to the shards that were asked for in one pattern.
func (c *Committer) decode(s kernels.Stream, p *pattern, asked []ask, found kernels.Matrix) {
	x, stride := &c.rebuild.round, c.o.Shard.RowBytes()
	s.Zero(found.Buf)
	n := sum(x.mine.perRank)
	came := kernels.Mat(x.mine.rows.Slice(0, n*stride), n, stride/4)
	for k, rank := range p.readers {
		x.readPresent(rank, len(asked))
		if p.shard >= c.parity.group.Data() {
			for _, i := range x.slots {
				c.parity.markRead(int64(asked[i].at), p.decoder.Reads[k])
			}
		}
		x.factors = x.factors[:0]
		if factor := p.decoder.Factor(0, k); factor != 1 {
			for range x.slots {
				x.factors = append(x.factors, factor)
			}
		}
		s.FoldRows(found, kernels.HostBuffer(x.slots), came, kernels.HostBuffer(x.from), x.factors)
	}
}

// readPresent lists, of the next so many shards that a rank was asked for, those that are
// more than zeros, in slots, and in from the rows in which they came.
func (x *round) readPresent(rank, asked int) {
	at := &x.cursors[rank]
	x.slots, x.from = x.slots[:0], x.from[:0]
	for i := 0; i < asked; {
		skip := (at.bit + i) % 32
		n := min(32-skip, asked-i)
		for word := x.mine.present[(at.bit+i)/32] >> skip & uint32(1<<n-1); word != 0; word &= word - 1 {
			x.slots, x.from = append(x.slots, int32(i+bits.TrailingZeros32(word))), append(x.from, int32(at.row))
			at.row++
		}
		i += n
	}
	at.bit += asked
}

// RebuildAll gets back all that is lost, on all ranks.
func (c *Committer) RebuildAll() error {
	comm := c.link.lane.comm
	all := make([]uint64, comm.Size())
	for {
		if err := comm.AllGather(kernels.HostBuffer(all), kernels.HostBuffer([]uint64{uint64(c.Left().Rows + c.Left().Parities)})).Wait(); err != nil {
			return err
		}
		if slices.Max(all) == 0 {
			return nil
		}
		if err := c.o.chaos(c.owner.committed, "rest"); err != nil {
			return err
		}
		if err := c.Round(nil, roundRows); err != nil {
			return err
		}
	}
}

// roundRows is how many shards a rank asks for in a round where nobody trains.
const roundRows = 1 << 13

func sum(list []int) (total int) {
	for _, n := range list {
		total += n
	}
	return total
}
