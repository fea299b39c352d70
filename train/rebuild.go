package train

import (
	"time"

	"github.com/ecrec/ecrec/internal/probe"
)

const (
	// rebuildRate is the rate of rebuilding beside training, in bytes a second: 100 MB take
	// less than 5 s, with a small margin. A higher rate would slow training down.
	rebuildRate = 20 << 20
	// leastRebuilt and mostRebuilt bound the rows and parities of one step.
	leastRebuilt, mostRebuilt = 64, 1 << 15
)

// isRebuilding reports whether any rank is degraded. It is the same on all ranks.
func (p *protection) isRebuilding() bool { return p != nil && p.rebuilding }

// rebuildRows rebuilds rows that the next step reads, and as many more as rebuildRate
// allows since the last call. All ranks call it together.
func (p *protection) rebuildRows(slots []int32) error {
	r := p.rank
	now := r.env.Now()
	limit := int(float64(now-p.lastRebuild) * rebuildRate / float64(time.Second) / float64(r.job.bytesPerRow()))
	limit = min(max(limit, leastRebuilt), mostRebuilt)
	if n := r.job.o.RebuildRows; n > 0 {
		limit = n
	}
	p.lastRebuild = now
	if err := r.probe.Reach(r.done+1, probe.Rebuild); err != nil {
		return err
	}
	return p.parity.Round(slots, limit)
}

// finishRebuild rebuilds everything that any rank has lost.
func (p *protection) finishRebuild() error {
	if !p.isRebuilding() {
		return nil
	}
	p.rebuilding = false
	r := p.rank
	if err := r.probe.Reach(r.done, probe.Finish); err != nil {
		return err
	}
	if err := p.parity.RebuildAll(); err != nil {
		return err
	}
	r.updateMeter()
	p.recordRebuilt()
	return nil
}

// fullyRedundantFor reports whether no rank was degraded during the last steps steps before step.
// The start of a job counts as the end of a rebuild.
func (p *protection) fullyRedundantFor(steps, step int64) bool {
	if p == nil {
		return step > steps
	}
	return !p.rebuilding && !p.recovery.open && step > p.redundantAt+steps
}
