package train

import (
	"time"

	"github.com/ecrec/ecrec/commit"
)

// Cost is what protection costs a rank. Times are those of the training goroutine, except
// Moved.
type Cost struct {
	PreImages time.Duration // saving rows before their first write in an epoch
	Snapshots time.Duration // copying the dense part
	Waited    time.Duration // for the epoch before
	Sealed    time.Duration // making deltas
	Folded    time.Duration // adding deltas to parities
	Moved     time.Duration // sending and staging deltas, in the background
	SentBytes int64         // deltas
}

// cost is what protection has cost this rank so far.
func (p *protection) cost() Cost {
	if p == nil {
		return Cost{}
	}
	s, parity := p.commits.Stats(), p.parityStats()
	return Cost{s.PreImages, p.snapshots.took, s.Waited, s.Sealed, parity.Folded, parity.Moved, parity.SentBytes}
}

// parityStats are the costs of the parity for this rank so far.
func (p *protection) parityStats() commit.ParityStats {
	if p.parity == nil {
		return commit.ParityStats{}
	}
	return p.parity.Stats()
}

// Since is the mean cost of n steps, given the cost before them.
func (c Cost) Since(before Cost, n int) Cost {
	mean := func(after, before time.Duration) time.Duration { return (after - before) / time.Duration(n) }
	return Cost{mean(c.PreImages, before.PreImages), mean(c.Snapshots, before.Snapshots), mean(c.Waited, before.Waited),
		mean(c.Sealed, before.Sealed), mean(c.Folded, before.Folded), mean(c.Moved, before.Moved), (c.SentBytes - before.SentBytes) / int64(n)}
}

// reportCosts adds up the costs of all ranks for the job's result.
func (p *protection) reportCosts() error {
	sum, err := p.sumCosts()
	if err == nil && p.rank.id == 0 {
		p.rank.job.result.Protection = sum
	}
	return err
}

// sumCosts adds up what protection has cost all ranks.
func (p *protection) sumCosts() (sum Protection, err error) {
	s, parity, parityBytes := p.commits.Stats(), p.parityStats(), int64(0)
	if p.parity != nil {
		parityBytes = p.parity.ParityBytes()
	}
	all, err := p.rank.conns.ctl.gather([]uint64{uint64(parity.SentBytes), uint64(parityBytes), uint64(s.JournalBytes),
		uint64(parity.StagedBytes),
		uint64(p.snapshots.bytes()), uint64(s.Waited), uint64(s.Sealed), uint64(p.snapshots.took)})
	if err != nil {
		return sum, err
	}
	for _, w := range all {
		sum.SentBytes += int64(w[0])
		sum.ParityBytes += int64(w[1])
		sum.JournalBytes += int64(w[2])
		sum.StagedBytes += int64(w[3])
		sum.SnapshotBytes += int64(w[4])
		sum.Waited = max(sum.Waited, time.Duration(w[5]))
		sum.Sealed += time.Duration(w[6])
		sum.Snapshots += time.Duration(w[7])
	}
	return sum, nil
}
