package train

import (
	"math"
	"sync/atomic"
	"time"
)

// Recovery is how a run went on after it had lost ranks. Times are counted from when
// the loss was noticed here; what did not come before the next loss is 0.
type Recovery struct {
	Ranks         []int   `json:"ranks"`
	Step          int64   `json:"step"` // that it hit
	CommittedStep int64   `json:"committed_step"`
	StepsRedone   int64   `json:"steps_redone"`
	DetectMS      float64 `json:"detect_ms"`
	ResumeMS      float64 `json:"resume_ms"` // to the end of the first step after the rollback
	RegainMS      float64 `json:"regain_ms"` // to the end of the step that it hit
	WholeMS       float64 `json:"whole_ms"`  // to the last row rebuilt
	RowsDecoded   int64   `json:"rows_decoded"`
	BytesRead     int64   `json:"bytes_read"`
}

// healing is the recovery under way.
type healing struct {
	Recovery
	open     bool
	lost     time.Duration // when the loss was noticed
	survivor bool          // this rank noticed it
}

// heal begins the record of a recovery. A rank that is new knows least of it.
func (r *rank) heal(s *standing, step int64) {
	h := healing{open: true, lost: r.job.lostAt.at(r.env.Now()), survivor: r.phase != phaseFresh}
	h.Step, h.CommittedStep, h.StepsRedone = step, s.committed, max(step-1-s.committed, 0)
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
	r.job.lostAt.clear()
	now := sinceMS(h.lost, r.env.Now())
	if h.ResumeMS == 0 {
		h.ResumeMS = now
	}
	if h.RegainMS == 0 && step >= h.Step {
		h.RegainMS = now
	}
}

func sinceMS(t, now time.Duration) float64 { return float64(now-t) / float64(time.Millisecond) }

// healed ends the record of a recovery: nothing is lost any more. All ranks come here
// after the same step, and keep the record of the first that saw it all.
func (r *rank) healed() error {
	h := &r.healing
	if !h.open {
		return nil
	}
	if err := r.chaos(r.done, "whole"); err != nil {
		return err
	}
	h.open = false
	h.WholeMS = sinceMS(h.lost, r.env.Now())
	rows, bytes := r.commits.Rebuilt()
	survivor := uint64(0)
	if h.survivor {
		survivor = 1
	}
	all, err := r.ctl.gather([]uint64{survivor, uint64(h.Step), math.Float64bits(h.DetectMS), math.Float64bits(h.ResumeMS),
		math.Float64bits(h.RegainMS), math.Float64bits(h.WholeMS), uint64(rows), uint64(bytes), uint64(h.StepsRedone)})
	if err != nil {
		return err
	}
	known := false
	for _, w := range all {
		h.RowsDecoded += int64(w[6])
		h.BytesRead += int64(w[7])
		if w[0] != 0 && !known {
			known = true
			h.Step, h.StepsRedone = int64(w[1]), int64(w[8])
			h.DetectMS, h.ResumeMS = math.Float64frombits(w[2]), math.Float64frombits(w[3])
			h.RegainMS, h.WholeMS = math.Float64frombits(w[4]), math.Float64frombits(w[5])
		}
	}
	r.history.Recoveries = append(r.history.Recoveries, h.Recovery)
	if r.id == 0 {
		r.job.o.Observer.Recovered(h.Recovery)
	}
	return nil
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
