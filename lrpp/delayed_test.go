package lrpp

import (
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/placement"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/transport"
)

// TestDelayedTookOfEachStep: rows are rebuilt while the first step computes, and nothing is done while the second does.
func TestDelayedTookOfEachStep(t *testing.T) {
	dev, err := kernels.NewCPU(kernels.CPUOptions{})
	if err != nil {
		t.Fatal(err)
	}
	e := env.Real()
	j := task{ranks: 1, trainers: 1, width: 2, place: placement.New([]int64{8}, 1), opt: kernels.Optimizer{Kind: kernels.SGD, LR: lr},
		ids: [][][]uint32{{{1, 2}}, {{3}}, {{4}}}}
	r := newTestRank(t, e, dev, transport.NewMem(e, 1, 1)[0], j, PlanOptions{})
	defer r.closeAll()
	steps, err := r.planSteps(j)
	if err != nil {
		t.Fatal(err)
	}
	rebuilding := true
	r.base.isRebuilding = func() bool { return rebuilding }
	r.base.rebuild = func([]int32) error {
		e.Sleep(time.Millisecond)
		return nil
	}
	for i := range 2 {
		if _, _, err := r.base.Begin(&steps[i], &steps[i+1]); err != nil {
			t.Fatal(err)
		}
		rebuilding = false
		ids := j.ids[i][0]
		grads := kernels.Mat(kernels.HostBuffer(make([]float32, 2*len(ids))), len(ids), 2)
		if err := r.base.End(&steps[i], kernels.WholeRow(j.opt), grads); err != nil {
			t.Fatal(err)
		}
		if took := r.base.DelayedTook(); took > 0 != (i == 0) {
			t.Errorf("the delayed work of step %d took %v", i+1, took)
		}
	}
	if err := r.base.Settle(); err != nil {
		t.Fatal(err)
	}
}
