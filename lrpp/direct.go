package lrpp

import (
	"fmt"

	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/shard"
)

// Direct is cache mode "none": rows are fetched from their owners before a step
// and gradients sent back after it, on the critical path. Per step and rank it
// moves one row's weights per distinct row of the slice in each direction.
type Direct struct {
	comm  *collectives.Comm
	shard *shard.Shard
	dev   kernels.Device
	s     kernels.Stream

	served, rows kernels.Buffer // rows sent as owner, received as requester
	sums, grads  kernels.Buffer // gradients sent as requester, received as owner
	index        kernels.Buffer // Plan.Index
	start, pos   kernels.Buffer // segments of lookups, then of received gradients

	sendBytes, recvBytes []int
}

// NewDirect makes the exchange of one rank.
func NewDirect(dev kernels.Device, s kernels.Stream, comm *collectives.Comm, sh *shard.Shard) *Direct {
	n := comm.Size()
	return &Direct{comm: comm, shard: sh, dev: dev, s: s, sendBytes: make([]int, n), recvBytes: make([]int, n)}
}

// Close frees the exchange's buffers.
func (x *Direct) Close() {
	for _, b := range []*kernels.Buffer{&x.served, &x.rows, &x.sums, &x.grads, &x.index, &x.start, &x.pos} {
		if b.Bytes() > 0 {
			x.dev.Free(*b)
			*b = kernels.Buffer{}
		}
	}
}

// Fetch returns the rows of the step's plan, (rows, width), and the lookups'
// index into them, both on the device and valid until the next Fetch. Training
// touches the rows, evaluation does not.
func (x *Direct) Fetch(st *Step, training bool) (rows kernels.Matrix, index kernels.Buffer, err error) {
	width, wanted, mine := x.shard.Width(), len(st.Wanted), len(st.Plan.Slots)
	if err := x.grow(width, wanted, mine, st); err != nil {
		return rows, index, err
	}
	served := kernels.Mat(x.served, wanted, width)
	read := x.shard.Read
	if !training {
		read = x.shard.Peek
	}
	if err := read(served, st.Wanted); err != nil {
		return rows, index, err
	}
	rows = kernels.Mat(x.rows, mine, width)
	x.count(st, width)
	if err := x.s.Sync(); err != nil {
		return rows, index, err
	}
	if err := x.comm.AllToAllV(rows.Buf, x.recvBytes, served.Buf, x.sendBytes).Wait(); err != nil {
		return rows, index, err
	}
	index = x.index.SliceFloats(0, len(st.Plan.Index))
	x.s.Upload(index, kernels.BytesOf(st.Plan.Index))
	return rows, index, nil
}

// Push takes the gradients of the lookups, (samples, tables*width), and updates
// every row of the step once, at its owner.
func (x *Direct) Push(st *Step, opt kernels.Optimizer, lookups kernels.Matrix) error {
	width, wanted, mine := x.shard.Width(), len(st.Wanted), len(st.Plan.Slots)
	sums := kernels.Mat(x.sums, mine, width)
	start, pos := x.segments(st.Plan.Start, st.Plan.Pos)
	x.s.SumRows(sums, lookups, start, pos)
	x.count(st, width)
	if err := x.s.Sync(); err != nil {
		return err
	}
	grads := kernels.Mat(x.grads, wanted, width)
	// As requester this rank now sends where it received, and the reverse.
	if err := x.comm.AllToAllV(grads.Buf, x.sendBytes, sums.Buf, x.recvBytes).Wait(); err != nil {
		return err
	}
	start, pos = x.segments(st.OwnedStart, st.OwnedPos)
	return x.shard.Apply(opt, st.Owned, grads, start, pos)
}

// Moved counts what travels between ranks: a row or its gradient, once for each
// rank that receives it.
type Moved struct{ Rows, Bytes int64 }

// Add adds o.
func (m *Moved) Add(o Moved) { m.Rows, m.Bytes = m.Rows+o.Rows, m.Bytes+o.Bytes }

// Moved is what a training step brings to this rank: rows from other owners,
// gradients from other requesters, all on the critical path.
func (x *Direct) Moved(st *Step) Moved {
	me := x.comm.Rank()
	rows := len(st.Plan.Slots) - st.Plan.PerOwner[me] + len(st.Wanted) - st.PerRank[me]
	return Moved{int64(rows), int64(rows * 4 * x.shard.Width())}
}

// count sets the bytes of rows that go to each requester and come from each owner.
func (x *Direct) count(st *Step, width int) {
	for r := range x.sendBytes {
		x.sendBytes[r], x.recvBytes[r] = 4*width*st.PerRank[r], 4*width*st.Plan.PerOwner[r]
	}
}

// segments puts a segment list on the device.
func (x *Direct) segments(start, pos []int32) (s, p kernels.Buffer) {
	s, p = x.start.SliceFloats(0, len(start)), x.pos.SliceFloats(0, len(pos))
	x.s.Upload(s, kernels.BytesOf(start))
	x.s.Upload(p, kernels.BytesOf(pos))
	return s, p
}

func (x *Direct) grow(width, wanted, mine int, st *Step) error {
	for _, g := range []struct {
		b      *kernels.Buffer
		floats int
	}{
		{&x.served, wanted * width}, {&x.grads, wanted * width},
		{&x.rows, mine * width}, {&x.sums, mine * width},
		{&x.index, len(st.Plan.Index)},
		{&x.start, max(len(st.Plan.Start), len(st.OwnedStart))},
		{&x.pos, max(len(st.Plan.Pos), len(st.OwnedPos))},
	} {
		if err := kernels.Grow(x.dev, g.b, 4*g.floats); err != nil {
			return fmt.Errorf("lrpp: exchange buffers for %d rows: %w", wanted+mine, err)
		}
	}
	return nil
}
