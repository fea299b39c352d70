package collectives

import (
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/transport"
)

const (
	// chunkBytes is how much travels in one message: enough to hide its latency,
	// and so little that it is still in a core's cache when it is added.
	chunkBytes = 128 << 10
	// partsBytes bounds the chunks that AllReduce receives at once.
	partsBytes = 2 << 20
	// reduceLag is how many chunks ahead of the additions messages are posted.
	reduceLag = 2
	// lineFloats is what segments are a multiple of: a cache line.
	lineFloats = 16
)

// AllReduce replaces b (float32) on all ranks by the sum of all ranks' b: each
// element is ((+0.0 + b of rank 0) + b of rank 1) + ..., the same bits on every
// rank. (Where more than one addend is NaN the sum is some NaN, the same one on
// all ranks.)
//
// Ordered reduce-scatter and all-gather: rank s owns segment s of b, an n-th.
// All send their part of a segment straight to its owner, who adds them up in
// rank order and sends the sum back. Both halves run in chunks and overlap: a
// chunk is added while the next ones arrive and earlier sums travel back. Where
// every rank can read every other's b in place, nothing is sent: see inPlace.
//
//	steps  2, and 1 for each further chunk of 128 KiB of a segment; 3 in place
//	bytes  2 (n-1)/n B
func (c *Comm) AllReduce(b kernels.Buffer) *Handle {
	if b.Bytes()%4 != 0 {
		panic("collectives: AllReduce of a buffer that does not hold float32")
	}
	return c.operation(op{what: "AllReduce", run: (*Comm).runAllReduce, dst: b, reads: true, onFabric: (*fabric).allReduce})
}

// runAllReduce works in turns: in turn t, the parts of chunk t are posted, chunk
// t - reduceLag is added up and its sum posted, chunk t - 2 reduceLag is finished.
func (c *Comm) runAllReduce(o *op) {
	r := &c.reduce
	if err := r.prepare(c.dev, c.Size()); err != nil {
		c.fail(err)
		return
	}
	a := reduction{c: c, r: r, b: o.dst, segment: segmentFloats(o.dst.Floats(), c.Size()), chunk: r.chunkFloats}
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
			c.waitPeers(r.slot(i).sumIn)
			c.waitPeers(r.slot(i).sumOut)
		}
	}
	for _, s := range r.slots { // of a failed operation; else there is nothing left
		for _, requests := range [][]transport.Request{s.partIn, s.partOut, s.sumIn, s.sumOut} {
			c.waitPeers(requests)
		}
	}
}

// segmentFloats is the length of all segments but the last ones, which may be
// shorter or empty.
func segmentFloats(floats, n int) int {
	return ((floats+n-1)/n + lineFloats - 1) / lineFloats * lineFloats
}

// waitPeers waits for the requests of a slot, by peer.
func (c *Comm) waitPeers(requests []transport.Request) {
	for peer, r := range requests {
		c.wait(r)
		requests[peer] = nil
	}
}

// reducer is what AllReduce keeps between operations.
type reducer struct {
	chunkFloats int
	scratch     kernels.Buffer   // (reduceLag+1, n, chunkFloats): parts of other ranks
	addends     []kernels.Buffer // by rank
	places      []placeWord      // by rank: see inPlace
	staged      kernels.Buffer   // others' parts of a segment: see stage
	slots       [2*reduceLag + 1]reduceSlot
}

// reduceSlot holds the requests of one chunk of all segments, by peer: parts of
// this rank's segment that come in, of the others' that go out, sums likewise.
type reduceSlot struct{ partIn, partOut, sumIn, sumOut []transport.Request }

func (r *reducer) slot(chunk int) *reduceSlot { return &r.slots[chunk%len(r.slots)] }

// part is the scratch for rank's part of a chunk.
func (r *reducer) part(chunk, rank, n, floats int) kernels.Buffer {
	return r.scratch.SliceFloats((chunk%(reduceLag+1)*n+rank)*r.chunkFloats, floats)
}

func (r *reducer) prepare(dev kernels.Device, n int) error {
	if r.chunkFloats > 0 {
		return nil
	}
	floats := max(min(chunkBytes, partsBytes/n)/4/lineFloats, 1) * lineFloats
	scratch, err := dev.Alloc(4*(reduceLag+1)*n*floats, kernels.Staging)
	if err != nil {
		return err
	}
	r.chunkFloats, r.scratch = floats, scratch
	r.addends, r.places = make([]kernels.Buffer, n), make([]placeWord, n)
	for i := range r.slots {
		all := make([]transport.Request, 4*n)
		r.slots[i] = reduceSlot{all[:n], all[n : 2*n], all[2*n : 3*n], all[3*n:]}
	}
	return nil
}

// reserve makes room for staged floats.
func (r *reducer) reserve(dev kernels.Device, floats int) error {
	if r.staged.Floats() >= floats {
		return nil
	}
	staged, err := dev.Alloc(4*floats, kernels.Staging)
	if err != nil {
		return err
	}
	if r.staged.Bytes() > 0 {
		dev.Free(r.staged)
	}
	r.staged = staged
	return nil
}

func (r *reducer) free(dev kernels.Device) {
	if r.chunkFloats > 0 {
		dev.Free(r.scratch)
	}
	if r.staged.Bytes() > 0 {
		dev.Free(r.staged)
	}
}

// reduction is one AllReduce under way.
type reduction struct {
	c              *Comm
	r              *reducer
	b              kernels.Buffer
	segment, chunk int // floats
}

// of is chunk i of rank's segment of b; it may be shorter than others, or empty.
func (a *reduction) of(rank, i int) kernels.Buffer {
	end := min((rank+1)*a.segment, a.b.Floats())
	off := min(rank*a.segment+i*a.chunk, end)
	return a.b.SliceFloats(off, min(a.chunk, end-off))
}

func (a *reduction) postParts(i int) {
	n, rank := a.c.Size(), a.c.Rank()
	slot, mine := a.r.slot(i), a.of(rank, i)
	for k := 1; k < n; k++ {
		from := (rank - k + n) % n
		slot.partIn[from] = a.c.recv(from, tagData, host(a.r.part(i, from, n, mine.Floats())))
	}
	for k := 1; k < n; k++ {
		to := (rank + k) % n
		slot.partOut[to] = a.c.send(to, tagData, host(a.of(to, i)))
	}
}

// addUp adds the parts of chunk i of this rank's segment in rank order, and posts
// the sum to the others and theirs to b.
func (a *reduction) addUp(i int) {
	c, n, rank := a.c, a.c.Size(), a.c.Rank()
	slot, mine := a.r.slot(i), a.of(rank, i)
	c.waitPeers(slot.partIn)
	if c.err == nil && mine.Bytes() > 0 {
		for from := range n {
			a.r.addends[from] = a.r.part(i, from, n, mine.Floats())
		}
		a.r.addends[rank] = mine
		c.stream.Sum(mine, a.r.addends)
		c.sync()
	}
	c.waitPeers(slot.partOut) // sums arrive where parts were sent from
	if c.err != nil {
		return
	}
	for k := 1; k < n; k++ {
		from := (rank - k + n) % n
		slot.sumIn[from] = c.recv(from, tagResult, host(a.of(from, i)))
	}
	for k := 1; k < n; k++ {
		to := (rank + k) % n
		slot.sumOut[to] = c.send(to, tagResult, host(mine))
	}
}
