package kernels

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
)

// task is work in parts, which may run in any order and at the same time, each on
// one worker. Parts split outputs, so their order cannot change a bit.
type task interface {
	// runPart runs part i. worker is in [0, threads). No two parts run with the same
	// worker at once, so it can index scratch.
	runPart(worker, i int)
}

// pool runs tasks on a fixed number of threads. Worker 0 is the caller; the other
// workers are goroutines that run until stopWorkers. Each worker has a share of the parts. It claims
// those one by one, then parts of the others' shares, from their ends, and then those that are in no share: a core that other
// processes disturb does less. A worker with the same share of the rows, task after task, finds them in the
// caches of its core, and cores that share no cache exchange less (affinity scheduling: Markatos and LeBlanc, 1994).
//
// Invariant: task and parts are written only while all shares are empty: shares are
// stored after them, and runTask returns when every part is done. A worker that has claimed a part
// therefore always reads the current ones, however late it is.
//
// A caller or worker that parks first writes that it does, and then looks for work once more. The other side
// writes the work first, and then looks for sleepers. Both writes are read-modify-writes. Stores would be
// enough, since those of package atomic are sequentially consistent. But under qemu's emulation of arm64 on
// amd64 the two sides missed each other with them.
type pool struct {
	threads int
	spins   int // how often an idle thread checks for work before it parks

	task    task
	parts   int64
	shares  []share      // of each worker, and the parts that are in none
	started atomic.Int64 // tasks so far
	done    atomic.Int64 // parts finished, of those whose worker has found no other

	waiting  atomic.Bool   // the caller is parked
	finished chan struct{} // wakes the caller, at times spuriously
	sleepers atomic.Int32  // workers parked or about to be, not yet sent a token
	wake     chan struct{} // a token for each of them

	closed atomic.Bool
	ended  sync.WaitGroup
}

// share is the parts [from, to) that are not claimed, from in bits 32 to 62 of the word. It has two cache lines of its own, which
// cores fetch together.
type share struct {
	left atomic.Uint64
	_    [120]byte
}

// bothEnds is set in a word whose parts are claimed from both ends, each by every second worker.
const bothEnds = 1 << 63

// claimPart claims the first part of a share, or the last one: for a worker with a share of its own.
func (s *share) claimPart(other, second bool) (part int, ok bool) {
	for {
		left := s.left.Load()
		from, to := left&^bothEnds>>32, left&math.MaxUint32
		last := other || second && left&bothEnds != 0
		switch {
		case from >= to:
			return 0, false
		case last && s.left.CompareAndSwap(left, left-1):
			return int(to - 1), true
		case !last && s.left.CompareAndSwap(left, left+1<<32):
			return int(from), true
		}
	}
}

// poolThreads counts the threads of all pools: they spin only while every one of
// them can have a core of its own.
var poolThreads atomic.Int32

// spinsBeforePark takes 15 to 55 us: longer than the serial code between two
// operations, and about the cost of parking and waking a thread.
const spinsBeforePark = 1000

// newPool makes a pool of at least one thread.
func newPool(threads int) *pool {
	threads = max(threads, 1)
	p := &pool{
		threads:  threads,
		shares:   make([]share, threads+1),
		finished: make(chan struct{}, 1),
		wake:     make(chan struct{}, threads),
	}
	if int(poolThreads.Add(int32(threads))) <= runtime.GOMAXPROCS(0) {
		p.spins = spinsBeforePark
	}
	p.ended.Add(threads - 1)
	for w := 1; w < threads; w++ {
		go p.runWorker(w)
	}
	return p
}

// stopWorkers ends the workers and waits for them. No task may follow.
func (p *pool) stopWorkers() {
	p.closed.Store(true)
	for i := 1; i < p.threads; i++ {
		p.wakeWorker()
	}
	p.ended.Wait()
	poolThreads.Add(int32(-p.threads))
}

