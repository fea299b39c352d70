package sim

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ecrec/ecrec/internal/heartbeat"
	"github.com/ecrec/ecrec/internal/probe"
	"github.com/ecrec/ecrec/train"
	"github.com/ecrec/ecrec/transport"
)

// process is one incarnation of a process: a worker.
type process struct {
	netProcess
	c                   *cluster
	host                *host
	number, incarnation int

	latest   *world        // the newest world passed to it; guarded by the host's monitor
	at       *world        // its current world
	broken   *train.Broken // of it
	eps      []transport.Endpoint
	lastBeat time.Duration // time of its last heartbeat
}

var (
	errOver    = errors.New("sim: the job is over") // returned to a process that waits for a world when there will be none
	errChanged = errors.New("sim: the world has changed")
)

// startProcess starts a process on a host that has power.
func (h *host) startProcess(number int, w *world) {
	if h.Dead {
		return
	}
	p := &process{c: h.c, host: h, number: number, incarnation: w.slots[number].incarnation, latest: w, broken: new(train.Broken)}
	p.netProcess = netProcess{Process: h.c.s.NewProcess(fmt.Sprintf("process %d (start %d, on host %d)", number, p.incarnation, h.number)),
		hostNumber: h.number, addr: addrOf(h.number, p.incarnation, number)}
	h.worker = p
	pause := time.Duration(h.c.draw.Int64N(int64(slowestRestart)))
	p.Go("main", func() {
		p.Sleep(pause)
		p.trainMain()
	})
}

// trainMain is the main function of a process.
func (p *process) trainMain() {
	if p.Dead {
		return
	}
	c := p.c
	p.Go("beat", p.heartbeatLoop)
	_, err := train.Run(p, c.cfg, train.Options{Stop: func() bool { return false }, Observer: observer{p}, World: p.trainWorld(),
		RebuildRows: c.rebuildRows, SaveRows: c.saves.rows, PauseSaves: c.saves.pause, SaveTo: c.saveTo, Inject: p.reachPoint,
		Audit: c.auditor.auditHook(p), Check: true, StoreDir: p.storeDir, Frames: c.frames,
		Topic: p.openTopic, Samples: p.openSamples, Session: uint64(p.hostNumber)<<32 + uint64(p.incarnation)})
	switch {
	case p.Dead || errors.Is(err, errOver) || errors.Is(err, errDead):
	case p.isFenced(): // its result has no effect
		p.killProcess()
	case err != nil:
		c.endJob(err)
	}
}

// heartbeatLoop sends heartbeats to the supervisor.
func (p *process) heartbeatLoop() {
	for !p.Dead && !p.c.over {
		p.lastBeat = p.Now()
		p.Sleep(p.c.heartbeatTime())
	}
}

// isFenced reports whether another incarnation has the process's slot.
func (p *process) isFenced() bool {
	s := &p.c.register.world.slots[p.number]
	return s.isReassigned() || s.host != p.host.number || s.incarnation != p.incarnation
}

// setWorld passes a new world to a process, which ends its work in the old one.
func (p *process) setWorld(w *world) {
	p.broken.Set(errChanged)
	p.host.mon.Lock()
	p.latest = w
	p.host.mon.Wake()
	p.host.mon.Unlock()
	p.abortEndpoints(errChanged)
}

// trainWorld returns the newest world in the form of package train.
func (p *process) trainWorld() *train.World {
	w := p.latest
	p.at, p.broken = w, new(train.Broken)
	neighbours := len(w.slots)
	if p.c.linked { // each process is on a host of its own
		neighbours = 1
	}
	return &train.World{Process: p.number, Processes: len(w.slots), Neighbours: neighbours, Broken: p.broken, Hosted: w.slots[p.number].ranks,
		Later: w.generation > 1, Trained: w.trained,
		Join:      func([]int) ([]transport.Endpoint, error) { return p.joinPeers(w) },
		Renew:     p.renewWorld,
		Done:      func(r *train.Result) (bool, error) { return p.workDone(w, r) },
		Committed: func(bool) { p.host.notify(func() { p.host.committed = w.generation }); p.c.faults.commitMade(w) },
	}
}

// isOver reports whether the process has nothing left to wait for.
func (p *process) isOver() bool { return p.Dead || p.c.over }

func (p *process) overError() error {
	if p.Dead {
		return errDead
	}
	return errOver
}

// joined is the state of an attempt to join a world.
type joined struct {
	eps             []transport.Endpoint
	err             error
	abandoned, done bool
}

