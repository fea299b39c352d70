package sim

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"time"

	"github.com/ecrec/ecrec/commit"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/env/virtual"
	"github.com/ecrec/ecrec/internal/probe"
	"github.com/ecrec/ecrec/rowlog"
	"github.com/ecrec/ecrec/train"
	"github.com/ecrec/ecrec/transport"
)

// cluster is the hosts of a job, the network between them, and the register that assigns
// processes to hosts.
type cluster struct {
	s        *virtual.Scheduler
	seed     uint64
	draw     *rand.Rand
	cfg      *config.Config
	home     *virtual.Process // of the network and the register, which outlive hosts
	hosts    []*host
	register *register
	net      *network
	faults   *faults
	auditor  *auditor

	linked      bool // processes communicate over connections, otherwise through one memory
	secure      transport.Secure
	delays      string // of messages; see transport.ParseFaults
	rebuildRows int    // rows that each step rebuilds
	frames      int    // rows of a rank in memory; 0: all
	saves       *saves
	broker      *broker       // of the topic
	samples     *samples      // nil: they are in files
	slowest     time.Duration // maximum delay of a message to or from the register
	lossy       float64       // probability that one is lost

	saveTo  string                          // the model
	digests map[int64]string                // of the model, by the step of the commit
	memory  map[uint64][]transport.Endpoint // by generation, if processes share one memory
	results map[uint64]*train.Result        // by generation
	trained map[uint64]*slot                // by generation: the slots of the world that trains in it
	// furthest is the last trained step. If the world restoredIn, or a later one, has
	// restored a checkpoint, it counts from that checkpoint's step.
	furthest   int64
	restoredIn uint64
	evaluated  evaluated
	over       bool // no task waits for another world any more
	err        error
	seen       seen
}

// seen records what happened in a run.
type seen struct {
	recoveries []train.Recovery
	restored   bool
	fromLogs   bool
	worlds     int
	reassigned int // processes whose ranks were reassigned
	replaced   int // processes replaced by a spare
	saved      int // checkpoints
	unsaved    int // that failed
	mostTasks  int
	history    []string // faults and worlds
}

func newCluster(s *virtual.Scheduler, cfg *config.Config, set *setting, seed uint64) *cluster {
	c := &cluster{s: s, seed: seed, cfg: cfg, draw: rand.New(rand.NewPCG(seed, purposeMembership)), home: s.NewProcess("network"),
		linked: set.linked, delays: set.delays, rebuildRows: set.rebuildRows, frames: set.frames, slowest: set.slowest, lossy: set.lossy,
		digests: map[int64]string{}, memory: map[uint64][]transport.Endpoint{}, results: map[uint64]*train.Result{}, trained: map[uint64]*slot{}}
	c.auditor = &auditor{c: c, received: map[sealed][]*commit.Audit{}}
	if seed%2 == 1 { // not drawn, so that the other draws of every seed stay the same
		c.secure = transport.SecureAuto
	}
	c.net = newNetwork(s, c.home, seed)
	c.broker = newBroker(c, seed)
	c.faults = &faults{c: c, lost: newLosses(set.trainers, set.owners, cfg.EC.K, cfg.EC.R)}
	w := &world{generation: 1, slots: make([]slot, set.processes)}
	for p := range w.slots {
		w.slots[p] = slot{host: p, incarnation: 1}
		for r := p; r < cfg.Job.Ranks; r += set.processes {
			w.slots[p].ranks = append(w.slots[p].ranks, r)
		}
	}
	for h := range set.spares {
		w.spares = append(w.spares, set.processes+h)
	}
	c.register = &register{c: c, world: w, done: make([]bool, set.processes)}
	return c
}

// runJob runs the job and all its tasks to the end.
func (c *cluster) runJob() error {
	err := c.s.Run(c.home, func() {
		for range len(c.register.world.slots) + len(c.register.world.spares) {
			c.startHost(&machine{number: len(c.hosts), dirs: map[string]*rowlog.MemDir{}})
		}
		c.worldFormed(nil)
	})
	if err != nil {
		return err
	}
	return c.err
}

// jobResult returns the result of the job, nil if there is none.
func (c *cluster) jobResult() *train.Result {
	if !c.register.over {
		return nil
	}
	return c.results[c.register.world.generation]
}

// endJob ends the job.
func (c *cluster) endJob(err error) {
	if c.over {
		return
	}
	c.over, c.err = true, err
	for _, h := range c.hosts {
		wake(h.mon)
		if p := h.worker; p != nil {
			p.abortEndpoints(errOver)
		}
	}
}

