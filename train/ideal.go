package train

import (
	"time"

	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/lrpp"
)

// exchange brings rows to a step and takes gradients back; lrpp.Exchange and
// lrpp.Cache do.
type exchange interface {
	Begin(st, next *lrpp.Step) (rows kernels.Matrix, index kernels.Buffer, err error)
	End(st *lrpp.Step, opt kernels.Optimizer, lookups kernels.Matrix) error
	Settle() error
	Peek(st *lrpp.Step) (rows kernels.Matrix, index kernels.Buffer, err error)
	Moved(st *lrpp.Step) lrpp.Moved
	DelayedTook() time.Duration
}

// ideal is an exchange for measuring: every row is at hand and none travels. It
// sums the gradients of each row and updates it once, as a rank does that has all
// rows to itself (BagPipe section 5.4). What it trains is no model.
type ideal struct {
	exchange // of the job: Settle, Peek
	dev      kernels.Device
	s        kernels.Stream
	width    int
	state    int // floats of optimizer state per row

	rows, sums, index, start, pos, slots, ones kernels.Buffer
	list                                       []int32
}

func newIdeal(r *rank) *ideal {
	return &ideal{exchange: r.base, dev: r.job.dev, s: r.s, width: r.job.width, state: r.job.sparse.Kind.RowState(r.job.width)}
}

// Begin returns rows that are here.
func (x *ideal) Begin(st, _ *lrpp.Step) (rows kernels.Matrix, index kernels.Buffer, err error) {
	n := len(st.Plan.Slots)
	if err := x.grow(n, st); err != nil {
		return rows, index, err
	}
	index = x.index.SliceFloats(0, len(st.Plan.Index))
	x.s.Upload(index, kernels.BytesOf(st.Plan.Index))
	return kernels.Mat(x.rows, n, x.width+x.state).Columns(0, x.width), index, nil
}

// End updates them.
func (x *ideal) End(st *lrpp.Step, opt kernels.Optimizer, lookups kernels.Matrix) error {
	n := len(st.Plan.Slots)
	put := func(b kernels.Buffer, list []int32) kernels.Buffer {
		b = b.SliceFloats(0, len(list))
		x.s.Upload(b, kernels.BytesOf(list))
		return b
	}
	sums := kernels.Mat(x.sums, n, x.width)
	x.s.SumRows(sums, lookups, put(x.start, st.Plan.Start), put(x.pos, st.Plan.Pos))
	slots := put(x.slots, x.list[:n])
	x.s.UpdateRows(opt, kernels.Mat(x.rows, n, x.width+x.state), slots, sums, put(x.ones, x.list[:n+1]), slots)
	return x.s.Sync()
}

// DelayedTook is nothing.
func (x *ideal) DelayedTook() time.Duration { return 0 }

// Moved is nothing.
func (x *ideal) Moved(*lrpp.Step) lrpp.Moved { return lrpp.Moved{} }

// Close frees what Begin took; the job's exchange stays.
func (x *ideal) Close() {
	for _, b := range []kernels.Buffer{x.rows, x.sums, x.index, x.start, x.pos, x.slots, x.ones} {
		if b.Bytes() > 0 {
			x.dev.Free(b)
		}
	}
}

func (x *ideal) grow(n int, st *lrpp.Step) error {
	for len(x.list) <= n {
		x.list = append(x.list, int32(len(x.list)))
	}
	for _, g := range []struct {
		b      *kernels.Buffer
		floats int
	}{
		{&x.rows, n * (x.width + x.state)}, {&x.sums, n * x.width}, {&x.index, len(st.Plan.Index)},
		{&x.start, n + 1}, {&x.pos, len(st.Plan.Pos)}, {&x.slots, n}, {&x.ones, n + 1},
	} {
		if err := kernels.Grow(x.dev, g.b, 4*g.floats, kernels.Working); err != nil {
			return err
		}
	}
	return nil
}
