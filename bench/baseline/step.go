package baseline

import (
	"fmt"
	"time"

	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/lrpp"
)

// fetchItems brings the items of a step: those of the part first, then the copies.
func (x *Exchange) fetchItems(now *Step) (rows kernels.Matrix, err error) {
	p, c := &now.Part, &x.critical
	if rows, err = x.growMatrix(&x.rows[0], len(p.Items)+len(now.Copied)); err != nil {
		return rows, err
	}
	served, err := x.growMatrix(&c.sends, len(p.Slots))
	if err != nil {
		return rows, err
	}
	if err := c.readRows(x, served, p.Slots, x.o.Program.InStore); err != nil {
		return rows, err
	}
	c.setCounts(p.To, p.From, 4*x.width)
	if err := c.comm.AllToAllV(rows.RowRange(0, len(p.Items)).Buf, c.recv, served.Buf, c.send).Wait(); err != nil {
		return rows, err
	}
	return rows, c.readRows(x, rows.RowRange(len(p.Items), len(now.Copied)), now.CopySlots, true)
}

// indexOf returns the row of the step's matrix that each lookup reads.
func (x *Exchange) indexOf(st *lrpp.Step, now *Step) (kernels.Buffer, error) {
	items := len(now.Part.Items) + len(now.Copied)
	x.at = resize(x.at, items)
	for i, item := range now.Part.Items {
		x.at[item] = int32(i)
	}
	for i, item := range now.Copied {
		x.at[item] = int32(len(now.Part.Items) + i)
	}
	if x.o.Program.PerLookup {
		return x.uploadList(x.o.Stream, &x.index[0], x.at)
	}
	if items != len(st.Plan.Slots) {
		panic(fmt.Sprintf("baseline: a program of %d rows for a slice of %d", items, len(st.Plan.Slots)))
	}
	index := resize(x.start, len(st.Plan.Index))
	for l, u := range st.Plan.Index {
		index[l] = x.at[u]
	}
	x.start = index
	return x.uploadList(x.o.Stream, &x.index[0], index)
}

// End takes the gradients of the cells, (samples, features*width).
func (x *Exchange) End(st *lrpp.Step, rule kernels.RowRule, cells kernels.Matrix) error {
	now := x.planOf(x.step - 1)
	sums, err := x.partGradients(st, &now.Part, cells)
	if err != nil {
		return err
	}
	copied, err := x.copyGradients(st, now, cells)
	if err != nil {
		return err
	}
	if err := x.pushGradients(&now.Part, rule, sums); err != nil {
		return err
	}
	return x.updateCopies(now, rule, copied)
}

// partGradients returns the gradients of the items of a part.
func (x *Exchange) partGradients(st *lrpp.Step, p *Part, cells kernels.Matrix) (sums kernels.Matrix, err error) {
	if sums, err = x.growMatrix(&x.sums[0], len(p.Items)); err != nil || len(p.Items) == 0 {
		return sums, err
	}
	if x.o.Program.PerLookup {
		start, err := x.uploadList(x.o.Stream, &x.lists[0], x.upTo(len(p.Items)+1))
		if err != nil {
			return sums, err
		}
		pos, err := x.uploadList(x.o.Stream, &x.lists[1], p.Items)
		if err != nil {
			return sums, err
		}
		x.o.Stream.SumRows(sums, cells, start, pos) // of one each: cells may have gaps between samples
		return sums, x.o.Stream.Sync()
	}
	return sums, x.sumCells(st, sums, p.Items, cells)
}

// copyGradients returns this rank's gradients of the copies that all ranks sum; +0.0 for a row that it does not use.
func (x *Exchange) copyGradients(st *lrpp.Step, now *Step, cells kernels.Matrix) (sums kernels.Matrix, err error) {
	if sums, err = x.growMatrix(&x.sums[1], len(now.Summed)); err != nil || len(now.Summed) == 0 {
		return sums, err
	}
	return sums, x.sumCells(st, sums, now.Mine, cells)
}

