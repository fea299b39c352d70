package sim

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ecrec/ecrec/train"
	"github.com/ecrec/ecrec/transport"
)

// process is one incarnation of a process: a worker.
type process struct {
	*node
	c                   *cluster
	on                  *machine
	number, incarnation int

	told   *world // the newest that it was told; the machine's monitor guards it
	at     *world // that it is in
	eps    []transport.Endpoint
	conns  []*conn
	beaten time.Duration // when it last showed that it lives
}

var (
	errDead    = errors.New("sim: the process is dead") // what it gets that was killed
	errOver    = errors.New("sim: the job is over")     // and who waits for a world that will not come
	errChanged = errors.New("sim: the world has changed")
)

// start starts a process on a machine that has power.
func (m *machine) start(number int, w *world) {
	if m.dead {
		return
	}
	p := &process{c: m.c, on: m, number: number, incarnation: w.seats[number].incarnation, told: w}
	p.node = m.c.s.node(fmt.Sprintf("process %d (start %d, on machine %d)", number, p.incarnation, m.number))
	m.worker = p
	pause := time.Duration(m.c.draw.Int64N(int64(slowestRestart)))
	p.Go("main", func() {
		p.Sleep(pause)
		p.main()
	})
}

// main is the life of a process.
func (p *process) main() {
	if p.dead {
		return
	}
	c := p.c
	p.Go("beat", p.beat)
	_, err := train.Run(p, c.cfg, train.Options{Stop: func() bool { return false }, Observer: observer{p}, World: p.world(),
		RepairRows: c.repair, Chaos: p.chaos, Audit: c.auditor.hook(p), Check: true})
	switch {
	case p.dead || errors.Is(err, errOver) || errors.Is(err, errDead):
	case p.fenced(): // nobody listens to it
		p.kill()
	case err != nil:
		c.end(err)
	}
}

// beat shows the supervisor that the process lives.
func (p *process) beat() {
	for !p.dead && !p.c.over {
		p.beaten = p.Now()
		p.Sleep(p.c.heartbeat())
	}
}

// fenced reports whether the process's place in the job is another's.
func (p *process) fenced() bool {
	s := &p.c.register.world.seats[p.number]
	return s.gone() || s.machine != p.on.number || s.incarnation != p.incarnation
}

// tell tells a process that there is a new world: what it does in the old one ends.
func (p *process) tell(w *world) {
	p.on.mon.Lock()
	p.told = w
	p.on.mon.Wake()
	p.on.mon.Unlock()
	p.abort(errChanged)
}

// world is that which the process was told last, as package train knows it.
func (p *process) world() *train.World {
	w := p.told
	p.at = w
	return &train.World{Process: p.number, Processes: len(w.seats), Neighbours: len(w.seats), Hosted: w.seats[p.number].ranks, Trained: w.trained,
		Join:      func([]int) ([]transport.Endpoint, error) { return p.join(w) },
		Renew:     p.renew,
		Done:      func(r *train.Result) (bool, error) { return p.done(w, r) },
		Committed: func(bool) { p.on.tell(func() { p.on.committed = w.generation }); p.c.faults.committed(w) },
	}
}

// over reports whether the process has nothing to wait for.
func (p *process) over() bool { return p.dead || p.c.over }

func (p *process) overErr() error {
	if p.dead {
		return errDead
	}
	return errOver
}

// joined is a world that a process has joined, or tried to.
type joined struct {
	eps             []transport.Endpoint
	err             error
	abandoned, done bool
}

// join connects the process with the others of a world.
func (p *process) join(w *world) ([]transport.Endpoint, error) {
	if p.over() {
		return nil, p.overErr()
	}
	j, mon := &joined{}, p.on.mon
	p.Go("join", func() {
		eps, err := p.c.connect(p, w)
		mon.Lock()
		j.eps, j.err, j.done = eps, err, true
		abandoned := j.abandoned
		mon.Wake()
		mon.Unlock()
		if abandoned {
			for _, ep := range eps {
				_ = ep.Close()
			}
		}
	})
	mon.Lock()
	defer mon.Unlock()
	for !j.done && p.told == w && !p.over() {
		mon.Wait()
	}
	switch {
	case !j.done || p.over() || p.told != w:
		j.abandoned = true
		if j.done {
			p.Go("leave", func() {
				for _, ep := range j.eps {
					_ = ep.Close()
				}
			})
		}
		if p.over() {
			return nil, p.overErr()
		}
		return nil, errChanged
	case j.err != nil:
		return nil, j.err
	}
	p.eps = j.eps
	return j.eps, nil
}

