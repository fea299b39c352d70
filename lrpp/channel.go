package lrpp

import (
	"fmt"

	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/shard"
)

// Channel is a communicator for rows, and a stream on which they are gathered and
// updated. Only one exchange at a time is in progress on a channel.
type Channel struct {
	Comm   *collectives.Comm
	Stream kernels.Stream
}

// channel is one rank's end of a Channel.
type channel struct {
	Channel
	dev   kernels.Device
	shard *shard.Shard // on Stream

	exchange             *collectives.Handle
	served, grads        kernels.Buffer // rows sent, gradients received, as owner; a rank alone needs neither
	arrived              kernels.Matrix // the gradients of sendGradients: of grads, or the rank's own sums
	start, pos           kernels.Buffer // segments of gradients
	sendBytes, recvBytes []int
}

func newChannel(dev kernels.Device, c Channel, sh *shard.Shard) *channel {
	n := c.Comm.Size()
	return &channel{Channel: c, dev: dev, shard: sh, sendBytes: make([]int, n), recvBytes: make([]int, n)}
}

// waitAndFree waits for the exchange in progress, which ends once the endpoint is
// aborted, and frees the buffers.
func (ch *channel) waitAndFree() {
	_ = ch.waitExchange() // the error was already reported by the failed call
	freeAll(ch.dev, &ch.served, &ch.grads, &ch.start, &ch.pos)
}

func freeAll(dev kernels.Device, buffers ...*kernels.Buffer) {
	for _, b := range buffers {
		if b.Bytes() > 0 {
			dev.Free(*b)
			*b = kernels.Buffer{}
		}
	}
}

// sendRows prepares the exchange that sends the rows of f that this owner holds. It
// receives those that f requests from others into dst, (f.rows, width). read gathers the
// rows to send.
func (ch *channel) sendRows(dst kernels.Matrix, f *Fetch, read func(kernels.Matrix, []int32) error) error {
	width, served := ch.shard.Width(), dst
	if ch.Comm.Size() > 1 {
		if err := grow(ch.dev, &ch.served, len(f.Slots)*width, kernels.Shared); err != nil {
			return err
		}
		served = kernels.Mat(ch.served, len(f.Slots), width)
	}
	if err := read(served, f.Slots); err != nil {
		return err
	}
	if err := ch.Stream.Sync(); err != nil {
		return err
	}
	ch.prepareExchange(dst.Buf, f.PerOwner, served.Buf, f.PerRank, width)
	return nil
}

// sendGradients prepares the exchange that sends gradients, (rows of p, width), to the
// owners. It receives those of this owner's rows for applyGradients.
func (ch *channel) sendGradients(sums kernels.Matrix, p *Push) error {
	width := ch.shard.Width()
	ch.arrived = sums
	if ch.Comm.Size() > 1 {
		if err := ch.growBuffer(&ch.grads, p.received*width); err != nil {
			return err
		}
		ch.arrived = kernels.Mat(ch.grads, p.received, width)
	}
	ch.prepareExchange(ch.arrived.Buf, p.PerRank, sums.Buf, p.PerOwner, width)
	return nil
}

// startExchange starts the prepared exchange, which proceeds concurrently with the
// caller.
func (ch *channel) startExchange() { ch.exchange.Start() }

// waitExchange waits until the exchange is done, if there is one.
func (ch *channel) waitExchange() error {
	h := ch.exchange
	if h == nil {
		return nil
	}
	ch.exchange = nil
	return h.Wait()
}

// applyGradients updates each row of p once, with the gradients that sendGradients
// received.
func (ch *channel) applyGradients(p *Push, rule kernels.RowRule) error {
	if len(p.Slots) == 0 && !rule.MovesAllRows() {
		return nil
	}
	start, pos, err := ch.uploadCopied(p.copied.slots(), p.SlotStart, p.SlotPos)
	if err != nil {
		return err
	}
	if err := ch.shard.Apply(rule, p.Slots, ch.arrived, start, pos); err != nil {
		return err
	}
	return ch.Stream.Sync()
}

// prepareExchange prepares the exchange of rows of width floats. recv and send are the
// numbers of rows from and to each rank.
func (ch *channel) prepareExchange(dst kernels.Buffer, recv []int, src kernels.Buffer, send []int, width int) {
	for r := range ch.sendBytes {
		ch.sendBytes[r], ch.recvBytes[r] = 4*width*send[r], 4*width*recv[r]
	}
	ch.exchange = ch.Comm.AllToAllV(dst, ch.recvBytes, src, ch.sendBytes)
}

// uploadSegments copies a segment list to the device.
func (ch *channel) uploadSegments(start, pos []int32) (s, p kernels.Buffer, err error) {
	if err := ch.growBuffer(&ch.start, len(start)); err != nil {
		return s, p, err
	}
	if err := ch.growBuffer(&ch.pos, len(pos)); err != nil {
		return s, p, err
	}
	return ch.uploadList(ch.start, start), ch.uploadList(ch.pos, pos), nil
}

// uploadList copies a list to the beginning of b.
func (ch *channel) uploadList(b kernels.Buffer, list []int32) kernels.Buffer {
	b = b.SliceFloats(0, len(list))
	ch.Stream.Upload(b, kernels.BytesOf(list))
	return b
}

func (ch *channel) growBuffer(b *kernels.Buffer, floats int) error {
	return grow(ch.dev, b, floats, kernels.Working)
}

// grow makes b long enough. Buffers that are sent to other ranks should be Shared.
func grow(dev kernels.Device, b *kernels.Buffer, floats int, use kernels.Use) error {
	if err := kernels.Grow(dev, b, 4*floats, use); err != nil {
		return fmt.Errorf("lrpp: allocate a buffer of %d floats for the exchange of rows: %w", floats, err)
	}
	return nil
}
