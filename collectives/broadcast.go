package collectives

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ecrec/ecrec/internal/blockcopy"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/transport"
)

// broadcastWindow is the number of chunks of a Broadcast that a rank receives, or sends
// to each child, at a time: enough for a link to stay busy while the ends of a chunk
// exchange short frames.
const broadcastWindow = 8

// broadcastPlaceBytes is the length of the shortest Broadcast for which messages up and
// down the tree cost less than the copies that they save.
const broadcastPlaceBytes = 128 << 10

// Broadcast copies root's bytes of b to all ranks.
//
// If every rank can read root's memory in place, only short messages are sent: see
// broadcastInPlace. If not, chunks pass down a tree from root. A rank forwards one chunk
// while it receives the next ones. If there are as many chunks as ranks, the tree is a
// chain, and a link carries each byte once. With fewer chunks it is binary, because then
// the depth costs more than the second child.
//
//	steps  in a chain n - 1, in a binary tree the depth, at most log2 n; 1 for each
//	       further chunk of 128 KiB to 1 MiB; in place 3 times the depth
//	bytes  B received by all but root; B sent to each child: at most 1 or 2
func (c *Comm) Broadcast(b kernels.Buffer, root int) *Handle {
	if root < 0 || root >= c.Size() {
		panic(fmt.Sprintf("collectives: broadcast from rank %d of %d", root, c.Size()))
	}
	return c.newHandle(op{what: "Broadcast", run: (*Comm).runBroadcast, dst: b, root: root, reads: true})
}

// A rank that copies in place confirms each of a few pieces of pieceBytes, because a wait
// polls only for about as long as one takes, and then sleeps. In a longer copy one more
// sleep does not matter.
const (
	pieceBytes = 256 << 10
	mostPieces = 8
)

// piecesOf returns the number of confirmations of a copy of some bytes.
func piecesOf(size int) int {
	if n := (size + pieceBytes - 1) / pieceBytes; n <= mostPieces {
		return n
	}
	return 1
}

// mostBroadcastChunk is the length of the longest chunk of a Broadcast.
const mostBroadcastChunk = 1 << 20

// broadcastChunk returns the length of a chunk. A chain of n ranks is full after n of
// them, so that longer chunks cost time there. Shorter ones cost more messages.
func broadcastChunk(size, n int) int {
	return max(chunkBytes, min(size/(4*n)/chunkBytes*chunkBytes, mostBroadcastChunk))
}

// tree is a rank's part of a tree over all ranks. noRank: there is none.
type tree struct {
	parent   int
	children [2]int
}

const noRank = -1

// treeOf returns a rank's part of the tree from root in which each rank has at most width
// children: 1 or 2.
func treeOf(n, rank, root, width int) tree {
	t := tree{parent: noRank, children: [2]int{noRank, noRank}}
	place := (rank - root + n) % n
	if place > 0 {
		t.parent = ((place-1)/width + root) % n
	}
	for i := range width {
		if child := width*place + 1 + i; child < n {
			t.children[i] = (child + root) % n
		}
	}
	return t
}

// broadcaster holds the requests of a Broadcast, by chunk modulo their number.
type broadcaster struct {
	in    [broadcastWindow]transport.Request
	out   [broadcastWindow][2]transport.Request
	place placeMessage
	done  [2][mostPieces]byte // confirmations of the children
}

func (c *Comm) runBroadcast(o *op) {
	n, size := c.Size(), o.dst.Bytes()
	if n == 1 || size == 0 || c.broadcastInPlace(o) {
		return
	}
	length := broadcastChunk(size, n)
	chunks := (size + length - 1) / length
	width := 2
	if chunks >= n {
		width = 1
	}
	t := treeOf(n, c.Rank(), o.root, width)
	chunk := func(i int) []byte {
		off := i * length
		return host(o.dst.Slice(off, min(length, size-off)))
	}
	w := &c.broadcast
	if t.parent != noRank {
		for i := range min(broadcastWindow, chunks) {
			w.in[i] = c.recvMessage(t.parent, tagData, chunk(i))
		}
	}
	for i := 0; i < chunks && c.err == nil; i++ {
		slot := i % broadcastWindow
		if t.parent != noRank {
			c.waitRequests(w.in[slot : slot+1])
			if next := i + broadcastWindow; next < chunks && c.err == nil {
				w.in[slot] = c.recvMessage(t.parent, tagData, chunk(next))
			}
		}
		c.waitRequests(w.out[slot][:])
		for k, child := range t.children {
			if child != noRank && c.err == nil {
				w.out[slot][k] = c.sendMessage(child, tagData, chunk(i))
			}
		}
	}
	c.waitRequests(w.in[:]) // Receives remain only if the operation failed.
	for i := range w.out {
		c.waitRequests(w.out[i][:])
	}
}

