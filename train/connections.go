package train

import (
	"encoding/binary"

	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/lrpp"
	"github.com/ecrec/ecrec/train/feed"
	"github.com/ecrec/ecrec/transport"
)

// connections are those of a rank in one world, and are freed with it. State that must
// outlive the loss of a peer belongs to the rank.
type connections struct {
	env     env.Env
	dev     kernels.Device
	ep      transport.Endpoint
	comms   []*collectives.Comm
	streams []kernels.Stream  // of comms, and of moves in the background
	dense   *collectives.Comm // among the trainers; nil on other ranks
	sums    *collectives.Comm // among the trainers; nil if there are no sums within a pass
	sumsErr error             // the first failure of sums
	broken  *Broken           // of the world
	ctl     *control

	exchange Exchange       // base or cache
	base     *lrpp.Exchange // below exchange
	cache    *lrpp.Cache    // nil unless cache.mode is lrpp
	clip     *clipper       // nil: no gradients are clipped
	ahead    int            // the most steps that the cache looks ahead
	perOwner int            // the most rows of an owner that the cache holds; 0: all
	reduces  []*collectives.Handle
	ranges   gradRanges
	gpus     []*collectives.Comm // for buffers of GPUs, used in each step
	direct   bool                // gpus move by NCCL
	failed   *feed.Pipeline      // it ended early, and delayed work may read its lists; nil: none has
}

// enterWorld joins a world. leaveWorld leaves it, also after an error.
func (r *rank) enterWorld(ep transport.Endpoint) {
	j := r.job
	r.conns = connections{env: j.env, dev: j.dev, ep: ep, broken: j.world.Broken, clip: clipperOf(r, j.cfg.Train)}
	g := &r.conns
	critical, delayed := g.openComm(ep, chanRows), g.openComm(ep, chanDelayed)
	g.gpus = append(g.gpus, critical, delayed)
	g.base = lrpp.New(lrpp.Options{Env: j.env, Device: j.dev, Shard: r.shard,
		Critical: lrpp.Channel{Comm: critical, Stream: r.s},
		Delayed:  lrpp.Channel{Comm: delayed, Stream: g.openStream()},
		Between:  func(step int64) error { return r.protection.sealBefore(step) }, // measurements suspend it
		Rebuild:  r.protection.rebuildRows, Rebuilding: r.protection.isRebuilding, Check: j.checksReads(), Trace: r.tracks.delayed,
		Clip: g.clip.hook()})
	g.exchange = g.base
	if j.roles.isTrainer(r.id) {
		g.dense = g.openComm(transport.Group(ep, j.roles.trainerIDs()), chanDense)
		g.dense.Record(r.tracks.dense)
		g.gpus = append(g.gpus, g.dense)
		if j.shape.AddsUp && j.roles.trainers > 1 {
			g.sums = g.openComm(transport.Group(ep, j.roles.trainerIDs()), chanSums)
			g.gpus = append(g.gpus, g.sums)
		}
	}
	g.ctl = newControl(g.openComm(ep, chanControl))
	r.protection.joinWorld()
}

// leaveWorld frees the connections. The endpoint is closed first, so that nothing blocks; the
// exchange is closed before the protection that rebuilds rows for it.
func (r *rank) leaveWorld() {
	g := &r.conns
	_ = g.ep.Close()
	g.base.Close()
	r.protection.leaveWorld()
	if g.failed != nil {
		g.failed.FreeLists()
	}
	if g.cache != nil {
		g.cache.Close()
	}
	for _, c := range g.comms {
		c.Close()
	}
	for _, s := range g.streams {
		s.Close()
	}
	// Work of an unfinished step must end before rows and parameters are rolled back. Its
	// error stays in the stream.
	_ = r.s.Sync()
	r.checkpoints.lose()
	kernels.Reclaim(r.dev) // also the memory of the save that was lost
	r.conns = connections{}
}

// closeFeed ends a pipeline of steps; err is the error that ended it early, if any.
func closeFeed(r *rank, p *feed.Pipeline, err error) {
	p.Close(err)
	if err != nil {
		r.conns.failed = p
	}
}

// openComm opens a communicator with a stream of its own.
func (g *connections) openComm(ep transport.Endpoint, channel uint16) *collectives.Comm {
	c := collectives.New(g.env, ep, channel, g.dev, g.openStream())
	g.comms = append(g.comms, c)
	return c
}

// openStream opens a stream that moves data.
func (g *connections) openStream() kernels.Stream {
	s := g.dev.Stream(1)
	g.streams = append(g.streams, s)
	return s
}

// startReduce returns the function that starts to reduce the dense gradient grad, in ranges, as buckets of it are computed by s.
// finishReduce starts the last range, and waitReduces waits for all of them.
func (g *connections) startReduce(s kernels.Stream, grad kernels.Buffer, trainers int) func(bucket kernels.Buffer) {
	g.reduces = g.reduces[:0]
	g.ranges.ofTrainers(trainers)
	return func(bucket kernels.Buffer) {
		from, n := g.ranges.addBucket(bucket.Floats())
		g.reduceRange(s, grad, from, n)
	}
}

// finishReduce starts to reduce the rest of the gradient, once all of it is computed.
func (g *connections) finishReduce(s kernels.Stream, grad kernels.Buffer) {
	from, n := g.ranges.takeRest()
	g.reduceRange(s, grad, from, n)
}

func (g *connections) reduceRange(s kernels.Stream, grad kernels.Buffer, from, n int) {
	if g.dense != nil && n > 0 && g.broken.Err() == nil { // else it is not complete
		_ = s.Sync() // an error stays in the stream, and ends the step
		g.reduces = append(g.reduces, g.dense.AllReduce(grad.SliceFloats(from, n)).Start())
	}
}

// waitReduces waits until all dense gradients are reduced.
func (g *connections) waitReduces() error {
	for _, h := range g.reduces {
		if err := h.Wait(); err != nil {
			return err
		}
	}
	g.reduces = g.reduces[:0]
	return nil
}

// connectGPUs lets rows and gradients move from GPU to GPU in this world, if all ranks can
// and each has a GPU of its own.
func (r *rank) connectGPUs() error {
	j := r.job
	if j.ranks == 1 {
		return nil
	}
	mine := []uint64{0, 0}
	if id, ok := kernels.GPU(j.dev); ok && j.nccl != nil {
		mine[0], mine[1] = binary.LittleEndian.Uint64(id[:8]), binary.LittleEndian.Uint64(id[8:])
	}
	all, err := r.conns.ctl.gather(mine)
	if err != nil {
		return err
	}
	wanted, rankOf := j.cfg.Collectives.Transport == "nccl", map[[2]uint64]int{}
	for id, x := range all {
		gpu := [2]uint64{x[0], x[1]}
		other, taken := rankOf[gpu]
		switch {
		case gpu == [2]uint64{} && wanted:
			return config.Errorf("collectives.transport = \"nccl\": rank %d has no GPU to itself; use \"auto\"", id)
		case taken && wanted:
			return config.Errorf("collectives.transport = \"nccl\": ranks %d and %d share a GPU; use \"auto\", or a machine with more", other, id)
		case gpu == [2]uint64{} || taken:
			return nil
		}
		rankOf[gpu] = id
	}
	for _, c := range r.conns.gpus {
		if err := c.UseNCCL(collectives.NCCLOptions{Library: j.nccl, Native: !j.cfg.Collectives.Deterministic}); err != nil {
			return err
		}
	}
	r.conns.direct = true
	if r.id == 0 {
		j.warnIfUnsealed()
	}
	return nil
}
