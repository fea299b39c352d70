package collectives

import (
	"fmt"

	"github.com/ecrec/ecrec/kernels"
)

// Broadcast copies root's bytes of b to all ranks.
//
// A chain from root over root + 1, root + 2, ..., in chunks: a rank forwards one chunk
// while it receives the next.
//
//	steps  n - 1, and 1 for each further chunk of 128 KiB
//	bytes  B sent by all but the last rank of the chain, B received by all but root
func (c *Comm) Broadcast(b kernels.Buffer, root int) *Handle {
	if root < 0 || root >= c.Size() {
		panic(fmt.Sprintf("collectives: broadcast from rank %d of %d", root, c.Size()))
	}
	return c.newHandle(op{what: "Broadcast", run: (*Comm).runBroadcast, dst: b, root: root, reads: true})
}

func (c *Comm) runBroadcast(o *op) {
	n, rank := c.Size(), c.Rank()
	place := (rank - o.root + n) % n // in the chain
	before, after := (rank-1+n)%n, (rank+1)%n
	chunk := func(i int) []byte {
		off := min(i*chunkBytes, o.dst.Bytes())
		return host(o.dst.Slice(off, min(chunkBytes, o.dst.Bytes()-off)))
	}
	chunks := (o.dst.Bytes() + chunkBytes - 1) / chunkBytes
	// In turn i, chunk i is received while chunk i-1 is sent. Root sends chunk i.
	for i := 0; i <= chunks && c.err == nil; i++ {
		if place > 0 {
			c.addRequest(c.recvMessage(before, tagData, chunk(i)))
		}
		if place < n-1 {
			if place == 0 {
				c.addRequest(c.sendMessage(after, tagData, chunk(i)))
			} else if i > 0 {
				c.addRequest(c.sendMessage(after, tagData, chunk(i-1)))
			}
		}
		c.waitAll()
	}
}
