package commit

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/shard"
)

// Round gets some of what is lost back: the rows of first, which this rank's owner is
// about to read, and up to limit shards in all. All ranks do it at the same step,
// between the same commits, and nobody else works on their rows meanwhile.
//
// Requests are stripes; a reply is the row of each, XOR its init, as of the last
// commit. What is missing has not been written since that commit or an earlier
// one, so the decoded row is the one of now.
func (c *Committer) Round(first []int32, limit int) error {
	b, l := &c.rebuild, &c.link.lane
	n := l.comm.Size()
	b.asked = b.asked[:0]
	b.asks, b.asksOf = resize(b.asks, n), resize(b.asksOf, n)
	for r := range b.asks {
		b.asks[r] = b.asks[r][:0]
	}
	if c.Left().Any() {
		c.choose(first, limit)
		for _, a := range b.asked {
			for _, reader := range b.answers[a.stripe%int64(c.parity.group.Size)].readers {
				b.asks[reader] = append(b.asks[reader], int32(a.stripe))
			}
		}
	}
	if err := c.chaos(c.committed, "ask"); err != nil {
		return err
	}
	if err := b.exchangeAsks(l.wire); err != nil {
		return err
	}
	if err := c.chaos(c.committed, "answer"); err != nil {
		return err
	}
	if err := c.reply(l.shard); err != nil {
		return err
	}
	stride := c.o.Shard.RowBytes()
	come, mine := make([]int, n), make([]int, n)
	for r := range n {
		come[r], mine[r] = len(b.asks[r]), len(b.asksOf[r])
	}
	if err := kernels.Grow(c.o.Device, &b.replied, sum(come)*stride, kernels.Working); err != nil {
		return fmt.Errorf("commit: %d rows to decode from: %w", sum(come), err)
	}
	if err := l.move(b.replied.Slice(0, sum(come)*stride), b.replies.Slice(0, sum(mine)*stride), come, mine, stride); err != nil {
		return err
	}
	if err := c.chaos(c.committed, "install"); err != nil {
		return err
	}
	if err := c.install(l.shard, come); err != nil {
		return err
	}
	return c.chaos(c.committed, "installed")
}

// exchangeAsks tells readers what is asked of them.
func (b *rebuild) exchangeAsks(l *wire) error {
	counts := make([]int, len(b.asks))
	b.mine = b.mine[:0]
	for r, list := range b.asks {
		counts[r] = len(list)
		b.mine = append(b.mine, list...)
	}
	come, err := l.counts(counts)
	if err != nil {
		return err
	}
	b.come = resize(b.come, sum(come))
	if err := l.move(kernels.HostBuffer(b.come), kernels.HostBuffer(b.mine), come, counts, 4); err != nil {
		return err
	}
	at := 0
	for r, n := range come {
		b.asksOf[r] = b.come[at : at+n]
		at += n
	}
	return nil
}

// reply puts what is asked of this rank into replies.
func (c *Committer) reply(h *shard.Shard) error {
	b, stride := &c.rebuild, c.o.Shard.RowBytes()
	if len(b.come) == 0 {
		return nil
	}
	if err := kernels.Grow(c.o.Device, &b.replies, len(b.come)*stride, kernels.Shared); err != nil {
		return fmt.Errorf("commit: %d rows for others to decode from: %w", len(b.come), err)
	}
	out, group := b.replies.Host(), c.parity.group
	touched := h.TouchedBits()
	b.slots, b.places = b.slots[:0], b.places[:0]
	for i, stripe := range b.come {
		row := out[i*stride : (i+1)*stride]
		shard, at := group.Shard(int64(stripe), c.parity.owner)
		switch {
		case shard >= group.Data():
			copy(row, c.parity.row(at))
		case at < c.o.Shard.Slots() && touched[at>>6]>>(at&63)&1 != 0:
			b.slots, b.places = append(b.slots, int32(at)), append(b.places, i)
		default:
			clear(row)
		}
	}
	if len(b.slots) == 0 {
		return nil
	}
	if err := kernels.Grow(c.o.Device, &b.rows, len(b.slots)*stride, kernels.Working); err != nil {
		return fmt.Errorf("commit: %d rows for others to decode from: %w", len(b.slots), err)
	}
	if err := h.ReadCommitted(kernels.Mat(b.rows, len(b.slots), stride/4), b.slots); err != nil {
		return err
	}
	for i, place := range b.places {
		row := out[place*stride : (place+1)*stride]
		copy(row, b.rows.Slice(i*stride, stride).Host())
		c.xorInit(row, b.slots[i])
	}
	return nil
}

// xorInit adds the init of a row to its bytes; state starts as zeros.
func (c *Committer) xorInit(row []byte, slot int32) {
	b, init := &c.rebuild, c.o.Shard.Init()
	b.draw = resize(b.draw, c.o.Shard.Width())
	init.Row(b.draw, int64(slot)*int64(init.Owners)+int64(init.Owner))
	for i, x := range kernels.BytesOf(b.draw) {
		row[i] ^= x
	}
}

// install decodes what was asked for and puts it in its place.
func (c *Committer) install(h *shard.Shard, come []int) error {
	b, stride := &c.rebuild, c.o.Shard.RowBytes()
	if len(b.asked) == 0 {
		return nil
	}
	next := make([]int, len(come)) // of each reader's rows
	for r, at := 0, 0; r < len(come); r++ {
		next[r] = at
		at += come[r]
	}
	got := b.replied.Host()
	b.slots, b.found = b.slots[:0], b.found[:0]
	b.got += int64(len(b.asked))
	b.read += int64(sum(come) * stride)
	dst, src := make([][]byte, 1), [][]byte(nil)
	row := make([]byte, stride)
	for _, a := range b.asked {
		from := b.answers[a.stripe%int64(c.parity.group.Size)]
		src = src[:0]
		for _, reader := range from.readers {
			src = append(src, got[next[reader]*stride:(next[reader]+1)*stride])
			next[reader]++
		}
		dst[0] = row
		from.decoder.Decode(dst, src)
		if !a.data {
			c.parity.build(a.at, row)
			continue
		}
		c.xorInit(row, int32(a.at))
		b.slots, b.found = append(b.slots, int32(a.at)), append(b.found, row...)
		b.back(a.at)
	}
	c.sortFound(stride)
	return h.StoreRaw(b.slots, b.found)
}

// sortFound puts the rows that were found in the order of their slots.
func (c *Committer) sortFound(stride int) {
	b := &c.rebuild
	if slices.IsSorted(b.slots) {
		return
	}
	order := make([]int, len(b.slots))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(x, y int) int { return cmp.Compare(b.slots[x], b.slots[y]) })
	slots, rows := make([]int32, 0, len(order)), make([]byte, 0, len(b.found))
	for _, i := range order {
		slots, rows = append(slots, b.slots[i]), append(rows, b.found[i*stride:(i+1)*stride]...)
	}
	b.slots, b.found = slots, rows
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
		if err := c.chaos(c.committed, "rest"); err != nil {
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
