package transport

import (
	"fmt"
	"net"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/ecrec/ecrec/internal/blockcopy"
	"github.com/ecrec/ecrec/internal/env"
)

// Process is one process of a world.
type Process struct {
	Ranks []int
	Addr  string // host:port it listens on
	Host  string // processes with equal strings can share memory
}

// NetOptions is what Join needs.
type NetOptions struct {
	Env        env.Env
	Generation uint64
	// Secret is the job's: who does not know it is not believed.
	Secret    []byte
	Processes []Process // together they host the ranks 0..n-1
	Self      int       // which of them this is
	// Listener accepts the connections of processes with higher numbers while Join
	// runs. It stays the caller's; it must have SetDeadline, as TCP listeners do.
	Listener net.Listener
	// Dial, if set, connects with a process in place of TCP, within a limit.
	Dial func(addr string, limit time.Duration) (net.Conn, error)
	// Heartbeat is how often each process shows that it lives; one that is silent
	// for 5 of them is lost.
	Heartbeat time.Duration
	// Timeout bounds Join.
	Timeout time.Duration
	// SharedMemory lets processes of one host talk through memory.
	SharedMemory bool
	// Stats, if set, counts what was dropped.
	Stats *NetStats

	tune  func(net.Conn) // for tests: sees each connection before it is used
	apart bool           // for tests: memory of other processes is not read
}

// NetStats counts what a world dropped.
type NetStats struct {
	// StaleFrames are frames and connections of older generations.
	StaleFrames atomic.Uint64
	// Strangers are connections that did not prove that they are of this job.
	Strangers atomic.Uint64
}

// silentBeats is after how many heartbeats a silent process is lost. Looking
// twice in each, it is noticed before the fifth.
const silentBeats = 4

type netWorld struct {
	env        env.Env
	generation uint64
	heartbeat  time.Duration
	processes  []Process
	self       int
	process    []int // by rank
	place      []int // by rank: its place in its process's Ranks
	memory     *memWorld
	links      []*link // by process; nil for this one
	apart      bool
	polling    polling
	carrier    *carrier // of all links, over MPI; else nil
	stats      *NetStats

	mon     env.Monitor // guards what follows
	open    int         // endpoints that are not closed
	over    bool
	beating *env.Event // the heartbeats have ended
}

func newNetWorld(o *NetOptions) (*netWorld, error) {
	w := &netWorld{
		env:        o.Env,
		generation: o.Generation,
		heartbeat:  o.Heartbeat,
		processes:  o.Processes,
		self:       o.Self,
		links:      make([]*link, len(o.Processes)),
		stats:      o.Stats,
		apart:      o.apart,
		mon:        o.Env.Monitor("world"),
		beating:    env.NewEvent(o.Env, "heartbeats"),
	}
	if w.stats == nil {
		w.stats = &NetStats{}
	}
	n := 0
	for _, p := range o.Processes {
		n += len(p.Ranks)
	}
	w.process, w.place = make([]int, n), make([]int, n)
	for r := range n {
		w.process[r] = -1
	}
	for i, p := range o.Processes {
		for j, r := range p.Ranks {
			if r < 0 || r >= n || w.process[r] >= 0 {
				return nil, fmt.Errorf("transport: process %d hosts rank %d: the processes together host each of the ranks 0 to %d once", i, r, n-1)
			}
			w.process[r], w.place[r] = i, j
		}
	}
	if o.Self < 0 || o.Self >= len(o.Processes) || len(o.Processes[o.Self].Ranks) == 0 {
		return nil, fmt.Errorf("transport: process %d of %d joins, and hosts no rank", o.Self, len(o.Processes))
	}
	if o.Heartbeat <= 0 || o.Timeout <= 0 {
		return nil, fmt.Errorf("transport: heartbeat %v and timeout %v must be above 0", o.Heartbeat, o.Timeout)
	}
	near := w.countNear()
	blockcopy.Share(near)
	w.polling.env, w.polling.mon, w.polling.shared = o.Env, o.Env.Monitor("polling"), near > runtime.NumCPU()
	w.memory = newMemWorld(o.Env, n, o.Generation, o.Processes[o.Self].Ranks)
	w.open = len(o.Processes[o.Self].Ranks)
	return w, nil
}

