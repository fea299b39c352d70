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
	maxRestarts      int      // losses in a row without a commit between
	faults           []string // what is to happen, by Fault.Number
	// launched says that our launcher started the supervisors. It keeps the job too, as
	// if it were one more supervisor with the number after theirs.
	launched bool
}

// supervisors are those that the job begins with. Others come later, in place of lost ones.
func (s shape) supervisors() int { return s.processes + s.spares }

// keepers are all that can keep the job as it begins.
func (s shape) keepers() int {
	if s.launched {
		return s.supervisors() + 1
	}
	return s.supervisors()
}

// host is the keeper at whose rendezvous the job begins.
func (s shape) host() int {
	if s.launched {
		return s.supervisors()
	}
	return 0
}

// isLauncher reports whether a keeper is our launcher, which is no supervisor.
func (s shape) isLauncher(number int) bool { return s.launched && number == s.host() }

// maxKeepers bounds those who have ever come to a job.
const maxKeepers = 2 * maxProcesses

// nobody is the supervisor of a process that has none.
const nobody = -1

// seat is a process, as the job sees it.
type seat struct {
	Process
	Supervisor int // nobody: it is gone
	Turn       int // in which it is dealt ranks
	Listens    bool
	Done       bool     // with the work of this generation
	Ended      *outcome // of its worker; nil: not yet
	New        bool     // to its supervisor, and there was no commit since
	Left       bool     // its worker said that it does not reach another,
	Misses     int      // this one; nobody: it cannot tell
	Accused    bool     // since the last commit others did not reach it, and it did not say why
}

// take gives a process a rank.
func (s *seat) take(rank int, generation uint64) {
	at, _ := slices.BinarySearch(s.Ranks, rank)
	s.Ranks, s.Since = slices.Insert(s.Ranks, at, rank), slices.Insert(s.Since, at, generation)
}

// gone reports whether others have taken the ranks of a process.
func (s *seat) gone() bool { return len(s.Ranks) == 0 }

// over reports whether nothing more is expected of a process's worker.
func (s *seat) over() bool { return s.gone() || s.Done || s.Ended != nil }

// keeper is a supervisor, or the launcher, as the job sees it.
type keeper struct {
	Number int    `json:"number"`
	Place  int    `json:"place,omitempty"` // the number that it was started with
	Host   string `json:"host,omitempty"`  // "": it has not come
	Door   string `json:"door,omitempty"`  // where it listens for the others
	ID     string `json:"id,omitempty"`    // drawn by its process: one that is started again has another
	Lost   bool   `json:"lost,omitempty"`
}

// job is the state machine of what concerns all processes. Each keeper that votes has a
// copy (replica), which takes the same events in the same order; the leader's does the
// actions.
//
// Invariant: the generation grows whenever it is not certain that every worker has
// what it had when the world was told; a message of an older generation, or of an
// older incarnation of a worker, changes nothing.
type job struct {
	shape
	limits limits
	now    int64 // of the newest event
	state
}

// state is all of a job that its events change.
type state struct {
	Phase      jobPhase
	Generation uint64
	Seats      []seat
	Keepers    []keeper
	Leader     int      // that told of the newest event
	Voters     []int    // keepers that agree on the log of events; none: the host decides alone
	Spare      []int    // supervisors that wait
	Whole      bool     // in this generation there was a commit with which all was there that was lost
	Trained    bool     // there was a commit
	Restarts   int      // in a row without a commit
	Fired      []firing // faults that have happened
	Order      []int    // processes in the order in which their workers ended
	Signal     int      // that asked for a stop; 0: none
	Why        string   // the job ends, where that is not because a worker failed
	End        *message // what all are told at the end
	Timer      timer
	Struck     int64 // when the newest fault was granted that kills, which nobody has noticed
	Lost       int64 // when something was lost, for which the newest generation is
}

// timer is what a job waits for, as long as After is not 0. Its number is in the event of
// its end, so that the end of one that was set anew meanwhile changes nothing.
type timer struct {
	Number int
	After  time.Duration
}

