package collectives

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/ecrec/ecrec/internal/cuda"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/transport"
)

// ncclComm is an NCCL communicator beside a Comm. AllToAllV and AllReduce of device
// buffers go from GPU to GPU. All other operations, and buffers of the host, go over the
// endpoint.
//
// NCCL's operations wait for all ranks and do not notice a lost one, but the endpoint
// does. A receive from each peer that never completes normally reports the end of its
// connection. The operation in progress is then aborted, and with it the communicator.
// Recovery makes a new one.
type ncclComm struct {
	c        *messenger
	comm     *cuda.Comm
	stream   *cuda.Stream
	native   bool
	lost     atomic.Pointer[error]
	tokens   []byte // by peer: memory of receives that never complete
	to, from []cuda.Part
	scratch  kernels.Buffer // other ranks' parts of a segment
	addends  []kernels.Buffer
}

// NCCL is the library.
type NCCL = cuda.NCCL

// OpenNCCL opens the library.
func OpenNCCL() (*NCCL, error) { return cuda.OpenNCCL() }

// NCCLOptions configure the use of NCCL.
type NCCLOptions struct {
	Library *NCCL
	// Native makes NCCL do the additions, in an order of its own that may change from
	// call to call, instead of in rank order.
	Native bool
}

// UseNCCL makes the NCCL communicator. All ranks must call it before the operations that
// are to use it, each with a stream of its own GPU.
func (c *Comm) UseNCCL(o NCCLOptions) error {
	ctx, stream, ok := kernels.CUDA(c.stream)
	if !ok {
		return errors.New("collectives: NCCL needs a GPU stream")
	}
	var id cuda.ID
	if c.Rank() == 0 {
		var err error
		if id, err = o.Library.NewID(); err != nil {
			return fmt.Errorf("collectives: %w", err)
		}
	}
	if err := c.Broadcast(kernels.HostBuffer(id[:]), 0).Wait(); err != nil {
		return err
	}
	n := c.Size()
	f := &ncclComm{c: &c.messenger, stream: stream, native: o.Native, tokens: make([]byte, n), to: make([]cuda.Part, n),
		from: make([]cuda.Part, n), addends: make([]kernels.Buffer, n)}
	f.watchPeers()
	var err error
	if f.comm, err = ctx.Comm(o.Library, id, c.Rank(), n); err == nil {
		err = f.waitBegun()
	}
	if err != nil {
		f.endComm(fmt.Errorf("collectives: rank %d: start NCCL: %w", c.Rank(), err))
		return c.err
	}
	c.nccl = f
	return nil
}

// watchPeers starts to watch for the loss of a peer and for the end of this endpoint.
func (f *ncclComm) watchPeers() {
	for peer := range f.tokens {
		if peer == f.c.Rank() {
			continue
		}
		word := f.c.recvMessage(peer, tagWatch, f.tokens[peer:peer+1])
		f.c.env.Go(fmt.Sprintf("watch rank %d", peer), func() { f.awaitLoss(word) })
	}
}

func (f *ncclComm) awaitLoss(word transport.Request) {
	err := word.Wait()
	if err == nil {
		err = errors.New("collectives: a peer closed its communicator")
	}
	f.lost.CompareAndSwap(nil, &err)
}

// pollEvery is the time between two polls of an operation in progress; a GPU's exchange
// of a step takes hundreds of microseconds. The first polls are not separated by a sleep.
// Each takes about a microsecond.
const (
	pollEvery = 20 * time.Microsecond
	polls     = 50
)

// abortAfter is the delay between a loss or an error and the abort of the communicator. By then
// the other communicators of the GPU have noticed it and are not in a call to CUDA. The
// delay matters because an abort frees memory, which waits for all work of the GPU.
const abortAfter = 2 * time.Millisecond

// waitBegun waits until NCCL has started the last operation.
func (f *ncclComm) waitBegun() error { return f.pollUntil(f.comm.State) }

// waitDone waits until the GPU has finished it.
func (f *ncclComm) waitDone() error { return f.pollUntil(f.stream.Done) }

