package lrpp

import (
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/trace"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/shard"
)

// Exchange brings the rows of each step to this rank and gradients to their owners,
// following the plans of the steps. Its methods must be called by the training goroutine,
// in the same order on all ranks.
type Exchange struct {
	dev          kernels.Device
	shard        *shard.Shard
	critical     *channel
	delayed      *delayed
	check        *ownerCheck
	between      func(step int64) error
	clip         func(sums kernels.Matrix) (scale float32, err error)
	rebuild      func(slots []int32) error
	isRebuilding func() bool
	toRebuild    []int32 // scratch: slots to rebuild

	step int32 // number of calls of Begin
	// rows are the matrices of this step and of the next, alternating.
	rows     [2]kernels.Buffer
	peeked   kernels.Buffer // rows of an evaluation
	index    kernels.Buffer
	factors  kernels.Buffer // weights of lookups
	sumsNow  kernels.Buffer
	sumsLate kernels.Buffer
	received kernels.Buffer // the summed gradients of this owner's rows, for clip

	next     *Step // the next step given to Begin; its early rows are being fetched
	lateOf   *Step // the step whose late rows are being fetched or are here
	later    pending
	expected expectation
}

// pending is gradients that have not been sent.
type pending struct {
	push *Push // nil: there are none
	sums kernels.Matrix
	rule kernels.RowRule
	step int64
}

// Options configure an Exchange.
type Options struct {
	Env    env.Env
	Device kernels.Device
	// Shard holds this rank's rows, on Critical's stream.
	Shard *shard.Shard
	// Critical carries the messages that the training goroutine waits for, on its own
	// stream. Delayed carries those sent while a step computes.
	Critical, Delayed Channel
	// Between, if set, is called by the training goroutine in each End, when every update
	// of the previous steps is done and none of this step has begun. Gradients may be on their way.
	Between func(step int64) error
	// Clip, if set, is called by the training goroutine in each End, with the summed gradients
	// of this owner's rows, (rows, width), before any row is updated. Rows are updated by their
	// gradients times scale. It needs PlanOptions.DelayedSync off, and no cache.
	Clip func(sums kernels.Matrix) (scale float32, err error)
	// Rebuild, if set, rebuilds lost rows of this owner: those of slots, before they are
	// read, and possibly more. It is called while a step computes and uses DelayedShard.
	// All ranks call it at the same steps. Rebuilding reports whether it will be called at
	// the next step, with the same result on all ranks.
	Rebuild    func(slots []int32) error
	Rebuilding func() bool
	// Trace records the delayed work. Nil records nothing.
	Trace *trace.Track
	// Check asserts the invariant of the package, as PlanOptions.Check does.
	Check bool
}

// New returns the exchange of one rank.
func New(o Options) *Exchange {
	x := &Exchange{dev: o.Device, shard: o.Shard, critical: newChannel(o.Device, o.Critical, o.Shard), between: o.Between, clip: o.Clip,
		rebuild: o.Rebuild, isRebuilding: o.Rebuilding}
	if x.between == nil {
		x.between = func(int64) error { return nil }
	}
	if x.isRebuilding == nil {
		x.isRebuilding = func() bool { return false }
	}
	if o.Check {
		x.check = newOwnerCheck(o.Shard.Slots())
	}
	x.delayed = newDelayed(o.Env, newChannel(o.Device, o.Delayed, o.Shard.On(o.Delayed.Stream)), x.check, o.Trace)
	return x
}

// Close frees the exchange. If a step failed, the caller must abort the endpoint first.
func (x *Exchange) Close() {
	x.delayed.stopWorker()
	x.shard.EndReads()
	x.critical.waitAndFree()
	freeAll(x.dev, &x.rows[0], &x.rows[1], &x.peeked, &x.index, &x.factors, &x.sumsNow, &x.sumsLate, &x.received)
}

// DelayedShard is the view of the shard that the delayed work uses.
func (x *Exchange) DelayedShard() *shard.Shard { return x.delayed.channel.shard }

// rebuildFor rebuilds the rows of this owner that a step reads.
func (x *Exchange) rebuildFor(lists ...[]int32) error {
	x.toRebuild = x.toRebuild[:0]
	for _, l := range lists {
		x.toRebuild = append(x.toRebuild, l...)
	}
	return x.rebuild(x.toRebuild)
}