func newJob(s shape, lim limits) *job {
	j := &job{shape: s, limits: lim, state: state{Generation: 1, Seats: make([]seat, s.processes), Keepers: make([]keeper, s.keepers())}}
	for p := range j.Seats {
		j.Seats[p] = seat{Process: Process{Incarnation: 1}, Supervisor: p}
	}
	for n := range j.Keepers {
		j.Keepers[n].Number, j.Keepers[n].Place = n, n
	}
	j.spread()
	for s := j.processes; s < j.supervisors(); s++ {
		j.Spare = append(j.Spare, s)
	}
	return j
}

// start begins the wait for the others.
func (j *job) start() []action { return []action{{Do: doTimer, After: j.limits.meet}} }

// join says that a keeper has come.
func (j *job) join(k keeper) []action {
	if j.Phase != jobMeeting {
		return j.returned(k)
	}
	if k.Number >= len(j.Keepers) {
		return nil
	}
	k.Place = k.Number
	j.Keepers[k.Number] = k
	if slices.ContainsFunc(j.Keepers, func(k keeper) bool { return k.Host == "" }) {
		return nil
	}
	j.spread()
	return append(j.elect(), j.form(j.limits.meet)...)
}

// form asks all processes for a worker that listens for the generation.
func (j *job) form(limit time.Duration) []action {
	j.Phase, j.Whole = jobForming, false
	out := []action{{Do: doTimer, After: limit}}
	for p := range j.Seats {
		s := &j.Seats[p]
		s.Addr, s.Listens, s.Done, s.Left = "", false, false, false
		if s.gone() {
			continue
		}
		s.Host = j.Keepers[s.Supervisor].Host
		out = append(out, j.tellForm(p))
	}
	return out
}

func (j *job) tellForm(process int) action {
	s := &j.Seats[process]
	return action{Do: doTell, To: s.Supervisor,
		Message: message{Kind: kindForm, Process: process, Generation: j.Generation, Incarnation: s.Incarnation}}
}

// processOf is whose worker a supervisor has, nobody if it has none.
func (j *job) processOf(supervisor int) int {
	return slices.IndexFunc(j.Seats, func(s seat) bool { return s.Supervisor == supervisor })
}

// hear takes what a supervisor says.
func (j *job) hear(supervisor int, m message) []action {
	p := j.processOf(supervisor)
	switch {
	case j.Phase == jobOver:
		return nil
	case m.Kind == kindBeat:
		return nil // hearing it was all
	case m.Kind == kindStop:
		return j.stop(m.Signal)
	case m.Kind == kindKill:
		return j.tellEnd(message{Kind: kindKill, Signal: m.Signal})
	case p == nobody:
		return nil // it lost its process
	case m.Kind == kindEnded:
		return j.end(p, m.Incarnation, m.Outcome)
	case m.Kind == kindFire:
		return j.fire(supervisor, m)
	case m.Generation != j.Generation && (m.Kind == kindListening || m.Kind == kindDone || m.Kind == kindLost || m.Kind == kindCommitted):
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
		return j.committed(m.Whole)
	}
	return j.lose(supervisor, fmt.Sprintf("is lost: its supervisor sent %q, which makes no sense", m.Kind))
}

func (j *job) listening(process int, addr string) []action {
	s := &j.Seats[process]
	if j.Phase != jobForming || s.Listens || s.Ended != nil {
		return nil
	}
	s.Addr, s.Listens = addr, true
	for p := range j.Seats {
		if s := &j.Seats[p]; !s.gone() && !s.Listens {
			return nil
		}
	}
	j.Phase = jobRunning
	return append([]action{{Do: doTimer}}, j.tellWorld()...)
}

// tellWorld tells all the world that has formed.
func (j *job) tellWorld() []action {
	world := &members{Generation: j.Generation, Lost: j.Lost, Trained: j.Trained}
	for _, f := range j.Fired {
		world.Fired = append(world.Fired, f.Fault)
	}
	for p := range j.Seats {
		s := j.Seats[p].Process
		s.Ranks, s.Since = slices.Clone(s.Ranks), slices.Clone(s.Since)
		world.Processes = append(world.Processes, s)
	}
	return append([]action{{Do: doTellAll, Message: message{Kind: kindWorld, World: world}}}, j.tellStop()...)
}

// tellStop tells of the signal, if there was one, those who may not have heard.
func (j *job) tellStop() []action {
	if j.Signal == 0 {
		return nil
	}
	return []action{{Do: doTellAll, Message: message{Kind: kindStop, Signal: j.Signal}}}
}

