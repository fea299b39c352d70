package collectives

import "github.com/ecrec/ecrec/kernels"

// AllToAllV sends a part of src to each rank and receives a part of dst from each. Parts
// are stored in rank order: part r, of dstBytes[r] and srcBytes[r] bytes, is rank r's. A
// rank's part for itself is copied, unless it is the same memory in dst and src.
// Otherwise dst and src must not overlap.
//
// Direct: all messages are posted at once, the first to rank + 1, so that ranks do not
// all send to the same rank first. An empty part is not sent.
//
//	steps  1
//	bytes  the sum of the counts without the own part: (n-1)/n B if they are equal
func (c *Comm) AllToAllV(dst kernels.Buffer, dstBytes []int, src kernels.Buffer, srcBytes []int) *Handle {
	wantBytes("AllToAllV's dst", dst, c.sumCounts("AllToAllV's dst", dstBytes))
	wantBytes("AllToAllV's src", src, c.sumCounts("AllToAllV's src", srcBytes))
	if d, s := dstBytes[c.Rank()], srcBytes[c.Rank()]; d != s {
		panic("collectives: the own parts of AllToAllV's dst and src differ in length")
	}
	return c.newHandle(op{what: "AllToAllV", run: (*Comm).runAllToAllV, dst: dst, dstBytes: dstBytes, src: src,
		srcBytes: srcBytes, onNCCL: (*ncclComm).allToAllV})
}

func (c *Comm) runAllToAllV(o *op) {
	n, rank := c.Size(), c.Rank()
	dst, src := partsOf(o.dst, o.dstBytes, c.dstPlaces), partsOf(o.src, o.srcBytes, c.srcPlaces)
	for k := 1; k < n; k++ {
		from := (rank - k + n) % n
		c.addRequest(c.recvMessage(from, tagData, host(dst.of(from))))
	}
	for k := 1; k < n; k++ {
		to := (rank + k) % n
		c.addRequest(c.sendMessage(to, tagData, host(src.of(to))))
	}
	c.copyOwn(dst.of(rank), src.of(rank))
	c.waitAll()
}
