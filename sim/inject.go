package sim

import (
	"fmt"
	"slices"

	"github.com/ecrec/ecrec/transport"
)

// inject has a fault happen, unless the job is done or more would be lost than may be.
func (f *faults) inject(x fault) {
	c := f.c
	m := c.machines[x.machine]
	if m.dead || c.over {
		return
	}
	p := m.worker
	works := p != nil && !p.dead
	switch x.what {
	case "kill":
		if works && f.mayLose(m) {
			f.happens(x, func() { p.kill() })
		}
	case "freeze":
		if works && f.mayStand(&x, m) {
			f.stand(x, p.node)
		}
	case "stall":
		if f.mayStand(&x, m) {
			stood := []*node{m.node}
			if works {
				stood = append(stood, p.node)
			}
			f.stand(x, stood...)
		}
	case "node":
		if (f.any || len(c.living()) > 2) && f.mayLose(m) {
			f.happens(x, m.lose, func() {
				if !c.over {
					c.power()
				}
			})
		}
	case "deaf":
		if f.mayStand(&x, m) {
			f.partition(x, &partition{machines: []int{x.machine}, out: true, in: true, register: true})
		}
	case "partition":
		if f.mayPart(&x) {
			f.partition(x, &partition{machines: x.with, out: x.way != 2, in: x.way != 1})
		}
	case "slow":
		if !f.any {
			x.hold = min(x.hold, 2*c.heartbeat())
		}
		f.happens(x, func() { c.net.slow[x.machine] = x.hold / 2 }, func() { delete(c.net.slow, x.machine) })
	case "cut":
		if works && p.at != nil && f.mayBreak() {
			f.happens(x, func() {
				for _, y := range slices.Clone(p.conns) {
					y.reset()
				}
				if !c.linked {
					p.abort(&transport.PeerLost{Rank: (x.machine + 1) % c.cfg.Job.Ranks, Generation: p.at.generation, Cause: transport.ErrInjected})
				}
			})
		}
	case "linger": // whoever comes here is the one
		f.happens(x, func() {
			f.later([]fault{*x.then})
			p.Sleep(x.hold)
		})
	default: // a packet
		if works && len(p.conns) > 0 && f.mayBreak() {
			f.happens(x, func() { p.conns[c.draw.IntN(len(p.conns))].out.harm = x.what })
		}
	}
}

// happens notes and does a fault, and what ends it.
func (f *faults) happens(x fault, do func(), undo ...func()) {
	f.hit = append(f.hit, x)
	f.count[slices.IndexFunc(kinds[:], func(k kindOf) bool { return k.name == x.what })]++
	f.c.seen.history = append(f.c.seen.history, fmt.Sprintf("%v: %v", f.c.s.now, x))
	do()
	for _, undo := range undo {
		f.c.home.Go("end of a fault", func() {
			f.c.home.Sleep(x.hold)
			undo()
		})
	}
}

// stand has nodes stand still.
func (f *faults) stand(x fault, nodes ...*node) {
	f.happens(x, func() {
		for _, n := range nodes {
			n.freeze()
		}
	}, func() {
		for _, n := range nodes {
			if n.frozen {
				n.thaw()
			}
		}
	})
}

func (f *faults) partition(x fault, p *partition) {
	f.happens(x, func() { f.c.net.sever(p) }, func() { f.c.net.heal(p) })
}

// living are the machines that have power.
func (c *cluster) living() (list []*machine) {
	for _, m := range c.machines {
		if !m.dead {
			list = append(list, m)
		}
	}
	return list
}

// mayLose reports whether what machines' processes hold may be lost, and counts that
// where it may.
func (f *faults) mayLose(machines ...*machine) bool {
	w := f.c.register.world
	var ranks []int
	for _, m := range machines {
		if p := w.of(m.number); p >= 0 {
			ranks = append(ranks, w.seats[p].ranks...)
		}
	}
	lost := f.lost.and(w.generation, ranks...)
	if !lost.survivable() && !f.any {
		return false
	}
	f.lose(lost)
	return true
}

func (f *faults) lose(lost losses) {
	f.lost = lost
	f.beyond = f.beyond || !lost.survivable()
}

// mayStand is mayLose for what may be too silent for its place to be kept; where it may
// not be lost it stands still for a shorter time, and not soon again.
func (f *faults) mayStand(x *fault, machines ...*machine) bool {
	if f.any || x.hold > 2*f.c.heartbeat() && f.mayLose(machines...) {
		return true
	}
	if f.c.s.now < f.stood {
		return false
	}
	x.hold = min(x.hold, 2*f.c.heartbeat())
	f.stood = f.c.s.now + x.hold + f.c.lease()
	return true
}

// mayPart reports whether machines may be parted, and for how long.
func (f *faults) mayPart(x *fault) bool {
	var without []*machine // the register
	for _, m := range f.c.living() {
		if slices.Contains(x.with, m.number) != slices.Contains(x.with, atRegister) {
			without = append(without, m)
		}
	}
	if !f.mayStand(x, without...) {
		return false
	}
	return x.hold <= 2*f.c.heartbeat() || f.mayBreak()
}

// mayBreak reports whether a connection may break. Who is not reached twice without a
// commit between is given up.
func (f *faults) mayBreak() bool {
	if f.broke > 0 && !f.any {
		return false
	}
	f.broke = f.c.register.world.generation
	return true
}

// committed is called when there was a commit in a world.
func (f *faults) committed(w *world) {
	if w.generation > f.broke {
		f.broke = 0
	}
}

// changed counts what one world has lost of the one before.
func (f *faults) changed(before, after *world) {
	hosts := func(w *world) map[int][2]int {
		at := map[int][2]int{}
		for p := range w.seats {
			for _, r := range w.seats[p].ranks {
				at[r] = [2]int{w.seats[p].machine, w.seats[p].incarnation}
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
	for p := range after.seats {
		switch {
		case after.seats[p].gone() && !before.seats[p].gone():
			f.c.seen.adopted++
		case after.seats[p].machine != before.seats[p].machine:
			f.c.seen.replaced++
		}
	}
	f.lose(f.lost.and(before.generation, moved...))
}