// Begin returns the rows of step st, (rows, width), and the lookups' index into them.
// Both are on the device and valid until the next Begin. While the step computes, the
// delayed gradients of the previous step are sent, and then the early rows of next, which
// is nil after the last step. The Step before st stays in use until End.
func (x *Exchange) Begin(st, next *Step) (rows kernels.Matrix, index kernels.Buffer, err error) {
	x.step++
	if x.next != st { // its early rows were not fetched ahead
		if x.isRebuilding() {
			if err := x.rebuildFor(st.Early.Slots, st.Late.Slots); err != nil {
				return rows, index, err
			}
		}
		if err := x.fetchEarly(st); err != nil {
			return rows, index, err
		}
	}
	if err := x.fetchLate(st, x.step); err != nil {
		return rows, index, err
	}
	if err := x.critical.waitExchange(); err != nil {
		return rows, index, err
	}
	rows = x.rowsOf(x.step, st)
	if index, err = x.indexOf(st); err != nil {
		return rows, index, err
	}
	x.next, x.lateOf = next, nil
	if next != nil {
		if err := x.growRows(x.step+1, next); err != nil {
			return rows, index, err
		}
	}
	x.listRows(st, next)
	x.startDelayed(next)
	return rows, index, nil
}

// startDelayed starts the delayed work if any rank has some. This rank's part may be
// empty while other ranks wait for its messages.
func (x *Exchange) startDelayed(next *Step) {
	later := x.later
	x.later = pending{}
	update := later.push != nil && !later.push.none
	fetch := next != nil && !next.Early.none
	rebuild := next != nil && x.isRebuilding()
	expected := x.expected.takeLists()
	if !update && !fetch && !rebuild && len(expected) == 0 {
		return
	}
	var rows kernels.Matrix
	if fetch {
		rows = x.rowsOf(x.step+1, next).RowRange(0, next.Early.rows)
	}
	x.delayed.startJob(func() error {
		x.delayed.channel.shard.Expect(expected...)
		if update {
			if err := x.delayed.updateLater(&later); err != nil {
				return err
			}
		}
		if rebuild {
			if err := x.rebuildFor(next.Early.Slots, next.Late.Slots); err != nil {
				return err
			}
		}
		if fetch {
			return x.delayed.fetchEarly(rows, next)
		}
		return nil
	})
}

// fetchEarly fetches the early rows of a step.
func (d *delayed) fetchEarly(rows kernels.Matrix, st *Step) error {
	d.track.Begin("rows", st.number)
	defer d.track.End()
	d.check.checkReads(&st.Early)
	if err := d.channel.sendRows(rows, &st.Early, d.channel.shard.Read); err != nil {
		return err
	}
	return d.channel.waitExchange()
}

// updateLater sends delayed gradients and applies those that arrive.
func (d *delayed) updateLater(p *pending) error {
	d.track.Begin("gradients", p.step)
	defer d.track.End()
	if err := d.channel.sendGradients(p.sums, p.push); err != nil {
		return err
	}
	if err := d.channel.waitExchange(); err != nil {
		return err
	}
	d.check.recordUpdates(p.push, p.step)
	return d.channel.applyGradients(p.push, p.rule)
}

// End takes the gradients of the cells, (samples, features*width), of the current step.
// Before it returns, the rows that the next step reads are updated and their transfer has
// started.
func (x *Exchange) End(st *Step, rule kernels.RowRule, cells kernels.Matrix) error {
	now, err := x.sumGradients(&x.sumsNow, segments{st.Now.Start, st.Now.Pos, st.Now.Factors, &st.device.now}, cells)
	if err != nil {
		return err
	}
	// No row of the pending gradients is used by this step. Once the delayed work is done
	// they are updated and its buffers are free.
	if err := x.delayed.waitJob(); err != nil {
		return err
	}
	if err := x.critical.sendGradients(now, &st.Now); err != nil {
		return err
	}
	x.critical.startExchange()
	if err := x.between(st.number); err != nil { // while that is being sent
		return err
	}
	later, err := x.sumGradients(&x.sumsLate, segments{st.Later.Start, st.Later.Pos, st.Later.Factors, &st.device.later}, cells)
	if err != nil {
		return err
	}
	if err := x.critical.waitExchange(); err != nil {
		return err
	}
	if x.clip != nil {
		scale, err := x.clipGradients(st)
		if err != nil {
			return err
		}
		rule = rule.Scaled(scale)
	}
	x.check.recordUpdates(&st.Now, st.number)
	if err := x.critical.applyGradients(&st.Now, rule); err != nil {
		return err
	}
	if !rule.MovesAllRows() { // else there are none: see PlanOptions.AllRows
		x.later = pending{push: &st.Later, sums: later, rule: rule, step: st.number}
	}
	if x.next != nil {
		return x.fetchLate(x.next, x.step+1)
	}
	return nil
}