// renew is the world after the one that ended with an error here.
func (p *process) renew(err error) *train.World {
	m, mon := p.on, p.on.mon
	mon.Lock()
	if p.told == p.at && !p.over() {
		if !train.Follows(err) {
			mon.Unlock()
			return nil
		}
		for until := p.Now() + silentBeats*p.c.heartbeat(); p.told == p.at && !p.over() && p.Now() < until; {
			mon.WaitUntil(until)
		}
		if p.told == p.at && !p.over() {
			m.unreached, m.inWorld, m.event = p.at.unreached(err), p.at.generation, true
			mon.Wake()
		}
		for p.told == p.at && !p.over() {
			mon.Wait()
		}
	}
	mon.Unlock()
	p.eps = nil
	if p.over() {
		return nil
	}
	return p.world()
}

// unreached is the process that an error says is lost.
func (w *world) unreached(err error) int {
	var peer *transport.PeerLost
	var join *transport.JoinError
	at := -1
	switch {
	case errors.As(err, &peer):
		at = slices.IndexFunc(w.seats, func(s seat) bool { return slices.Contains(s.ranks, peer.Rank) })
	case errors.As(err, &join):
		at = w.present()[join.Process]
	}
	if at < 0 {
		return anybody
	}
	return at
}

// present are the processes that host ranks: those that transport knows.
func (w *world) present() (list []int) {
	for p := range w.seats {
		if !w.seats[p].gone() {
			list = append(list, p)
		}
	}
	return list
}

// done says that the process has done its work, and waits for the others.
func (p *process) done(w *world, r *train.Result) (bool, error) {
	m := p.on
	p.Sleep(time.Duration(p.c.draw.Int64N(int64(slowestEnd))))
	if p.dead {
		return true, errDead
	}
	if slices.Contains(w.seats[p.number].ranks, 0) {
		result := *r
		p.c.results[w.generation] = &result
	}
	m.tell(func() { m.done = w.generation })
	m.mon.Lock()
	defer m.mon.Unlock()
	for p.told == w && !p.over() {
		m.mon.Wait()
	}
	if p.dead {
		return true, errDead
	}
	return p.c.over, nil
}

// kill ends a process as SIGKILL does: from now on it reaches nobody. What still runs
// of it finds out at its next message or write.
func (p *process) kill() { p.end(false) }

// end ends a process, silently where the power is gone.
func (p *process) end(silent bool) {
	if p.dead {
		return
	}
	p.dead = true
	if p.frozen {
		p.thaw()
	}
	for _, c := range slices.Clone(p.conns) {
		if silent {
			c.vanish()
		} else {
			_ = c.Close()
		}
	}
	if d := p.c.net.doors[p.addr()]; d != nil && d.of == p {
		_ = d.Close()
	}
	p.abort(&train.Died{Rank: p.number})
	p.on.tell(func() {})
}

// abort breaks what a process has in its world.
func (p *process) abort(cause error) {
	for _, ep := range p.eps {
		ep.Abort(cause)
	}
}

// addr is where a process listens.
func (p *process) addr() string { return addrOf(p.on.number, p.incarnation, p.number) }

func addrOf(machine, incarnation, process int) string {
	return fmt.Sprintf("machine %d, start %d of process %d", machine, incarnation, process)
}

// chaos is a process's Options.Chaos.
func (p *process) chaos(rank int, step int64, point string) error {
	if s := p.c.s; s.draw.IntN(s.yields) == 0 {
		s.pass()
	}
	if !p.dead {
		p.c.watch(p, step, point)
		if point == "survey" {
			p.c.faults.lost.hasDense(rank, p.at.generation)
		}
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
		o.p.c.faults.lost.whole(o.p.at.generation)
	}
}
func (o observer) Warned(what string) {
	if !o.p.dead && strings.Contains(what, "goes on from the checkpoint") {
		o.p.c.seen.fellBack = true
	}
}
