package train

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/ecrec/ecrec/internal/auc"
	"github.com/ecrec/ecrec/internal/f32"
	"github.com/ecrec/ecrec/internal/probe"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/train/feed"
)

// ErrStopped ends a job of EvalOnly that was asked to stop. It has no result.
var ErrStopped = errors.New("evaluation: stopped")

var errNaNPrediction = errors.New("evaluation: a prediction is not a number; the model has diverged: lower the learning rates")

// evaluator scores the evaluation samples with the model as it is. It changes no row.
type evaluator struct {
	part     *part
	buffers  *buffers
	probe    *probe.Probe
	features int         // dense features of a sample
	samples  int64       // of all ranks
	stop     func() bool // is asked before each batch; nil: it never stops
	broken   *Broken     // of the world
}

// evaluation is the result of a pass over all samples.
type evaluation struct {
	Eval
	rate float64 // the share of positive labels
}

// evaluateAll scores this rank's slices of all batches, and computes logloss and AUC with all
// ranks. It starts the pipeline of batches and closes it.
func (v *evaluator) evaluateAll(step int64, start func() *feed.Pipeline, x Exchange, c *control) (e evaluation, err error) {
	if err := v.probe.Reach(step, probe.Evaluate); err != nil {
		return e, err
	}
	p := start()
	scores, loss, err := v.scoreAll(p, x)
	p.Close(err) // not deferred: a panic must not wait for the pipeline
	if err != nil {
		p.FreeLists() // no delayed work is under way
		return e, err
	}
	if err := v.probe.Reach(step, probe.Scored); err != nil {
		return e, err
	}
	area, rate, err := gatherAUC(c, scores)
	if err != nil {
		return e, err
	}
	sums, err := c.gather([]uint64{math.Float64bits(loss)})
	if err != nil {
		return e, err
	}
	total := 0.0
	for _, s := range sums {
		total += math.Float64frombits(s[0])
	}
	return evaluation{Eval{Step: step, Logloss: total / float64(v.samples), AUC: area}, rate}, nil
}

// scoreAll returns the scores of this rank's samples and the sum of their losses.
func (v *evaluator) scoreAll(p *feed.Pipeline, x Exchange) (scores []auc.Packed, loss float64, err error) {
	for {
		w, err := p.Advance()
		if errors.Is(err, io.EOF) {
			return scores, loss, nil
		}
		if err != nil {
			return nil, 0, err
		}
		if scores, err = v.scoreBatch(w, x, scores, &loss); err != nil {
			return nil, 0, err
		}
	}
}

// scoreBatch appends the scores of one batch, and adds their losses.
func (v *evaluator) scoreBatch(w *feed.Work, x Exchange, scores []auc.Packed, loss *float64) ([]auc.Packed, error) {
	if v.stop != nil && v.stop() {
		return nil, ErrStopped
	}
	b, s := w.Batch, v.part.s
	in, labels, err := v.buffers.uploadBatch(s, b, v.features)
	if err != nil {
		return nil, err
	}
	if in.Rows, in.Index, err = x.Peek(&w.Plan); err != nil {
		return nil, err
	}
	logits := v.part.model.Forward(in)
	if err := v.broken.Err(); err != nil {
		return nil, err
	}
	losses, probs := v.buffers.losses.SliceFloats(0, b.N), v.buffers.dlogits.SliceFloats(0, b.N)
	hostProbs := v.buffers.hostProbs[:b.N]
	s.SigmoidBCE(losses, probs, logits.Buf, labels, 1)
	s.Sigmoid(probs, logits.Buf)
	s.Download(kernels.BytesOf(v.buffers.hostLosses[:b.N]), losses)
	s.Download(kernels.BytesOf(hostProbs), probs)
	if err := s.Sync(); err != nil {
		return nil, err
	}
	sum := v.buffers.sumLosses(b.N)
	if math.IsNaN(sum) || math.IsInf(sum, 0) { // a logit overflowed, and its probability may be 0 or 1
		return nil, errNaNPrediction
	}
	*loss += sum
	for i, p := range hostProbs {
		if p != p {
			return nil, errNaNPrediction
		}
		scores = append(scores, auc.Pack(p, b.Labels[i] > 0))
	}
	return scores, nil
}

// labelRateWarning is a warning if a model predicts worse than the share of positive
// labels alone would, at the last step or if its logloss rises; otherwise it is empty.
// Every run begins with such a model.
func labelRateWarning(evals []Eval, rate float64, last int64) string {
	if rate == 0 || rate == 1 {
		return ""
	}
	constant := -(rate*f32.Log64(rate) + (1-rate)*f32.Log64(1-rate))
	n := len(evals)
	e := evals[n-1]
	rises := n > 1 && e.Logloss > evals[n-2].Logloss
	if !(e.Logloss > constant) || !rises && e.Step != last {
		return ""
	}
	return fmt.Sprintf("evaluation after step %d: logloss %.5g is worse than %.5g, that of always predicting the label rate (%.4g); lower optimizer.dense.lr or optimizer.sparse.lr",
		e.Step, e.Logloss, constant, rate)
}
