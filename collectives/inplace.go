package collectives

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/transport"
)

// inPlaceBytes is the shortest AllReduce that is worth three rounds of short
// messages in place of two that carry it.
const inPlaceBytes = 16 << 10

// placeWord is a transport.Place in a message.
type placeWord [8]byte

// inPlace does the reduction by reading the other ranks' memory where it lies. It
// reports false, on all ranks, if that is not possible.
//
// Everyone tells everyone where b is; each rank adds up its own segment straight
// from all ranks' memory (see staging); everyone says so; each copies the others'
// segments; and everyone says that it has. Nobody ever writes to another rank's memory.
func (a *reduction) inPlace() bool {
	c, n, rank := a.c, a.c.Size(), a.c.Rank()
	viewer, ok := c.ep.(transport.Viewer)
	if !ok || n == 1 || a.b.Bytes() < inPlaceBytes {
		return false
	}
	places := a.r.places
	places[rank] = placeWord{}
	if !a.b.OnDevice() { // a GPU does not see the memory of other processes
		binary.LittleEndian.PutUint64(places[rank][:], uint64(viewer.Place(host(a.b))))
	}
	c.tell(places[rank][:], func(peer int) []byte { return places[peer][:] })
	for _, p := range places {
		if c.err == nil && p == (placeWord{}) {
			return false
		}
	}
	if c.err != nil {
		return true
	}
	if !viewer.Enter() {
		c.fail(errors.New("collectives: the memory of a rank is gone"))
		return true
	}
	defer viewer.Leave()

	mine := a.segmentOf(rank)
	if mine.Bytes() > 0 {
		for from := range n {
			a.r.addends[from] = a.view(viewer, from, rank)
		}
		a.stage(a.r.addends)
		if c.err == nil {
			c.stream.Sum(mine, a.r.addends)
			c.sync()
		}
	}
	c.meet()
	for k := 1; k < n && c.err == nil; k++ {
		from := (rank + k) % n
		if theirs := a.view(viewer, from, from); c.err == nil && theirs.Bytes() > 0 {
			c.stream.Copy(a.segmentOf(from), theirs)
		}
	}
	c.sync()
	c.meet()
	return true
}

// segmentOf is rank's segment of this rank's b.
func (a *reduction) segmentOf(rank int) kernels.Buffer {
	off := min(rank*a.segment, a.b.Floats())
	return a.b.SliceFloats(off, min(a.segment, a.b.Floats()-off))
}

// view is a segment of rank from's b.
func (a *reduction) view(v transport.Viewer, from, segment int) kernels.Buffer {
	mine := a.segmentOf(segment)
	if from == a.c.Rank() || mine.Bytes() == 0 {
		return mine
	}
	at := transport.Place(binary.LittleEndian.Uint64(a.r.places[from][:]) + uint64(4*segment*a.segment))
	theirs := v.View(from, at, mine.Bytes())
	if theirs == nil {
		a.c.fail(fmt.Errorf("collectives: rank %d has no %d bytes at %#x", from, mine.Bytes(), at))
	}
	return kernels.HostBuffer(theirs)
}