// sumCells sums the gradients of the cells of each row of the slice, in sample order. A row of -1 has none.
func (x *Exchange) sumCells(st *lrpp.Step, sums kernels.Matrix, rows []int32, cells kernels.Matrix) error {
	start, pos := append(x.start[:0], 0), x.pos[:0]
	for _, u := range rows {
		if u >= 0 {
			pos = append(pos, st.Plan.Pos[st.Plan.Start[u]:st.Plan.Start[u+1]]...)
		}
		start = append(start, int32(len(pos)))
	}
	x.start, x.pos = start, pos
	s, err := x.uploadList(x.o.Stream, &x.lists[0], start)
	if err != nil {
		return err
	}
	p, err := x.uploadList(x.o.Stream, &x.lists[1], pos)
	if err != nil {
		return err
	}
	x.o.Stream.SumRows(sums, cells, s, p)
	return x.o.Stream.Sync()
}

// pushGradients sends gradients to the homes of their rows, which update them.
func (x *Exchange) pushGradients(p *Part, rule kernels.RowRule, sums kernels.Matrix) error {
	c := &x.critical
	received, err := x.growMatrix(&c.lands, len(p.Slots))
	if err != nil {
		return err
	}
	c.setCounts(p.From, p.To, 4*x.width)
	if err := c.comm.AllToAllV(received.Buf, c.recv, sums.Buf, c.send).Wait(); err != nil {
		return err
	}
	if len(p.Updated) == 0 {
		return nil
	}
	start, pos := p.Start, p.Pos
	if p.RankStart != nil {
		if received, err = x.sumByRank(p, received); err != nil {
			return err
		}
		start, pos = p.RankStart, x.upTo(received.Rows)
	}
	return x.updateRows(rule, p.Updated, received, start, pos, x.o.Program.InStore)
}

// sumByRank sums the gradients of the lookups of each row of each rank.
func (x *Exchange) sumByRank(p *Part, received kernels.Matrix) (kernels.Matrix, error) {
	sums, err := x.growMatrix(&x.copied[0], len(p.Start)-1)
	if err != nil {
		return sums, err
	}
	s, err := x.uploadList(x.o.Stream, &x.lists[0], p.Start)
	if err != nil {
		return sums, err
	}
	pos, err := x.uploadList(x.o.Stream, &x.lists[1], p.Pos)
	if err != nil {
		return sums, err
	}
	x.o.Stream.SumRows(sums, received, s, pos)
	return sums, x.o.Stream.Sync()
}

// updateRows updates rows of the store or of the shard, each with the sum of its gradients.
func (x *Exchange) updateRows(rule kernels.RowRule, slots []int32, grads kernels.Matrix, start, pos []int32, inStore bool) error {
	s, err := x.uploadList(x.o.Stream, &x.lists[0], start)
	if err != nil {
		return err
	}
	p, err := x.uploadList(x.o.Stream, &x.lists[1], pos)
	if err != nil {
		return err
	}
	if !inStore {
		if err := x.o.Shard.Apply(rule, slots, grads, s, p); err != nil {
			return err
		}
		return x.o.Stream.Sync()
	}
	at, err := x.uploadList(x.o.Stream, &x.index[1], slots)
	if err != nil {
		return err
	}
	x.o.Stream.UpdateRows(rule, x.store, at, grads, s, p)
	return x.o.Stream.Sync()
}

// updateCopies sums the gradients of copies over all ranks, each of which updates its own.
func (x *Exchange) updateCopies(now *Step, rule kernels.RowRule, sums kernels.Matrix) error {
	n := len(now.Summed)
	if n == 0 {
		return nil
	}
	if err := x.critical.comm.AllReduce(sums.Buf).Wait(); err != nil {
		return err
	}
	return x.updateRows(rule, now.Summed, sums, x.upTo(n+1), x.upTo(n), true)
}

// upTo lists the numbers below n.
func (x *Exchange) upTo(n int) []int32 {
	for len(x.ones) < n {
		x.ones = append(x.ones, int32(len(x.ones)))
	}
	return x.ones[:n]
}

// Settle returns the rows of stores to the shards, after the last step of the program.
func (x *Exchange) Settle() error {
	if err := x.worker.waitJob(); err != nil || x.step != len(x.o.Program.Steps) || x.o.Program.Final == nil {
		return err
	}
	return x.background.moveRows(x, &x.o.Program.Final[x.rank], false)
}

// Moved is the traffic that this rank received in the step that began last.
func (x *Exchange) Moved(*lrpp.Step) lrpp.Moved { return x.moved }

// DelayedTook is the duration of the work beside the step that ended last.
func (x *Exchange) DelayedTook() time.Duration { return x.worker.took }

// resize returns s with length n. Its contents are undefined.
func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4)
	}
	return s[:n]
}
