package train

import (
	"errors"
	"io"
	"math"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/auc"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/lrpp"
)

// evaluate scores every evaluation sample with the model as it is and reports
// logloss and exact AUC over all ranks, once per step. It touches no row.
func (r *rank) evaluate(step int64) error {
	if r.job.eval == nil || r.evaluated == step && step > 0 {
		return nil
	}
	r.evaluated = step
	if err := r.chaos(step, "evaluate"); err != nil {
		return err
	}
	scores, loss, err := r.scoreAll()
	if err != nil {
		return err
	}
	if err := r.chaos(step, "scored"); err != nil {
		return err
	}
	area, err := r.area(scores)
	if err != nil {
		return err
	}
	sums, err := r.ctl.gather([]uint64{math.Float64bits(loss)})
	if err != nil {
		return err
	}
	total := 0.0
	for _, s := range sums {
		total += math.Float64frombits(s[0])
	}
	e := Eval{Step: step, Logloss: total / float64(r.job.eval.Len()), AUC: area}
	r.history.Eval = append(r.history.Eval, e)
	if r.id == 0 {
		r.job.o.Observer.Evaluated(e)
	}
	return nil
}

// scoreAll scores this rank's slices of all evaluation batches.
func (r *rank) scoreAll() (scores []auc.Packed, loss float64, err error) {
	order := data.Order{Samples: r.job.eval.Len(), Batch: r.job.evalBatch}
	p := r.pipeline(span{r.job.eval, order, 1, order.StepsPerEpoch()}, [2]uint16{chanEvalPlan, chanEvalFeed}, lrpp.PlanOptions{})
	scores, loss, err = r.scoreOn(p)
	p.Close(err) // not deferred: who panics waits for nobody
	return scores, loss, err
}

func (r *rank) scoreOn(p *pipeline) (scores []auc.Packed, loss float64, err error) {
	for {
		w, err := p.Advance()
		if errors.Is(err, io.EOF) {
			return scores, loss, nil
		}
		if err != nil {
			return nil, 0, err
		}
		if scores, err = r.score(w, scores, &loss); err != nil {
			return nil, 0, err
		}
	}
}

// ErrStopped ends a job of EvalOnly that was asked to stop: it has no result.
var ErrStopped = errors.New("evaluation: stopped")

// score adds the predictions of one batch and the sum of its losses.
func (r *rank) score(w *work, scores []auc.Packed, loss *float64) ([]auc.Packed, error) {
	if r.job.o.EvalOnly && r.job.o.Stop() {
		return nil, ErrStopped
	}
	b := w.batch
	in, labels := r.upload(b)
	var err error
	if in.Rows, in.Index, err = r.exchange.Peek(&w.step); err != nil {
		return nil, err
	}
	logits := r.model.Forward(in)
	losses, probs := r.losses.SliceFloats(0, b.N), r.dlogits.SliceFloats(0, b.N)
	r.s.SigmoidBCE(losses, probs, logits.Buf, labels, 1)
	r.s.Sigmoid(probs, logits.Buf)
	r.s.Download(kernels.BytesOf(r.hostLoss[:b.N]), losses)
	r.s.Download(kernels.BytesOf(r.hostProbs[:b.N]), probs)
	if err := r.s.Sync(); err != nil {
		return nil, err
	}
	*loss += sum(r.hostLoss[:b.N])
	for i, p := range r.hostProbs[:b.N] {
		if p != p {
			return nil, errNaNPrediction
		}
		scores = append(scores, auc.Pack(p, b.Labels[i] > 0))
	}
	return scores, nil
}

var errNaNPrediction = errors.New("evaluation: a prediction is not a number; the model has diverged: lower the learning rates")

// area is the exact AUC of all ranks' predictions; NaN when it is undefined.
func (r *rank) area(scores []auc.Packed) (float64, error) {
	h := make([]uint64, auc.Buckets)
	auc.Histogram(h, scores)
	all, err := r.ctl.gather(h)
	if err != nil {
		return 0, err
	}
	clear(h)
	for _, part := range all {
		for i, n := range part {
			h[i] += n
		}
	}
	mine, err := r.scatter(scores, auc.Splitters(h, r.job.ranks))
	if err != nil {
		return 0, err
	}
	part := auc.Sum(mine)
	lists, err := r.ctl.gather([]uint64{part.Wins, part.Positives, part.Negatives})
	if err != nil {
		return 0, err
	}
	ranges := make([]auc.Partial, len(lists))
	for i, l := range lists {
		ranges[i] = auc.Partial{Wins: l[0], Positives: l[1], Negatives: l[2]}
	}
	if area, ok := auc.Combine(ranges); ok {
		return area, nil
	}
	return math.NaN(), nil
}

// scatter sends each prediction to the rank of its range and returns this rank's.
func (r *rank) scatter(scores []auc.Packed, cut []int) ([]auc.Packed, error) {
	n := r.job.ranks
	parts := make([][]auc.Packed, n)
	for _, w := range scores {
		to := auc.Range(cut, w)
		parts[to] = append(parts[to], w)
	}
	counts := make([]uint64, n)
	send := make([]auc.Packed, 0, len(scores))
	for to, p := range parts {
		counts[to] = uint64(len(p))
		send = append(send, p...)
	}
	table, err := r.ctl.gather(counts)
	if err != nil {
		return nil, err
	}
	sendBytes, recvBytes := make([]int, n), make([]int, n)
	total := 0
	for i := range n {
		sendBytes[i] = 4 * int(counts[i])
		recvBytes[i] = 4 * int(table[i][r.id])
		total += int(table[i][r.id])
	}
	mine := make([]auc.Packed, total)
	return mine, r.ctl.comm.AllToAllV(kernels.HostBuffer(mine), recvBytes, kernels.HostBuffer(send), sendBytes).Wait()
}
