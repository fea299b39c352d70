package lrpp

import (
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/trace"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/shard"
)

// Exchange brings the rows of each step to this rank, and gradients to their
// owners, as the steps' plans say. Its methods belong to the training goroutine,
// and all ranks call the same ones in the same order.
type Exchange struct {
	dev      kernels.Device
	shard    *shard.Shard
	critical *lane
	delayed  *delayed
	check    *check
	between  func(step int64) error

	step int32 // the number of Begins
	// rows are the matrices of this step and of the next, by turns.
	rows     [2]kernels.Buffer
	peeked   kernels.Buffer // rows of an evaluation
	index    kernels.Buffer
	sumsNow  kernels.Buffer
	sumsLate kernels.Buffer

	next    *Step // that Begin was told of; its early rows come
	fetched *Step // whose late rows come, or are here
	later   pending
}

// pending is gradients that are yet to be sent.
type pending struct {
	push *Push // nil: there are none
	sums kernels.Matrix
	opt  kernels.Optimizer
	step int64
}

// Options make an Exchange.
type Options struct {
	Env    env.Env
	Device kernels.Device
	// Shard is this rank's rows, on Critical's stream.
	Shard *shard.Shard
	// Critical is for what the training goroutine waits for, on its own stream;
	// Delayed for what moves while that computes.
	Critical, Delayed Lane
	// Between, if set, is called in each End, by the training goroutine, when every
	// update of the steps before is done and none of this step has begun.
	Between func(step int64) error
	// Trace records what is delayed; nil: nothing.
	Trace *trace.Track
	// Check has the invariant of the package checked, as PlanOptions.Check.
	Check bool
}

// New makes the exchange of one rank.
func New(o Options) *Exchange {
	x := &Exchange{dev: o.Device, shard: o.Shard, critical: newLane(o.Device, o.Critical, o.Shard), between: o.Between}
	if x.between == nil {
		x.between = func(int64) error { return nil }
	}
	if o.Check {
		x.check = newCheck(o.Shard.Slots())
	}
	x.delayed = newDelayed(o.Env, newLane(o.Device, o.Delayed, o.Shard.On(o.Delayed.Stream)), x.check, o.Trace)
	return x
}

// Close frees the exchange. Where a step failed, the endpoint is aborted first.
func (x *Exchange) Close() {
	x.delayed.close()
	x.critical.close()
	freeAll(x.dev, &x.rows[0], &x.rows[1], &x.peeked, &x.index, &x.sumsNow, &x.sumsLate)
}

// Begin returns the rows of step st, (rows, width), and the lookups' index into
// them, both on the device and valid until the next Begin. While the step
// computes, what the one before left to be sent later is sent, and then the
// early rows of next, which is nil after the last step. The step before st
// stays in use until End.
func (x *Exchange) Begin(st, next *Step) (rows kernels.Matrix, index kernels.Buffer, err error) {
	x.step++
	if x.next != st { // nobody fetched ahead for it
		if err := x.early(st); err != nil {
			return rows, index, err
		}
	}
	if err := x.fetchLate(st, x.step); err != nil {
		return rows, index, err
	}
	if err := x.critical.wait(); err != nil {
		return rows, index, err
	}
	rows = x.matrix(x.step, st)
	if index, err = x.upload(st.Index); err != nil {
		return rows, index, err
	}
	x.next, x.fetched = next, nil
	if next != nil {
		if err := x.growRows(x.step+1, next); err != nil {
			return rows, index, err
		}
	}
	x.startDelayed(next)
	return rows, index, nil
}

// startDelayed begins what moves meanwhile, if anything does on any rank: what this
// one moves may be nothing while others wait for its part.
func (x *Exchange) startDelayed(next *Step) {
	later := x.later
	x.later = pending{}
	update := later.push != nil && !later.push.none
	fetch := next != nil && !next.Early.none
	if !update && !fetch {
		return
	}
	var rows kernels.Matrix
	if fetch {
		rows = x.matrix(x.step+1, next).RowRange(0, next.Early.rows)
	}
	x.delayed.start(func() error {
		if update {
			if err := x.delayed.update(&later); err != nil {
				return err
			}
		}
		if fetch {
			return x.delayed.fetch(rows, next)
		}
		return nil
	})
}

// fetch brings the early rows of a step.
func (d *delayed) fetch(rows kernels.Matrix, st *Step) error {
	d.track.Begin("rows", st.number)
	defer d.track.End()
	d.check.read(&st.Early)
	if err := d.lane.serve(rows, &st.Early, d.lane.shard.Read); err != nil {
		return err
	}
	return d.lane.wait()
}

// update sends gradients and applies those that come.
func (d *delayed) update(p *pending) error {
	d.track.Begin("gradients", p.step)
	defer d.track.End()
	if err := d.lane.send(p.sums, p.push); err != nil {
		return err
	}
	if err := d.lane.wait(); err != nil {
		return err
	}
	d.check.apply(p.push, p.step)
	return d.lane.apply(p.push, p.opt)
}

