package train

import (
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/probe"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/lrpp"
	"github.com/ecrec/ecrec/train/feed"
)

// trainJob runs the job's steps on this rank. When it returns without an error, all rows that were lost are rebuilt.
func (r *rank) trainJob() error {
	j := r.job
	if _, isOver := j.judgeEvals(r.history.Eval); isOver || r.done >= j.steps {
		if err := r.protection.finishRebuild(); err != nil {
			return err
		}
		if r.done == 0 {
			return nil
		}
		return r.saveCheckpoint(r.done, true) // a loss may have ended that save
	}
	r.intake.ended = false
	p := r.startFeed(feed.Span{Source: j.train, Order: j.order, First: r.done + 1, Last: j.steps, Topic: r.intake.topicSpan(r)},
		chanPlan, chanFeed,
		r.planOptions(j.modeOf(j.cfg.Cache.Mode)))
	err := r.trainSteps(p)
	closeFeed(r, p, err) // not deferred: a panic must not wait for the pipeline
	return err
}

// trainSteps trains the steps of a pipeline, with evaluations and checkpoints between them.
func (r *rank) trainSteps(p *feed.Pipeline) error {
	j := r.job
	for step := r.done + 1; step <= j.steps; step++ {
		began := r.env.Now()
		d, err := r.trainNext(p, step)
		if errors.Is(err, io.EOF) {
			return r.intake.endWithoutStep(r, p)
		}
		if err != nil {
			return err
		}
		isLast, stopped := p.Ends()
		r.intake.ended = isLast && !stopped && step < j.steps
		if err := r.completeSave(r.checkpoints.proceed(d, r.env.Now()-began, r.conns.ctl)); err != nil {
			return err
		}
		last := step == j.steps || step == j.o.Until || r.intake.ended
		stop := (d.stop || stopped) && !last
		evaluate := j.isEvalDue(step)
		save := stop || last || r.takesSave(d, step)
		if evaluate || save {
			if err := r.conns.exchange.Settle(); err != nil {
				return err
			}
			if err := r.protection.finishRebuild(); err != nil {
				return err
			}
			kernels.Reclaim(r.dev) // memory of the last evaluation and save: no GPU exchanges anything now
		}
		if evaluate {
			if err := r.evaluate(step, false); err != nil {
				return err
			}
		}
		_, over := j.judgeEvals(r.history.Eval)
		ends := stop || last || over
		if ends {
			if stop { // there is no time for the save under way
				r.checkpoints.abandon()
			}
			if err := r.completeSave(r.checkpoints.finish(r.conns.ctl)); err != nil {
				return err
			}
		}
		if save || over {
			if err := r.saveCheckpoint(step, ends); err != nil {
				return err
			}
		}
		if over || last {
			return nil
		}
		if stop {
			j.stopped.Store(true)
			return nil
		}
	}
	return nil
}

// steadySteps is how many steps must pass after a rebuild before probe.Steady is reached. Faults
// that are meant for a steady job wait for that point.
const steadySteps = 50

// trainNext trains the next step of the pipeline.
func (r *rank) trainNext(p *feed.Pipeline, step int64) (d decision, err error) {
	if err := r.probe.Reach(step, probe.Step); err != nil {
		return d, err
	}
	if r.protection.fullyRedundantFor(steadySteps, step) {
		if err := r.probe.Reach(step, probe.Steady); err != nil {
			return d, err
		}
	}
	if err := r.protection.sealCached(); err != nil {
		return d, err
	}
	began := r.env.Now()
	r.probe.BeginStep()
	w, err := p.Advance()
	if err != nil {
		return d, err
	}
	if w.Batch.Step != step {
		panic(fmt.Sprintf("train: rank %d was given step %d at step %d", r.id, w.Batch.Step, step))
	}
	if err := r.probe.Reach(step, probe.Planned); err != nil {
		return d, err
	}
	if err := r.intake.moveInput(r, w.Batch); err != nil {
		return d, err
	}
	if r.shard.Frames() > 0 {
		r.conns.exchange.Expect(p.AfterNext())
	}
	if d, err = r.trainBatch(w, p.Next()); err != nil {
		return d, err
	}
	r.probe.Book(probe.StageRead, w.ReadTook)
	r.probe.Book(probe.StagePlan, w.PlanTook)
	r.probe.Book(probe.StageDelayed, r.conns.exchange.DelayedTook())
	r.done = step
	if err := r.probe.Reach(step, probe.Done); err != nil {
		return d, err
	}
	if err := r.protection.finishStep(step); err != nil {
		return d, err
	}
	if err := r.probe.Reach(step, probe.Decide); err != nil {
		return d, err
	}
	r.meter.moved.Add(r.conns.exchange.Moved(&w.Plan))
	r.updateMeter()
	r.reportStep(w.Batch, d.loss, r.env.Now()-began)
	r.warnOfSmallCache()
	return d, nil
}

