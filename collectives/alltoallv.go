package collectives

import "github.com/ecrec/ecrec/kernels"

// AllToAllV sends a part of src to each rank and receives a part of dst from
// each: part r, dstBytes[r] and srcBytes[r] bytes long, is rank r's, and the
// parts lie one after the other in rank order. A rank's part for itself is
// copied, unless it is the same memory in dst and src. dst and src do not
// overlap otherwise.
//
// Direct: all messages are posted at once, to rank + 1 first, so that no rank is
// everybody's first. An empty part is not sent.
//
//	steps  1
//	bytes  what the counts say, less the own part: (n-1)/n B where they are equal
func (c *Comm) AllToAllV(dst kernels.Buffer, dstBytes []int, src kernels.Buffer, srcBytes []int) *Handle {
	wantBytes("AllToAllV's dst", dst, c.sum("AllToAllV's dst", dstBytes))
	wantBytes("AllToAllV's src", src, c.sum("AllToAllV's src", srcBytes))
	if d, s := dstBytes[c.Rank()], srcBytes[c.Rank()]; d != s {
		panic("collectives: AllToAllV's own parts differ in length")
	}
	return c.operation(op{what: "AllToAllV", run: (*Comm).runAllToAllV, dst: dst, dstBytes: dstBytes, src: src, srcBytes: srcBytes, onFabric: (*fabric).allToAllV})
}

func (c *Comm) runAllToAllV(o *op) {
	n, rank := c.Size(), c.Rank()
	for k := 1; k < n; k++ {
		from := (rank - k + n) % n
		c.add(c.recv(from, tagData, host(part(o.dst, o.dstBytes, from))))
	}
	for k := 1; k < n; k++ {
		to := (rank + k) % n
		c.add(c.send(to, tagData, host(part(o.src, o.srcBytes, to))))
	}
	c.copyOwn(part(o.dst, o.dstBytes, rank), part(o.src, o.srcBytes, rank))
	c.waitAll()
}

// part is the bytes of b that are rank's, where counts gives all parts' lengths.
func part(b kernels.Buffer, counts []int, rank int) kernels.Buffer {
	off := 0
	for _, n := range counts[:rank] {
		off += n
	}
	return b.Slice(off, counts[rank])
}
