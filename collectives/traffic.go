package collectives

// Sent counts the messages that one rank sends in an operation, and their bytes.
type Sent struct{ Messages, Bytes int64 }

// AllReduceSent is what rank sends in an AllReduce of a buffer of some floats among n ranks. With
// inPlace every rank reads the memory of all others: see AllReduce. It counts the messages of
// runAllReduce without running it.
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

// AllReduceBytes is the scratch memory of AllReduces among n ranks.
func AllReduceBytes(n int) int64 { return 4 * (reduceLag + 1) * int64(n) * int64(chunkFloats(n)) }
