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
}

// Stats counts from the Committer's beginning.
func (c *Committer) Stats() Stats {
	s := c.stats
	if c.parity == nil {
		return s
	}
	for at := range c.parity.Rows() {
		if !c.parity.zero(at) {
			s.ParityBytes += int64(c.parity.stride)
		}
	}
	s.JournalBytes = c.o.Shard.Journal().Bytes()
	s.StagedBytes = int64(c.send.rows.Bytes())
	for _, x := range append(append([]*set{}, c.sealed...), c.idle...) {
		s.StagedBytes += int64(x.rows.Bytes())
	}
	return s
}
