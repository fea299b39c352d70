package sim

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"time"

	"github.com/ecrec/ecrec/commit"
	"github.com/ecrec/ecrec/internal/config"
	"github.com/ecrec/ecrec/train"
	"github.com/ecrec/ecrec/transport"
)

// cluster is the machines of a job, the network between them, and the register that says
// which processes run where.
type cluster struct {
	s        *scheduler
	draw     *rand.Rand
	cfg      *config.Config
	home     *node // of what outlives machines
	machines []*machine
	register *register
	net      *network
	faults   *faults
	auditor  *auditor

	linked  bool          // processes talk over connections, else through one memory
	delays  string        // of messages; see transport.ParseFaults
	repair  int           // rows that a step rebuilds
	slowest time.Duration // a message to or from the register
	lossy   float64       // how likely one is lost

	memory  map[uint64][]transport.Endpoint // by generation, where processes share one
	results map[uint64]*train.Result        // by generation
	trained map[uint64]*seat                // by generation: the first seat of the world that trains in it
	// furthest is the last step that was trained, or that of the checkpoint that the
	// world fellIn went back to, or a world after it.
	furthest int64
	fellIn   uint64
	over     bool // nobody waits for another world any more
	err      error
	seen     seen
}

// seen is what a run has shown.
type seen struct {
	recoveries []train.Recovery
	fellBack   bool
	worlds     int
	adopted    int // processes whose ranks went to others
	replaced   int // to a spare
	mostTasks  int
	history    []string // of worlds
}

func newCluster(s *scheduler, cfg *config.Config, set *setting, seed uint64) *cluster {
	c := &cluster{s: s, cfg: cfg, draw: rand.New(rand.NewPCG(seed, purposeMembership)), home: s.node("network"),
		linked: set.linked, delays: set.delays, repair: set.repair, slowest: set.slowest, lossy: set.lossy,
		memory: map[uint64][]transport.Endpoint{}, results: map[uint64]*train.Result{}, trained: map[uint64]*seat{}}
	c.auditor = &auditor{c: c, given: map[sealed][]*commit.Audit{}}
	c.net = newNetwork(s, c.home, seed)
	c.faults = &faults{c: c, lost: set.newLosses(cfg.EC.K, cfg.EC.R)}
	w := &world{generation: 1, seats: make([]seat, set.processes)}
	for p := range w.seats {
		w.seats[p] = seat{machine: p, incarnation: 1}
		for r := p; r < cfg.Job.Ranks; r += set.processes {
			w.seats[p].ranks = append(w.seats[p].ranks, r)
		}
	}
	for m := range set.spares {
		w.spares = append(w.spares, set.processes+m)
	}
	c.register = &register{c: c, world: w, done: make([]bool, set.processes)}
	return c
}

// run runs the job to its end, and all that it started.
func (c *cluster) run() error {
	err := c.s.run(c.home, func() {
		for range len(c.register.world.seats) + len(c.register.world.spares) {
			c.power()
		}
		c.formed(nil)
	})
	if err != nil {
		return err
	}
	return c.err
}

// result is what the job gave, nil if nothing.
func (c *cluster) result() *train.Result {
	if !c.register.over {
		return nil
	}
	return c.results[c.register.world.generation]
}

// end ends the job.
func (c *cluster) end(err error) {
	if c.over {
		return
	}
	c.over, c.err = true, err
	for _, m := range c.machines {
		wake(m.mon)
		if p := m.worker; p != nil {
			p.abort(errOver)
		}
	}
}

// formed is called when there is a new world.
func (c *cluster) formed(before *world) {
	w := c.register.world
	c.seen.worlds++
	c.auditor.clear(w.generation - 1)
	if before != nil {
		c.faults.changed(before, w)
	}
	c.faults.formed(w.generation)
}

// connect joins a process to a world, and returns the ends of its ranks.
func (c *cluster) connect(p *process, w *world) (eps []transport.Endpoint, err error) {
	if c.linked {
		eps, err = c.dialAll(p, w)
	} else {
		if c.memory[w.generation] == nil {
			c.memory[w.generation] = transport.NewMem(c.home, c.cfg.Job.Ranks, w.generation)
		}
		for _, r := range w.seats[p.number].ranks {
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
	here := w.present()
	o := transport.NetOptions{Env: p, Generation: w.generation, Secret: []byte("of the job"), Self: slices.Index(here, p.number),
		Heartbeat: c.heartbeat(), Timeout: joinLimit, Listener: c.net.listen(p)}
	machines := map[string]int{}
	for _, number := range here {
		s := &w.seats[number]
		addr := addrOf(s.machine, s.incarnation, number)
		machines[addr] = s.machine
		o.Processes = append(o.Processes, transport.Process{Ranks: s.ranks, Addr: addr, Host: fmt.Sprint(s.machine)})
	}
	o.Dial = func(addr string, limit time.Duration) (conn net.Conn, err error) {
		return c.net.dial(p, machines[addr], addr, limit)
	}
	defer func() { _ = o.Listener.Close() }()
	return transport.Join(o)
}

// watch checks who trains, and where it goes on, whenever a rank comes to a point.
func (c *cluster) watch(p *process, step int64, point string) {
	w := p.at
	if s := &w.seats[p.number]; s.gone() || s.machine != p.on.number || s.incarnation != p.incarnation {
		c.broken("%s takes part in world %d, where process %d is start %d on machine %d", p.name, w.generation, p.number, s.incarnation, s.machine)
	}
	switch point {
	case "fallen":
		c.furthest, c.fellIn = step, w.generation
	case "done":
		if w.generation >= c.fellIn {
			c.furthest = max(c.furthest, step)
		}
	case "go":
		back := c.furthest - step
		if w.trained && w.generation == c.register.world.generation && back > maxUncommitted*int64(c.cfg.EC.CommitEvery) {
			c.broken("world %d goes on from step %d, %d before the last that was trained", w.generation, step, back)
		}
	}
	if point != "word" { // all ranks of a world have met
		return
	}
	if c.trained[w.generation] == nil {
		c.trained[w.generation] = &w.seats[0]
	}
	if c.trained[w.generation] != &w.seats[0] {
		c.broken("two worlds of generation %d train", w.generation)
	}
}

// broken ends a run in which an invariant does not hold.
func (c *cluster) broken(format string, args ...any) {
	c.end(fmt.Errorf("sim: "+format, args...))
}
