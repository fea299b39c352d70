package baseline

import (
	"fmt"

	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/lrpp"
)

// HETExchange carries out one rank's part of a HETProgram.
type HETExchange struct {
	*Exchange
	program  *HETProgram
	pending  []float32 // by slot: the sum of the gradients that were not pushed
	sent     []float32
	sums     []float32
	rule     kernels.RowRule // of the last step
	ids, got []uint64        // numbers and clocks
}

// NewHET returns the exchange of a rank. Options.Program is ignored.
func NewHET(o Options, p *HETProgram) (*HETExchange, error) {
	o.Program = &Program{Ranks: p.Ranks, StoreRows: p.StoreRows}
	x, err := New(o)
	if err != nil {
		return nil, err
	}
	return &HETExchange{Exchange: x, program: p, pending: make([]float32, p.StoreRows*o.Shard.Width())}, nil
}

// Begin returns the rows of a step: the store.
func (x *HETExchange) Begin(st, _ *lrpp.Step) (rows kernels.Matrix, index kernels.Buffer, err error) {
	if x.step >= len(x.program.Steps) {
		return rows, index, fmt.Errorf("baseline: the program has %d steps", x.step)
	}
	now := &x.program.Steps[x.step][x.rank]
	if x.step == 0 {
		if err := x.background.moveRows(x.Exchange, &x.program.Preload[x.rank], true); err != nil {
			return rows, index, err
		}
	}
	if err := x.compareClocks(now); err != nil {
		return rows, index, err
	}
	if err := x.pushPending(now); err != nil {
		return rows, index, err
	}
	if err := x.critical.moveRows(x.Exchange, &now.Fetch, true); err != nil {
		return rows, index, err
	}
	list := resize(x.at, len(st.Plan.Index))
	for l, u := range st.Plan.Index {
		list[l] = now.Slots[u]
	}
	x.at = list
	x.moved = x.program.Moved(x.step, x.rank, x.width)
	x.step++
	index, err = x.uploadList(x.o.Stream, &x.Exchange.index[0], list)
	return x.store, index, err
}

// compareClocks sends the clocks of the cached rows. The program has their result.
func (x *HETExchange) compareClocks(now *HETStep) error {
	c := &x.critical
	asked, told := 0, 0
	for r := range now.SentClocks {
		asked, told = asked+now.SentClocks[r], told+now.GotClocks[r]
	}
	x.ids, x.got = resize(x.ids, asked), resize(x.got, told)
	c.setCounts(now.SentClocks, now.GotClocks, clockBytes)
	return c.comm.AllToAllV(kernels.HostBuffer(x.got), c.recv, kernels.HostBuffer(x.ids), c.send).Wait()
}

// pushPending sends sums of gradients to owners, which update their rows.
func (x *HETExchange) pushPending(now *HETStep) error {
	x.sent = resize(x.sent, len(now.PushSlots)*x.width)
	for i, slot := range now.PushSlots {
		from := x.pending[int(slot)*x.width:][:x.width]
		copy(x.sent[i*x.width:], from)
		clear(from)
	}
	p := now.Push
	if x.step == 0 {
		p.Updated = nil // nothing was trained: the sums are zeros, and there is no rule yet
	}
	return x.pushGradients(&p, x.rule, kernels.Mat(kernels.HostBuffer(x.sent), len(now.PushSlots), x.width))
}

// End updates the copies with the gradients of the cells.
func (x *HETExchange) End(st *lrpp.Step, rule kernels.RowRule, cells kernels.Matrix) error {
	now := &x.program.Steps[x.step-1][x.rank]
	x.rule = rule
	n := len(now.Slots)
	if n == 0 {
		return nil
	}
	x.sums = resize(x.sums, n*x.width)
	sums := kernels.Mat(kernels.HostBuffer(x.sums), n, x.width)
	if err := x.sumCells(st, sums, x.upTo(n), cells); err != nil {
		return err
	}
	for i, slot := range now.Slots {
		to := x.pending[int(slot)*x.width:][:x.width]
		for k, g := range x.sums[i*x.width:][:x.width] {
			to[k] += g
		}
	}
	return x.updateRows(rule, now.Slots, sums, x.upTo(n+1), x.upTo(n), true)
}

// Settle pushes the gradients that are left, after the last step of the program.
func (x *HETExchange) Settle() error {
	if x.step != len(x.program.Steps) {
		return nil
	}
	return x.pushPending(&x.program.Final[x.rank])
}
