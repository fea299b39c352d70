package kernels

import (
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
// workers are goroutines that run until stopWorkers. Parts are claimed one by one, so a
// core that other processes disturb does less.
//
// Invariant: task and parts are written only while no part is claimed: left is
// stored after them, and runTask returns when every part is done. A claim (left.Add
// that returns >= 0) therefore always reads the current ones, however late the
// worker is.
//
// A caller or worker that parks first writes that it does, and then looks for work once more. The other side
// writes the work first, and then looks for sleepers. Both writes are read-modify-writes. Stores would be
// enough, since those of package atomic are sequentially consistent. But under qemu's emulation of arm64 on
// amd64 the two sides missed each other with them.
type pool struct {
	threads int
	spins   int // how often an idle thread checks for work before it parks

	task  task
	parts int64
	left  atomic.Int64 // parts not claimed; below 0 between tasks
	done  atomic.Int64 // parts finished

	waiting  atomic.Bool   // the caller is parked
	finished chan struct{} // wakes the caller, at times spuriously
	sleepers atomic.Int32  // workers parked or about to be, not yet sent a token
	wake     chan struct{} // a token for each of them

	closed atomic.Bool
	ended  sync.WaitGroup
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

// runTask runs parts [0, n) of t and returns when all are done.
func (p *pool) runTask(n int, t task) {
	if p.threads == 1 || n <= 1 {
		for i := range n {
			t.runPart(0, i)
		}
		return
	}
	p.task, p.parts = t, int64(n)
	p.done.Store(0)
	p.left.Swap(int64(n))
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

// claimParts claims and runs parts until none is left.
func (p *pool) claimParts(worker int) {
	for p.left.Load() > 0 {
		l := p.left.Add(-1)
		if l < 0 {
			return
		}
		n := p.parts // read before done.Add: after it, runTask may return
		p.task.runPart(worker, int(n-1-l))
		if p.done.Add(1) == n && p.waiting.Load() {
			select {
			case p.finished <- struct{}{}:
			default:
			}
		}
	}
}

// runWorker is the loop of a worker.
func (p *pool) runWorker(worker int) {
	defer p.ended.Done()
	for idle := 0; !p.closed.Load(); idle++ {
		if p.left.Load() > 0 {
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
		if p.left.Load() > 0 || p.closed.Load() {
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
