package collectives

import "github.com/ecrec/ecrec/kernels"

// AllGatherV gathers the parts of all ranks on each rank. dst receives the parts in rank
// order, dstBytes[r] bytes from rank r. src is this rank's part, and may be the same
// memory as that part of dst.
//
// Direct: all messages are posted at once, the first to rank + 1. An empty part is not
// sent. Equal parts of at most 512 bytes are forwarded if there are many ranks: see bruck.go.
//
//	steps  1; forwarded ceil(log2 n), in as many messages
//	bytes  (n-1) dstBytes[rank] sent, B - dstBytes[rank] received
func (c *Comm) AllGatherV(dst kernels.Buffer, dstBytes []int, src kernels.Buffer) *Handle {
	wantBytes("AllGatherV's dst", dst, c.sumCounts("AllGatherV's dst", dstBytes))
	wantBytes("AllGatherV's src", src, dstBytes[c.Rank()])
	return c.newHandle(op{what: "AllGatherV", run: (*Comm).runAllGatherV, dst: dst, dstBytes: dstBytes, src: src})
}

// AllGather is AllGatherV with parts of equal length. It serves small messages such as
// step statuses.
func (c *Comm) AllGather(dst, src kernels.Buffer) *Handle {
	wantBytes("AllGather's dst", dst, c.Size()*src.Bytes())
	return c.newHandle(op{what: "AllGather", run: (*Comm).runAllGather, dst: dst, src: src})
}

func (c *Comm) runAllGatherV(o *op) {
	if gathersByBruck(c.Size(), o.src.Bytes()) && allEqual(o.dstBytes) {
		c.bruckGather(host(o.dst), host(o.src))
		return
	}
	c.gatherParts(o.src, partsOf(o.dst, o.dstBytes, c.dstPlaces).of)
}

func allEqual(counts []int) bool {
	for _, n := range counts {
		if n != counts[0] {
			return false
		}
	}
	return true
}

func (c *Comm) runAllGather(o *op) {
	size := o.src.Bytes()
	if gathersByBruck(c.Size(), size) {
		c.bruckGather(host(o.dst), host(o.src))
		return
	}
	c.gatherParts(o.src, func(r int) kernels.Buffer { return o.dst.Slice(r*size, size) })
}

func (c *Comm) gatherParts(src kernels.Buffer, part func(rank int) kernels.Buffer) {
	n, rank := c.Size(), c.Rank()
	for k := 1; k < n; k++ {
		from := (rank - k + n) % n
		c.addRequest(c.recvMessage(from, tagData, host(part(from))))
	}
	for k := 1; k < n; k++ {
		c.addRequest(c.sendMessage((rank+k)%n, tagData, host(src)))
	}
	c.copyOwn(part(rank), src)
	c.waitAll()
}
