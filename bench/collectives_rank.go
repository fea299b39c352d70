package bench

import (
	"time"

	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/transport"
)

// collectiveCase is an operation on buffers of a size: of the longer one, where
// there are two.
type collectiveCase struct {
	operation
	bytes int
}

const (
	collectiveRounds = 7
	collectiveWarmup = 3
	// roundBytes is how much moves in a round, between leastLoop and mostLoop
	// operations of it.
	roundBytes = 128 << 20
	leastLoop  = 3
	mostLoop   = 200
)

func (c collectiveCase) iterations() int { return min(max(roundBytes/c.bytes, leastLoop), mostLoop) }

// collectivesRank is one rank of a world that is measured.
type collectivesRank struct {
	ep       transport.Endpoint
	dev      kernels.Device
	stream   kernels.Stream
	comm     *collectives.Comm
	src, dst kernels.Buffer // of the greatest size; dst is one of what follows
	apart    kernels.Buffer // what only this rank reads
	inPlace  kernels.Buffer // what others read too
	counts   []int          // bytes of the parts
	words    kernels.Buffer // this rank's: seconds of each round, wrong elements, whether to stop
	all      kernels.Buffer // all ranks' words
	stop     func() bool
}

const collectiveWords = collectiveRounds + 2

func newCollectivesRank(e env.Env, ep transport.Endpoint, mostBytes int, stop func() bool) (*collectivesRank, error) {
	r := &collectivesRank{ep: ep, counts: make([]int, ep.Size()), stop: stop}
	var err error
	if r.dev, err = kernels.NewCPU(kernels.CPUOptions{}); err != nil {
		return nil, err
	}
	for b, use := range map[*kernels.Buffer]kernels.Use{
		&r.src: kernels.Shared, &r.apart: kernels.Working, &r.inPlace: kernels.Shared,
	} {
		if *b, err = r.dev.Alloc(mostBytes, use); err != nil {
			return nil, err
		}
	}
	r.words = kernels.HostBuffer(make([]float64, collectiveWords))
	r.all = kernels.HostBuffer(make([]float64, collectiveWords*ep.Size()))
	r.stream = r.dev.Stream(1)
	r.comm = collectives.New(e, ep, 1, r.dev, r.stream)
	return r, nil
}

// close ends the rank. The others may be behind by a barrier.
func (r *collectivesRank) close() {
	_ = r.ep.Close()
	r.comm.Close()
	r.stream.Close()
	r.dev.Free(r.src)
	r.dev.Free(r.apart)
	r.dev.Free(r.inPlace)
}

// measure times a case: all ranks call it, and have the same results. A round is
// a barrier and a loop of operations one after the other; it took what the slowest
// rank took. us is the median over the rounds, for one operation. wrong counts the
// elements, of all ranks, that one more operation before gave another value than
// it must.
func (r *collectivesRank) measure(c collectiveCase) (us float64, wrong int, err error) {
	for i := range r.counts {
		r.counts[i] = c.bytes / len(r.counts)
	}
	r.aim(c.operation)
	clear(r.dst.Host())
	c.fill(r, c.bytes)
	if err := r.loop(c, 1); err != nil {
		return 0, 0, err
	}
	bad := c.wrong(r, c.bytes)
	clear(r.dst.Host()) // zeros stay zeros, however often they are added up
	if err := r.loop(c, collectiveWarmup); err != nil {
		return 0, 0, err
	}
	words := kernels.HostView[float64](r.words)
	clear(words)
	for i := range collectiveRounds {
		if err := r.comm.Barrier().Wait(); err != nil {
			return 0, 0, err
		}
		begin := time.Now()
		if err := r.loop(c, c.iterations()); err != nil {
			return 0, 0, err
		}
		words[i] = time.Since(begin).Seconds() / float64(c.iterations())
	}
	words[collectiveRounds] = float64(bad)
	if r.stop() {
		words[collectiveRounds+1] = 1
	}
	if err := r.comm.AllGather(r.all, r.words).Wait(); err != nil {
		return 0, 0, err
	}
	return r.judge()
}

// aim chooses the buffer for the results of an operation.
func (r *collectivesRank) aim(o operation) {
	r.dst = r.apart
	if o.inPlace {
		r.dst = r.inPlace
	}
}

func (r *collectivesRank) loop(c collectiveCase, times int) error {
	for range times {
		if err := c.start(r, c.bytes).Wait(); err != nil {
			return err
		}
	}
	return nil
}

// judge makes the results of what all ranks have measured.
func (r *collectivesRank) judge() (us float64, wrong int, err error) {
	all := kernels.HostView[float64](r.all)
	slowest := make([]float64, collectiveRounds)
	for n := range r.ep.Size() {
		words := all[n*collectiveWords:][:collectiveWords]
		for i := range slowest {
			slowest[i] = max(slowest[i], words[i])
		}
		wrong += int(words[collectiveRounds])
		if words[collectiveRounds+1] != 0 {
			err = ErrStopped
		}
	}
	return 1e6 * figure("", "", slowest).Median, wrong, err
}
