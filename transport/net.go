package transport

import (
	"cmp"
	"fmt"
	"net"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/ecrec/ecrec/internal/blockcopy"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/heartbeat"
	"github.com/ecrec/ecrec/internal/seal"
)

// Process is one process of a world.
type Process struct {
	Ranks []int
	Addr  string // host:port on which it listens
	Host  string // processes with equal strings can share memory
}

// NetOptions configure Join.
type NetOptions struct {
	Env        env.Env
	Generation uint64
	// Secret is the job's. A process that does not know it is refused.
	Secret    []byte
	Processes []Process // together they host the ranks 0..n-1
	Self      int       // index of this process
	// Listener accepts the connections of processes with higher numbers while Join runs.
	// The caller keeps it. It must have SetDeadline, as TCP listeners do.
	Listener net.Listener
	// Dial, if set, connects with a process instead of TCP, within a limit.
	Dial func(addr string, limit time.Duration) (net.Conn, error)
	// Heartbeat is the interval of heartbeats.
	Heartbeat time.Duration
	// Silence is how long a process may be silent before it is lost. Zero means
	// heartbeat.Missed heartbeats. It may be silent for longer if this process's own
	// heartbeats are late.
	Silence time.Duration
	// Timeout limits Join.
	Timeout time.Duration
	// Cores is the share of this process of the cores of its host. Zero: all processes of
	// the host share the cores that this one may run on.
	Cores float64
	// SharedMemory lets processes of one host communicate through memory.
	SharedMemory bool
	// Secure selects the connections to seal. It must be the same in all processes.
	Secure Secure
	// Stats, if set, counts dropped frames and connections.
	Stats *NetStats

	tune          func(net.Conn) // for tests: called with each connection before it is used
	noDirectReads bool           // for tests: memory of other processes is not read
}

// Secure selects the connections to seal: to encrypt and authenticate, frame by frame,
// with keys of their own.
type Secure uint8

const (
	SecureOff  Secure = iota // none
	SecureAuto               // those between hosts
	SecureOn                 // all; the kernel protects rings of shared memory
)

// ErrForged is the cause of a PeerLost if data received over a sealed connection is not
// what the peer sent.
var ErrForged = seal.ErrForged

// NetStats counts the frames and connections that a world dropped.
type NetStats struct {
	// StaleFrames counts frames and connections of older generations.
	StaleFrames atomic.Uint64
	// Unauthenticated counts connections that did not prove that they belong to this job.
	Unauthenticated atomic.Uint64
}

type netWorld struct {
	env           env.Env
	generation    uint64
	heartbeat     time.Duration
	watchdog      watchdog // of the goroutine of heartbeats
	processes     []Process
	self          int
	process       []int // by rank
	localIndex    []int // by rank: its index in its process's Ranks
	memory        *memWorld
	links         []*link // by process; nil for this one
	noDirectReads bool
	secure        Secure
	polling       polling
	engine        *mpiEngine // of all links, over MPI; otherwise nil
	stats         *NetStats

	mon             env.Monitor // guards the fields below
	open            int         // number of endpoints that are not closed
	over            bool
	heartbeatsEnded *env.Event // heartbeatLoop has ended
}

