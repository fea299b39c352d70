package train

import (
	"math"
	"time"

	"github.com/ecrec/ecrec/internal/probe"
)

// rebuilding is one rank's part in a rebuild beside training.
type rebuilding struct {
	pace   rebuildPace
	amount rebuildAmount // of the next round
	began  time.Duration // of the step under way
	took   time.Duration // by the rounds of the step under way
	report rebuildReport // of the step before
	Rebuild
	at    time.Duration // of Rebuild
	steps int64         // trained so far
}

// isRebuilding reports whether any rank is degraded. It is the same on all ranks.
func (p *protection) isRebuilding() bool { return p != nil && p.rebuilding }

// beginRebuild begins a rebuild beside training.
func (p *protection) beginRebuild() {
	rowBytes := p.rank.job.bytesPerRow()
	p.rebuild = rebuilding{pace: newRebuildPace(p.rank.job.cfg.EC.RebuildRate, rowBytes)}
	p.rebuild.amount = p.rebuild.pace.now
}

// paceRebuild ends a step of a rebuild: it decides the amount of the next step by the reports of all ranks. All ranks decide the same.
// No other goroutine rebuilds meanwhile.
func (p *protection) paceRebuild() {
	x, now := &p.rebuild, p.rank.env.Now()
	var step, rounds time.Duration
	left, most, unknown := int64(0), int64(0), false
	all := p.rank.conns.ctl.last
	for i := range all {
		report := all[i].rebuild
		if report == nil {
			return
		}
		unknown = unknown || report.step == 0
		step, rounds, left, most = step+report.step, max(rounds, report.rounds), left+report.left, max(most, report.left)
	}
	if step /= time.Duration(len(all)); unknown {
		step = 0
	}
	x.amount = x.pace.decideAmount(step, rounds)
	x.amount.bytes = min(x.amount.bytes, most) // else the last step would have rounds of nothing
	x.measureRate(left, now)
	x.steps++
	x.report = rebuildReport{rounds: x.took}
	if x.began > 0 {
		x.report.step = now - x.began
	}
	x.began, x.took = now, 0
}

// rateTime is how long a change of the rate of a rebuild takes to show.
const rateTime = 2 * time.Second

// measureRate takes the bytes that all ranks have left to rebuild.
func (x *rebuilding) measureRate(left int64, now time.Duration) {
	if took := now - x.at; x.at > 0 && took > 0 {
		rate, weight := float64(x.LeftBytes-left)/took.Seconds(), float64(took)/float64(took+rateTime)
		if x.BytesPerSecond == 0 {
			weight = 1
		}
		x.BytesPerSecond += weight * (rate - x.BytesPerSecond)
	}
	x.LeftBytes, x.at = left, now
}

// progress is that of the rebuild under way, of all ranks.
func (p *protection) progress() (x Rebuild) {
	if !p.isRebuilding() {
		return x
	}
	return p.rebuild.Rebuild
}

// rebuildRows rebuilds rows that the next step reads, and as many more as the pace has decided. All ranks call it together.
func (p *protection) rebuildRows(slots []int32) error {
	r, amount, began := p.rank, p.rebuild.amount, p.rank.env.Now()
	if err := r.probe.Reach(r.done+1, probe.Rebuild); err != nil {
		return err
	}
	var err error
	switch n := r.job.o.RebuildRows; {
	case n > 0:
		err = p.parity.Round(slots, n)
	case amount.bytes == math.MaxInt64:
		if err = p.parity.Round(slots, 0); err == nil {
			err = p.parity.RebuildAll()
		}
	default:
		err = p.parity.Rounds(slots, amount.bytes/int64(r.job.bytesPerRow()))
	}
	p.rebuild.took += r.env.Now() - began
	return err
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