// trainBatch trains one batch; next is the plan of the one after it. d holds whether to stop and
// whether to save, and the mean loss. It follows from the status of all ranks, and is the same on all.
func (r *rank) trainBatch(w *feed.Work, next *lrpp.Step) (d decision, err error) {
	b := w.Batch
	in, labels, err := r.buffers.uploadBatch(r.s, b, r.job.schema.Dense)
	if err != nil {
		return d, err
	}
	r.describeBatch(&in, b)
	if in.Rows, in.Index, err = r.conns.exchange.Begin(&w.Plan, next); err != nil {
		return d, err
	}
	startDeltas(r.protection)
	if err := r.probe.Reach(b.Step, probe.Fetch); err != nil {
		return d, err
	}
	logits := r.model.Forward(in)
	if err := r.conns.passError(); err != nil {
		return d, err
	}
	dlogits := kernels.Mat(r.buffers.dlogits, b.N, 1)
	losses := r.buffers.losses.SliceFloats(0, b.N)
	weights := r.buffers.uploadWeights(r.s, b)
	r.s.WeightedSigmoidBCE(losses, dlogits.Buf, logits.Buf, labels, weights, float32(r.job.cfg.Train.PositiveWeight), 1/float32(b.GlobalN))
	r.s.Download(kernels.BytesOf(r.buffers.hostLosses[:b.N]), losses)
	if err := r.s.Sync(); err != nil {
		return d, err
	}
	if err := r.probe.Reach(b.Step, probe.Forward); err != nil {
		return d, err
	}
	mine := status{loss: r.buffers.sumLosses(b.N), stop: r.job.o.Stop()}
	r.protection.addTo(&mine)
	r.checkpoints.addTo(&mine, b.Step, r.protection.isRebuilding())
	sent := r.conns.ctl.sendStatus(mine)

	grad := r.model.Params().Grad
	cells := r.model.Backward(in, dlogits, r.conns.startReduce(r.s, grad, r.job.roles.trainers))
	r.conns.finishReduce(r.s, grad)
	if err := r.conns.passError(); err != nil {
		return d, err
	}
	in.DivideGrad(r.s, cells)
	if err := r.probe.Reach(b.Step, probe.Backward); err != nil {
		return d, err
	}
	all, err := r.conns.ctl.receiveStatus(sent)
	if err != nil {
		return d, err
	}
	if err := r.probe.Reach(b.Step, probe.Status); err != nil {
		return d, err
	}
	if err := r.protection.takeStatus(all); err != nil {
		return d, err
	}
	d = decide(all, b.GlobalN)
	if math.IsNaN(d.loss) || math.IsInf(d.loss, 0) {
		return d, r.explainDivergence(b.Step, d.loss)
	}
	return d, r.applyGradients(w, cells)
}

// startDeltas begins to send the deltas of an epoch that was sealed. The rows that the step waits for have arrived: deltas would delay them.
func startDeltas(p *protection) {
	if p != nil && p.parity != nil {
		p.parity.Start()
	}
}

// applyGradients updates rows and dense parameters with the gradients of a step.
func (r *rank) applyGradients(w *feed.Work, cells kernels.Matrix) error {
	step := w.Batch.Step
	factor, _ := r.job.judgeEvals(r.history.Eval)
	if err := r.conns.exchange.End(&w.Plan, r.job.rows.ruleAt(step, factor), cells); err != nil {
		return err
	}
	if err := r.probe.Reach(step, probe.Push); err != nil {
		return err
	}
	if err := r.conns.waitReduces(); err != nil {
		return err
	}
	if err := r.probe.Reach(step, probe.Reduce); err != nil {
		return err
	}
	if r.conns.dense == nil {
		return nil // this rank does not train
	}
	p, opt := r.model.Params(), r.job.denseOpt.Scaled(factor).At(step)
	var err error
	if opt.Scale, err = r.conns.clip.denseScale(); err != nil {
		return err
	}
	r.s.UpdateDense(opt, p.Trained(), r.state, p.Grad)
	p.UpdateStatistics(r.s)
	if err := r.s.Sync(); err != nil {
		return err
	}
	return r.probe.Reach(step, probe.Update)
}

// reportStep appends a step to the history, and reports it on rank 0.
func (r *rank) reportStep(b *data.Batch, loss float64, took time.Duration) {
	if r.job.keepsLosses(r.id) {
		r.history.TrainLoss = append(r.history.TrainLoss, loss)
	}
	if r.id != 0 {
		return
	}
	r.job.o.Observer.Step(StepInfo{
		Step: b.Step, Last: r.job.steps, Loss: loss, Losses: r.history.TrainLoss, Samples: b.GlobalN, Took: took,
		Stages: r.probe.Spent(), Redundancy: r.redundancy(), Rebuild: r.protection.progress(), Durable: r.protection.durableStep(), Streamed: r.protection.streamedStep(),
	})
}

