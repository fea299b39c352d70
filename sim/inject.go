package sim

import (
	"fmt"
	"slices"

	"github.com/ecrec/ecrec/internal/env/virtual"
	"github.com/ecrec/ecrec/transport"
)

// injectFault injects a fault, unless the job is done or the fault could lose more than
// is allowed.
func (f *faults) injectFault(x fault) {
	c := f.c
	h := c.hosts[x.host]
	if h.Dead || c.over {
		return
	}
	p := h.worker
	works := p != nil && !p.Dead
	switch x.kind {
	case killWorker:
		if works && f.mayLose(h) {
			f.applyFault(x, func() { p.killProcess() })
		}
	case freezeWorker:
		if works && f.mayFreeze(&x, h) {
			f.freezeProcesses(x, p.Process)
		}
	case freezeHost:
		if f.mayFreeze(&x, h) {
			stood := []*virtual.Process{h.Process}
			if works {
				stood = append(stood, p.Process)
			}
			f.freezeProcesses(x, stood...)
		}
	case powerLoss:
		if (f.unlimited || len(c.poweredHosts()) > 2) && f.mayLose(h) {
			f.applyFault(x, h.losePower, func() {
				if !c.over {
					c.startHost(h.machine)
				}
			})
		}
	case registerPartition:
		if f.mayFreeze(&x, h) {
			f.applyPartition(x, &partition{hosts: []int{x.host}, out: true, in: true, register: true})
		}
	case networkPartition:
		if f.mayPartition(&x) {
			f.applyPartition(x, &partition{hosts: x.with, out: x.way != 2, in: x.way != 1})
		}
	case slowNetwork:
		if !f.unlimited {
			x.hold = min(x.hold, 2*c.heartbeatTime())
		}
		f.applyFault(x, func() { c.net.slow[x.host] = x.hold / 2 }, func() { delete(c.net.slow, x.host) })
	case resetConnections:
		if works && p.at != nil && f.mayBreak() {
			f.applyFault(x, func() {
				for _, y := range slices.Clone(p.conns) {
					y.resetConn()
				}
				if !c.linked {
					p.abortEndpoints(&transport.PeerLost{Rank: (x.host + 1) % c.cfg.Job.Ranks, Generation: p.at.generation, Cause: transport.ErrInjected})
				}
			})
		}
	case holdGoroutine: // the goroutine that reaches the point is held
		f.applyFault(x, func() {
			f.schedule([]fault{*x.then})
			p.Sleep(x.hold)
		})
	default: // a packet
		if works && len(p.conns) > 0 && f.mayBreak() {
			f.applyFault(x, func() { p.conns[c.draw.IntN(len(p.conns))].out.harm = x.kind })
		}
	}
}

// applyFault records a fault, applies it, and later ends it.
func (f *faults) applyFault(x fault, do func(), undo ...func()) {
	f.injected = append(f.injected, x)
	f.count[slices.IndexFunc(kinds[:], func(k kindOf) bool { return k.name == x.kind })]++
	f.c.seen.history = append(f.c.seen.history, fmt.Sprintf("%v: %v", f.c.s.Now(), x))
	do()
	for _, undo := range undo {
		f.c.home.Go("end of a fault", func() {
			f.c.home.Sleep(x.hold)
			undo()
		})
	}
}

// freezeProcesses freezes processes for the duration of the fault.
func (f *faults) freezeProcesses(x fault, processes ...*virtual.Process) {
	f.applyFault(x, func() {
		for _, p := range processes {
			p.Freeze()
		}
	}, func() {
		for _, p := range processes {
			if p.IsFrozen() {
				p.Thaw()
			}
		}
	})
}

func (f *faults) applyPartition(x fault, p *partition) {
	f.applyFault(x, func() { f.c.net.startPartition(p) }, func() { f.c.net.endPartition(p) })
}

// poweredHosts returns the hosts that have power.
func (c *cluster) poweredHosts() (list []*host) {
	for _, h := range c.hosts {
		if !h.Dead {
			list = append(list, h)
		}
	}
	return list
}

// mayLose reports whether the state of the hosts' processes may be lost. If so, it
// records the loss.
func (f *faults) mayLose(hosts ...*host) bool {
	w := f.c.register.world
	var ranks []int
	for _, h := range hosts {
		if p := w.processOn(h.number); p >= 0 {
			ranks = append(ranks, w.slots[p].ranks...)
		}
	}
	lost := f.lost.with(w.generation, ranks...)
	if !lost.isSurvivable() && !f.unlimited {
		return false
	}
	f.recordLoss(lost)
	return true
}

func (f *faults) recordLoss(lost losses) {
	f.lost = lost
	f.unrecoverable = f.unrecoverable || !lost.isSurvivable()
}

// mayFreeze is mayLose for faults that can make a host silent for so long that it is
// replaced. If it may not be lost, the fault is shortened, and the next one may not
// follow soon.
func (f *faults) mayFreeze(x *fault, hosts ...*host) bool {
	if f.unlimited || x.hold > 2*f.c.heartbeatTime() && f.mayLose(hosts...) {
		return true
	}
	if f.c.s.Now() < f.frozenUntil {
		return false
	}
	x.hold = min(x.hold, 2*f.c.heartbeatTime())
	f.frozenUntil = f.c.s.Now() + x.hold + f.c.leaseTime()
	return true
}

// mayPartition reports whether hosts may be partitioned, and limits the duration.
func (f *faults) mayPartition(x *fault) bool {
	var without []*host // without the register
	for _, h := range f.c.poweredHosts() {
		if slices.Contains(x.with, h.number) != slices.Contains(x.with, atRegister) {
			without = append(without, h)
		}
	}
	if !f.mayFreeze(x, without...) {
		return false
	}
	return x.hold <= 2*f.c.heartbeatTime() || f.mayBreak()
}

// mayBreak reports whether a connection may break. A process that is reported unreachable
// twice without a commit in between is replaced.
func (f *faults) mayBreak() bool {
	if f.brokenIn > 0 && !f.unlimited {
		return false
	}
	f.brokenIn = f.c.register.world.generation
	return true
}

// commitMade is called when a process has made a commit in a world. Only the supervisors of such processes take an accusation back, so it
// counts once all have made one.
func (f *faults) commitMade(w *world) {
	for _, s := range w.slots {
		if !s.isReassigned() && f.c.hosts[s.host].committed < w.generation {
			return
		}
	}
	if w.generation > f.brokenIn {
		f.brokenIn = 0
	}
}

// worldChanged records the losses between a world and the next one.
func (f *faults) worldChanged(before, after *world) {
	hosts := func(w *world) map[int][2]int {
		at := map[int][2]int{}
		for p := range w.slots {
			for _, r := range w.slots[p].ranks {
				at[r] = [2]int{w.slots[p].host, w.slots[p].incarnation}
			}
		}
		return at
	}
	var moved []int
	was := hosts(before)
	for r, at := range hosts(after) {
		if was[r] != at {
			moved = append(moved, r)
		}
	}
	for p := range after.slots {
		switch {
		case after.slots[p].isReassigned() && !before.slots[p].isReassigned():
			f.c.seen.reassigned++
		case after.slots[p].host != before.slots[p].host:
			f.c.seen.replaced++
		}
	}
	f.recordLoss(f.lost.with(before.generation, moved...))
}
