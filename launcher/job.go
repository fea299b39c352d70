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
	jobLeaving                 // all work is done; workers end
	jobEnding                  // one failed; the others end
	jobOver
)

// shape is what a job is made of.
type shape struct {
	processes, ranks int
	spares           int // supervisors that wait for another's loss
	elastic          bool
	maxRestarts      int // losses in a row without a commit between
}

func (s shape) supervisors() int { return s.processes + s.spares }

// nobody is the supervisor of a process that has none.
const nobody = -1

// seat is a process, as the job sees it.
type seat struct {
	Process
	supervisor int // nobody: it is gone
	listens    bool
	done       bool     // with the work of this generation
	ended      *outcome // of its worker; nil: not yet
	accused    bool     // since the last commit a worker said that it does not reach it
}

// take gives a process a rank.
func (s *seat) take(rank int, generation uint64) {
	at, _ := slices.BinarySearch(s.Ranks, rank)
	s.Ranks, s.Since = slices.Insert(s.Ranks, at, rank), slices.Insert(s.Since, at, generation)
}

// gone reports whether others have taken the ranks of a process.
func (s *seat) gone() bool { return len(s.Ranks) == 0 }

// over reports whether nothing more is expected of a process's worker.
func (s *seat) over() bool { return s.gone() || s.done || s.ended != nil }

// job is the state machine of what concerns all processes. Process 0's supervisor
// runs it.
//
// Invariant: the generation grows whenever it is not certain that every worker has
// what it had when the world was told; a message of an older generation, or of an
// older incarnation of a worker, changes nothing.
type job struct {
	shape
	limits limits

	phase      jobPhase
	generation uint64
	seats      []seat
	hosts      []string // by supervisor; "": it has not come
	spare      []int    // supervisors that wait
	restarts   int      // in a row without a commit
	fired      []int    // numbers of the faults that have happened
	order      []int    // processes in the order in which their workers ended
	signal     int      // that asked for a stop; 0: none
}

func newJob(s shape, lim limits) *job {
	j := &job{shape: s, limits: lim, generation: 1, seats: make([]seat, s.processes), hosts: make([]string, s.supervisors())}
	for p := range j.seats {
		j.seats[p] = seat{Process: Process{Incarnation: 1}, supervisor: p}
		for _, r := range ranksOf(p, s.processes, s.ranks) {
			j.seats[p].take(r, j.generation)
		}
	}
	for s := j.processes; s < j.supervisors(); s++ {
		j.spare = append(j.spare, s)
	}
	return j
}

// start begins the wait for the others.
func (j *job) start() []action { return []action{{Do: doTimer, After: j.limits.meet}} }

// join says that a supervisor has come.
func (j *job) join(supervisor int, host string) []action {
	if j.phase != jobMeeting {
		return nil
	}
	j.hosts[supervisor] = host
	if slices.Contains(j.hosts, "") {
		return nil
	}
	return j.form(j.limits.meet)
}

// form asks all processes for a worker that listens for the generation.
func (j *job) form(limit time.Duration) []action {
	j.phase = jobForming
	out := []action{{Do: doTimer, After: limit}}
	for p := range j.seats {
		s := &j.seats[p]
		s.Addr, s.listens, s.done = "", false, false
		if s.gone() {
			continue
		}
		s.Host = j.hosts[s.supervisor]
		out = append(out, action{Do: doTell, To: s.supervisor,
			Message: message{Kind: kindForm, Process: p, Generation: j.generation, Incarnation: s.Incarnation}})
	}
	return out
}

// processOf is whose worker a supervisor has, nobody if it has none.
func (j *job) processOf(supervisor int) int {
	return slices.IndexFunc(j.seats, func(s seat) bool { return s.supervisor == supervisor })
}

// hear takes what a supervisor says.
func (j *job) hear(supervisor int, m message) []action {
	p := j.processOf(supervisor)
	switch {
	case j.phase == jobOver:
		return nil
	case m.Kind == kindBeat:
		return nil // hearing it was all
	case m.Kind == kindStop:
		return j.stop(m.Signal)
	case m.Kind == kindKill:
		j.phase = jobOver
		return []action{{Do: doTellAll, Message: message{Kind: kindKill, Signal: m.Signal}}}
	case p == nobody:
		return nil // it lost its process
	case m.Kind == kindEnded:
		return j.end(p, m.Incarnation, m.Outcome)
	case m.Kind == kindFire:
		return j.fire(supervisor, m)
	case m.Generation != j.generation && (m.Kind == kindListening || m.Kind == kindDone || m.Kind == kindLost || m.Kind == kindCommitted):
		return nil
	}
	switch m.Kind {
	case kindListening:
		return j.listening(p, m.Addr)
	case kindDone:
		return j.done(p)
	case kindLost:
		return j.accuse(p, m.Process)
	case kindCommitted:
		return j.committed()
	}
	out := j.loseProcess(p, &outcome{Why: fmt.Sprintf("is lost: its supervisor sent %q, which makes no sense", m.Kind)})
	if j.elastic && j.phase != jobOver { // the place of its worker is given away
		out = append([]action{{Do: doTell, To: supervisor, Message: message{Kind: kindEnd, Code: exitFailed}}}, out...)
	}
	return out
}

