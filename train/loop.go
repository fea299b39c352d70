package train

import (
	"fmt"
	"math"
	"time"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/lrpp"
)

// train runs the job's steps on this rank.
func (r *rank) train() error {
	j := r.job
	p := r.pipeline(span{j.train, j.order, r.done + 1, j.steps}, [2]uint16{chanPlan, chanFeed}, r.planOptions(j.cfg.Cache.Mode))
	err := r.trainOn(p)
	p.Close(err) // not deferred: who panics waits for nobody
	return err
}

func (r *rank) trainOn(p *pipeline) error {
	j := r.job
	for step := r.done + 1; step <= j.steps; step++ {
		d, err := r.next(p, step)
		if err != nil {
			return err
		}
		stop := d.stop && step < j.steps
		evaluate := j.evalDue(step)
		save := d.save || r.saveDue(step) || stop || step == j.steps
		if evaluate || save {
			if err := r.exchange.Settle(); err != nil {
				return err
			}
			if err := r.makeWhole(); err != nil {
				return err
			}
		}
		if evaluate {
			if err := r.evaluate(step); err != nil {
				return err
			}
		}
		if save {
			if err := r.checkpoint(step, stop || step == j.steps); err != nil {
				return err
			}
		}
		if stop {
			j.stopped.Store(true)
			return nil
		}
	}
	return nil
}

// evalDue reports whether there is an evaluation after a step that is not the
// last.
func (j *job) evalDue(step int64) bool {
	every := int64(j.cfg.Train.EvalEvery)
	return every > 0 && step%every == 0 && step < j.steps
}

// next trains the step that comes next in the pipeline.
func (r *rank) next(p *pipeline, step int64) (d decision, err error) {
	if err := r.chaosBegins(step); err != nil {
		return d, err
	}
	if err := r.sealCached(); err != nil {
		return d, err
	}
	begin := r.env.Now()
	r.watch.start(step)
	w, err := p.Advance()
	if err != nil {
		return d, err
	}
	if w.batch.Step != step {
		panic(fmt.Sprintf("train: rank %d was given step %d at step %d", r.id, w.batch.Step, step))
	}
	r.watch.lap(StageWait)
	if err := r.chaos(step, "planned"); err != nil {
		return d, err
	}
	if d, err = r.step(w, stepOf(p.next)); err != nil {
		return d, err
	}
	r.watch.spent[StageRead], r.watch.spent[StagePlan], r.watch.spent[StageDelayed] = w.read, w.plan, r.exchange.DelayedTook()
	r.done = step
	r.stepped(step)
	if err := r.chaos(step, "done"); err != nil {
		return d, err
	}
	if err := r.conclude(); err != nil {
		return d, err
	}
	if err := r.chaos(step, "decide"); err != nil {
		return d, err
	}
	r.moved.Add(r.exchange.Moved(&w.step))
	r.report(w.batch, d.loss, r.env.Now()-begin)
	r.tellIfCrowded()
	return d, nil
}

// step trains one batch, before that of next, and returns what the words of all
// ranks decide.
func (r *rank) step(w *work, next *lrpp.Step) (d decision, err error) {
	b := w.batch
	in, labels := r.upload(b)
	if in.Rows, in.Index, err = r.exchange.Begin(&w.step, next); err != nil {
		return d, err
	}
	r.watch.lap(StageFetch)

	if err := r.chaos(b.Step, "fetch"); err != nil {
		return d, err
	}
	logits := r.model.Forward(in)
	dlogits := kernels.Mat(r.dlogits, b.N, 1)
	losses := r.losses.SliceFloats(0, b.N)
	r.s.SigmoidBCE(losses, dlogits.Buf, logits.Buf, labels, 1/float32(b.GlobalN))
	r.s.Download(kernels.BytesOf(r.hostLoss[:b.N]), losses)
	if err := r.s.Sync(); err != nil {
		return d, err
	}
	if err := r.chaos(b.Step, "forward"); err != nil {
		return d, err
	}
	said := r.ctl.start(word{loss: sum(r.hostLoss[:b.N]), stop: r.job.o.Stop(), save: r.timeToSave(), prepared: r.prepared(), lost: r.lacks()})
	r.watch.lap(StageForward)

	r.reduces = r.reduces[:0]
	lookups := r.model.Backward(in, dlogits, func(bucket kernels.Buffer) {
		if r.dense != nil {
			_ = r.s.Sync() // what fails stays, and ends the step
			r.reduces = append(r.reduces, r.dense.AllReduce(bucket).Start())
		}
	})
	r.watch.lap(StageBackward)

	if err := r.chaos(b.Step, "backward"); err != nil {
		return d, err
	}
	words, err := r.ctl.finish(said)
	if err != nil {
		return d, err
	}
	if err := r.chaos(b.Step, "word"); err != nil {
		return d, err
	}
	d = decide(words, b.GlobalN)
	if math.IsNaN(d.loss) || math.IsInf(d.loss, 0) {
		return d, r.diverged(b.Step, d.loss)
	}
	return d, r.apply(w, lookups)
}

