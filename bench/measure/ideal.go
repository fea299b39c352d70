package measure

import (
	"time"

	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/lrpp"
	"github.com/ecrec/ecrec/train"
)

// ideal is an exchange that has every row at hand and sends none. It sums the gradients of
// each row and updates the row once, as a single rank with all rows does (BagPipe section
// 5.4). Its rows are not those of a model.
type ideal struct {
	train.Exchange // of the job: Settle, Peek
	dev            kernels.Device
	s              kernels.Stream
	width          int
	state          int // floats of optimizer state per row

	rows, sums, index, start, pos, slots, ones kernels.Buffer
	list                                       []int32
}

func newIdeal(t *train.Trial) *ideal {
	x := &ideal{Exchange: t.BaseExchange()}
	x.dev, x.s = t.Device()
	x.width, x.state = t.RowSize()
	return x
}

// Begin returns rows without any exchange.
func (x *ideal) Begin(st, _ *lrpp.Step) (rows kernels.Matrix, index kernels.Buffer, err error) {
	n := len(st.Plan.Slots)
	if err := x.grow(n, st); err != nil {
		return rows, index, err
	}
	index = x.index.SliceFloats(0, len(st.Plan.Index))
	x.s.Upload(index, kernels.BytesOf(st.Plan.Index))
	return kernels.Mat(x.rows, n, x.width+x.state).Columns(0, x.width), index, nil
}

// End updates them with the gradients of the lookups.
func (x *ideal) End(st *lrpp.Step, rule kernels.RowRule, lookups kernels.Matrix) error {
	n := len(st.Plan.Slots)
	put := func(b kernels.Buffer, list []int32) kernels.Buffer {
		b = b.SliceFloats(0, len(list))
		x.s.Upload(b, kernels.BytesOf(list))
		return b
	}
	sums := kernels.Mat(x.sums, n, x.width)
	x.s.SumRows(sums, lookups, put(x.start, st.Plan.Start), put(x.pos, st.Plan.Pos))
	slots := put(x.slots, x.list[:n])
	x.s.UpdateRows(rule, kernels.Mat(x.rows, n, x.width+x.state), slots, sums, put(x.ones, x.list[:n+1]), slots)
	return x.s.Sync()
}

// DelayedTook is 0.
func (x *ideal) DelayedTook() time.Duration { return 0 }

// Moved is zero.
func (x *ideal) Moved(*lrpp.Step) lrpp.Moved { return lrpp.Moved{} }

// Close frees the memory of Begin. The job's exchange stays open.
func (x *ideal) Close() {
	for _, b := range []kernels.Buffer{x.rows, x.sums, x.index, x.start, x.pos, x.slots, x.ones} {
		if b.Bytes() > 0 {
			x.dev.Free(b)
		}
	}
}

// grow makes room for a step with n rows.
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
