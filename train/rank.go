package train

import (
	"fmt"
	"time"

	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/invariant"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/lrpp"
	"github.com/ecrec/ecrec/model"
	"github.com/ecrec/ecrec/shard"
	"github.com/ecrec/ecrec/transport"
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
)

// rank is one rank of a job and all that it holds.
type rank struct {
	job *job
	id  int
	env env.Env

	ep      transport.Endpoint
	s       kernels.Stream // computes
	comms   []*collectives.Comm
	streams []kernels.Stream  // of comms, and of what moves in the background
	dense   *collectives.Comm // among the trainers; nil on others
	ctl     *control

	shard    *shard.Shard
	exchange exchange       // one of those below
	base     *lrpp.Exchange // and what they stand on
	cache    *lrpp.Cache    // nil where cache.mode is not lrpp
	ahead    int            // the most steps that it looks ahead
	told     bool           // that not all that was seen ahead fits into it
	model    model.Model
	state    kernels.Buffer // optimizer state of the dense parameters

	features  kernels.Buffer // (b, dense features)
	labels    kernels.Buffer // (b)
	losses    kernels.Buffer // (b)
	dlogits   kernels.Buffer // (b, 1); probabilities in evaluation
	hostLoss  []float32
	hostProbs []float32
	reduces   []*collectives.Handle
	watch     stopwatch
	tracks    tracks
	moved     lrpp.Moved
	done      int64 // the last step trained
	evaluated int64 // the last step after which the model was evaluated
	saved     int64 // the last step of which there is a checkpoint
	lastSave  time.Duration
}

// newRank allocates a rank; close frees it, also after an error.
func newRank(j *job, id int, ep transport.Endpoint) (r *rank, err error) {
	r = &rank{job: j, id: id, env: j.env, ep: ep, tracks: j.tracksOf(id)}
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
	r.base = lrpp.New(lrpp.Options{Env: j.env, Device: j.dev, Shard: r.shard,
		Critical: lrpp.Lane{Comm: r.comm(chanRows), Stream: r.s},
		Delayed:  lrpp.Lane{Comm: r.comm(chanDelayed), Stream: r.stream()}, Check: invariant.Enabled, Trace: r.tracks.delayed})
	r.exchange = r.base
	if j.roles.trains(id) {
		r.dense = r.commOn(transport.Group(ep, j.roles.training()), chanDense)
		r.dense.Record(r.tracks.dense)
	}
	r.ctl = newControl(r.comm(chanControl))
	return r, r.alloc()
}

// comm makes a communicator with a stream of its own, closed with the rank.
func (r *rank) comm(channel uint16) *collectives.Comm { return r.commOn(r.ep, channel) }

func (r *rank) commOn(ep transport.Endpoint, channel uint16) *collectives.Comm {
	c := collectives.New(r.env, ep, channel, r.job.dev, r.stream())
	r.comms = append(r.comms, c)
	return c
}

// stream makes a stream for moving data, closed with the rank.
func (r *rank) stream() kernels.Stream {
	s := r.job.dev.Stream(1)
	r.streams = append(r.streams, s)
	return s
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

// close frees a rank. Its endpoint goes first, so that nothing waits.
func (r *rank) close() {
	r.ep.Close()
	if r.base != nil {
		r.base.Close()
	}
	if r.cache != nil {
		r.cache.Close()
	}
	for _, c := range r.comms {
		c.Close()
	}
	for _, s := range r.streams {
		s.Close()
	}
	if r.shard != nil {
		r.shard.Close()
	}
	if r.model != nil {
		r.model.Close()
	}
	for _, b := range []kernels.Buffer{r.features, r.labels, r.losses, r.dlogits, r.state} {
		if b.Bytes() > 0 {
			r.job.dev.Free(b)
		}
	}
	if r.s != nil {
		r.s.Close()
	}
}
