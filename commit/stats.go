package commit

import "time"

// Stats is what protection has cost a rank.
type Stats struct {
	Epochs       int64
	SentBytes    int64         // deltas, to the holders of parities
	ParityBytes  int64         // memory of parity rows that were ever written
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
	s.Moved = time.Duration(c.moved.Load())
	if c.parity == nil {
		return s
	}
	for at := range c.parity.Rows() {
		if !c.parity.zero(at) {
			s.ParityBytes += int64(c.parity.stride)
		}
	}
	s.PreImages = c.o.Shard.Journal().Took()
	s.JournalBytes = c.o.Shard.Journal().Bytes()
	s.StagedBytes = int64(c.send.rows.Bytes())
	for _, x := range append(append([]*set{}, c.sealed...), c.idle...) {
		s.StagedBytes += int64(x.rows.Bytes())
	}
	return s
}

// TouchAll has every parity row take its memory and count as written, as a long run
// has done in the end: before the first epoch, when all are zeros.
func (c *Committer) TouchAll() {
	if c.parity == nil {
		return
	}
	clear(c.parity.rows)
	for at := range c.parity.Rows() {
		c.parity.mark(at, 0)
	}
}
