package collectives

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/transport"
)

// inPlaceBytes is the length of the shortest AllReduce that is worth three rounds of
// short messages instead of two rounds of data.
const inPlaceBytes = 16 << 10

// inPlace does the reduction by reading the other ranks' memory in place. It reports
// false, on all ranks, if that is not possible.
//
// Each rank sends the place of b to all others. It adds its own segment directly from all
// ranks' memory (see staging). After a barrier it copies the other segments from their
// owners, and a second barrier ends the operation. No rank writes to another rank's
// memory.
//
// If there is a rank for which that is never possible, all learn it from its first message,
// and send no more places.
func (a *reduction) inPlace() bool {
	c, n, rank := a.c, a.c.Size(), a.c.Rank()
	viewer, ok := c.ep.(transport.Viewer)
	if !ok || n == 1 || a.b.Bytes() < inPlaceBytes || a.r.onlySent {
		return false
	}
	places := a.r.places
	places[rank] = placeMessage{}
	switch {
	case !viewer.CanView():
		places[rank] = neverPlace
	case !a.b.OnDevice(): // a GPU cannot access the memory of other processes
		binary.LittleEndian.PutUint64(places[rank][:], uint64(viewer.Place(host(a.b))))
	}
	c.exchangeShort(places[rank][:], func(peer int) []byte { return places[peer][:] })
	if c.err != nil {
		return true
	}
	a.r.onlySent = slices.Contains(places, neverPlace)
	if a.r.onlySent || slices.Contains(places, placeMessage{}) {
		return false
	}
	if !viewer.Enter() {
		c.failWith(errMemoryClosed)
		return true
	}
	defer viewer.Leave()

	mine := a.segmentOf(rank)
	if mine.Bytes() > 0 {
		for from := range n {
			a.r.addends[from] = a.viewSegment(viewer, from, rank)
		}
		a.stageAddends(a.r.addends)
		if c.err == nil {
			c.stream.Sum(mine, a.r.addends)
			c.syncStream()
		}
	}
	c.meetPeers()
	for k := 1; k < n && c.err == nil; k++ {
		from := (rank + k) % n
		if theirs := a.viewSegment(viewer, from, from); c.err == nil && theirs.Bytes() > 0 {
			c.stream.Copy(a.segmentOf(from), theirs)
		}
	}
	c.syncStream()
	c.meetPeers()
	return true
}

// segmentOf returns rank's segment of this rank's b.
func (a *reduction) segmentOf(rank int) kernels.Buffer {
	off := min(rank*a.segment, a.b.Floats())
	return a.b.SliceFloats(off, min(a.segment, a.b.Floats()-off))
}

// viewSegment returns a segment of rank from's b.
func (a *reduction) viewSegment(v transport.Viewer, from, segment int) kernels.Buffer {
	mine := a.segmentOf(segment)
	if from == a.c.Rank() || mine.Bytes() == 0 {
		return mine
	}
	at := transport.Place(binary.LittleEndian.Uint64(a.r.places[from][:]) + uint64(4*segment*a.segment))
	theirs := v.View(from, at, mine.Bytes())
	if theirs == nil {
		a.c.failWith(fmt.Errorf("collectives: rank %d shares no %d bytes at %#x", from, mine.Bytes(), at))
	}
	return kernels.HostBuffer(theirs)
}