// evaluate evaluates the model after a step, if there are samples for it and it has not
// been evaluated after this step. It keeps the model if that is the best so far. last is true for
// the evaluation at the end of the job, after the last checkpoint.
func (r *rank) evaluate(step int64, last bool) error {
	j := r.job
	if j.eval == nil || r.evaluated == step && step > 0 {
		return nil
	}
	r.evaluated = step
	v := evaluator{part: &r.part, buffers: &r.buffers, probe: r.probe, features: j.schema.Dense, samples: j.eval.Len(), broken: j.world.Broken}
	if j.o.EvalOnly {
		v.stop = j.o.Stop
	}
	order := data.Order{Samples: j.eval.Len(), Batch: j.evalBatch}
	e, err := v.evaluateAll(step, func() *feed.Pipeline {
		return r.startFeed(feed.Span{Source: j.eval, Order: order, First: 1, Last: order.StepsPerEpoch()}, chanEvalPlan,
			chanEvalFeed, lrpp.PlanOptions{})
	}, r.conns.exchange, r.conns.ctl)
	if err != nil {
		return err
	}
	r.history.addEval(e.Eval)
	if err := (keeper{r}).keepBest(e.Eval, last); err != nil {
		return err
	}
	if r.id != 0 {
		return nil
	}
	j.o.Observer.Evaluated(e.Eval)
	if warning := labelRateWarning(r.history.Eval, e.rate, j.steps); warning != "" && !j.o.EvalOnly {
		j.warnOnce(warnLabelRate, warning)
	}
	return nil
}

// saveCheckpoint saves the model after a step, if checkpoint.dir is set. last is true for the
// last save of the job, whose failure ends the job with an error, and which training waits for. An earlier
// one may fail, and is written beside training.
func (r *rank) saveCheckpoint(step int64, last bool) error {
	if r.job.cfg.Checkpoint.Dir == "" || r.checkpoints.saved == step {
		return nil
	}
	k := &r.checkpoints
	k.again = step // should the world end before the save is under way
	digest, err := r.protection.commitWithDigest()
	if err != nil {
		return err
	}
	q := saveRequest{step: step, generation: r.conns.ep.Generation(), run: &r.lineage, history: &r.history, recipe: r.job.o.Recipe,
		digest: digest, last: last}
	if err := k.begin(q, r.conns.ctl); err != nil {
		return err
	}
	if !last && !r.job.pausesForSaves() {
		return nil
	}
	return r.completeSave(k.finish(r.conns.ctl))
}

// smallSave is the most bytes of rows that are saved while training waits: that takes some milliseconds, and there
// is a checkpoint at each step at which one is due.
var smallSave = int64(4 << 20)

// pausesForSaves reports whether training waits for all saves.
func (j *job) pausesForSaves() bool {
	isSmall := j.place.Rows()*int64(j.bytesPerRow()) <= smallSave && j.o.SaveRows == 0
	// A rule for all rows would put all of them aside in the first step.
	return j.o.PauseSaves || j.rows.movesAll() || isSmall
}

// completeSave takes the step of a checkpoint that is complete now; 0: none is.
func (r *rank) completeSave(step int64, err error) error {
	if err != nil || step == 0 {
		return err
	}
	r.checkpoints.saved = step
	return keeper{r}.pruneKept(r.done)
}

// takesSave reports whether a save begins after a step. If one is due while another is under way, it begins
// when that one has ended.
func (r *rank) takesSave(d decision, step int64) bool {
	k := &r.checkpoints
	due := d.save || k.isDue(step)
	if !due || k.saving == nil {
		return due
	}
	k.again = step
	if !k.saving.late {
		k.saving.late = true
		if k.late++; k.late > 1 && r.id == 0 {
			r.job.warnOnce(warnSaves, fmt.Sprintf("a checkpoint was due after step %d, and that of step %d is still being written, as was one before: each begins when the one before is written; use a larger checkpoint.every, or a faster disk",
				step, k.saving.save.Step))
		}
	}
	return false
}

// Diverged ends a job whose loss is no longer a number.
type Diverged struct {
	Step    int64
	Loss    float64
	Largest float64 // the largest magnitude among the dense gradients; NaN if any is
	Tensor  string  // the tensor of Largest
}

func (e *Diverged) Error() string {
	return fmt.Sprintf("step %d: the loss is %v (largest dense gradient: %.3g in %s); lower optimizer.dense.lr or optimizer.sparse.lr, or check the input's values",
		e.Step, e.Loss, e.Largest, e.Tensor)
}

// explainDivergence returns the error of a loss that is not a number. All ranks call it at the same
// step, with the same reduced gradients.
func (r *rank) explainDivergence(step int64, loss float64) error {
	if err := r.conns.waitReduces(); err != nil {
		return err
	}
	largest, tensor, err := r.largestGradient()
	if err != nil {
		return err
	}
	return &Diverged{Step: step, Loss: loss, Largest: largest, Tensor: tensor}
}