// runTask runs parts [0, n) of t and returns when all are done. Workers have equal shares. n is below 1<<31.
func (p *pool) runTask(n int, t task) {
	if p.runAlone(n, t) {
		return
	}
	for w := range p.threads {
		p.shares[w].giveParts(shareOf(w, p.threads, n), shareOf(w+1, p.threads, n), 0)
	}
	p.runParts(n)
}

// runShares is runTask with the shares [bounds[w], bounds[w+1]) of each worker w. The parts from bounds[threads] on are in no
// share, and are claimed from both ends.
func (p *pool) runShares(n int, bounds []int, t task) {
	if p.runAlone(n, t) {
		return
	}
	for w := range p.threads {
		p.shares[w].giveParts(bounds[w], bounds[w+1], 0)
	}
	p.shares[p.threads].giveParts(bounds[p.threads], n, bothEnds)
	p.runParts(n)
}

// runQueue is runTask without shares: parts are begun in their order.
func (p *pool) runQueue(n int, t task) {
	if p.runAlone(n, t) {
		return
	}
	p.shares[p.threads].giveParts(0, n, 0)
	p.runParts(n)
}

// runAlone runs a task of one thread or one part. Otherwise it returns false, and the task is ready for its shares.
func (p *pool) runAlone(n int, t task) bool {
	if p.threads == 1 || n <= 1 {
		for i := range n {
			t.runPart(0, i)
		}
		return true
	}
	p.task, p.parts = t, int64(n)
	p.done.Store(0)
	return false
}

// giveParts sets a share, which is empty.
func (s *share) giveParts(from, to int, ends uint64) {
	if from < to {
		s.left.Store(uint64(from)<<32 | uint64(to) | ends)
	}
}

// runParts runs the parts of all shares.
func (p *pool) runParts(n int) {
	p.started.Add(1)
	for i := min(n, p.threads) - 1; i > 0 && p.takeSleeper(); i-- {
		p.wakeWorker()
	}
	p.claimParts(0)
	for i := 0; p.done.Load() != int64(n); i++ {
		if i < p.spins {
			pause()
			continue
		}
		p.waiting.Swap(true)
		if p.done.Load() != int64(n) {
			<-p.finished
		}
		p.waiting.Store(false)
	}
	p.task = nil
}

// shareOf returns the beginning of part i of n equal parts of all.
func shareOf(i, n, all int) int { return i * all / n }

// claimParts claims and runs parts until none is left.
func (p *pool) claimParts(worker int) {
	ran := int64(0)
	for i := 0; i <= p.threads; {
		of := p.threads // in no share
		if i < p.threads {
			of = (worker + i) % p.threads
		}
		part, ok := p.shares[of].claimPart(of < p.threads && i > 0, worker%2 == 1)
		if !ok {
			i++
			continue
		}
		p.task.runPart(worker, part)
		ran++
	}
	if ran == 0 {
		return
	}
	n := p.parts // read before done.Add: after it, runTask may return
	if p.done.Add(ran) == n && p.waiting.Load() {
		select {
		case p.finished <- struct{}{}:
		default:
		}
	}
}

// runWorker is the loop of a worker.
func (p *pool) runWorker(worker int) {
	defer p.ended.Done()
	seen := int64(0)
	for idle := 0; !p.closed.Load(); idle++ {
		if started := p.started.Load(); started != seen {
			seen = started
			p.claimParts(worker)
			idle = -1
			continue
		}
		if idle < p.spins {
			pause()
			continue
		}
		p.sleepers.Add(1)
		// A task that began before the Add saw no sleeper: check once more.
		if p.started.Load() != seen || p.closed.Load() {
			p.takeSleeper() // if it fails, a token is on its way: a spurious wake
		} else {
			<-p.wake
		}
		idle = -1
	}
}

// takeSleeper removes one from the count of sleepers. It returns false if there is none.
func (p *pool) takeSleeper() bool {
	for {
		s := p.sleepers.Load()
		if s == 0 {
			return false
		}
		if p.sleepers.CompareAndSwap(s, s-1) {
			return true
		}
	}
}

// wakeWorker wakes one worker. If the channel is full, every worker finds a token when
// it parks, and no more are needed.
func (p *pool) wakeWorker() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}
