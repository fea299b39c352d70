package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// register replaces the consensus on worlds. It is one value that changes as if requests
// were executed one after the other. Requests and answers may be delayed, lost or
// duplicated.
//
// Invariant: the generation grows by one with each world.
type register struct {
	c           *cluster
	world       *world
	lastRequest []time.Duration // by host: time of its last request
	done        []bool          // by process: it has done the work of this generation
	over        bool            // all have
	// trained is true once a commit was reported to the register.
	trained bool
}

// answer is the answer to every request.
type answer struct {
	world  *world
	silent []int // hosts without a request for a lease
	over   bool
}

func (r *register) makeAnswer() *answer {
	a := &answer{world: r.world, over: r.over}
	for h, at := range r.lastRequest {
		if r.c.s.Now()-at > r.c.leaseTime() {
			a.silent = append(a.silent, h)
		}
	}
	return a
}

// adoptWorld makes w the current world, unless there is a newer one.
func (r *register) adoptWorld(w *world) {
	if w.generation != r.world.generation+1 || r.over {
		return
	}
	r.checkGivenUp(w)
	before := r.world
	w.trained = r.trained
	r.c.seen.history = append(r.c.seen.history, fmt.Sprintf("%v: world %d: %s", r.c.s.Now(), w.generation, strings.Join(w.why, ", ")))
	r.world, r.done = w, make([]bool, len(w.slots))
	r.c.worldFormed(before)
}

// checkGivenUp checks that a host that is replaced because of its silence has ended its
// worker, unless one of the two is frozen.
func (r *register) checkGivenUp(w *world) {
	for number := range r.world.slots {
		was, is := &r.world.slots[number], &w.slots[number]
		h := r.c.hosts[was.host]
		p := h.worker
		switch {
		case was.isReassigned() || !is.isReassigned() && is.host == was.host: // it keeps its slot
		case r.c.s.Now()-r.lastRequest[h.number] <= r.c.leaseTime() || p == nil || p.Dead:
		case h.WasFrozen(r.c.heartbeatTime()) || p.WasFrozen(r.c.heartbeatTime()):
		default:
			r.c.failRun("world %d takes the ranks of process %d from the silent host %d, whose worker still runs", w.generation, number, h.number)
		}
	}
}

// checkEnd checks that the job ends only when all processes have done their work in the
// last world.
func (r *register) checkEnd() {
	for p := range r.world.slots {
		if s := &r.world.slots[p]; !s.isReassigned() && r.c.hosts[s.host].done != r.world.generation {
			r.c.failRun("the job ends in world %d, in which process %d has not done its work", r.world.generation, p)
		}
	}
}

// finishProcess records that a process has done the work of a generation.
func (r *register) finishProcess(generation uint64, process int) {
	if generation != r.world.generation {
		return
	}
	r.done[process] = true
	for p := range r.done {
		if !r.done[p] && !r.world.slots[p].isReassigned() {
			return
		}
	}
	r.over = true
	r.checkEnd()
	r.c.endJob(nil)
}

// addSpare makes a restarted host a spare.
func (r *register) addSpare(host int) {
	if r.world.processOn(host) < 0 && !slices.Contains(r.world.spares, host) {
		w := *r.world
		w.spares = append(slices.Clone(w.spares), host)
		r.world = &w // the same generation, because the same processes train
	}
}

// A request without an answer is repeated.
const (
	slowestAnswer = 20 * time.Millisecond // one way
	askAgain      = 50 * time.Millisecond
)

// request executes do on the register and returns its answer. It returns nil if the host
// is down or the job is over.
func (h *host) request(do func(*register)) *answer {
	c := h.c
	r, n := c.register, c.net
	var got *answer
	for !h.Dead && !c.over {
		sent, committed := c.s.Now(), h.committed > 0
		way := func() bool { // transfers a message one way and reports whether it arrives
			c.home.Sleep(time.Duration(c.draw.Int64N(int64(c.slowest))))
			return c.draw.Float64() >= c.lossy
		}
		copies := 1
		if c.draw.Float64() < c.lossy { // the request is duplicated
			copies = 2
		}
		for range copies {
			c.home.Go("request", func() {
				if !way() || n.isSevered(h.number, atRegister) {
					return
				}
				if do != nil {
					do(r)
				}
				r.lastRequest[h.number] = c.s.Now()
				r.trained = r.trained || committed
				a := r.makeAnswer()
				if !way() || n.isSevered(atRegister, h.number) {
					return
				}
				h.mon.Lock()
				got = a
				h.mon.Wake()
				h.mon.Unlock()
			})
		}
		h.mon.Lock()
		for got == nil && !h.Dead && !c.over && c.s.Now() < sent+c.slowest+askAgain {
			h.mon.WaitUntil(sent + c.slowest + askAgain)
		}
		h.mon.Unlock()
		if got != nil {
			h.lastAnswered = sent
			return got
		}
		h.checkSilence()
	}
	return nil
}
