package commit

import "time"

// Stats is what protection has cost a rank.
type Stats struct {
	Epochs       int64
	SentBytes    int64         // deltas, to the holders of parities
	JournalBytes int64         // memory of pre-images
	StagedBytes  int64         // memory of deltas, sent and staged
	Waited       time.Duration // for epochs before, at the seal of one more
	PreImages    time.Duration // saving them
	Sealed       time.Duration // making deltas, without Waited
	Folded       time.Duration // adding deltas to parities
	Moved        time.Duration // sending and staging deltas, in the background
}

// Stats counts from the Committer's beginning.
func (c *Committer) Stats() Stats {
	s := c.stats
	s.Moved = time.Duration(c.parity.moved.Load())
	if !c.owns() {
		return s
	}
	s.PreImages = c.o.Shard.Journal().Took()
	s.JournalBytes = c.o.Shard.Journal().Bytes()
	s.StagedBytes = c.parity.stagedBytes()
	return s
}

// ParityBytes is the memory of parity rows that were ever written. It looks at all of
// them.
func (c *Committer) ParityBytes() (n int64) {
	if !c.owns() {
		return 0
	}
	for at := range c.parity.Rows() {
		if !c.parity.zero(at) {
			n += int64(c.o.Shard.RowBytes())
		}
	}
	return n
}

// TouchAll has every parity row take its memory and count as written, as a long run
// has done in the end: before the first epoch, when all are zeros.
func (c *Committer) TouchAll() {
	if !c.owns() {
		return
	}
	for at := range c.parity.Rows() {
		c.parity.mark(at, 0)
	}
}