// End takes the gradients of the lookups, (samples, tables*width), of the step
// that began: rows that the next step reads are updated before it returns, and on
// their way to it.
func (x *Exchange) End(st *Step, opt kernels.Optimizer, lookups kernels.Matrix) error {
	now, err := x.sum(&x.sumsNow, st.Now.Start, st.Now.Pos, lookups)
	if err != nil {
		return err
	}
	// Rows of the step before are not this step's: they have been updated once
	// what was delayed is done, whose buffers are free then.
	if err := x.delayed.wait(); err != nil {
		return err
	}
	if err := x.between(st.number); err != nil {
		return err
	}
	if err := x.critical.send(now, &st.Now); err != nil {
		return err
	}
	x.critical.begin()
	later, err := x.sum(&x.sumsLate, st.Later.Start, st.Later.Pos, lookups) // while that travels
	if err != nil {
		return err
	}
	if err := x.critical.wait(); err != nil {
		return err
	}
	x.check.apply(&st.Now, st.number)
	if err := x.critical.apply(&st.Now, opt); err != nil {
		return err
	}
	x.later = pending{push: &st.Later, sums: later, opt: opt, step: st.number}
	if x.next != nil {
		return x.fetchLate(x.next, x.step+1)
	}
	return nil
}

// DelayedTook is how long the moving took that went on while the step which ended
// last computed.
func (x *Exchange) DelayedTook() time.Duration { return x.delayed.took }

// Settle has every update of the steps so far done, before rows are read for
// another purpose.
func (x *Exchange) Settle() error {
	if err := x.critical.wait(); err != nil { // late rows of the next step
		return err
	}
	x.startDelayed(nil)
	return x.delayed.wait()
}

// Peek returns the rows of a step that is evaluated, planned in mode Direct, as
// Begin does. It touches none, and follows Settle.
func (x *Exchange) Peek(st *Step) (rows kernels.Matrix, index kernels.Buffer, err error) {
	if err := grow(x.dev, &x.peeked, st.Late.rows*x.shard.Width(), kernels.Working); err != nil {
		return rows, index, err
	}
	rows = kernels.Mat(x.peeked, st.Late.rows, x.shard.Width())
	if err := x.critical.serve(rows, &st.Late, x.shard.Peek); err != nil {
		return rows, index, err
	}
	if err := x.critical.wait(); err != nil {
		return rows, index, err
	}
	index, err = x.upload(st.Index)
	return rows, index, err
}

// early brings the early rows of a step that nobody knew to come.
func (x *Exchange) early(st *Step) error {
	if err := x.growRows(x.step, st); err != nil {
		return err
	}
	x.check.read(&st.Early)
	if err := x.critical.serve(x.matrix(x.step, st).RowRange(0, st.Early.rows), &st.Early, x.shard.Read); err != nil {
		return err
	}
	return x.critical.wait()
}

// fetchLate starts to bring the late rows of a step, unless that was done.
func (x *Exchange) fetchLate(st *Step, step int32) error {
	if x.fetched == st {
		return nil
	}
	x.fetched = st
	x.check.read(&st.Late)
	if err := x.critical.serve(x.matrix(step, st).RowRange(st.Early.rows, st.Late.rows), &st.Late, x.shard.Read); err != nil {
		return err
	}
	x.critical.begin()
	return nil
}

// sum adds up the gradients of the lookups of each row, listed as in oracle.Plan.
func (x *Exchange) sum(b *kernels.Buffer, start, pos []int32, lookups kernels.Matrix) (kernels.Matrix, error) {
	width, rows := x.shard.Width(), max(len(start)-1, 0)
	if rows == 0 {
		return kernels.Matrix{Cols: width, Stride: width}, nil
	}
	if err := grow(x.dev, b, rows*width, kernels.Shared); err != nil {
		return kernels.Matrix{}, err
	}
	sums := kernels.Mat(*b, rows, width)
	s, p, err := x.critical.segments(start, pos)
	if err != nil {
		return sums, err
	}
	x.critical.Stream.SumRows(sums, lookups, s, p)
	return sums, x.critical.Stream.Sync()
}

// matrix is where the rows of a step stand, early ones first.
func (x *Exchange) matrix(step int32, st *Step) kernels.Matrix {
	return kernels.Mat(x.rows[step&1], st.Early.rows+st.Late.rows, x.shard.Width())
}

func (x *Exchange) growRows(step int32, st *Step) error {
	return grow(x.dev, &x.rows[step&1], (st.Early.rows+st.Late.rows)*x.shard.Width(), kernels.Working)
}

func (x *Exchange) upload(index []int32) (kernels.Buffer, error) {
	if err := grow(x.dev, &x.index, len(index), kernels.Working); err != nil {
		return kernels.Buffer{}, err
	}
	return x.critical.upload(x.index, index), nil
}

// Moved is what a training step brings to this rank: rows from other owners,
// gradients from other requesters.
func (x *Exchange) Moved(st *Step) Moved {
	var m Moved
	me, rowBytes := x.critical.Comm.Rank(), 4*x.shard.Width()
	m.Critical.add(st.Late.PerOwner, me, rowBytes)
	m.Critical.add(st.Now.PerRank, me, rowBytes)
	m.Delayed.add(st.Early.PerOwner, me, rowBytes)
	m.Delayed.add(st.Later.PerRank, me, rowBytes)
	return m
}