// apply takes the gradients of a step to rows and dense parameters.
func (r *rank) apply(w *work, lookups kernels.Matrix) error {
	if err := r.exchange.End(&w.step, r.job.sparse.At(w.batch.Step), lookups); err != nil {
		return err
	}
	r.watch.lap(StagePush)
	if err := r.chaos(w.batch.Step, "push"); err != nil {
		return err
	}
	if err := r.waitReduces(); err != nil {
		return err
	}
	r.watch.lap(StageReduce)
	if err := r.chaos(w.batch.Step, "reduce"); err != nil {
		return err
	}
	if r.dense == nil {
		return nil
	}
	p := r.model.Params()
	r.s.UpdateDense(r.job.denseOpt.At(w.batch.Step), p.Weights, r.state, p.Grad)
	err := r.s.Sync()
	r.watch.lap(StageUpdate)
	if err != nil {
		return err
	}
	return r.chaos(w.batch.Step, "update")
}

func (r *rank) waitReduces() error {
	for _, h := range r.reduces {
		if err := h.Wait(); err != nil {
			return err
		}
	}
	return nil
}

// sum adds per-sample losses in sample order.
func sum(losses []float32) float64 {
	total := 0.0
	for _, l := range losses {
		total += float64(l)
	}
	return total
}

// report tells the job what a step gave; rank 0 speaks for all.
func (r *rank) report(b *data.Batch, loss float64, took time.Duration) {
	if r.job.remembers(r.id) {
		r.history.TrainLoss = append(r.history.TrainLoss, loss)
	}
	if r.id != 0 {
		return
	}
	r.job.o.Observer.Step(StepInfo{
		Step: b.Step, Last: r.job.steps, Loss: loss, Samples: b.GlobalN, Took: took, Stages: r.watch.spent,
	})
}

// Diverged ends a job whose loss is no longer a number.
type Diverged struct {
	Step    int64
	Loss    float64
	Largest float64 // the largest magnitude among the dense gradients; NaN if any is
	Tensor  string  // where
}

func (e *Diverged) Error() string {
	return fmt.Sprintf("step %d: the loss is %v (largest dense gradient: %.3g in %s); lower optimizer.dense.lr or optimizer.sparse.lr, or check the input's values",
		e.Step, e.Loss, e.Largest, e.Tensor)
}

// diverged looks for the largest dense gradient. All ranks come here at the same
// step, and the reduced gradients are equal on all.
func (r *rank) diverged(step int64, loss float64) error {
	if err := r.waitReduces(); err != nil {
		return err
	}
	p := r.model.Params()
	grad := make([]float32, p.Len())
	r.s.Download(kernels.BytesOf(grad), p.Grad)
	if err := r.s.Sync(); err != nil {
		return err
	}
	e := &Diverged{Step: step, Loss: loss}
	for _, t := range p.Tensors {
		for _, g := range grad[t.Offset : t.Offset+t.Len()] {
			a := math.Abs(float64(g))
			if math.IsNaN(a) {
				e.Largest, e.Tensor = a, t.Name
				return e
			}
			if a > e.Largest || e.Tensor == "" {
				e.Largest, e.Tensor = a, t.Name
			}
		}
	}
	return e
}
