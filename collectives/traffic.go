package collectives

// Sent counts the messages that one rank sends in an operation, and their bytes.
type Sent struct{ Messages, Bytes int64 }

// AllReduceSent counts the messages and bytes that rank sends in an AllReduce of a buffer of some floats among n ranks, as
// runAllReduce does. With inPlace every rank reads the memory of all others: see AllReduce.
func AllReduceSent(n, rank, floats int, inPlace bool) (s Sent) {
	if n == 1 {
		return s
	}
	others := int64(n - 1)
	if inPlace && 4*floats >= inPlaceBytes {
		return Sent{Messages: 3 * others, Bytes: others * int64(len(placeMessage{})+2)}
	}
	segment, chunk := segmentFloats(floats, n), chunkFloats(n)
	for owner := range n {
		mine := max(0, min(segment, floats-owner*segment)) // floats of the owner's segment
		chunks := int64((mine + chunk - 1) / chunk)
		if owner == rank { // the sums of its own segment go to all others
			s.Messages, s.Bytes = s.Messages+others*chunks, s.Bytes+others*int64(4*mine)
		} else { // and its part of each other segment to the owner
			s.Messages, s.Bytes = s.Messages+chunks, s.Bytes+int64(4*mine)
		}
	}
	return s
}

// AllGatherSent counts the messages of each rank in an AllGather of parts of some bytes among n ranks. steps
// is the number of messages that follow each other.
func AllGatherSent(n, bytes int) (s Sent, steps int) {
	if n == 1 || bytes == 0 {
		return s, 0
	}
	s = Sent{Messages: int64(n - 1), Bytes: int64(n-1) * int64(bytes)}
	if !gathersByBruck(n, bytes) {
		return s, 1
	}
	s.Messages = int64(bruckSteps(n))
	return s, bruckSteps(n)
}

// AllToAllSent counts the messages of each rank in an AllToAll of parts of some bytes among n ranks.
func AllToAllSent(n, bytes int) (s Sent) {
	if n == 1 || bytes == 0 {
		return s
	}
	if !pairsByBruck(n, bytes) {
		return Sent{Messages: int64(n - 1), Bytes: int64(n-1) * int64(bytes)}
	}
	for d := 1; d < n; d *= 2 {
		s.Messages, s.Bytes = s.Messages+1, s.Bytes+int64(bruckPlaces(n, d))*int64(bytes)
	}
	return s
}

// AllReduceWhole is the length in floats, of an AllReduce among n ranks, that needs the fewest messages for its bytes: each segment is one
// full chunk. So are its multiples. A message of a shorter chunk costs nearly as much.
func AllReduceWhole(n int) int { return n * chunkFloats(n) }

// AllReduceBytes is the scratch memory of AllReduces among n ranks.
func AllReduceBytes(n int) int64 { return 4 * (reduceLag + 1) * int64(n) * int64(chunkFloats(n)) }
