package train

import (
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ecrec/ecrec/kernels"
)

// Recovery is how a run went on after it had lost ranks. Times are counted from the
// loss, or from when it was noticed here if nobody knows when it happened; what did not come before the next loss is 0.
type Recovery struct {
	Ranks         []int   `json:"ranks"`
	Step          int64   `json:"step"` // that it hit
	CommittedStep int64   `json:"committed_step"`
	StepsRedone   int64   `json:"steps_redone"`
	DetectMS      float64 `json:"detect_ms"`   // to when a survivor noticed
	JoinMS        float64 `json:"join_ms"`     // to the world after it
	AgreeMS       float64 `json:"agree_ms"`    // to what all go back to
	RollbackMS    float64 `json:"rollback_ms"` // to the rows of the commit
	DenseMS       float64 `json:"dense_ms"`    // to its dense part
	SurveyMS      float64 `json:"survey_ms"`   // to what is to be rebuilt
	ResumeMS      float64 `json:"resume_ms"`   // to the end of the first step after the rollback
	RegainMS      float64 `json:"regain_ms"`   // to the end of the step that it hit
	WholeMS       float64 `json:"whole_ms"`    // to the last row rebuilt
	RowsDecoded   int64   `json:"rows_decoded"`
	RowsOnDemand  int64   `json:"rows_on_demand"` // of those, because a step was about to read them
	BytesRead     int64   `json:"bytes_read"`
}

// healing is the recovery under way.
type healing struct {
	Recovery
	open     bool
	lost     time.Duration // when it happened, or was noticed where that is not known
	survivor bool          // this rank noticed it
}

// heal begins the record of a recovery.
func (r *rank) heal(s *standing) {
	h := healing{open: true, lost: r.job.lost.at(r.env.Now()), survivor: !r.phase.new()}
	h.Step, h.CommittedStep, h.StepsRedone = min(s.hit, r.job.steps), s.committed, s.hit-1-s.committed
	if h.survivor {
		h.DetectMS = sinceMS(h.lost, r.job.noticed.at(h.lost))
	}
	h.JoinMS, h.AgreeMS, h.RollbackMS = sinceMS(h.lost, s.joined), sinceMS(h.lost, s.agreed), sinceMS(h.lost, s.rolled)
	h.DenseMS = sinceMS(h.lost, r.env.Now())
	for id, fresh := range s.fresh {
		if fresh {
			h.Ranks = append(h.Ranks, id)
		}
	}
	r.healing = h
}

// stepped notes the end of a step in the recovery under way.
func (r *rank) stepped(step int64) {
	h := &r.healing
	if !h.open {
		return
	}
	r.job.noticed.clear()
	r.job.lost.clear()
	now := sinceMS(h.lost, r.env.Now())
	if h.ResumeMS == 0 {
		h.ResumeMS = now
	}
	if h.RegainMS == 0 && step >= h.Step {
		h.RegainMS = now
	}
}

func sinceMS(t, now time.Duration) float64 { return float64(now-t) / float64(time.Millisecond) }

// whole notes that all is back that was lost.
func (r *rank) whole() {
	if h := &r.healing; h.open {
		h.WholeMS = sinceMS(h.lost, r.env.Now())
	}
}

// healed ends the record of a recovery: nothing is lost any more, and the step that the
// loss hit is trained. All ranks come here after the same step, and keep the times of
// the first that saw it all.
func (r *rank) healed() error {
	h := &r.healing
	if !h.open {
		return nil
	}
	if err := r.chaos(r.done, "whole"); err != nil {
		return err
	}
	h.open, r.wholeAt = false, r.done
	kernels.Trim()
	if h.ResumeMS == 0 { // there was no step left to train
		h.ResumeMS, h.RegainMS = h.WholeMS, h.WholeMS
	}
	rows, onDemand, bytes := r.commits.Rebuilt()
	survivor := uint64(0)
	if h.survivor {
		survivor = 1
	}
	times := h.times()
	mine := []uint64{survivor, uint64(rows), uint64(onDemand), uint64(bytes)}
	for _, t := range times {
		mine = append(mine, math.Float64bits(*t))
	}
	all, err := r.ctl.gather(mine)
	if err != nil {
		return err
	}
	known := false
	for id, w := range all {
		if slices.Contains(h.Ranks, id) {
			h.RowsDecoded += int64(w[1])
			h.RowsOnDemand += int64(w[2])
			h.BytesRead += int64(w[3])
		}
		if w[0] != 0 && !known {
			known = true
			for i, t := range times {
				*t = math.Float64frombits(w[4+i])
			}
		}
	}
	r.history.Recoveries = append(r.history.Recoveries, h.Recovery)
	if r.id == 0 {
		r.job.o.Observer.Recovered(h.Recovery)
	}
	return nil
}

// times are all that a survivor notes.
func (x *Recovery) times() []*float64 {
	return []*float64{&x.DetectMS, &x.JoinMS, &x.AgreeMS, &x.RollbackMS, &x.DenseMS, &x.SurveyMS, &x.ResumeMS, &x.RegainMS, &x.WholeMS}
}

// newWorld notes when the loss happened for which this process is in a new world.
func (j *job) newWorld() {
	now := j.env.Now()
	lost := j.noticed.at(now)
	if ago := j.world.LostAgo; ago > 0 {
		lost = min(lost, now-ago)
	}
	if lost != now {
		j.lost.set(lost)
	}
}

// moment is the first time that something happened since it was last asked for.
type moment struct{ ns atomic.Int64 }

func (m *moment) set(now time.Duration) { m.ns.CompareAndSwap(0, int64(now)) }

// at is when it happened, now if it did not.
func (m *moment) at(now time.Duration) time.Duration {
	if ns := m.ns.Load(); ns != 0 {
		return time.Duration(ns)
	}
	return now
}

// clear is for when a new world has been joined.
func (m *moment) clear() { m.ns.Store(0) }
