package control

import (
	"slices"
	"time"
)

// phase is the progress of a job.
type phase int

const (
	phaseMeeting phase = iota // supervisors join
	phaseForming              // workers start to listen
	phaseRunning              // workers work
	phaseLeaving              // all work is done; workers end
	phaseEnding               // one worker failed; the others end
	phaseOver
)

// None is the number of no process and no supervisor.
const None = -1

// Shape is the size of a job and its rules.
type Shape struct {
	Processes, Ranks int
	Spares           int      // supervisors that wait for another's loss
	Elastic          bool     // lost processes are replaced
	MaxRestarts      int      // losses in a row without a commit between
	Faults           []string // the faults to inject, by Fault.Number
	// Launched is true if the launcher of --np started the supervisors. The launcher is a
	// member too, with the number after theirs.
	Launched bool
}

// Supervisors is the number of supervisors that a job begins with. Later ones replace lost
// ones.
func (s Shape) Supervisors() int { return s.Processes + s.Spares }

// InitialMembers is the number of members that a job begins with.
func (s Shape) InitialMembers() int {
	if s.Launched {
		return s.Supervisors() + 1
	}
	return s.Supervisors()
}

// Host is the member whose rendezvous the job begins at.
func (s Shape) Host() int {
	if s.Launched {
		return s.Supervisors()
	}
	return 0
}

// IsLauncher reports whether a member is the launcher, which is no supervisor.
func (s Shape) IsLauncher(number int) bool { return s.Launched && number == s.Host() }

// Limits bound the phases of a job.
type Limits struct {
	Meet   time.Duration // until all supervisors have joined, and until the first workers listen
	Reform time.Duration // until the workers of a later generation listen
	End    time.Duration // until workers end by themselves after a failure
	Doubt  time.Duration // until workers have reported unreachable peers, after the first report
}

// maxMembers bounds the members that ever join a job.
const maxMembers = 2 * MaxProcesses

// slot is a process, as the job sees it.
type slot struct {
	Process
	Supervisor int // None: it is lost
	Turn       int // its index in the result of turns: it begins with the ranks of ranksOf(Turn, ...)
	Listens    bool
	Done       bool     // its work of this generation is done
	Exited     *Outcome // of its worker; nil: it lives
	New        bool     // its supervisor took it over, and there was no commit since
	Reported   bool     // its worker reported that it cannot reach the process Misses
	Misses     int      // None: which one is unclear
	Accused    bool     // since the last commit others did not reach it, and it reported nothing
}

// addRank gives the process a rank.
func (s *slot) addRank(rank int, generation uint64) {
	at, _ := slices.BinarySearch(s.Ranks, rank)
	s.Ranks, s.Since = slices.Insert(s.Ranks, at, rank), slices.Insert(s.Since, at, generation)
}

// removeRank takes a rank from the process if it hosts that.
func (s *slot) removeRank(rank int) {
	if at, has := slices.BinarySearch(s.Ranks, rank); has {
		s.Ranks, s.Since = slices.Delete(s.Ranks, at, at+1), slices.Delete(s.Since, at, at+1)
	}
}

// isGone reports whether the process's ranks were reassigned to others.
func (s *slot) isGone() bool { return len(s.Ranks) == 0 }

// isFinished reports whether the job expects nothing more from the process's worker.
func (s *slot) isFinished() bool { return s.isGone() || s.Done || s.Exited != nil }

// state is the part of a job that its events change.
type state struct {
	Phase          phase
	Generation     uint64
	Slots          []slot
	Members        []Member
	Leader         int      // the proposer of the newest event
	Voting         []int    // members that agree on the log of events; none: the host decides alone
	Spare          []int    // supervisors that wait
	FullyRedundant bool     // in this generation there was a commit with everything rebuilt
	Trained        bool     // there was a commit
	Doubts         int      // generations in a row, without a commit, that ended because a process was unreachable
	Restarts       int      // in a row without a commit
	Fired          []firing // faults that have fired
	Order          []int    // processes in the order in which their workers ended
	Signal         int      // the signal that requested a stop; 0: none
	Why            string   // the reason for the job's end, if that is not a worker's failure
	End            *Message // the broadcast that ended the job
	EndedBy        int      // the leader then
	Timer          Timer
	FaultAt        int64 // when the newest fatal fault was granted, until its effect is noticed
	LostAt         int64 // when the loss happened that the newest generation is for
	Incidents      incidentLog
	Verdict        string // the message about the job's end
}

// Timer is the wait of a job, if After is not 0. The event of its end carries its number,
// so that the end of a timer that was replaced meanwhile changes nothing.
type Timer struct {
	Number int
	After  time.Duration
}
