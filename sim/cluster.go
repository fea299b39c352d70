package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/ecrec/ecrec/commit"
	"github.com/ecrec/ecrec/internal/config"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/train"
	"github.com/ecrec/ecrec/transport"
)

// cluster is the processes of a job, and the register that says which world they are
// in: who has died is started again, and the next world begins when all listen.
type cluster struct {
	s       *scheduler
	draw    *rand.Rand
	cfg     *config.Config
	home    *node // of what outlives processes
	procs   []*process
	faults  *faults
	auditor *auditor
	delays  string // of messages; see transport.ParseFaults
	repair  int    // rows that a step rebuilds

	mon        env.Monitor // guards what follows
	generation uint64
	finished   int
	over       bool // nobody waits for another world any more
	result     *train.Result
	err        error
	seen       seen
}

// seen is what a run has shown.
type seen struct {
	recoveries []train.Recovery
	fellBack   bool
	joined     int // worlds
	tail       bool
}

// process is one incarnation of a process.
type process struct {
	*node
	c           *cluster
	number      int
	incarnation int
	listening   bool
	eps         []transport.Endpoint // in the world of now
	news        bool                 // they have not been taken yet
}

var (
	errDead = errors.New("sim: the process is dead") // what it gets that was killed
	errOver = errors.New("sim: the job is over")     // and who waits for a world that will not come
)

// Slowest of what is drawn, in virtual time.
const (
	slowestAnswer  = 20 * time.Millisecond // of the register
	slowestRestart = 300 * time.Millisecond
)

func newCluster(s *scheduler, cfg *config.Config, processes int, seed uint64) *cluster {
	c := &cluster{s: s, cfg: cfg, draw: rand.New(rand.NewPCG(seed, purposeMembership)), home: s.node("register"),
		procs: make([]*process, processes), auditor: &auditor{given: map[int64][]*commit.Audit{}}}
	c.mon = c.home.Monitor("register")
	c.faults = &faults{c: c}
	return c
}

// run runs the job to its end, and all that it started.
func (c *cluster) run() error {
	err := c.s.run(c.home, func() {
		for i := range c.procs {
			c.start(i, 1)
		}
	})
	if err != nil {
		return err
	}
	return c.err
}

func (c *cluster) start(number, incarnation int) {
	p := &process{c: c, number: number, incarnation: incarnation}
	p.node = c.s.node(fmt.Sprintf("process %d (start %d)", number, incarnation))
	c.procs[number] = p
	p.Go("main", p.main)
}

// main is the life of a process.
func (p *process) main() {
	c := p.c
	w := &train.World{Process: p.number, Processes: len(c.procs), Neighbours: len(c.procs), Join: p.join}
	w.Renew = func(err error) *train.World {
		if p.dead || !train.Follows(err) {
			return nil
		}
		return w
	}
	result, err := train.Run(p, c.cfg, train.Options{Stop: func() bool { return false }, Observer: observer{p}, World: w,
		RepairRows: c.repair, Chaos: p.chaos, Audit: c.auditor.hook(p)})
	c.mon.Lock()
	defer c.mon.Unlock()
	switch {
	case p.dead || errors.Is(err, errOver):
	case err != nil:
		c.end(err)
	default:
		c.finished++
		if p.number == 0 {
			c.result = result
			c.end(nil)
		}
		c.endTail()
	}
}

// end ends the job. The caller holds the register.
func (c *cluster) end(err error) {
	if !c.over {
		c.over, c.err = true, err
	}
	c.mon.Wake()
}

// endTail ends a job that some processes have left, done, when others notice a loss:
// nobody is there to train with. The caller holds the register.
func (c *cluster) endTail() {
	for _, p := range c.procs {
		if p == nil || p.number == 0 && !p.listening {
			return
		}
	}
	if c.finished > 0 && !c.over {
		c.seen.tail = true
		c.end(nil)
	}
}

// join waits for the next world.
func (p *process) join(hosted []int) ([]transport.Endpoint, error) {
	c := p.c
	p.Sleep(time.Duration(c.draw.Int64N(int64(slowestAnswer))))
	c.mon.Lock()
	defer c.mon.Unlock()
	if p.dead {
		return nil, errDead
	}
	p.listening, p.eps = true, nil
	c.form()
	c.endTail()
	for !p.news && !p.dead && !c.over {
		c.mon.Wait()
	}
	switch {
	case p.news:
		p.news = false
		return p.eps, nil
	case p.dead:
		return nil, errDead
	}
	return nil, errOver
}

// form begins a world if all listen.
func (c *cluster) form() {
	for _, p := range c.procs {
		if p == nil || !p.listening {
			return
		}
	}
	c.generation++
	c.seen.joined++
	for rank, ep := range transport.NewMem(c.home, c.cfg.Job.Ranks, c.generation) {
		p := c.procs[rank%len(c.procs)]
		if c.delays != "" {
			f, err := transport.ParseFaults(c.draw.Uint64(), c.delays)
			if err != nil {
				panic(err)
			}
			ep = transport.Wrap(p, ep, f)
		}
		p.eps = append(p.eps, ep)
		p.listening, p.news = false, true
	}
	c.auditor.clear()
	c.mon.Wake()
	c.faults.formed(c.generation)
}

// kill ends a process as SIGKILL does: from now on it reaches nobody. What still runs
// of it finds out at its next message or write.
func (p *process) kill() {
	c := p.c
	if p.dead {
		return
	}
	p.dead = true
	c.procs[p.number] = nil
	if p.frozen {
		p.thaw()
	}
	p.abort(&train.Died{Rank: p.number})
	c.mon.Lock()
	c.mon.Wake()
	c.mon.Unlock()
	pause := time.Duration(c.draw.Int64N(int64(slowestRestart)))
	c.home.Go("restart", func() {
		c.home.Sleep(pause)
		c.mon.Lock()
		defer c.mon.Unlock()
		if !c.over {
			c.start(p.number, p.incarnation+1)
		}
	})
}

// abort breaks all connections of a process.
func (p *process) abort(cause error) {
	for _, ep := range p.eps {
		ep.Abort(cause)
	}
}

// hosts lists a process's ranks.
func (c *cluster) hosts(process int) (ranks []int) {
	for r := process; r < c.cfg.Job.Ranks; r += len(c.procs) {
		ranks = append(ranks, r)
	}
	return ranks
}

// chaos is a process's Options.Chaos.
func (p *process) chaos(rank int, step int64, point string) error {
	if !p.dead {
		p.c.faults.reached(p, step, point)
	}
	if p.dead {
		return &train.Died{Rank: rank, Step: step}
	}
	return nil
}

// observer hears of one process.
type observer struct{ p *process }

func (o observer) Started(train.Info) error          { return nil }
func (o observer) Step(train.StepInfo)               {}
func (o observer) Evaluated(train.Eval)              {}
func (o observer) Checkpointed(int64, string, error) {}
func (o observer) PassedOver(path string, err error) {}
func (o observer) Recovered(r train.Recovery) {
	if !o.p.dead {
		o.p.c.seen.recoveries = append(o.p.c.seen.recoveries, r)
		o.p.c.faults.whole()
	}
}
func (o observer) Warned(what string) {
	if !o.p.dead && strings.Contains(what, "goes on from the checkpoint") {
		o.p.c.seen.fellBack = true
	}
}