// broadcastInPlace does the broadcast by reading root's memory in place. It reports
// false, on all ranks, if that is not possible.
//
// The place of b passes down a binary tree from root. Each rank copies the bytes from
// there. Then confirmations pass up the tree, so that root writes to b only after all have
// read it. At last a release passes down: root's operation may fail, and its memory be
// used again, before a rank has read all of it. Only a rank that is released has the
// bytes.
func (c *Comm) broadcastInPlace(o *op) bool {
	viewer, ok := c.ep.(transport.Viewer)
	if !ok || o.dst.Bytes() < broadcastPlaceBytes {
		return false
	}
	t, place := treeOf(c.Size(), c.Rank(), o.root, 2), &c.broadcast.place
	if t.parent != noRank {
		c.addRequest(c.recvMessage(t.parent, tagShort, place[:]))
		c.waitAll()
	} else {
		*place = placeMessage{}
		if !o.dst.OnDevice() {
			binary.LittleEndian.PutUint64(place[:], uint64(viewer.Place(host(o.dst))))
		}
	}
	if c.err != nil {
		return true
	}
	for _, child := range t.children {
		if child != noRank {
			c.addRequest(c.sendMessage(child, tagShort, place[:]))
		}
	}
	if *place == (placeMessage{}) {
		c.waitAll()
		return c.err != nil
	}
	pieces := piecesOf(o.dst.Bytes())
	for k, child := range t.children {
		for i := 0; i < pieces && child != noRank; i++ {
			c.addRequest(c.recvMessage(child, tagShort, c.broadcast.done[k][i:i+1]))
		}
	}
	if t.parent != noRank {
		c.copyView(viewer, o, t.parent, pieces)
	}
	c.waitAll()
	if t.parent != noRank && c.err == nil {
		c.addRequest(c.recvMessage(t.parent, tagShort, c.tokensIn[t.parent:t.parent+1]))
		c.addRequest(c.sendMessage(t.parent, tagShort, c.tokenOut[:]))
		c.waitAll()
	}
	for _, child := range t.children {
		if child != noRank && c.err == nil {
			c.addRequest(c.sendMessage(child, tagShort, c.tokenOut[:]))
		}
	}
	c.waitAll()
	return true
}

// copyView copies root's bytes of a broadcast from its memory, and confirms all pieces but
// the last.
func (c *Comm) copyView(viewer transport.Viewer, o *op, parent, pieces int) {
	if !viewer.Enter() {
		c.failWith(errMemoryClosed)
		return
	}
	defer viewer.Leave()
	size := o.dst.Bytes()
	at := transport.Place(binary.LittleEndian.Uint64(c.broadcast.place[:]))
	theirs := viewer.View(o.root, at, size)
	if theirs == nil {
		c.failWith(fmt.Errorf("collectives: rank %d shares no %d bytes at %#x", o.root, size, at))
		return
	}
	mine := host(o.dst)
	for i := range pieces {
		from, to := i*pieceBytes, min((i+1)*pieceBytes, size)
		if i == pieces-1 {
			to = size
		}
		// As many bytes are in use at a time as if all ranks copied this many from each other.
		blockcopy.Copy(mine[from:to], theirs[from:to], size/(2*(c.Size()-1)))
		if i < pieces-1 {
			c.addRequest(c.sendMessage(parent, tagShort, c.tokenOut[:]))
		}
	}
}

var errMemoryClosed = errors.New("collectives: the shared memory of a rank has been closed")
