package train

import (
	"math"
	"time"
)

const (
	// copyShare is the share of training that a save takes to copy rows, and hastyShare that of a save that would
	// not end in time with so little. Copies are a part of a save's work: with 0.02 it cost 8.8 % of training (4.4 to
	// 12.7 %) in record 2026-11-25-saves, and with 0.006 1.4 % (-0.6 to 3.4 %) in 2026-11-25-saves-pace.
	copyShare, hastyShare = 0.006, 0.02
	// asideShare is the share of the rows' bytes that may be aside for a save.
	asideShare = 0.25
	// firstPiece is how many bytes are copied when it is not known how long that takes.
	firstPiece = 64 << 10
)

// pace decides how many bytes of rows a save copies after each step. It is as many as take copyShare of
// the step, or up to hastyShare if the copies must end earlier. Once the rows that are put aside meanwhile take half of their bound, it is as many as end the copy
// before they reach it, spread over the steps until then. Not earlier: the first steps write the most
// rows that no step before has written.
type pace struct {
	bound  int64         // of bytes that are aside
	aside  int64         // after the step before
	credit time.Duration // of the share; negative: copying took more
	copied int64         // bytes, so far
	took   time.Duration // to copy them
}

// next returns how many bytes to copy after a step that took some time, when left are left and aside are
// aside, and the copies should end within some time. wait is set if the bound is reached: the copy must then go on even if it has to wait for the disk.
func (p *pace) next(step, within time.Duration, left, aside int64) (bytes int64, wait bool) {
	grew := aside - p.aside
	p.aside = aside
	share := copyShare
	if p.copied > 0 {
		all := float64(left) * float64(p.took) / float64(p.copied) // time to copy the rest
		share = max(copyShare, min(hastyShare, all/float64(max(within, 1))))
	}
	p.credit = min(p.credit, 0) + time.Duration(share*float64(step))
	switch {
	case p.took <= 0:
		bytes = firstPiece
	case p.credit > 0:
		bytes = int64(min(float64(p.copied)*(float64(p.credit)/float64(p.took)), math.MaxInt32))
	}
	switch {
	case aside >= p.bound:
		return left, true
	case grew > 0 && aside >= p.bound/2:
		steps := float64(p.bound-aside) / float64(grew) // until the bound is reached
		bytes = max(bytes, int64(math.Ceil(float64(left)/steps)))
	}
	return min(bytes, left), false
}

// spent records that bytes were copied after a step.
func (p *pace) spent(step time.Duration, bytes int64, took time.Duration) {
	p.copied += bytes
	p.took += took
	p.credit = max(p.credit-took, -step) // a long wait for the disk must not stop the copy for long
}