func newNetWorld(o *NetOptions) (*netWorld, error) {
	w := &netWorld{
		env:             o.Env,
		generation:      o.Generation,
		heartbeat:       o.Heartbeat,
		watchdog:        watchdog{heartbeat: o.Heartbeat, silence: cmp.Or(o.Silence, heartbeat.Limit(o.Heartbeat, true)), join: o.Timeout},
		processes:       o.Processes,
		self:            o.Self,
		secure:          o.Secure,
		links:           make([]*link, len(o.Processes)),
		stats:           o.Stats,
		noDirectReads:   o.noDirectReads,
		mon:             o.Env.Monitor("world"),
		heartbeatsEnded: env.NewEvent(o.Env, "heartbeats"),
	}
	if w.stats == nil {
		w.stats = &NetStats{}
	}
	n := 0
	for _, p := range o.Processes {
		n += len(p.Ranks)
	}
	w.process, w.localIndex = make([]int, n), make([]int, n)
	for r := range n {
		w.process[r] = -1
	}
	for i, p := range o.Processes {
		for j, r := range p.Ranks {
			if r < 0 || r >= n || w.process[r] >= 0 {
				return nil, fmt.Errorf("transport: process %d hosts rank %d: the processes together must host each of the ranks 0 to %d once", i, r,
					n-1)
			}
			w.process[r], w.localIndex[r] = i, j
		}
	}
	if o.Self < 0 || o.Self >= len(o.Processes) || len(o.Processes[o.Self].Ranks) == 0 {
		return nil, fmt.Errorf("transport: process %d of %d hosts no rank", o.Self, len(o.Processes))
	}
	if o.Heartbeat <= 0 || o.Timeout <= 0 {
		return nil, fmt.Errorf("transport: heartbeat %v and timeout %v must be above 0", o.Heartbeat, o.Timeout)
	}
	near := w.countNear()
	blockcopy.Share(near)
	w.polling.env, w.polling.mon = o.Env, o.Env.Monitor("polling")
	hosted := len(o.Processes[o.Self].Ranks)
	w.polling.shared, w.polling.crowd = near > runtime.NumCPU(), hosted > 1
	if o.Cores > 0 {
		w.polling.shared = float64(hosted) > o.Cores
	}
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

// mustSeal reports whether the connection with a process is sealed.
func (w *netWorld) mustSeal(process int) bool {
	return w.secure == SecureOn || w.secure == SecureAuto && w.processes[process].Host != w.processes[w.self].Host
}

// startLinks starts the links and the heartbeats.
func (w *netWorld) startLinks() []Endpoint {
	for _, l := range w.links {
		if l != nil && l.ring != nil {
			w.polling.rings = append(w.polling.rings, l.ring)
		}
	}
	if w.engine != nil {
		w.env.Go("MPI engine", w.engine.serveLinks)
	} else {
		for _, l := range w.links {
			if l != nil {
				l.startLoops()
			}
		}
	}
	// A process counts as joined from its first heartbeat on. It is sent before any rank
	// can use its endpoint, because data in a ring is not a sign of life.
	for _, l := range w.links {
		if l != nil {
			l.sendHeartbeat()
		}
	}
	w.env.Go("heartbeats", w.heartbeatLoop)
	eps := make([]Endpoint, w.open)
	for i, r := range w.processes[w.self].Ranks {
		eps[i] = &netEndpoint{memEndpoint: memEndpoint{world: w.memory, rank: r}, net: w}
	}
	return eps
}

// heartbeatLoop sends heartbeats to the peers and checks theirs.
func (w *netWorld) heartbeatLoop() {
	defer w.heartbeatsEnded.Set(nil)
	w.watchdog.began, w.watchdog.last = w.env.Now(), w.env.Now()
	for tick := 0; w.waitTick(); tick++ {
		now := w.env.Now()
		stood := w.watchdog.recordTick(now)
		for _, l := range w.links {
			if l == nil || l.failure() != nil {
				continue
			}
			received := time.Duration(l.lastReceived.Load())
			if stood && received != neverReceived {
				received = now
				l.lastReceived.Store(int64(now))
			}
			if tick%2 == 0 {
				l.sendHeartbeat()
			}
			if err := w.watchdog.checkSilence(received, now); err != nil && !l.hasLeft() {
				l.failWith(err)
			}
		}
	}
}

// waitTick waits for half a heartbeat. It reports false when the world is over.
func (w *netWorld) waitTick() bool {
	until := w.env.Now() + w.heartbeat/2
	w.mon.Lock()
	defer w.mon.Unlock()
	for !w.over && w.env.Now() < until {
		w.mon.WaitUntil(until)
	}
	return !w.over
}

// endpointClosed counts down the open endpoints. The last one ends the world.
func (w *netWorld) endpointClosed() {
	w.mon.Lock()
	w.open--
	if w.open > 0 {
		w.mon.Unlock()
		return
	}
	w.over = true
	w.mon.Wake()
	w.mon.Unlock()
	_ = w.heartbeatsEnded.Wait()
	for _, l := range w.links { // all at once, because a stalled peer takes time
		if l != nil {
			l.mon.Lock()
			l.closing = true
			l.mon.Wake()
			l.mon.Unlock()
		}
	}
	for _, l := range w.links {
		if l != nil {
			l.closeLink(heartbeat.Missed * w.heartbeat)
		}
	}
	if w.engine != nil {
		w.engine.stopEngine()
	}
}

// netEndpoint reaches the ranks of its own process as memEndpoint does, and the others
// over links.
type netEndpoint struct {
	memEndpoint
	net  *netWorld
	once atomic.Bool // closed
}

func (ep *netEndpoint) Send(to int, tag Tag, p []byte) Request {
	checkPeer(ep, to)
	if l := ep.net.links[ep.net.process[to]]; l != nil {
		return l.postSend(ep.rank, to, tag, p)
	}
	return ep.memEndpoint.Send(to, tag, p)
}

func (ep *netEndpoint) Recv(from int, tag Tag, p []byte) Request {
	checkPeer(ep, from)
	if l := ep.net.links[ep.net.process[from]]; l != nil {
		return l.postRecv(ep.rank, from, tag, p)
	}
	return ep.memEndpoint.Recv(from, tag, p)
}

func (ep *netEndpoint) Abort(cause error) {
	seen := lossSeenByPeers(ep.rank, ep.net.generation, cause)
	ep.memEndpoint.Abort(cause)
	for _, l := range ep.net.links {
		if l != nil {
			l.abortRank(ep.rank, cause, seen)
		}
	}
}

func (ep *netEndpoint) Close() error {
	ep.Abort(ErrClosed)
	if ep.once.CompareAndSwap(false, true) {
		ep.net.endpointClosed()
	}
	return nil
}
