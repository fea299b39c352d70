package bench

import (
	"slices"
	"time"

	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/transport"
)

// collectiveCase is an operation on buffers of a size. If there are two, it is that of the longer
// one.
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

// bandwidths returns nccl-tests' algbw and busbw, in GB/s, of an operation that takes us
// microseconds.
func (c collectiveCase) bandwidths(ranks int, us float64) (algbw, busbw float64) {
	algbw = float64(c.bytes) / us / 1e3
	return algbw, algbw * c.traffic(float64(ranks))
}

// collectivesMemory holds the buffers of a rank, which all transports share.
type collectivesMemory struct {
	dev     kernels.Device
	src     kernels.Buffer // all are of the greatest size
	apart   kernels.Buffer // results that only this rank reads
	inPlace kernels.Buffer // results that others read too
}

func newCollectivesMemory(mostBytes int) (m *collectivesMemory, err error) {
	m = &collectivesMemory{}
	if m.dev, err = kernels.NewCPU(kernels.CPUOptions{}); err != nil {
		return nil, err
	}
	for b, use := range map[*kernels.Buffer]kernels.Use{
		&m.src: kernels.Shared, &m.apart: kernels.Working, &m.inPlace: kernels.Shared,
	} {
		if *b, err = m.dev.Alloc(mostBytes, use); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *collectivesMemory) freeBuffers() {
	m.dev.Free(m.src)
	m.dev.Free(m.apart)
	m.dev.Free(m.inPlace)
}

// collectivesRank is one rank of a world that is measured.
type collectivesRank struct {
	*collectivesMemory
	ep     transport.Endpoint
	stream kernels.Stream
	comm   *collectives.Comm
	dst    kernels.Buffer // apart or inPlace
	counts []int          // bytes of the parts
	words  kernels.Buffer // this rank's: seconds of each round, wrong elements, whether to stop
	all    kernels.Buffer // all ranks' words
	stop   func() bool
}

const collectiveWords = collectiveRounds + 2

func newCollectivesRank(e env.Env, ep transport.Endpoint, m *collectivesMemory, stop func() bool) *collectivesRank {
	r := &collectivesRank{collectivesMemory: m, ep: ep, stream: m.dev.Stream(1), counts: make([]int, ep.Size()), stop: stop}
	r.words = kernels.HostBuffer(make([]float64, collectiveWords))
	r.all = kernels.HostBuffer(make([]float64, collectiveWords*ep.Size()))
	r.comm = collectives.New(e, ep, 1, r.dev, r.stream)
	return r
}

// leaveJob ends the rank. The others may be behind by a barrier.
func (r *collectivesRank) leaveJob() {
	_ = r.ep.Close()
	r.comm.Close()
	r.stream.Close()
}

// timing is the time of a case, in microseconds for one operation, and the number of wrong elements
// on all ranks.
type timing struct {
	us float64 // the median over the rounds of the slowest rank's time
	// mean, least and most are OSU's Avg, Min and Max of the ranks' average times. p50 is the
	// median over all rounds of all ranks.
	mean, least, most, p50 float64
	wrong                  int
}

// timeCase times a case. All ranks call it and get the same results. A round is a barrier and a loop
// of operations, one after the other. The result of one more operation, before the rounds, is
// checked.
func (r *collectivesRank) timeCase(c collectiveCase) (timing, error) {
	for i := range r.counts {
		r.counts[i] = c.bytes / len(r.counts)
	}
	r.chooseBuffer(c.operation)
	clear(r.dst.Host())
	c.fill(r, c.bytes)
	if err := r.runLoop(c, 1); err != nil {
		return timing{}, err
	}
	bad := c.wrong(r, c.bytes)
	clear(r.dst.Host()) // zeros stay zeros, however often they are added up
	return r.timeRounds(c, bad, r.runLoop)
}

// timeRounds times the rounds of a case. loop runs its operations.
func (r *collectivesRank) timeRounds(c collectiveCase, bad int, loop func(c collectiveCase, times int) error) (timing, error) {
	if err := loop(c, collectiveWarmup); err != nil {
		return timing{}, err
	}
	words := kernels.HostView[float64](r.words)
	clear(words)
	for i := range collectiveRounds {
		if err := r.comm.Barrier().Wait(); err != nil {
			return timing{}, err
		}
		begin := time.Now()
		if err := loop(c, c.iterations()); err != nil {
			return timing{}, err
		}
		words[i] = time.Since(begin).Seconds() / float64(c.iterations())
	}
	words[collectiveRounds] = float64(bad)
	if r.stop() {
		words[collectiveRounds+1] = 1
	}
	if err := r.comm.AllGather(r.all, r.words).Wait(); err != nil {
		return timing{}, err
	}
	return r.summarize()
}

// timeBare times the bytes of a case over a bare connection.
func (r *collectivesRank) timeBare(c collectiveCase, ring *bareRing) (float64, error) {
	r.chooseBuffer(c.operation)
	t, err := r.timeRounds(c, 0, func(c collectiveCase, times int) error { return ring.moveBytes(r, c, times) })
	return t.us, err
}

// chooseBuffer sets dst to the buffer for the results of an operation.
func (r *collectivesRank) chooseBuffer(o operation) {
	r.dst = r.apart
	if o.inPlace {
		r.dst = r.inPlace
	}
}

func (r *collectivesRank) runLoop(c collectiveCase, times int) error {
	for range times {
		if err := c.start(r, c.bytes).Wait(); err != nil {
			return err
		}
	}
	return nil
}

// summarize computes the results from the measurements of all ranks.
func (r *collectivesRank) summarize() (t timing, err error) {
	all, ranks := kernels.HostView[float64](r.all), r.ep.Size()
	slowest, means := make([]float64, collectiveRounds), make([]float64, ranks)
	var rounds []float64 // of all ranks
	for n := range ranks {
		words := all[n*collectiveWords:][:collectiveWords]
		for i := range slowest {
			slowest[i] = max(slowest[i], words[i])
			means[n] += 1e6 * words[i] / collectiveRounds
			rounds = append(rounds, 1e6*words[i])
		}
		t.mean += means[n] / float64(ranks)
		t.wrong += int(words[collectiveRounds])
		if words[collectiveRounds+1] != 0 {
			err = ErrStopped
		}
	}
	t.us, t.p50 = 1e6*figure("", "", slowest).Median, figure("", "", rounds).Median
	t.least, t.most = slices.Min(means), slices.Max(means)
	return t, err
}
