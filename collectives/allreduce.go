package collectives

import (
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/transport"
)

// AllReduce replaces b (float32) on all ranks by the sum of all ranks' b. Each element is
// ((+0.0 + b of rank 0) + b of rank 1) + ..., the same bits on every rank. (If more than
// one addend is NaN, the sum is some NaN, the same on all ranks.)
//
// Ordered reduce-scatter and all-gather: rank s owns segment s of b, 1/n of it. All ranks
// send their part of a segment directly to its owner. The owner adds the parts in rank
// order and sends the sum back. Both halves run in chunks and overlap: one chunk is added
// while the next arrive and earlier sums are sent back. If every rank can read every
// other rank's b in place, only short messages are sent: see inPlace.
//
//	steps  2, and 1 for each further chunk of 128 KiB of a segment; 3 in place
//	bytes  2 (n-1)/n B
func (c *Comm) AllReduce(b kernels.Buffer) *Handle {
	if b.Bytes()%4 != 0 {
		panic("collectives: AllReduce of a buffer that does not hold float32")
	}
	return c.newHandle(op{what: "AllReduce", run: (*Comm).runAllReduce, dst: b, reads: true, onNCCL: (*ncclComm).allReduce})
}

// runAllReduce works in turns. In turn t, the parts of chunk t are posted, chunk t -
// reduceLag is added and its sum posted, and chunk t - 2 reduceLag is finished.
func (c *Comm) runAllReduce(o *op) {
	r := &c.reduce
	if err := r.allocScratch(c.dev, c.Size()); err != nil {
		c.failWith(err)
		return
	}
	a := reduction{c: &c.messenger, r: r, b: o.dst, segment: segmentFloats(o.dst.Floats(), c.Size()), chunk: r.chunkFloats}
	if a.inPlace() {
		return
	}
	chunks := (a.segment + a.chunk - 1) / a.chunk
	for t := 0; t < chunks+2*reduceLag && c.err == nil; t++ {
		if t < chunks {
			a.postParts(t)
		}
		if i := t - reduceLag; i >= 0 && i < chunks {
			a.addUp(i)
		}
		if i := t - 2*reduceLag; i >= 0 {
			c.waitRequests(r.slotOf(i).sumIn)
			c.waitRequests(r.slotOf(i).sumOut)
		}
	}
	for _, s := range r.slots { // Requests remain only if the operation failed.
		for _, requests := range [][]transport.Request{s.partIn, s.partOut, s.sumIn, s.sumOut} {
			c.waitRequests(requests)
		}
	}
}