func (j *job) listening(process int, addr string) []action {
	s := &j.seats[process]
	if j.phase != jobForming || s.listens || s.ended != nil {
		return nil
	}
	s.Addr, s.listens = addr, true
	for p := range j.seats {
		if s := &j.seats[p]; !s.gone() && !s.listens {
			return nil
		}
	}
	j.phase = jobRunning
	world := &members{Generation: j.generation, Fired: slices.Clone(j.fired)}
	for p := range j.seats {
		s := j.seats[p].Process
		s.Ranks, s.Since = slices.Clone(s.Ranks), slices.Clone(s.Since)
		world.Processes = append(world.Processes, s)
	}
	out := []action{{Do: doTimer}, {Do: doTellAll, Message: message{Kind: kindWorld, World: world}}}
	if j.signal != 0 { // a new worker has not heard
		out = append(out, action{Do: doTellAll, Message: message{Kind: kindStop, Signal: j.signal}})
	}
	return out
}

// done says that a process's worker has done its work.
func (j *job) done(process int) []action {
	if j.phase != jobRunning {
		return nil
	}
	j.seats[process].done = true
	return j.leaveIfDone()
}

// leaveIfDone lets the workers go once all have done their work.
func (j *job) leaveIfDone() []action {
	for p := range j.seats {
		if !j.seats[p].over() {
			return nil
		}
	}
	if j.allEnded() {
		return j.judge()
	}
	j.phase = jobLeaving
	return []action{{Do: doTimer, After: j.limits.end}, {Do: doTellAll, Message: message{Kind: kindLeave}}}
}

func (j *job) allEnded() bool {
	return !slices.ContainsFunc(j.seats, func(s seat) bool { return !s.gone() && s.ended == nil })
}

// end takes the end of a process's worker.
func (j *job) end(process, incarnation int, o *outcome) []action {
	s := &j.seats[process]
	if incarnation != s.Incarnation || s.ended != nil || o == nil {
		return nil
	}
	if s.done && o.crashed() && (j.elastic || j.phase == jobLeaving) {
		o = &outcome{} // what it had to do is done
	}
	s.ended = o
	j.order = append(j.order, process)
	switch {
	case j.phase == jobLeaving || j.phase == jobEnding:
		if j.allEnded() {
			return j.judge()
		}
		return nil
	case !o.failed():
		if j.phase == jobForming && j.generation > 1 {
			return j.reform(j.name(process)+" ended while it was needed again", process)
		}
		return j.leaveIfDone()
	case j.elastic && o.crashed() && j.phase != jobMeeting:
		return j.reform(j.name(process)+" "+o.fate(), process)
	case j.allEnded(), j.phase < jobRunning && j.generation == 1: // nothing has begun that could end by itself
		return j.judge()
	}
	return j.abort()
}

// abort has the workers end after one failed.
func (j *job) abort() []action {
	j.phase = jobEnding
	// Each supervisor kills its worker after limits.end; a supervisor that does not
	// answer any more is not waited for.
	return []action{{Do: doTimer, After: 2 * j.limits.end}, {Do: doTellAll, Message: message{Kind: kindAbort}}}
}

// lose says that a supervisor is gone.
func (j *job) lose(supervisor int) []action {
	j.spare = slices.DeleteFunc(j.spare, func(s int) bool { return s == supervisor })
	p := j.processOf(supervisor)
	switch {
	case j.phase == jobOver:
		return nil
	case j.phase == jobMeeting:
		return j.over(exitFailed, j.nameSupervisor(supervisor)+" is lost: its supervisor is gone")
	case p == nobody:
		return nil
	}
	return j.loseProcess(p, &outcome{Why: "is lost: its supervisor is gone"})
}

// loseProcess says that nothing is heard of a process any more.
func (j *job) loseProcess(process int, o *outcome) []action {
	s := &j.seats[process]
	if j.elastic {
		s.supervisor = nobody
	}
	return j.end(process, s.Incarnation, o)
}

// stop is a first signal.
func (j *job) stop(signal int) []action {
	if j.signal != 0 {
		return nil
	}
	j.signal = signal
	if j.phase < jobRunning && j.generation == 1 {
		return j.over(exitSignal+signal, "stopped by a signal before the first step")
	}
	return []action{{Do: doTellAll, Message: message{Kind: kindStop, Signal: signal}}}
}

// fire lets a fault happen once.
func (j *job) fire(supervisor int, m message) []action {
	if m.Fault == nil {
		return nil
	}
	granted := !slices.Contains(j.fired, m.Fault.Number)
	if granted {
		j.fired = append(j.fired, m.Fault.Number)
	}
	return []action{{Do: doTell, To: supervisor, Message: message{Kind: kindFired, Fault: m.Fault, Incarnation: m.Incarnation, Granted: granted}}}
}