// countNear counts the ranks on this host.
func (w *netWorld) countNear() (n int) {
	for _, p := range w.processes {
		if p.Host == w.processes[w.self].Host {
			n += len(p.Ranks)
		}
	}
	return n
}

// start sets the links and the heartbeats going.
func (w *netWorld) start() []Endpoint {
	for _, l := range w.links {
		if l != nil && l.ring != nil {
			w.polling.rings = append(w.polling.rings, l.ring)
		}
	}
	if w.carrier != nil {
		w.env.Go("MPI carrier", w.carrier.serve)
	} else {
		for _, l := range w.links {
			if l != nil {
				l.run()
			}
		}
	}
	w.env.Go("heartbeats", w.beat)
	eps := make([]Endpoint, w.open)
	for i, r := range w.processes[w.self].Ranks {
		eps[i] = &netEndpoint{memEndpoint: memEndpoint{world: w.memory, rank: r}, net: w}
	}
	return eps
}

// beat shows the peers that this process lives, and looks whether they do.
func (w *netWorld) beat() {
	defer w.beating.Set(nil)
	for tick, last := 0, w.env.Now(); w.pause(); tick++ {
		now := w.env.Now()
		stood := now-last > w.heartbeat // this process itself stood still
		last = now
		for _, l := range w.links {
			if l == nil || l.failed() != nil {
				continue
			}
			if stood {
				l.heard.Store(int64(now))
			}
			if tick%2 == 0 {
				l.beat()
			}
			if silent := now - time.Duration(l.heard.Load()); silent > silentBeats*w.heartbeat && !l.parted() {
				l.fail(fmt.Errorf("nothing was heard of its process for %v", silent.Round(time.Millisecond)))
			}
		}
	}
}

// pause waits for half a heartbeat; it reports false when the world is over.
func (w *netWorld) pause() bool {
	until := w.env.Now() + w.heartbeat/2
	w.mon.Lock()
	defer w.mon.Unlock()
	for !w.over && w.env.Now() < until {
		w.mon.WaitUntil(until)
	}
	return !w.over
}

// closed counts the endpoints that are closed; the last one ends the world.
func (w *netWorld) closed() {
	w.mon.Lock()
	w.open--
	if w.open > 0 {
		w.mon.Unlock()
		return
	}
	w.over = true
	w.mon.Wake()
	w.mon.Unlock()
	_ = w.beating.Wait()
	for _, l := range w.links { // side by side, since a stalled peer takes its time
		if l != nil {
			l.mon.Lock()
			l.closing = true
			l.mon.Wake()
			l.mon.Unlock()
		}
	}
	for _, l := range w.links {
		if l != nil {
			l.close(silentBeats * w.heartbeat)
		}
	}
	if w.carrier != nil {
		w.carrier.stop()
	}
}

// netEndpoint reaches the ranks of its own process as memEndpoint does, and the
// others over links.
type netEndpoint struct {
	memEndpoint
	net  *netWorld
	once atomic.Bool // closed
}

func (ep *netEndpoint) Send(to int, tag Tag, p []byte) Request {
	checkPeer(ep, to)
	if l := ep.net.links[ep.net.process[to]]; l != nil {
		return l.send(ep.rank, to, tag, p)
	}
	return ep.memEndpoint.Send(to, tag, p)
}

func (ep *netEndpoint) Recv(from int, tag Tag, p []byte) Request {
	checkPeer(ep, from)
	if l := ep.net.links[ep.net.process[from]]; l != nil {
		return l.recv(ep.rank, from, tag, p)
	}
	return ep.memEndpoint.Recv(from, tag, p)
}

func (ep *netEndpoint) Abort(cause error) {
	seen := lossSeenByPeers(ep.rank, ep.net.generation, cause)
	ep.memEndpoint.Abort(cause)
	for _, l := range ep.net.links {
		if l != nil {
			l.abort(ep.rank, cause, seen)
		}
	}
}

func (ep *netEndpoint) Close() error {
	ep.Abort(ErrClosed)
	if ep.once.CompareAndSwap(false, true) {
		ep.net.closed()
	}
	return nil
}
