package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// world is a generation as the register has it. It does not change.
type world struct {
	generation uint64
	seats      []seat
	spares     []int // machines that wait for another's loss
	trained    bool  // there was a commit before, and the register has heard of it
	why        []string
}

// seat is a process of a world.
type seat struct {
	machine, incarnation int
	ranks                []int // none: others have adopted them
	accused              bool  // it was not reached, and there was no commit since
}

func (s *seat) gone() bool { return len(s.ranks) == 0 }

// of is the process that a machine runs, -1 if none.
func (w *world) of(machine int) int {
	return slices.IndexFunc(w.seats, func(s seat) bool { return !s.gone() && s.machine == machine })
}

// next is a copy to be changed into the world that follows.
func (w *world) next() *world {
	n := &world{generation: w.generation + 1, seats: slices.Clone(w.seats), spares: slices.Clone(w.spares)}
	for i := range n.seats {
		n.seats[i].ranks = slices.Clone(n.seats[i].ranks)
	}
	return n
}

// register stands for the consensus on worlds: one value, which changes as if one
// request was done after the other. Requests and answers may be late, be lost, and come
// twice.
//
// Invariant: the generation grows by one with each world.
type register struct {
	c     *cluster
	world *world
	heard []time.Duration // by machine: its last request
	done  []bool          // by process: with the work of this generation
	over  bool            // all are
	// trained says that it has heard of a commit.
	trained bool
}

// answer is what every request is answered with.
type answer struct {
	world  *world
	silent []int // machines that were not heard for a lease
	over   bool
}

func (r *register) answer() *answer {
	a := &answer{world: r.world, over: r.over}
	for m, heard := range r.heard {
		if r.c.s.now-heard > r.c.lease() {
			a.silent = append(a.silent, m)
		}
	}
	return a
}

// propose makes a world the next one, unless there is one by now.
func (r *register) propose(w *world) {
	if w.generation != r.world.generation+1 || r.over {
		return
	}
	r.watchGivenUp(w)
	before := r.world
	w.trained = r.trained
	r.c.seen.history = append(r.c.seen.history, fmt.Sprintf("world %d at %v: %s", w.generation, r.c.s.now, strings.Join(w.why, ", ")))
	r.world, r.done = w, make([]bool, len(w.seats))
	r.c.formed(before)
}

// watchGivenUp checks that a machine whose place another takes, since nobody hears it, has
// ended its worker, unless one of both stands still.
func (r *register) watchGivenUp(w *world) {
	for number := range r.world.seats {
		was, is := &r.world.seats[number], &w.seats[number]
		m := r.c.machines[was.machine]
		p := m.worker
		switch {
		case was.gone() || !is.gone() && is.machine == was.machine: // it keeps its place
		case r.c.s.now-r.heard[m.number] <= r.c.lease() || p == nil || p.dead:
		case m.stood(r.c.heartbeat()) || p.stood(r.c.heartbeat()):
		default:
			r.c.broken("world %d takes the ranks of process %d from machine %d, which nobody hears and which has not ended it", w.generation, number, m.number)
		}
	}
}

// watchEnd checks that the job ends when all have done their work in the last world.
func (r *register) watchEnd() {
	for p := range r.world.seats {
		if s := &r.world.seats[p]; !s.gone() && r.c.machines[s.machine].done != r.world.generation {
			r.c.broken("the job ends in world %d, where process %d has not done its work", r.world.generation, p)
		}
	}
}

// finish notes that a process has done the work of a generation.
func (r *register) finish(generation uint64, process int) {
	if generation != r.world.generation {
		return
	}
	r.done[process] = true
	for p := range r.done {
		if !r.done[p] && !r.world.seats[p].gone() {
			return
		}
	}
	r.over = true
	r.watchEnd()
	r.c.end(nil)
}

// offer makes a machine a spare that came back.
func (r *register) offer(machine int) {
	if r.world.of(machine) < 0 && !slices.Contains(r.world.spares, machine) {
		w := *r.world
		w.spares = append(slices.Clone(w.spares), machine)
		r.world = &w // the same generation: who trains is the same
	}
}

// A request that is not answered is made again.
const (
	slowestAnswer = 20 * time.Millisecond // one way
	askAgain      = 50 * time.Millisecond
)

// ask has the register do something, and returns its answer; nil where the machine is
// down or the job over.
func (m *machine) ask(do func(*register)) *answer {
	c := m.c
	r, n := c.register, c.net
	var got *answer
	for !m.dead && !c.over {
		sent, committed := c.s.now, m.committed > 0
		way := func() bool { // of a message, one way; it reports whether it comes
			c.home.Sleep(time.Duration(c.draw.Int64N(int64(c.slowest))))
			return c.draw.Float64() >= c.lossy
		}
		copies := 1
		if c.draw.Float64() < c.lossy { // the request comes twice
			copies = 2
		}
		for range copies {
			c.home.Go("request", func() {
				if !way() || n.severs(m.number, atRegister) {
					return
				}
				if do != nil {
					do(r)
				}
				r.heard[m.number] = c.s.now
				r.trained = r.trained || committed
				a := r.answer()
				if !way() || n.severs(atRegister, m.number) {
					return
				}
				m.mon.Lock()
				got = a
				m.mon.Wake()
				m.mon.Unlock()
			})
		}
		m.mon.Lock()
		for got == nil && !m.dead && !c.over && c.s.now < sent+c.slowest+askAgain {
			m.mon.WaitUntil(sent + c.slowest + askAgain)
		}
		m.mon.Unlock()
		if got != nil {
			m.leased = sent
			return got
		}
		m.keepVigil()
	}
	return nil
}
