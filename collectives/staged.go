package collectives

import "github.com/ecrec/ecrec/kernels"

// staged is host memory for buffers that the CPU cannot address: one for the data sent,
// one for the data received.
type staged struct{ dst, src kernels.Buffer }

func (s *staged) freeBuffers(dev kernels.Device) {
	for _, b := range []kernels.Buffer{s.dst, s.src} {
		if b.Bytes() > 0 {
			dev.Free(b)
		}
	}
}

// addressable reports whether the CPU can address b.
func addressable(b kernels.Buffer) bool { return b.Bytes() == 0 || b.Host() != nil }

// runOp runs an operation: from GPU to GPU if NCCL can run it, otherwise through host
// memory if a buffer is not addressable and there are other ranks.
func (c *Comm) runOp(o *op) {
	if c.nccl.canRun(o) {
		c.nccl.runOp(o)
		return
	}
	if c.Size() == 1 || addressable(o.dst) && addressable(o.src) {
		o.run(c, o)
		return
	}
	via := *o
	c.stageBuffer(&c.staged.src, &via.src)
	c.stageBuffer(&c.staged.dst, &via.dst)
	if c.err != nil {
		return
	}
	c.copyStaged(via.src, o.src)
	if o.reads {
		c.copyStaged(via.dst, o.dst)
	}
	c.syncStream()
	if c.err != nil {
		return
	}
	o.run(c, &via)
	if c.err == nil {
		c.copyStaged(o.dst, via.dst)
		c.syncStream()
	}
}

// stageBuffer replaces b by host memory of the same length if the CPU cannot address b.
func (c *Comm) stageBuffer(memory, b *kernels.Buffer) {
	if addressable(*b) {
		return
	}
	if err := kernels.Grow(c.dev, memory, b.Bytes(), kernels.Staging); err != nil {
		c.failWith(err)
		return
	}
	*b = memory.Slice(0, b.Bytes())
}

// copyStaged copies a buffer to its staging memory, or back. It does nothing if the
// buffer was not staged.
func (c *Comm) copyStaged(dst, src kernels.Buffer) {
	if dst != src {
		c.stream.Copy(dst, src)
	}
}
