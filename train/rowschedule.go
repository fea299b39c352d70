package train

import (
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/model"
)

// rowSchedule yields the rule of a row for each step. It has a schedule for each part.
type rowSchedule []partSchedule

type partSchedule struct {
	width    int
	schedule Schedule
}

// rowScheduleOf gives each part of a row the schedule of its group.
func rowScheduleOf(row []model.Part, o config.Optimizers) (s rowSchedule) {
	for _, p := range row {
		of := o.Sparse
		if p.Group == model.Linear {
			of = o.Linear
		}
		s = append(s, partSchedule{p.Width, scheduleOf(of)})
	}
	return s
}

// ruleAt is the rule of a step, counted from 1, with learning rates times factor.
func (s rowSchedule) ruleAt(step int64, factor float64) kernels.RowRule {
	var parts [kernels.MaxRowParts]kernels.RowPart
	for k, p := range s {
		parts[k] = kernels.RowPart{Width: p.width, Optimizer: p.schedule.Scaled(factor).At(step)}
	}
	rule := kernels.RowParts(parts[:len(s)]...)
	if s.movesAll() {
		return rule.ForAllRows()
	}
	return rule
}

// movesAll reports whether each step updates all rows.
func (s rowSchedule) movesAll() bool { return s[0].schedule.AllRows }

// countState is the optimizer state of a row, in floats.
func (s rowSchedule) countState() (n int) {
	for _, p := range s {
		n += p.schedule.Kind.RowState(p.width)
	}
	return n
}
