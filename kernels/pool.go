package kernels

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// task is work in tiles that may run in any order, at the same time, each by
// one worker. Tiles split outputs, so order cannot change a bit.
type task interface {
	// tile does tile i. worker is in [0, threads): no two tiles run with the same
	// worker at once, so it can index scratch.
	tile(worker, i int)
}

// pool runs tasks on a fixed number of threads, the caller's being worker 0. Its
// other workers are goroutines that live until close. Tiles are claimed one by
// one, so a core that other processes disturb does less.
//
// Invariant: task and tiles are written only while no tile is claimed: left is
// stored after them, and run returns when every tile is done. A claim (left.Add
// that gives >= 0) therefore always reads the current ones, however late the
// worker is.
type pool struct {
	threads int
	spins   int // how often an idle thread looks before it parks

	task  task
	tiles int64
	left  atomic.Int64 // tiles not claimed; below 0 between runs
	done  atomic.Int64 // tiles finished

	waiting  atomic.Bool   // the caller is parked
	finished chan struct{} // wakes it, at times for nothing
	sleepers atomic.Int32  // workers parked or about to be, not yet sent a token
	wake     chan struct{} // a token for each of them

	closed atomic.Bool
	ended  sync.WaitGroup
}

// poolThreads counts the threads of all pools: they spin only while every one of
// them can have a core of its own.
var poolThreads atomic.Int32

// spinsBeforePark makes 15 to 55 us: more than the serial code between two
// operations, about what it costs to park and wake a thread.
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
		go p.work(w)
	}
	return p
}

// close ends the workers and waits for them. No run may follow.
func (p *pool) close() {
	p.closed.Store(true)
	for i := 1; i < p.threads; i++ {
		p.token()
	}
	p.ended.Wait()
	poolThreads.Add(int32(-p.threads))
}

// run does tiles [0, n) of t and returns when all are done.
func (p *pool) run(n int, t task) {
	if p.threads == 1 || n <= 1 {
		for i := range n {
			t.tile(0, i)
		}
		return
	}
	p.task, p.tiles = t, int64(n)
	p.done.Store(0)
	p.left.Store(int64(n))
	for i := min(n, p.threads) - 1; i > 0 && p.takeSleeper(); i-- {
		p.token()
	}
	p.help(0)
	for i := 0; p.done.Load() != int64(n); i++ {
		if i < p.spins {
			pause()
			continue
		}
		p.waiting.Store(true)
		if p.done.Load() != int64(n) {
			<-p.finished
		}
		p.waiting.Store(false)
	}
	p.task = nil
}

// help does tiles until none is left to claim.
func (p *pool) help(worker int) {
	for p.left.Load() > 0 {
		l := p.left.Add(-1)
		if l < 0 {
			return
		}
		n := p.tiles // read before done.Add: after it, run may return
		p.task.tile(worker, int(n-1-l))
		if p.done.Add(1) == n && p.waiting.Load() {
			select {
			case p.finished <- struct{}{}:
			default:
			}
		}
	}
}

// work is the life of a worker.
func (p *pool) work(worker int) {
	defer p.ended.Done()
	for idle := 0; !p.closed.Load(); idle++ {
		if p.left.Load() > 0 {
			p.help(worker)
			idle = -1
			continue
		}
		if idle < p.spins {
			pause()
			continue
		}
		p.sleepers.Add(1)
		// A run that began before the Add saw no sleeper: look once more.
		if p.left.Load() > 0 || p.closed.Load() {
			p.takeSleeper() // if it fails a token is on its way: a wake for nothing
		} else {
			<-p.wake
		}
		idle = -1
	}
}

// takeSleeper takes one off the count of sleepers, false if there is none.
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

// token wakes one worker. Where the channel is full every worker finds a token
// when it parks, so none need be added.
func (p *pool) token() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}
