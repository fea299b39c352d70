package train

import (
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/model"
)

// describeBatch sets the fields of a model's batch that only training has.
func (r *rank) describeBatch(in *model.Batch, b *data.Batch) {
	in.Train, in.Step, in.GlobalN = true, b.Step, b.GlobalN
	if t := r.job.roles; t.isTrainer(r.id) {
		in.First = data.SliceStart(b.GlobalN, r.id, t.trainers)
	}
	in.AddUp = r.addUp
}

// addUp replaces sums, which this rank's stream computes, by their sum over the trainers, in rank
// order: see model.Batch. The pass that calls it cannot return an error, so the first one is kept
// for passError.
func (r *rank) addUp(sums kernels.Buffer) {
	g := &r.conns
	if g.sums == nil || g.passError() != nil {
		return
	}
	if g.sumsErr = r.s.Sync(); g.sumsErr == nil {
		g.sumsErr = g.sums.AllReduce(sums).Wait()
	}
}

// passError returns the error that ended this world, or the first one of addUp in it. Results of the pass are undefined after it.
func (g *connections) passError() error {
	if err := g.broken.Err(); err != nil {
		return err
	}
	return g.sumsErr
}
