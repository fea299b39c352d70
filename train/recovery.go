package train

import (
	"math"
	"slices"
	"time"

	"github.com/ecrec/ecrec/internal/probe"
	"github.com/ecrec/ecrec/kernels"
)

// openRecovery is the recovery under way, if there is one.
type openRecovery struct {
	Recovery
	open     bool
	lost     time.Duration // when the loss happened, or was noticed
	survivor bool          // this rank is not among the lost ones
}

// sinceLoss is the time since the loss, in milliseconds.
func (x *openRecovery) sinceLoss(now time.Duration) float64 {
	return float64(now-x.lost) / float64(time.Millisecond)
}

// recordLoss opens the record of a recovery.
func (p *protection) recordLoss(w *worldState) {
	j, now := p.rank.job, p.rank.env.Now()
	x := openRecovery{open: true, lost: j.loss.happened.at(now), survivor: !p.phase.new()}
	x.Step, x.CommittedStep, x.StepsRedone = min(w.hit, j.steps), w.committed, w.hit-1-w.committed
	if x.survivor {
		x.DetectMS = x.sinceLoss(j.loss.noticed.at(x.lost))
	}
	x.StartMS = x.sinceLoss(j.loss.formed)
	x.JoinMS, x.AgreeMS, x.RollbackMS, x.DenseMS = x.sinceLoss(w.joined), x.sinceLoss(w.agreed), x.sinceLoss(w.rolled), x.sinceLoss(now)
	for id, fresh := range w.fresh {
		if fresh {
			x.Ranks = append(x.Ranks, id)
		}
	}
	p.recovery = x
}

// recordReady records that all ranks are ready to train.
func (p *protection) recordReady() {
	if p != nil && p.recovery.open {
		p.recovery.ReadyMS = p.recovery.sinceLoss(p.rank.env.Now())
	}
}

// recordStep records the end of a step in the recovery under way.
func (p *protection) recordStep(step int64) {
	x := &p.recovery
	if !x.open {
		return
	}
	p.rank.job.loss.noticed.clear()
	p.rank.job.loss.happened.clear()
	now := x.sinceLoss(p.rank.env.Now())
	if x.ResumeMS == 0 {
		x.ResumeMS = now
		kernels.MapPresent() // not before: its page faults would delay the step
	}
	if x.RegainMS == 0 && step >= x.Step {
		x.RegainMS = now
	}
}

// recordRebuilt records that all lost rows and parities are rebuilt.
func (p *protection) recordRebuilt() {
	if x := &p.recovery; x.open {
		x.WholeMS = x.sinceLoss(p.rank.env.Now())
	}
}

// closeRecovery ends the record of a recovery: everything is rebuilt, and the step that the
// loss hit is trained. All ranks call it after the same step, and record the times
// of the first survivor.
func (p *protection) closeRecovery() error {
	x, r := &p.recovery, p.rank
	if !x.open {
		return nil
	}
	if err := r.probe.Reach(r.done, probe.Rebuilt); err != nil {
		return err
	}
	kernels.Trim()
	if x.ResumeMS == 0 { // there was no step left to train
		x.ResumeMS, x.RegainMS = x.WholeMS, x.WholeMS
	}
	rows, onDemand, bytes := p.parity.Rebuilt()
	survivor := uint64(0)
	if x.survivor {
		survivor = 1
	}
	times := x.times()
	mine := []uint64{survivor, uint64(rows), uint64(onDemand), uint64(bytes)}
	for _, t := range times {
		mine = append(mine, math.Float64bits(*t))
	}
	all, err := r.conns.ctl.gather(mine)
	if err != nil {
		return err // the next recovery lists this one
	}
	x.open, p.redundantAt = false, r.done
	known := false
	for id, w := range all {
		if slices.Contains(x.Ranks, id) {
			x.RowsDecoded += int64(w[1])
			x.RowsOnDemand += int64(w[2])
			x.BytesRead += int64(w[3])
		}
		if w[0] != 0 && !known {
			known = true
			for i, t := range times {
				*t = math.Float64frombits(w[4+i])
			}
		}
	}
	x.RebuildSteps = p.rebuild.steps
	if seconds := (x.WholeMS - x.SurveyMS) / 1e3; seconds > 0 && len(x.Ranks) > 0 {
		x.RebuildRate = float64(x.RowsDecoded) * float64(r.job.bytesPerRow()) / seconds / float64(len(x.Ranks))
	}
	r.history.Recoveries = append(r.history.Recoveries, x.Recovery)
	if r.id == 0 {
		r.job.o.Observer.Recovered(x.Recovery)
	}
	return nil
}

// noteLoss notes when the world has formed that this process is in, and when the loss happened that
// led to it.
func (j *job) noteLoss() {
	now := j.env.Now()
	j.loss.formed = now
	lost := j.loss.noticed.at(now)
	if ago := j.world.LostAgo; ago > 0 {
		lost = min(lost, now-ago)
	}
	if j.loss.noticed.isSet() || j.world.LostAgo > 0 { // maybe at this very moment
		j.loss.happened.set(lost)
	}
}
