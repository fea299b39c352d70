package train

import (
	"fmt"
	"time"

	"github.com/ecrec/ecrec/commit"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/lrpp"
	"github.com/ecrec/ecrec/model"
	"github.com/ecrec/ecrec/shard"
)

// The communicators of a rank. Operations of one run in order; those of
// different ones overlap.
const (
	chanPlan     uint16 = iota + 1 // request lists of training
	chanEvalPlan                   // request lists of evaluation
	chanRows                       // rows and row gradients that a step waits for
	chanDelayed                    // those that move while one computes
	chanDense                      // dense gradients
	chanControl                    // control words
	chanFeed                       // slices from readers, of training
	chanEvalFeed                   // and of evaluation
	chanCommit                     // deltas of rows
	chanRebuild                    // what lost rows are decoded from
)

// rank is one rank of a job and all that it holds, from world to world.
type rank struct {
	job *job
	id  int
	env env.Env
	generation

	s     kernels.Stream // computes
	shard *shard.Shard
	model model.Model
	state kernels.Buffer // optimizer state of the dense parameters

	phase     phase
	announced int64             // the last commit that the world was told of, or began from
	beyond    *commit.Beyond    // why it goes back to a checkpoint
	commits   *commit.Committer // nil where nothing is coded
	snapshots []snapshot        // of commits that may be gone back to, oldest first
	spare     []snapshot        // memory of older ones
	snapTook  time.Duration
	said      []int64 // scratch: what ranks are prepared for
	// rebuilding says that some rank lacks what it lost, repaired when it last got
	// some of that back.
	rebuilding bool
	healing    healing
	repaired   time.Duration
	wholeAt    int64 // the step at whose end all was whole again
	history    history
	lossMemory kernels.Buffer // of the history's losses

	features  kernels.Buffer // (b, dense features)
	labels    kernels.Buffer // (b)
	losses    kernels.Buffer // (b)
	dlogits   kernels.Buffer // (b, 1); probabilities in evaluation
	hostLoss  []float32
	hostProbs []float32
	watch     stopwatch
	tracks    tracks
	moved     lrpp.Moved
	told      bool  // that not all that is seen ahead fits into the cache
	done      int64 // the last step trained
	evaluated int64 // the last step after which the model was evaluated
	saved     int64 // the last step of which there is a checkpoint
	lastSave  time.Duration
}

// newRank allocates a rank; close frees it, also after an error.
func newRank(j *job, id int) (r *rank, err error) {
	r = &rank{job: j, id: id, env: j.env, tracks: j.tracksOf(id)}
	r.watch = stopwatch{e: j.env, track: r.tracks.stages}
	r.s = j.dev.Stream(j.threadsOf(id))
	if j.o.WrapStream != nil {
		r.s = j.o.WrapStream(id, r.s)
	}
	if r.shard, err = shard.New(j.dev, r.s, shard.Options{Map: j.place, Owner: j.roles.owner(id), Seed: j.cfg.Job.Seed,
		Width: j.width, State: j.sparse.Kind.RowState(j.width)}); err != nil {
		return r, err
	}
	if r.model, err = model.New(j.dev, r.s, j.modelConfig(id)); err != nil {
		return r, err
	}
	if err := r.openCommits(); err != nil {
		return r, err
	}
	if err := r.openHistory(); err != nil {
		return r, err
	}
	return r, r.alloc()
}

func (r *rank) alloc() error {
	b := r.job.maxSliceOf(r.id)
	r.hostLoss, r.hostProbs = make([]float32, b), make([]float32, b)
	for _, a := range []struct {
		b      *kernels.Buffer
		floats int
	}{
		{&r.features, b * r.job.schema.Dense}, {&r.labels, b}, {&r.losses, b}, {&r.dlogits, b},
		{&r.state, r.job.denseOpt.Kind.DenseState(r.model.Params().Len())},
	} {
		if a.floats == 0 {
			continue
		}
		var err error
		if *a.b, err = r.job.dev.Alloc(4*a.floats, kernels.Working); err != nil {
			return fmt.Errorf("train: buffers of rank %d: %w", r.id, err)
		}
	}
	return nil
}

// upload puts a batch on the device.
func (r *rank) upload(b *data.Batch) (in model.Batch, labels kernels.Buffer) {
	in.Dense = kernels.Mat(r.features, b.N, r.job.schema.Dense)
	labels = r.labels.SliceFloats(0, b.N)
	r.s.Upload(in.Dense.Buf, kernels.BytesOf(b.Dense))
	r.s.Upload(labels, kernels.BytesOf(b.Labels))
	return in, labels
}

// close frees a rank, which has left its world.
func (r *rank) close() {
	if r.commits != nil {
		r.commits.Close()
	}
	if r.shard != nil {
		r.shard.Close()
	}
	if r.model != nil {
		r.model.Close()
	}
	buffers := []kernels.Buffer{r.features, r.labels, r.losses, r.dlogits, r.state}
	for _, s := range append(r.snapshots, r.spare...) {
		buffers = append(buffers, s.weights, s.state)
	}
	for _, b := range buffers {
		if b.Bytes() > 0 {
			r.job.dev.Free(b)
		}
	}
	r.job.host.Free(r.lossMemory)
	r.s.Close()
}