// worldFormed is called when there is a new world.
func (c *cluster) worldFormed(before *world) {
	w := c.register.world
	c.seen.worlds++
	c.auditor.dropBefore(w.generation - 1)
	if before != nil {
		c.faults.worldChanged(before, w)
	}
	c.faults.worldFormed(w.generation)
}

// joinWorld joins a process to a world and returns the endpoints of its ranks.
func (c *cluster) joinWorld(p *process, w *world) (eps []transport.Endpoint, err error) {
	if c.linked {
		eps, err = c.dialAll(p, w)
	} else {
		if c.memory[w.generation] == nil {
			c.memory[w.generation] = transport.NewMem(c.home, c.cfg.Job.Ranks, w.generation)
		}
		for _, r := range w.slots[p.number].ranks {
			eps = append(eps, c.memory[w.generation][r])
		}
	}
	if c.delays == "" {
		return eps, err
	}
	for i := range eps {
		f, err := transport.ParseFaults(c.draw.Uint64(), c.delays)
		if err != nil {
			panic(err)
		}
		eps[i] = transport.Wrap(p, eps[i], f)
	}
	return eps, err
}

// joinLimit is how long processes may take to connect.
const joinLimit = time.Minute

// dialAll joins a world over connections.
func (c *cluster) dialAll(p *process, w *world) ([]transport.Endpoint, error) {
	here := w.hosting()
	o := transport.NetOptions{Env: p, Generation: w.generation, Secret: []byte("of the job"), Self: slices.Index(here, p.number),
		Secure: c.secure, Heartbeat: c.heartbeatTime(), Timeout: joinLimit, Listener: c.net.newListener(&p.netProcess)}
	hosts := map[string]int{}
	for _, number := range here {
		s := &w.slots[number]
		addr := addrOf(s.host, s.incarnation, number)
		hosts[addr] = s.host
		o.Processes = append(o.Processes, transport.Process{Ranks: s.ranks, Addr: addr, Host: fmt.Sprint(s.host)})
	}
	o.Dial = func(addr string, limit time.Duration) (conn net.Conn, err error) {
		return c.net.dialHost(&p.netProcess, hosts[addr], addr, limit)
	}
	defer func() { _ = o.Listener.Close() }()
	return transport.Join(o)
}

// maxUncommitted is the number of epochs that a loss can undo, as those that survive count it: one that is sealed, and the
// current one.
const maxUncommitted = 2

// mostUndone is the number of steps that a loss can undo: those of an epoch that is sealed, those of the current one, and
// one more. The lost process may have passed the barrier of the next seal, where it commits the first of the two, and have
// ended its step, while all others are still in that barrier and cannot know. Seed 217109 has such a loss.
func mostUndone(epoch int) int64 { return maxUncommitted*int64(epoch) + 1 }

// checkPoint checks, whenever a rank reaches a point, that its process may take part in
// its world and that training resumes at an allowed step.
func (c *cluster) checkPoint(p *process, step int64, point probe.Point) {
	w := p.at
	if s := &w.slots[p.number]; s.isReassigned() || s.host != p.host.number || s.incarnation != p.incarnation {
		c.failRun("%s takes part in world %d, in which process %d is start %d on host %d", p.Name(), w.generation, p.number, s.incarnation, s.host)
	}
	c.checkEvals(w, step, point)
	switch point {
	case probe.Restored:
		c.furthest, c.restoredIn = step, w.generation
	case probe.Done:
		if w.generation >= c.restoredIn {
			c.furthest = max(c.furthest, step)
		}
	case probe.Start:
		back := c.furthest - step
		if w.trained && w.generation == c.register.world.generation && back > mostUndone(c.cfg.EC.CommitEvery) {
			c.failRun("world %d resumes at step %d, %d steps before the last trained one", w.generation, step, back)
		}
	}
	if point != probe.Status { // all ranks of a world have met
		return
	}
	if c.trained[w.generation] == nil {
		c.trained[w.generation] = &w.slots[0]
	}
	if c.trained[w.generation] != &w.slots[0] {
		c.failRun("two worlds of generation %d train", w.generation)
	}
}

// noteDigest records the digest of a commit. It must be the same whenever a step is trained again.
func (c *cluster) noteDigest(step int64, digest string) {
	if had := c.digests[step]; had != "" && had != digest {
		c.failRun("the commit of step %d has digest %s, and had %s before", step, digest, had)
	}
	c.digests[step] = digest
}

// failRun ends a run in which an invariant does not hold.
func (c *cluster) failRun(format string, args ...any) {
	c.endJob(fmt.Errorf("sim: "+format, args...))
}
