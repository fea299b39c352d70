package bench

import (
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/model"
	"github.com/ecrec/ecrec/train"
)

// exchangeStandIn is a standIn that has a dense gradient of any number of floats: all but those of the small model inside are zeros in
// one buffer, which is all-reduced as often as it takes. Messages and bytes are those of a gradient of that length. Their update is
// not done.
type exchangeStandIn struct {
	*standIn
	trial  *train.Trial
	during int            // floats of the dense gradient that are ready during the backward pass
	after  int            // those that are ready after it
	zeros  kernels.Buffer // one part of them
}

// denseParts is the most parts of a dense gradient.
const denseParts = 32

func newExchangeStandIn(e env.Env, t *train.Trial, c *exchangeSettings) model.Model {
	inner := t.Model()
	rest := max(0, c.model.dense-inner.Params().Len())
	s := &exchangeStandIn{standIn: newStandIn(e, inner, len(c.tables)*c.model.width, c.compute), trial: t,
		during: rest, after: c.denseFloats() - c.model.dense}
	s.zeros = kernels.HostBuffer(make([]float32, s.partFloats()))
	return s
}

// partFloats is the number of floats of a part.
func (m *exchangeStandIn) partFloats() int {
	return max(1, min(max(bucketFloats, (max(m.during, m.after)+denseParts-1)/denseParts), max(m.during, m.after)))
}

// Backward waits, and reduces the dense gradient.
func (m *exchangeStandIn) Backward(in model.Batch, _ kernels.Matrix, ready func(kernels.Buffer)) kernels.Matrix {
	b, part := in.Dense.Rows, m.zeros.Floats()
	parts := max(1, (m.during+part-1)/part)
	for i := range parts {
		if b > 0 {
			m.env.Sleep(m.takes * 2 / 3 / time.Duration(parts))
		}
		if n := min(part, m.during-i*part); n > 0 {
			m.trial.Reduce(m.zeros.SliceFloats(0, n))
		}
	}
	for at := 0; at < m.after; at += part {
		m.trial.Reduce(m.zeros.SliceFloats(0, min(part, m.after-at)))
	}
	ready(m.Params().Grad)
	return kernels.Mat(kernels.HostBuffer(m.lookups), b, m.floats)
}
