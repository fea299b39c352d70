package collectives

import "math/bits"

// Bruck, Ho, Kipnis, Upfal and Weathersby (1997): if parts are tiny, the number of messages
// matters, not their bytes. In step k a rank exchanges messages with the ranks at a
// distance of 2^k. They carry parts of other ranks too, so that ceil(log2 n) messages
// replace n - 1.
//
// More messages follow each other, and all-to-all sends most parts more than once. All
// ranks therefore decide by the number of ranks and the length of a part, equal on all ranks.

const (
	// bruckRanks is the number of ranks from which tiny parts are forwarded. With fewer, the
	// messages that are saved cost less than the steps that wait for each other.
	bruckRanks = 8
	// bruckGatherBytes is the length of the longest part of such an all-gather, and
	// bruckPairBytes that of such an all-to-all.
	bruckGatherBytes = 512
	bruckPairBytes   = 16
)

// gathersByBruck reports whether an all-gather of parts of some bytes among n ranks
// forwards them, and pairsByBruck the same of an all-to-all.
func gathersByBruck(n, bytes int) bool {
	return n >= leastBruckRanks && 0 < bytes && bytes <= bruckGatherBytes
}

func pairsByBruck(n, bytes int) bool {
	return n >= leastBruckRanks && 0 < bytes && bytes <= bruckPairBytes
}

// leastBruckRanks is bruckRanks; tests change it.
var leastBruckRanks = bruckRanks

// bruckSteps is ceil(log2 n).
func bruckSteps(n int) int { return bits.Len(uint(n - 1)) }

// bruck holds the memory of these operations between them.
type bruck struct{ parts, out, in []byte }

// grow returns n bytes of *memory.
func grow(memory *[]byte, n int) []byte {
	if cap(*memory) < n {
		*memory = make([]byte, n, n+n/4)
	}
	return (*memory)[:n]
}

// bruckGather gathers parts of equal length. In parts, the part of rank + i has place i.
// This rank has the first d parts before the step of distance d, and sends them to the
// rank that has them at places d and above.
func (c *Comm) bruckGather(dst, src []byte) {
	n, rank, size := c.Size(), c.Rank(), len(src)
	parts := grow(&c.bruck.parts, len(dst))
	copy(parts, src)
	for d := 1; d < n && c.err == nil; d *= 2 {
		length := min(d, n-d) * size
		c.addRequest(c.recvMessage((rank+d)%n, tagShort, parts[d*size:][:length]))
		c.addRequest(c.sendMessage((rank-d+n)%n, tagShort, parts[:length]))
		c.waitAll()
	}
	if c.err == nil {
		first := (n - rank) * size // rank 0's part
		copy(dst, parts[first%len(parts):])
		copy(dst[rank*size:], parts[:first])
	}
}

// bruckPairs exchanges parts of size bytes between all pairs. In parts, the part for
// rank + i has place i. It moves by the distances that are the bits of i, and has then
// arrived.
func (c *Comm) bruckPairs(dst, src []byte, size int) {
	n, rank := c.Size(), c.Rank()
	parts := grow(&c.bruck.parts, len(src))
	own := rank * size
	copy(parts[copy(parts, src[own:]):], src[:own])
	half := (n + 1) / 2 * size // at most as many places have a bit
	out, in := grow(&c.bruck.out, half), grow(&c.bruck.in, half)
	for d := 1; d < n && c.err == nil; d *= 2 {
		length := 0
		for i := d; i < n; i = (i + 1) | d {
			length += copy(out[length:], parts[i*size:][:size])
		}
		c.addRequest(c.recvMessage((rank-d+n)%n, tagShort, in[:length]))
		c.addRequest(c.sendMessage((rank+d)%n, tagShort, out[:length]))
		c.waitAll()
		length = 0
		for i := d; i < n; i = (i + 1) | d {
			length += copy(parts[i*size:][:size], in[length:])
		}
	}
	for i := 0; i < n && c.err == nil; i++ {
		copy(dst[(rank-i+n)%n*size:][:size], parts[i*size:])
	}
}

// bruckPlaces is the number of places below n that have the bit d.
func bruckPlaces(n, d int) (places int) {
	for i := d; i < n; i = (i + 1) | d {
		places++
	}
	return places
}
