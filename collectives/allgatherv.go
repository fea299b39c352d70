package collectives

import "github.com/ecrec/ecrec/kernels"

// AllGatherV brings the parts of all ranks to each: dst is their parts one after
// the other in rank order, dstBytes[r] bytes from rank r. src is this rank's,
// and may be that very part of dst.
//
// Direct: all messages are posted at once, to rank + 1 first. An empty part is
// not sent.
//
//	steps  1
//	bytes  (n-1) dstBytes[rank] sent, B - dstBytes[rank] received
func (c *Comm) AllGatherV(dst kernels.Buffer, dstBytes []int, src kernels.Buffer) *Handle {
	wantBytes("AllGatherV's dst", dst, c.sum("AllGatherV's dst", dstBytes))
	wantBytes("AllGatherV's src", src, dstBytes[c.Rank()])
	return c.operation(op{what: "AllGatherV", run: (*Comm).runAllGatherV, dst: dst, dstBytes: dstBytes, src: src})
}

// AllGather is AllGatherV with parts of one length, for control words.
func (c *Comm) AllGather(dst, src kernels.Buffer) *Handle {
	wantBytes("AllGather's dst", dst, c.Size()*src.Bytes())
	return c.operation(op{what: "AllGather", run: (*Comm).runAllGather, dst: dst, src: src})
}

func (c *Comm) runAllGatherV(o *op) {
	c.gather(o.src, func(r int) kernels.Buffer { return part(o.dst, o.dstBytes, r) })
}

func (c *Comm) runAllGather(o *op) {
	size := o.src.Bytes()
	c.gather(o.src, func(r int) kernels.Buffer { return o.dst.Slice(r*size, size) })
}

func (c *Comm) gather(src kernels.Buffer, part func(rank int) kernels.Buffer) {
	n, rank := c.Size(), c.Rank()
	for k := 1; k < n; k++ {
		from := (rank - k + n) % n
		c.add(c.recv(from, tagData, host(part(from))))
	}
	for k := 1; k < n; k++ {
		c.add(c.send((rank+k)%n, tagData, host(src)))
	}
	c.copyOwn(part(rank), src)
	c.waitAll()
}
