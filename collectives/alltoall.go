package collectives

import (
	"fmt"

	"github.com/ecrec/ecrec/kernels"
)

// AllToAll is AllToAllV with parts of equal length: part r of src is for rank r, part r of
// dst is from it. dst and src must not overlap. It serves counts, which all ranks exchange
// before they send lists of different lengths.
//
// Direct, as AllToAllV is. Parts of at most 16 bytes are forwarded if there are many ranks:
// see bruck.go.
//
//	steps  1; forwarded ceil(log2 n), in as many messages
//	bytes  (n-1)/n B; forwarded about B/2 log2 n
func (c *Comm) AllToAll(dst, src kernels.Buffer) *Handle {
	wantBytes("AllToAll's dst", dst, src.Bytes())
	if src.Bytes()%c.Size() != 0 {
		panic(fmt.Sprintf("collectives: AllToAll of %d bytes among %d ranks", src.Bytes(), c.Size()))
	}
	return c.newHandle(op{what: "AllToAll", run: (*Comm).runAllToAll, dst: dst, src: src})
}

func (c *Comm) runAllToAll(o *op) {
	n, rank := c.Size(), c.Rank()
	size := o.src.Bytes() / n
	if pairsByBruck(n, size) {
		c.bruckPairs(host(o.dst), host(o.src), size)
		return
	}
	for k := 1; k < n; k++ {
		from := (rank - k + n) % n
		c.addRequest(c.recvMessage(from, tagData, host(o.dst.Slice(from*size, size))))
	}
	for k := 1; k < n; k++ {
		to := (rank + k) % n
		c.addRequest(c.sendMessage(to, tagData, host(o.src.Slice(to*size, size))))
	}
	c.copyOwn(o.dst.Slice(rank*size, size), o.src.Slice(rank*size, size))
	c.waitAll()
}
