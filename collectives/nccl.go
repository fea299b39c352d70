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

// fabric is a communicator of NCCL's beside a Comm: AllToAllV and AllReduce of what lies on
// GPUs go from GPU to GPU. All else, and buffers of the host, go over the endpoint.
//
// NCCL's operations wait for all ranks, and hear nothing of one that is lost: the endpoint
// does. A receive from each peer that never comes tells of the end of its connection; the
// operation under way is then aborted, and with it the communicator. A new world makes new ones.
type fabric struct {
	c        *Comm
	comm     *cuda.Comm
	stream   *cuda.Stream
	native   bool
	lost     atomic.Pointer[error]
	words    []byte // by peer, that never come
	to, from []cuda.Part
	scratch  kernels.Buffer // other ranks' parts of a segment
	addends  []kernels.Buffer
}

// NCCL is the library.
type NCCL = cuda.NCCL

// OpenNCCL opens it.
func OpenNCCL() (*NCCL, error) { return cuda.OpenNCCL() }

// NCCLOptions say how NCCL is used.
type NCCLOptions struct {
	Library *NCCL
	// Native has NCCL add up, in an order of its own that may change from call to call,
	// instead of in the order of ranks.
	Native bool
}

// UseNCCL makes the communicator of NCCL's. All ranks call it, each with a stream of a GPU of
// its own, before operations that are to go by it.
func (c *Comm) UseNCCL(o NCCLOptions) error {
	ctx, stream, ok := kernels.CUDA(c.stream)
	if !ok {
		return errors.New("collectives: NCCL needs a stream of a GPU")
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
	f := &fabric{c: c, stream: stream, native: o.Native, words: make([]byte, n), to: make([]cuda.Part, n), from: make([]cuda.Part, n), addends: make([]kernels.Buffer, n)}
	f.watch()
	var err error
	if f.comm, err = ctx.Comm(o.Library, id, c.Rank(), n); err == nil {
		err = f.begun()
	}
	if err != nil {
		f.abort()
		c.fail(fmt.Errorf("collectives: NCCL of rank %d: %w", c.Rank(), err))
		return c.err
	}
	c.fabric = f
	return nil
}

// watch has the loss of a peer, and the end of this endpoint, be heard of.
func (f *fabric) watch() {
	for peer := range f.words {
		if peer == f.c.Rank() {
			continue
		}
		word := f.c.recv(peer, tagWatch, f.words[peer:peer+1])
		f.c.env.Go(fmt.Sprintf("watch of rank %d", peer), func() { f.hear(word) })
	}
}

func (f *fabric) hear(word transport.Request) {
	err := word.Wait()
	if err == nil {
		err = errors.New("collectives: a peer has closed its communicator")
	}
	f.lost.CompareAndSwap(nil, &err)
}

// pollEvery is how long the rank rests between two looks at what goes on; a GPU's exchange of
// a step takes hundreds of microseconds.
// Before it rests it looks so many times, a microsecond each.
const (
	pollEvery = 20 * time.Microsecond
	polls     = 50
)

// abortAfter is how long after a loss a communicator is aborted: its GPU's others have heard
// of the loss by then, and are not in a call to CUDA. To abort frees memory, which waits for all
// of the GPU.
const abortAfter = 2 * time.Millisecond

// begun waits until NCCL has begun what it was told last.
func (f *fabric) begun() error { return f.poll(f.comm.State) }

// done waits until the GPU has done it.
func (f *fabric) done() error { return f.poll(f.stream.Done) }

// poll asks for the loss first: where another communicator of this GPU is being aborted, a call
// to CUDA may wait until this one is, too.
func (f *fabric) poll(over func() (bool, error)) error {
	for n := 0; ; n++ {
		if err := f.lost.Load(); err != nil {
			f.c.env.Sleep(abortAfter)
			return *err
		}
		if is, err := over(); is || err != nil {
			return err
		}
		if _, err := f.comm.State(); err != nil { // what goes wrong on the way
			return err
		}
		if n >= polls {
			f.c.env.Sleep(pollEvery)
		}
	}
}

func (f *fabric) abort() {
	if f.comm != nil {
		_ = f.comm.Abort() // it ends for another reason, which is told
		f.comm = nil
	}
}

// close ends the communicator. Others may be gone: it does not wait for them.
func (f *fabric) close() {
	for peer := range f.words {
		if peer != f.c.Rank() {
			f.c.send(peer, tagWatch, f.words[f.c.Rank():f.c.Rank()+1]) // its watch ends
		}
	}
	f.abort()
	if f.scratch.Bytes() > 0 {
		f.c.dev.Free(f.scratch)
	}
}

// takes reports whether an operation goes by the fabric. It is alike on all ranks: buffers of
// the host say so also where they are empty.
func (f *fabric) takes(o *op) bool {
	return f != nil && o.onFabric != nil && !o.dst.OnHost() && !o.src.OnHost()
}

// run runs an operation.
func (f *fabric) run(o *op) {
	if f.comm == nil { // a communicator that was aborted has failed
		return
	}
	err := o.onFabric(f, o)
	if err == nil {
		err = f.done()
	}
	if err != nil {
		f.abort()
		f.c.fail(err)
		return
	}
	f.c.sync() // it is idle; what was staged is free
}

// allToAllV: own parts are copied, the others go at once.
func (f *fabric) allToAllV(o *op) error {
	rank := f.c.Rank()
	for r := range f.to {
		f.to[r], f.from[r] = where(part(o.src, o.srcBytes, r)), where(part(o.dst, o.dstBytes, r))
	}
	if own, mine := part(o.dst, o.dstBytes, rank), part(o.src, o.srcBytes, rank); own != mine {
		f.c.stream.Copy(own, mine)
	}
	return f.exchange()
}

// allReduce is the ordered one: each rank gets all parts of its segment, adds them up in rank
// order, and sends the sum back.
func (f *fabric) allReduce(o *op) error {
	if f.native {
		if err := f.comm.Sum(f.stream, o.dst.Address(), o.dst.Floats()); err != nil {
			return err
		}
		return f.begun()
	}
	rank, n := f.c.Rank(), f.c.Size()
	a := reduction{c: f.c, b: o.dst, segment: segmentFloats(o.dst.Floats(), n)}
	mine := a.segmentOf(rank)
	if err := kernels.Grow(f.c.dev, &f.scratch, n*mine.Bytes(), kernels.Working); err != nil {
		return err
	}
	for r := range f.to {
		f.addends[r] = f.scratch.Slice(r*mine.Bytes(), mine.Bytes())
		f.to[r], f.from[r] = where(a.segmentOf(r)), where(f.addends[r])
	}
	f.addends[rank] = mine
	if err := f.exchange(); err != nil {
		return err
	}
	if err := f.done(); err != nil { // additions that wait in a queue for a peer may hold up others
		return err
	}
	if mine.Bytes() > 0 {
		f.c.stream.Sum(mine, f.addends)
	}
	for r := range f.to {
		f.to[r], f.from[r] = where(mine), where(a.segmentOf(r))
	}
	return f.exchange()
}

func (f *fabric) exchange() error {
	if err := f.comm.Exchange(f.stream, f.to, f.from); err != nil {
		return err
	}
	return f.begun()
}

func where(b kernels.Buffer) cuda.Part { return cuda.Part{At: b.Address(), Bytes: b.Bytes()} }