// pollUntil checks for a loss first. While another communicator of this GPU is being
// aborted, a call to CUDA may block until this one is aborted too.
func (f *ncclComm) pollUntil(over func() (bool, error)) error {
	for n := 0; ; n++ {
		if err := f.lost.Load(); err != nil {
			return *err
		}
		if is, err := over(); is || err != nil {
			return err
		}
		if _, err := f.comm.State(); err != nil { // an asynchronous error
			return err
		}
		if n >= polls {
			f.c.env.Sleep(pollEvery)
		}
	}
}

// endComm ends the communicator after an error. The endpoint ends first, so that peers and the other
// communicators of the GPU learn of the error. The abort may wait for work of theirs, which would
// otherwise wait for this rank.
func (f *ncclComm) endComm(err error) {
	f.c.failWith(err)
	f.c.env.Sleep(abortAfter)
	f.abortComm()
}

func (f *ncclComm) abortComm() {
	if f.comm != nil {
		_ = f.comm.Abort() // the cause of the abort is reported instead
		f.comm = nil
	}
}

// shutDown ends the communicator. It does not wait for other ranks, which may be lost.
func (f *ncclComm) shutDown() {
	for peer := range f.tokens {
		if peer != f.c.Rank() {
			f.c.sendMessage(peer, tagWatch, f.tokens[f.c.Rank():f.c.Rank()+1]) // ends the peer's watch
		}
	}
	f.abortComm()
	if f.scratch.Bytes() > 0 {
		f.c.dev.Free(f.scratch)
	}
}

// canRun reports whether an operation is run by NCCL. The result is the same on all
// ranks, because a buffer of the host reports OnHost even if it is empty.
func (f *ncclComm) canRun(o *op) bool {
	return f != nil && o.onNCCL != nil && !o.dst.OnHost() && !o.src.OnHost()
}

// runOp runs an operation.
func (f *ncclComm) runOp(o *op) {
	if f.comm == nil { // an aborted communicator has failed already
		return
	}
	err := o.onNCCL(f, o)
	if err == nil {
		err = f.waitDone()
	}
	if err != nil {
		f.endComm(err)
		return
	}
	f.c.syncStream() // the stream is idle afterwards, and staging memory is free
}

// allToAllV copies the own part and exchanges the others at once.
func (f *ncclComm) allToAllV(o *op) error {
	rank, dst, src := f.c.Rank(), partsOf(o.dst, o.dstBytes, f.c.dstPlaces), partsOf(o.src, o.srcBytes, f.c.srcPlaces)
	for r := range f.to {
		f.to[r], f.from[r] = partOf(src.of(r)), partOf(dst.of(r))
	}
	if own, mine := dst.of(rank), src.of(rank); own != mine {
		f.c.stream.Copy(own, mine)
	}
	return f.exchangeParts()
}

// allReduce is the ordered reduction: each rank receives all parts of its segment, adds
// them in rank order, and sends the sum back.
func (f *ncclComm) allReduce(o *op) error {
	if f.native {
		if err := f.comm.Sum(f.stream, o.dst.Address(), o.dst.Floats()); err != nil {
			return err
		}
		return f.waitBegun()
	}
	rank, n := f.c.Rank(), f.c.Size()
	a := reduction{c: f.c, b: o.dst, segment: segmentFloats(o.dst.Floats(), n)}
	mine := a.segmentOf(rank)
	if err := kernels.Grow(f.c.dev, &f.scratch, n*mine.Bytes(), kernels.Working); err != nil {
		return err
	}
	for r := range f.to {
		f.addends[r] = f.scratch.Slice(r*mine.Bytes(), mine.Bytes())
		f.to[r], f.from[r] = partOf(a.segmentOf(r)), partOf(f.addends[r])
	}
	f.addends[rank] = mine
	if err := f.exchangeParts(); err != nil {
		return err
	}
	if err := f.waitDone(); err != nil { // additions queued behind a peer's messages could block other streams
		return err
	}
	if mine.Bytes() > 0 {
		f.c.stream.Sum(mine, f.addends)
	}
	for r := range f.to {
		f.to[r], f.from[r] = partOf(mine), partOf(a.segmentOf(r))
	}
	return f.exchangeParts()
}

func (f *ncclComm) exchangeParts() error {
	if err := f.comm.Exchange(f.stream, f.to, f.from); err != nil {
		return err
	}
	return f.waitBegun()
}

func partOf(b kernels.Buffer) cuda.Part { return cuda.Part{At: b.Address(), Bytes: b.Bytes()} }
