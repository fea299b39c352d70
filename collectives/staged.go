package collectives

import "github.com/ecrec/ecrec/kernels"

// staged is memory of the host for buffers that the CPU cannot address: what is sent lies in
// one, what comes in the other.
type staged struct{ dst, src kernels.Buffer }

func (s *staged) free(dev kernels.Device) {
	for _, b := range []kernels.Buffer{s.dst, s.src} {
		if b.Bytes() > 0 {
			dev.Free(b)
		}
	}
}

// addressable reports whether the CPU can address b.
func addressable(b kernels.Buffer) bool { return b.Bytes() == 0 || b.Host() != nil }

// run runs an operation: from GPU to GPU, where NCCL connects them, and by way of the host, where a buffer is a device's own and there are
// others to exchange it with.
func (c *Comm) run(o *op) {
	if c.fabric.takes(o) {
		c.fabric.run(o)
		return
	}
	if c.Size() == 1 || addressable(o.dst) && addressable(o.src) {
		o.run(c, o)
		return
	}
	via := *o
	c.stage(&c.staged.src, &via.src)
	c.stage(&c.staged.dst, &via.dst)
	if c.err != nil {
		return
	}
	c.bring(via.src, o.src)
	if o.reads {
		c.bring(via.dst, o.dst)
	}
	c.sync()
	if c.err != nil {
		return
	}
	o.run(c, &via)
	if c.err == nil {
		c.bring(o.dst, via.dst)
		c.sync()
	}
}

// stage makes b a buffer of the host, of the same length, if it is a device's own.
func (c *Comm) stage(memory, b *kernels.Buffer) {
	if addressable(*b) {
		return
	}
	if err := kernels.Grow(c.dev, memory, b.Bytes(), kernels.Staging); err != nil {
		c.fail(err)
		return
	}
	*b = memory.Slice(0, b.Bytes())
}

// bring copies a buffer to its staged twin, or back. One that is its own twin stays.
func (c *Comm) bring(dst, src kernels.Buffer) {
	if dst != src {
		c.stream.Copy(dst, src)
	}
}
