package lrpp

import (
	"fmt"

	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/shard"
)

// Lane is a way that rows take between ranks: a communicator, and a stream to
// gather and update rows on. One exchange is under way on a lane at a time.
type Lane struct {
	Comm   *collectives.Comm
	Stream kernels.Stream
}

// lane is one rank's end of a Lane.
type lane struct {
	Lane
	dev   kernels.Device
	shard *shard.Shard // on Stream

	underWay             *collectives.Handle
	served, grads        kernels.Buffer // rows sent, gradients received, as owner
	start, pos           kernels.Buffer // segments of gradients
	sendBytes, recvBytes []int
}

func newLane(dev kernels.Device, l Lane, sh *shard.Shard) *lane {
	n := l.Comm.Size()
	return &lane{Lane: l, dev: dev, shard: sh, sendBytes: make([]int, n), recvBytes: make([]int, n)}
}

// close waits for what is under way, which ends once the endpoint is aborted.
func (l *lane) close() {
	_ = l.wait() // who closes knows better
	freeAll(l.dev, &l.served, &l.grads, &l.start, &l.pos)
}

func freeAll(dev kernels.Device, buffers ...*kernels.Buffer) {
	for _, b := range buffers {
		if b.Bytes() > 0 {
			dev.Free(*b)
			*b = kernels.Buffer{}
		}
	}
}

// serve makes the exchange that sends the rows that f wants of this owner, and
// brings those it wants of others to dst, (f.rows, width).
func (l *lane) serve(dst kernels.Matrix, f *Fetch, read func(kernels.Matrix, []int32) error) error {
	width := l.shard.Width()
	if err := grow(l.dev, &l.served, len(f.Slots)*width, kernels.Shared); err != nil {
		return err
	}
	served := kernels.Mat(l.served, len(f.Slots), width)
	if err := read(served, f.Slots); err != nil {
		return err
	}
	if err := l.Stream.Sync(); err != nil {
		return err
	}
	l.exchange(dst.Buf, f.PerOwner, served.Buf, f.PerRank, width)
	return nil
}

// send makes the exchange that sends gradients, (p.rows(), width), to the owners,
// and brings those of this owner's rows, for apply.
func (l *lane) send(sums kernels.Matrix, p *Push) error {
	width := l.shard.Width()
	if err := l.grow(&l.grads, p.received*width); err != nil {
		return err
	}
	grads := kernels.Mat(l.grads, p.received, width)
	l.exchange(grads.Buf, p.PerRank, sums.Buf, p.PerOwner, width)
	return nil
}

// begin has the exchange that was made go on beside the caller.
func (l *lane) begin() { l.underWay.Start() }

// wait has it done, if there is one.
func (l *lane) wait() error {
	h := l.underWay
	if h == nil {
		return nil
	}
	l.underWay = nil
	return h.Wait()
}

// apply updates each row of p once, with what send brought.
func (l *lane) apply(p *Push, opt kernels.Optimizer) error {
	if len(p.Slots) == 0 {
		return nil
	}
	start, pos, err := l.segments(p.SlotStart, p.SlotPos)
	if err != nil {
		return err
	}
	if err := l.shard.Apply(opt, p.Slots, kernels.Mat(l.grads, p.received, l.shard.Width()), start, pos); err != nil {
		return err
	}
	return l.Stream.Sync()
}

// exchange makes the exchange of rows of width floats; recv and send say how many
// come from and go to each rank.
func (l *lane) exchange(dst kernels.Buffer, recv []int, src kernels.Buffer, send []int, width int) {
	for r := range l.sendBytes {
		l.sendBytes[r], l.recvBytes[r] = 4*width*send[r], 4*width*recv[r]
	}
	l.underWay = l.Comm.AllToAllV(dst, l.recvBytes, src, l.sendBytes)
}

// segments puts a segment list on the device.
func (l *lane) segments(start, pos []int32) (s, p kernels.Buffer, err error) {
	if err := l.grow(&l.start, len(start)); err != nil {
		return s, p, err
	}
	if err := l.grow(&l.pos, len(pos)); err != nil {
		return s, p, err
	}
	return l.upload(l.start, start), l.upload(l.pos, pos), nil
}

// upload puts a list at the beginning of b.
func (l *lane) upload(b kernels.Buffer, list []int32) kernels.Buffer {
	b = b.SliceFloats(0, len(list))
	l.Stream.Upload(b, kernels.BytesOf(list))
	return b
}

func (l *lane) grow(b *kernels.Buffer, floats int) error {
	return grow(l.dev, b, floats, kernels.Working)
}

// grow makes b long enough. What is sent to other ranks is best Shared.
func grow(dev kernels.Device, b *kernels.Buffer, floats int, use kernels.Use) error {
	if err := kernels.Grow(dev, b, 4*floats, use); err != nil {
		return fmt.Errorf("lrpp: a buffer of %d numbers for the exchange of rows: %w", floats, err)
	}
	return nil
}