// done says that a process's worker has done its work.
func (j *job) done(process int) []action {
	if j.Phase != jobRunning {
		return nil
	}
	j.Seats[process].Done = true
	return j.leaveIfDone()
}

// leaveIfDone lets the workers go once all have done their work.
func (j *job) leaveIfDone() []action {
	for p := range j.Seats {
		if !j.Seats[p].over() {
			return nil
		}
	}
	if j.allEnded() {
		return j.judge()
	}
	j.Phase = jobLeaving
	return []action{{Do: doTimer, After: j.limits.end}, {Do: doTellAll, Message: message{Kind: kindLeave}}}
}

func (j *job) allEnded() bool {
	return !slices.ContainsFunc(j.Seats, func(s seat) bool { return !s.gone() && s.Ended == nil })
}

// end takes the end of a process's worker.
func (j *job) end(process, incarnation int, o *outcome) []action {
	s := &j.Seats[process]
	if incarnation != s.Incarnation || s.Ended != nil || o == nil {
		return nil
	}
	if s.Done && o.crashed() && (j.elastic || j.Phase == jobLeaving) {
		o = &outcome{} // what it had to do is done
	}
	if j.unproven(s) && o.failed() && !o.follows() && j.Phase <= jobRunning {
		return j.lose(s.Supervisor, o.reason()+" on a machine that was new to it, which is given up")
	}
	s.Ended = o
	j.Order = append(j.Order, process)
	switch {
	case j.Phase == jobLeaving || j.Phase == jobEnding:
		if j.allEnded() {
			return j.judge()
		}
		return nil
	case !o.failed():
		if j.Phase == jobForming && j.Generation > 1 {
			return j.reform(j.name(process)+" ended while it was needed again", process)
		}
		return j.leaveIfDone()
	case j.elastic && o.crashed() && j.Phase != jobMeeting:
		return j.reform(j.name(process)+" "+o.fate(), process)
	case j.allEnded(), j.Phase < jobRunning && j.Generation == 1: // nothing has begun that could end by itself
		return j.judge()
	}
	return j.abort()
}

// isGone is said of one whose supervisor is lost.
const isGone = "is lost: its supervisor is gone"

// lose says that a supervisor is lost. Whatever it still is, it is fenced.
func (j *job) lose(supervisor int, why string) []action {
	if supervisor >= len(j.Keepers) || j.isLauncher(supervisor) || j.Keepers[supervisor].Lost || j.Phase == jobOver {
		return nil
	}
	j.Keepers[supervisor].Lost = true
	out := []action{{Do: doExpel, To: supervisor}}
	p, spare := j.processOf(supervisor), slices.Index(j.Spare, supervisor)
	switch {
	case j.Phase == jobMeeting:
		return append(out, j.over(exitFailed, j.nameSupervisor(supervisor)+" "+why)...)
	case spare >= 0:
		j.Spare = slices.Delete(j.Spare, spare, spare+1)
		out = append(out, action{Do: doSay, Text: fmt.Sprintf("%s %s; spares left: %d", j.nameSupervisor(supervisor), why, len(j.Spare))})
	}
	if !slices.ContainsFunc(j.Keepers, func(k keeper) bool { return !k.Lost && !j.isLauncher(k.Number) }) {
		return append(out, j.over(exitFailed, j.nameSupervisor(supervisor)+" "+why+", as are all others")...)
	}
	out = append(out, j.elect()...)
	if p == nobody {
		return out
	}
	return append(out, j.loseProcess(p, &outcome{Why: why})...)
}

// loseProcess says that nothing is heard of a process any more.
func (j *job) loseProcess(process int, o *outcome) []action {
	s := &j.Seats[process]
	if j.elastic {
		s.Supervisor, s.New = nobody, false
	}
	return j.end(process, s.Incarnation, o)
}

// stop is a first signal.
func (j *job) stop(signal int) []action {
	if j.Signal != 0 {
		return nil
	}
	j.Signal = signal
	if j.Phase < jobRunning && j.Generation == 1 {
		return j.over(exitSignal+signal, "stopped by a signal before the first step")
	}
	return j.tellStop()
}