// clipGradients sums the gradients that have arrived for each row of this owner, and returns the
// scale of all gradients.
func (x *Exchange) clipGradients(st *Step) (scale float32, err error) {
	p, width := &st.Now, x.shard.Width()
	if len(st.Later.Pos) > 0 || st.Later.received > 0 {
		panic("lrpp: gradients that are clipped together cannot be sent later")
	}
	if len(p.Slots) == 0 {
		return x.clip(kernels.Matrix{Cols: width, Stride: width})
	}
	if err := grow(x.dev, &x.received, len(p.Slots)*width, kernels.Working); err != nil {
		return 0, err
	}
	sums := kernels.Mat(x.received, len(p.Slots), width)
	start, pos, err := x.critical.uploadSegments(p.SlotStart, p.SlotPos)
	if err != nil {
		return 0, err
	}
	x.critical.Stream.SumRows(sums, x.critical.arrived, start, pos)
	if err := x.critical.Stream.Sync(); err != nil {
		return 0, err
	}
	return x.clip(sums)
}

// DelayedTook returns the duration of the delayed work during the step that ended last.
func (x *Exchange) DelayedTook() time.Duration { return x.delayed.took }

// Settle completes every update of the steps so far, so that rows can be read for another
// purpose.
func (x *Exchange) Settle() error {
	if err := x.critical.waitExchange(); err != nil { // late rows of the next step
		return err
	}
	x.startDelayed(nil)
	return x.delayed.waitJob()
}

// Peek returns the rows of an evaluation step, planned in mode Direct, as Begin does. It
// does not mark them as read, and must follow Settle.
func (x *Exchange) Peek(st *Step) (rows kernels.Matrix, index kernels.Buffer, err error) {
	if err := grow(x.dev, &x.peeked, st.Late.rows*x.shard.Width(), kernels.Working); err != nil {
		return rows, index, err
	}
	rows = kernels.Mat(x.peeked, st.Late.rows, x.shard.Width())
	if err := x.critical.sendRows(rows, &st.Late, x.shard.Peek); err != nil {
		return rows, index, err
	}
	if err := x.critical.waitExchange(); err != nil {
		return rows, index, err
	}
	index, err = x.indexOf(st)
	return rows, index, err
}

// fetchEarly fetches the early rows of a step for which that was not done ahead.
func (x *Exchange) fetchEarly(st *Step) error {
	if err := x.growRows(x.step, st); err != nil {
		return err
	}
	x.check.checkReads(&st.Early)
	if err := x.critical.sendRows(x.rowsOf(x.step, st).RowRange(0, st.Early.rows), &st.Early, x.shard.Read); err != nil {
		return err
	}
	return x.critical.waitExchange()
}

// fetchLate starts to fetch the late rows of a step, unless that was done.
func (x *Exchange) fetchLate(st *Step, step int32) error {
	if x.lateOf == st {
		return nil
	}
	x.lateOf = st
	x.check.checkReads(&st.Late)
	if err := x.critical.sendRows(x.rowsOf(step, st).RowRange(st.Early.rows, st.Late.rows), &st.Late, x.shard.Read); err != nil {
		return err
	}
	x.critical.startExchange()
	return nil
}

// rowsOf returns the matrix of a step's rows, early rows first.
func (x *Exchange) rowsOf(step int32, st *Step) kernels.Matrix {
	return kernels.Mat(x.rows[step&1], st.Early.rows+st.Late.rows, x.shard.Width())
}

func (x *Exchange) growRows(step int32, st *Step) error {
	return grow(x.dev, &x.rows[step&1], (st.Early.rows+st.Late.rows)*x.shard.Width(), kernels.Working)
}

// indexOf returns the index of a step on the device.
func (x *Exchange) indexOf(st *Step) (kernels.Buffer, error) {
	if index, ok := st.device.index.entries(st.Index); ok {
		return index, nil
	}
	return x.uploadIndex(st.Index)
}

func (x *Exchange) uploadIndex(index []int32) (kernels.Buffer, error) {
	if err := grow(x.dev, &x.index, len(index), kernels.Working); err != nil {
		return kernels.Buffer{}, err
	}
	return x.critical.uploadList(x.index, index), nil
}

// Moved returns the traffic that a training step brings to this rank: rows from other
// owners and gradients from other requesters.
func (x *Exchange) Moved(st *Step) Moved {
	var m Moved
	me, rowBytes := x.critical.Comm.Rank(), 4*x.shard.Width()
	m.Critical.addRows(st.Late.PerOwner, me, rowBytes)
	m.Critical.addRows(st.Now.PerRank, me, rowBytes)
	m.Delayed.addRows(st.Early.PerOwner, me, rowBytes)
	m.Delayed.addRows(st.Later.PerRank, me, rowBytes)
	return m
}
