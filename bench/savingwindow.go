package bench

import (
	"slices"
	"time"

	"github.com/ecrec/ecrec/lrpp"
	"github.com/ecrec/ecrec/train"
)

// savingWindow is the timed part of a job with saves. Its ranks share it. Rank 0 writes the times, on its own goroutine.
type savingWindow struct {
	every, intervals int
	pause            bool // training waits for each save
	saves            savedSteps

	plain, timed blockTime
	ms           []float64 // of the steps of timed
}

// blockTime is the time of some steps.
type blockTime struct {
	steps   int
	seconds float64
	cpu     time.Duration
}

// savedSteps notes the steps of checkpoints while it is on.
type savedSteps struct {
	silent
	on    bool
	saved []int64
}

func (s *savedSteps) Checkpointed(step int64, _ string, err error) {
	if s.on && err == nil {
		s.saved = append(s.saved, step)
	}
}

// savingRank is a rank of the job.
type savingRank struct {
	w    *savingWindow
	t    *train.Trial
	pass *train.Pass
}

// untimedSteps are trained first: they take memory.
const untimedSteps = 3

// train is the work of a rank. All ranks make the same decisions.
func (w *savingWindow) train(r *savingRank) error {
	half := max(1, w.every*w.intervals/2)
	if err := r.trainSteps(untimedSteps, nil); err != nil {
		return err
	}
	if err := r.timeBlock(&w.plain, func(lap func()) error { return r.trainSteps(half, lap) }); err != nil {
		return err
	}
	if err := r.t.SettleAndSave(); err != nil { // full: the increments follow it
		return err
	}
	if err := r.trainSteps(w.every, nil); err != nil { // rows for the first save
		return err
	}
	if err := r.timeBlock(&w.timed, r.trainIntervals); err != nil {
		return err
	}
	return r.timeBlock(&w.plain, func(lap func()) error { return r.trainSteps(half, lap) })
}

// trainSteps trains some steps.
func (r *savingRank) trainSteps(n int, lap func()) error {
	for range n {
		if err := r.pass.Train(); err != nil {
			return err
		}
		if lap != nil {
			lap()
		}
	}
	return nil
}

// trainIntervals trains the intervals, and the steps until the last save has ended. A save that is due while one is under way begins
// when that has ended, as in a job.
func (r *savingRank) trainIntervals(lap func()) error {
	r.note(true)
	due := false
	for step := 0; ; step++ {
		last := step >= r.w.every*r.w.intervals
		due = !last && (due || step%r.w.every == 0)
		_, saving := r.t.Saving()
		switch {
		case last && !saving:
			r.note(false)
			return nil
		case due && r.w.pause:
			if err := r.t.SettleAndSave(); err != nil {
				return err
			}
			due = false
		case due && !saving:
			if err := r.t.BeginSave(); err != nil {
				return err
			}
			due = false
		}
		if err := r.trainSteps(1, lap); err != nil {
			return err
		}
	}
}

// note switches the list of checkpoints, on rank 0, whose goroutine reports them.
func (r *savingRank) note(on bool) {
	if r.t.Rank() == 0 {
		r.w.saves.on = on
	}
}

// timeBlock adds the time of some steps to x. The time of a step is also noted for x = timed.
func (r *savingRank) timeBlock(x *blockTime, steps func(lap func()) error) error {
	if err := r.t.Barrier(); err != nil {
		return err
	}
	began, cpu := time.Now(), cpuTime()
	before, n := began, 0
	err := steps(func() {
		n++
		if r.t.Rank() == 0 && x == &r.w.timed {
			now := time.Now()
			r.w.ms, before = append(r.w.ms, 1e3*now.Sub(before).Seconds()), now
		}
	})
	if err == nil && r.t.Rank() == 0 {
		x.steps, x.seconds, x.cpu = x.steps+n, x.seconds+time.Since(began).Seconds(), x.cpu+cpuTime()-cpu
	}
	return err
}

// times returns the times of the job.
func (w *savingWindow) times(rowSize float64) savingTimes {
	slices.Sort(w.ms)
	n := float64(w.timed.steps)
	return savingTimes{ms: 1e3 * w.timed.seconds / n, cpu: 1e3 * w.timed.cpu.Seconds() / n,
		plain: 1e3 * w.plain.seconds / float64(w.plain.steps), longest: w.ms[len(w.ms)-1] / w.ms[len(w.ms)/2], rowSize: rowSize}
}

// startWritten starts a pass of a job whose rows are all written, as late in a long run: a full checkpoint holds the rows that were.
func startWritten(t *train.Trial, cacheMode string, steps int) (*train.Pass, error) {
	if err := t.TouchAll(); err != nil {
		return nil, err
	}
	mode := t.Mode(cacheMode)
	if mode == lrpp.Cached {
		if err := t.OpenCache(int64(steps)); err != nil {
			return nil, err
		}
	}
	t.SetMode(mode)
	return t.Start(mode, steps), nil
}
