package train

import (
	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/lrpp"
	"github.com/ecrec/ecrec/transport"
)

// generation is what a rank has in one world, and leaves behind with it. All that
// must outlive the loss of a peer is the rank's.
type generation struct {
	ep      transport.Endpoint
	comms   []*collectives.Comm
	streams []kernels.Stream  // of comms, and of what moves in the background
	dense   *collectives.Comm // among the trainers; nil on others
	ctl     *control

	exchange exchange       // one of those below
	base     *lrpp.Exchange // and what they stand on
	cache    *lrpp.Cache    // nil where cache.mode is not lrpp
	ahead    int            // the most steps that it looks ahead
	perOwner int            // the most rows of an owner that it holds; 0: all
	reduces  []*collectives.Handle
	gpus     []*collectives.Comm // that move what lies on GPUs, once a step or more
	direct   bool                // they do by NCCL
}

// enter joins a world. leave ends that, also after an error.
func (r *rank) enter(ep transport.Endpoint) {
	j := r.job
	r.generation = generation{ep: ep}
	critical, delayed := r.comm(chanRows), r.comm(chanDelayed)
	r.gpus = append(r.gpus, critical, delayed)
	r.base = lrpp.New(lrpp.Options{Env: j.env, Device: j.dev, Shard: r.shard,
		Critical: lrpp.Lane{Comm: critical, Stream: r.s},
		Delayed:  lrpp.Lane{Comm: delayed, Stream: r.stream()},
		Between:  r.between, Repair: r.repair, Repairs: r.repairs, Check: j.checks(), Trace: r.tracks.delayed})
	r.exchange = r.base
	if j.roles.trains(r.id) {
		r.dense = r.commOn(transport.Group(ep, j.roles.training()), chanDense)
		r.dense.Record(r.tracks.dense)
		r.gpus = append(r.gpus, r.dense)
	}
	r.ctl = newControl(r.comm(chanControl))
	if r.commits != nil {
		r.commits.Join(r.comm(chanCommit), r.comm(chanRebuild), r.base.DelayedShard())
	}
}

// leave frees what is a world's. The endpoint goes first, so that nothing waits, and
// what moves rows before what repairs them for it.
func (r *rank) leave() {
	_ = r.ep.Close()
	r.base.Close()
	if r.commits != nil {
		r.commits.Leave()
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
	kernels.Reclaim(r.job.dev)
	_ = r.s.Sync() // what the step that was left had begun is over before rows and parameters go back; what fails stays
	r.generation = generation{}
}

// comm makes a communicator with a stream of its own, closed with the generation.
func (r *rank) comm(channel uint16) *collectives.Comm { return r.commOn(r.ep, channel) }

func (r *rank) commOn(ep transport.Endpoint, channel uint16) *collectives.Comm {
	c := collectives.New(r.env, ep, channel, r.job.dev, r.stream())
	r.comms = append(r.comms, c)
	return c
}

// stream makes a stream for moving data, closed with the generation.
func (r *rank) stream() kernels.Stream {
	s := r.job.dev.Stream(1)
	r.streams = append(r.streams, s)
	return s
}
