package collectives

import (
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/transport"
)

const (
	// partsBytes limits the chunks that AllReduce receives at once.
	partsBytes = 2 << 20
	// leastChunk is the least length of a chunk, in bytes. A link of 25 Gb/s sends it in 5 us, less time than a message takes.
	leastChunk = 16 << 10
	// reduceLag is the number of chunks by which messages are posted ahead of the
	// additions.
	reduceLag = 2
	// lineFloats is a cache line; the length of a segment is a multiple of it.
	lineFloats = 16
)

// placeMessage is an encoded transport.Place, or neverPlace.
type placeMessage [8]byte

// neverPlace is the message of a rank whose memory other ranks cannot read in place in this
// world. No arena is so long that it has such a place.
var neverPlace = placeMessage{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// segmentFloats returns the length of a segment. The last segments may be shorter or
// empty.
func segmentFloats(floats, n int) int {
	return ((floats+n-1)/n + lineFloats - 1) / lineFloats * lineFloats
}

// chunkFloats returns the length of a chunk among n ranks.
func chunkFloats(n int) int {
	return max(min(chunkBytes, partsBytes/n), leastChunk) / 4 / lineFloats * lineFloats
}

// reducer holds the memory of AllReduce between operations.
type reducer struct {
	chunkFloats int
	scratch     kernels.Buffer   // (reduceLag+1, n, chunkFloats): parts of other ranks
	addends     []kernels.Buffer // by rank
	places      []placeMessage   // by rank: see inPlace
	onlySent    bool             // a rank sent neverPlace: no AllReduce is in place
	staged      kernels.Buffer   // others' parts of a segment: see stageAddends
	slots       [2*reduceLag + 1]reduceSlot
}

// reduceSlot holds the requests of one chunk of all segments, by peer: received parts of
// this rank's segment, sent parts of the others', and likewise for sums.
type reduceSlot struct{ partIn, partOut, sumIn, sumOut []transport.Request }

func (r *reducer) slotOf(chunk int) *reduceSlot { return &r.slots[chunk%len(r.slots)] }

// partBuffer is the scratch memory for rank's part of a chunk.
func (r *reducer) partBuffer(chunk, rank, n, floats int) kernels.Buffer {
	return r.scratch.SliceFloats((chunk%(reduceLag+1)*n+rank)*r.chunkFloats, floats)
}

func (r *reducer) allocScratch(dev kernels.Device, n int) error {
	if r.chunkFloats > 0 {
		return nil
	}
	floats := chunkFloats(n)
	scratch, err := dev.Alloc(4*(reduceLag+1)*n*floats, kernels.Staging)
	if err != nil {
		return err
	}
	r.chunkFloats, r.scratch = floats, scratch
	r.addends, r.places = make([]kernels.Buffer, n), make([]placeMessage, n)
	for i := range r.slots {
		all := make([]transport.Request, 4*n)
		r.slots[i] = reduceSlot{all[:n], all[n : 2*n], all[2*n : 3*n], all[3*n:]}
	}
	return nil
}

// reserveStaged makes room for staged floats.
func (r *reducer) reserveStaged(dev kernels.Device, floats int) error {
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

func (r *reducer) freeBuffers(dev kernels.Device) {
	if r.chunkFloats > 0 {
		dev.Free(r.scratch)
	}
	if r.staged.Bytes() > 0 {
		dev.Free(r.staged)
	}
}

// reduction is one AllReduce in progress.
type reduction struct {
	c              *messenger
	r              *reducer
	b              kernels.Buffer
	segment, chunk int // floats
}

// chunkOf returns chunk i of rank's segment of b. It may be shorter than others, or
// empty.
func (a *reduction) chunkOf(rank, i int) kernels.Buffer {
	end := min((rank+1)*a.segment, a.b.Floats())
	off := min(rank*a.segment+i*a.chunk, end)
	return a.b.SliceFloats(off, min(a.chunk, end-off))
}

func (a *reduction) postParts(i int) {
	n, rank := a.c.Size(), a.c.Rank()
	slot, mine := a.r.slotOf(i), a.chunkOf(rank, i)
	for k := 1; k < n; k++ {
		from := (rank - k + n) % n
		slot.partIn[from] = a.c.recvMessage(from, tagData, host(a.r.partBuffer(i, from, n, mine.Floats())))
	}
	for k := 1; k < n; k++ {
		to := (rank + k) % n
		slot.partOut[to] = a.c.sendMessage(to, tagData, host(a.chunkOf(to, i)))
	}
}

// addUp adds the parts of chunk i of this rank's segment in rank order. It then posts the
// sends of the sum and the receives of the other sums into b.
func (a *reduction) addUp(i int) {
	c, n, rank := a.c, a.c.Size(), a.c.Rank()
	slot, mine := a.r.slotOf(i), a.chunkOf(rank, i)
	c.waitRequests(slot.partIn)
	if c.err == nil && mine.Bytes() > 0 {
		for from := range n {
			a.r.addends[from] = a.r.partBuffer(i, from, n, mine.Floats())
		}
		a.r.addends[rank] = mine
		c.stream.Sum(mine, a.r.addends)
		c.syncStream()
	}
	c.waitRequests(slot.partOut) // sums are received into the memory that parts are sent from
	if c.err != nil {
		return
	}
	for k := 1; k < n; k++ {
		from := (rank - k + n) % n
		slot.sumIn[from] = c.recvMessage(from, tagResult, host(a.chunkOf(from, i)))
	}
	for k := 1; k < n; k++ {
		to := (rank + k) % n
		slot.sumOut[to] = c.sendMessage(to, tagResult, host(mine))
	}
}