// joinPeers connects the process with the others of a world.
func (p *process) joinPeers(w *world) ([]transport.Endpoint, error) {
	if p.isOver() {
		return nil, p.overError()
	}
	j, mon := &joined{}, p.host.mon
	p.Go("join", func() {
		eps, err := p.c.joinWorld(p, w)
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
	for !j.done && p.latest == w && !p.isOver() {
		mon.Wait()
	}
	switch {
	case !j.done || p.isOver() || p.latest != w:
		j.abandoned = true
		if j.done {
			p.Go("leave", func() {
				for _, ep := range j.eps {
					_ = ep.Close()
				}
			})
		}
		if p.isOver() {
			return nil, p.overError()
		}
		return nil, errChanged
	case j.err != nil:
		return nil, j.err
	}
	p.eps = j.eps
	return j.eps, nil
}

// renewWorld returns the world after the one that ended with err for this process.
func (p *process) renewWorld(err error) *train.World {
	h, mon := p.host, p.host.mon
	mon.Lock()
	if p.latest == p.at && !p.isOver() {
		if !train.IsConsequence(err) {
			mon.Unlock()
			return nil
		}
		for until := p.Now() + heartbeat.Missed*p.c.heartbeatTime(); p.latest == p.at && !p.isOver() && p.Now() < until; {
			mon.WaitUntil(until)
		}
		if p.latest == p.at && !p.isOver() {
			h.unreached, h.inWorld, h.event = p.at.unreachedBy(err), p.at.generation, true
			mon.Wake()
		}
		for p.latest == p.at && !p.isOver() {
			mon.Wait()
		}
	}
	mon.Unlock()
	p.eps = nil
	if p.isOver() {
		return nil
	}
	return p.trainWorld()
}

// workDone reports that the process has done its work, and waits for the others.
func (p *process) workDone(w *world, r *train.Result) (bool, error) {
	h := p.host
	p.Sleep(time.Duration(p.c.draw.Int64N(int64(slowestEnd))))
	if p.Dead {
		return true, errDead
	}
	if slices.Contains(w.slots[p.number].ranks, 0) {
		result := *r
		p.c.results[w.generation] = &result
	}
	h.notify(func() { h.done = w.generation })
	h.mon.Lock()
	defer h.mon.Unlock()
	for p.latest == w && !p.isOver() {
		h.mon.Wait()
	}
	if p.Dead {
		return true, errDead
	}
	return p.c.over, nil
}

// killProcess ends a process as SIGKILL does: from now on it has no effect outside. Its
// tasks notice that at their next message or write.
func (p *process) killProcess() { p.endProcess(false) }

// endProcess ends a process. If its host has lost power, no peer is notified.
func (p *process) endProcess(silent bool) {
	if p.Dead {
		return
	}
	p.Dead = true
	if p.IsFrozen() {
		p.Thaw()
	}
	for _, c := range slices.Clone(p.conns) {
		if silent {
			c.dropSilently()
		} else {
			_ = c.Close()
		}
	}
	if d := p.c.net.listeners[p.addr]; d != nil && d.of == &p.netProcess {
		_ = d.Close()
	}
	p.abortEndpoints(&train.Died{Rank: p.number})
	p.host.notify(func() {})
}

// abortEndpoints aborts the endpoints of a process in its world.
func (p *process) abortEndpoints(cause error) {
	for _, ep := range p.eps {
		ep.Abort(cause)
	}
}

func addrOf(host, incarnation, process int) string {
	return fmt.Sprintf("host %d, start %d of process %d", host, incarnation, process)
}

// reachPoint is a process's Options.Inject.
func (p *process) reachPoint(rank int, step int64, point probe.Point) error {
	p.c.s.MaybeYield()
	if !p.Dead {
		p.c.checkPoint(p, step, point)
		if point == probe.Survey {
			p.c.faults.lost.hasDense(rank, p.at.generation)
		}
		p.c.faults.pointReached(p, step, point)
	}
	if p.Dead {
		return &train.Died{Rank: rank, Step: step}
	}
	return nil
}

// observer observes one process.
type observer struct{ p *process }

func (o observer) Started(train.Info) error { return nil }
func (o observer) Step(train.StepInfo)      {}
func (o observer) Evaluated(train.Eval)     {}
func (o observer) Committed(step int64, digest string) {
	if !o.p.Dead {
		o.p.c.noteDigest(step, digest)
	}
}
func (o observer) SkippedCheckpoint(path string, err error) {}
func (o observer) Checkpointed(_ int64, _ string, err error) {
	if !o.p.Dead && err == nil {
		o.p.c.seen.saved++
	} else if !o.p.Dead {
		o.p.c.seen.unsaved++
	}
}
func (o observer) Recovered(r train.Recovery) {
	if !o.p.Dead {
		o.p.c.seen.recoveries = append(o.p.c.seen.recoveries, r)
		o.p.c.faults.lost.rebuilt(o.p.at.generation)
	}
}
func (o observer) Warned(what string) {
	if !o.p.Dead && strings.Contains(what, ": resuming after step ") {
		o.p.c.seen.restored = true
		o.p.c.seen.fromLogs = o.p.c.seen.fromLogs || fromLogs(what)
	}
}
