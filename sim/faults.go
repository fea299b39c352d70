package sim

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/ecrec/ecrec/train"
	"github.com/ecrec/ecrec/transport"
)

// fault is one thing that goes wrong.
type fault struct {
	what    string // kill, freeze, cut
	process int
	// When: where a rank of the process comes to a point at a step or later; or, where
	// point is empty, so many decisions after the first rank comes to a step, or after
	// a world has begun.
	step  int64
	point string
	world uint64
	after int64
	hold  time.Duration // of freeze
}

func (f fault) String() string {
	when := fmt.Sprintf("%d decisions into step %d", f.after, f.step)
	switch {
	case f.point != "":
		when = fmt.Sprintf("at %q from step %d on", f.point, f.step)
	case f.world > 0:
		when = fmt.Sprintf("%d decisions into world %d", f.after, f.world)
	}
	if f.what == "freeze" {
		when += fmt.Sprintf(" for %v", f.hold)
	}
	return fmt.Sprintf("%s process %d %s", f.what, f.process, when)
}

// faults injects what was drawn for a run.
type faults struct {
	c       *cluster
	waiting []fault
	spare   int // ranks that may be lost before all is whole again; -1: any

	lost map[int]uint64 // ranks that have not all back, and the world that each was lost in
	hit  []fault
	// beyond says that more ranks were lost at a time than the code makes good.
	beyond bool
}

// String lists what has happened, and then what has not.
func (f *faults) String() string {
	var all []string
	for _, x := range append(slices.Clone(f.hit), f.waiting...) {
		all = append(all, x.String())
	}
	return strings.Join(all, "; ")
}

// drawFaults draws what goes wrong in a run of some steps.
func drawFaults(r *rand.Rand, processes int, steps int64) (list []fault) {
	for range 1 + r.IntN(4) {
		f := fault{what: []string{"kill", "kill", "kill", "kill", "freeze", "cut"}[r.IntN(6)], process: r.IntN(processes)}
		switch r.IntN(4) {
		case 0, 1:
			f.step, f.point = r.Int64N(steps+1), train.Points[r.IntN(len(train.Points))]
		case 2:
			f.step, f.after = 1+r.Int64N(steps), r.Int64N(spread(r))
		default:
			f.world, f.after = 1+r.Uint64N(3), r.Int64N(spread(r))
		}
		if f.what == "freeze" {
			f.hold = time.Duration(1 + r.Int64N(int64(3*time.Second)))
		}
		list = append(list, f)
		if r.IntN(2) == 0 { // another one at about the same time
			g := f
			g.process = (f.process + 1 + r.IntN(processes)) % processes
			g.after += r.Int64N(64)
			list = append(list, g)
		}
	}
	return list
}

// spread is over how many decisions a moment is drawn: few, or some steps.
func spread(r *rand.Rand) int64 { return []int64{50, 1000, 10000}[r.IntN(3)] }

// reached is called where a rank comes to a point.
func (f *faults) reached(p *process, step int64, point string) {
	at := f.take(func(x fault) bool { return x.point == point && step >= x.step && x.process == p.number })
	if point == "step" {
		f.later(f.take(func(x fault) bool { return x.point == "" && x.world == 0 && step >= x.step }))
	}
	for _, x := range at {
		f.inject(x)
	}
}

// formed is called when a world begins.
func (f *faults) formed(generation uint64) {
	f.later(f.take(func(x fault) bool { return x.world > 0 && generation >= x.world }))
}

// later has faults happen after so many decisions more.
func (f *faults) later(list []fault) {
	for _, x := range list {
		f.c.s.at(f.c.s.decisions+x.after, func() { f.inject(x) })
	}
}

// take removes the faults that a moment is for.
func (f *faults) take(now func(fault) bool) (taken []fault) {
	f.waiting = slices.DeleteFunc(f.waiting, func(x fault) bool {
		if now(x) {
			taken = append(taken, x)
			return true
		}
		return false
	})
	return taken
}

// whole is called when all is back that was lost in earlier worlds.
func (f *faults) whole() {
	maps.DeleteFunc(f.lost, func(_ int, in uint64) bool { return in < f.c.generation })
}

// inject has a fault happen, unless the job is done or more would be lost than may be.
func (f *faults) inject(x fault) {
	p := f.c.procs[x.process]
	if p == nil || p.dead || f.c.finished > 0 || f.c.over {
		return
	}
	switch x.what {
	case "kill":
		if !f.mayLose(x.process) {
			return
		}
		f.hit = append(f.hit, x)
		p.kill()
	case "cut":
		f.hit = append(f.hit, x)
		p.abort(&transport.PeerLost{Rank: (x.process + 1) % f.c.cfg.Job.Ranks, Generation: f.c.generation, Cause: transport.ErrInjected})
	case "freeze":
		f.hit = append(f.hit, x)
		p.freeze()
		f.c.home.Go("thaw", func() {
			f.c.home.Sleep(min(x.hold, f.fence()))
			if p.dead || !p.frozen {
				return
			}
			if x.hold > f.fence() && f.mayLose(x.process) {
				p.kill()
				return
			}
			p.thaw()
		})
	}
}

// fence is how long a process may be silent before it is given up, and killed.
func (f *faults) fence() time.Duration { return 5 * time.Duration(f.c.cfg.Elastic.Heartbeat) }

// mayLose reports whether a process may be killed, and counts it where it may.
func (f *faults) mayLose(process int) bool {
	lost := map[int]uint64{}
	maps.Copy(lost, f.lost)
	for _, r := range f.c.hosts(process) {
		lost[r] = f.c.generation
	}
	if len(lost) > f.c.cfg.EC.R {
		if f.spare >= 0 {
			return false
		}
		f.beyond = true
	}
	f.lost = lost
	return true
}
