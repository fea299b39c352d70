package launcher

import (
	"fmt"
	"slices"
	"time"
)

// jobPhase is how far a job has come.
type jobPhase int

const (
	jobMeeting jobPhase = iota // supervisors come
	jobForming                 // workers start to listen
	jobRunning                 // workers work
	jobEnding                  // one failed; the others end
	jobOver
)

// job is the state machine of what concerns all processes. Process 0's supervisor
// runs it.
//
// Invariant: a process is told the world once in a generation, and after that its
// end is heard of once, from itself or because its connection is lost.
type job struct {
	processes, ranks int
	limits           limits

	phase      jobPhase
	generation uint64
	world      []Process
	come       int // processes
	listening  int
	ended      []*outcome // nil: not yet
	order      []int      // processes in the order in which they ended
	signal     int        // that asked for a stop; 0: none
}

func newJob(processes, ranks int, lim limits) *job {
	j := &job{processes: processes, ranks: ranks, limits: lim, generation: 1, ended: make([]*outcome, processes),
		world: make([]Process, processes)}
	for p := range j.world {
		j.world[p].Ranks = ranksOf(p, processes, ranks)
	}
	return j
}

// start begins the wait for the others.
func (j *job) start() []action { return []action{{Do: doTimer, After: j.limits.meet}} }

// join says that the supervisor of a process has come.
func (j *job) join(process int, host string) []action {
	if j.phase != jobMeeting {
		return nil
	}
	j.world[process].Host = host
	j.come++
	if j.come < j.processes {
		return nil
	}
	j.phase = jobForming
	return []action{{Do: doTimer, After: j.limits.meet}, {Do: doTellAll, Message: message{Kind: kindForm, Generation: j.generation}}}
}

// hear takes what the supervisor of a process says.
func (j *job) hear(process int, m message) []action {
	if j.phase == jobOver {
		return nil
	}
	switch m.Kind {
	case kindListening:
		return j.listens(process, m)
	case kindEnded:
		return j.end(process, m.Outcome)
	case kindStop:
		return j.stop(m.Signal)
	case kindKill:
		j.phase = jobOver
		return []action{{Do: doTellAll, Message: message{Kind: kindKill, Signal: m.Signal}}}
	}
	return j.end(process, &outcome{Why: fmt.Sprintf("is lost: its supervisor sent %q, which makes no sense", m.Kind)})
}

func (j *job) listens(process int, m message) []action {
	w := &j.world[process]
	if j.phase != jobForming || m.Generation != j.generation || w.Addr != "" {
		return nil
	}
	w.Addr = m.Addr
	j.listening++
	if j.listening < j.processes {
		return nil
	}
	j.phase = jobRunning
	world := &members{Generation: j.generation, Processes: slices.Clone(j.world)}
	return []action{{Do: doTimer}, {Do: doTellAll, Message: message{Kind: kindWorld, World: world}}}
}

// lose says that the connection to a process's supervisor is gone.
func (j *job) lose(process int) []action {
	return j.end(process, &outcome{Why: "is lost: its supervisor is gone"})
}

// end takes the end of a process's worker.
func (j *job) end(process int, o *outcome) []action {
	if j.phase == jobOver || j.ended[process] != nil || o == nil {
		return nil
	}
	j.ended[process] = o
	j.order = append(j.order, process)
	if len(j.order) == j.processes {
		return j.judge()
	}
	if !o.failed() || j.phase == jobEnding {
		return nil
	}
	if j.phase < jobRunning { // nothing has begun that could end by itself
		return j.judge()
	}
	j.phase = jobEnding
	// Each supervisor kills its worker after limits.end; a supervisor that does not
	// answer any more is not waited for.
	return []action{{Do: doTimer, After: 2 * j.limits.end}, {Do: doTellAll, Message: message{Kind: kindAbort}}}
}

// stop is a first signal.
func (j *job) stop(signal int) []action {
	if j.signal != 0 {
		return nil
	}
	j.signal = signal
	if j.phase < jobRunning {
		return j.over(exitSignal+signal, "stopped by a signal before the first step")
	}
	return []action{{Do: doTellAll, Message: message{Kind: kindStop, Signal: signal}}}
}

// expire says that the time asked for is over. refused is whom the rendezvous sent
// away last, "" if nobody.
func (j *job) expire(refused string) []action {
	missing := 0
	switch j.phase {
	case jobMeeting:
		for missing = 1; missing < j.processes && j.world[missing].Host != ""; missing++ {
		}
		text := fmt.Sprintf("%s did not come within %v (%d of %d did); was it started? does it reach the rendezvous?",
			j.name(missing), j.limits.meet.Round(time.Millisecond), j.come, j.processes)
		if refused != "" {
			text += " Refused was " + refused
		}
		return j.over(exitFailed, text)
	case jobForming:
		for missing < j.processes-1 && j.world[missing].Addr != "" {
			missing++
		}
		return j.over(exitFailed, fmt.Sprintf("the worker of %s did not start within %v; is its machine overloaded?", j.name(missing), j.limits.meet))
	case jobEnding:
		return j.judge()
	}
	return nil
}

// judge says how the job went.
func (j *job) judge() []action {
	if p := j.blame(); p >= 0 {
		o := j.ended[p]
		return j.over(o.exitCode(), o.explain(j.name(p)))
	}
	for _, p := range j.order {
		if o := j.ended[p]; o.stopped() {
			return j.over(exitSignal+j.signal, o.Report.Error)
		}
	}
	return j.over(0, "")
}

// blame is the process whose failure is the job's, -1 if none failed: the first
// that failed by itself; else one that fell silent, so that others lost it; else
// the first.
func (j *job) blame() int {
	best, how := -1, 0
	for _, p := range j.order {
		o, weight := j.ended[p], 0
		switch {
		case !o.failed():
		case !o.follows():
			weight = 3
		case o.Culled:
			weight = 2
		default:
			weight = 1
		}
		if weight > how {
			best, how = p, weight
		}
	}
	if how == 0 || how == 3 {
		return best
	}
	for p, o := range j.ended {
		if o == nil {
			j.ended[p] = &outcome{Why: "is lost: neither its worker nor its supervisor answers"}
			return p
		}
	}
	return best
}

func (j *job) over(code int, text string) []action {
	j.phase = jobOver
	out := []action{{Do: doTimer}}
	if text != "" {
		out = append(out, action{Do: doSay, Text: text})
	}
	return append(out, action{Do: doTellAll, Message: message{Kind: kindEnd, Code: code}})
}
