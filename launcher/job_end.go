package launcher

import (
	"fmt"
	"slices"
	"time"
)

// expire says that the time asked for is over. refused is whom the rendezvous sent
// away last, "" if nobody.
func (j *job) expire(refused string) []action {
	switch j.Phase {
	case jobMeeting:
		missing, come := nobody, 0
		for _, k := range j.Keepers[:j.supervisors()] {
			if k.Host != "" {
				come++
			} else if missing == nobody {
				missing = k.Number
			}
		}
		text := fmt.Sprintf("%s did not come within %v (%d of %d did); was it started? does it reach the rendezvous?",
			j.nameSupervisor(missing), j.limits.meet.Round(time.Millisecond), come, j.supervisors())
		if refused != "" {
			text += " Refused was " + refused
		}
		return j.over(exitFailed, text)
	case jobForming:
		var silent []int
		for p := range j.Seats {
			if s := &j.Seats[p]; !s.gone() && !s.Listens {
				silent = append(silent, p)
			}
		}
		if s := &j.Seats[silent[0]]; j.unproven(s) {
			return j.lose(s.Supervisor, fmt.Sprintf("did not listen within %v on a machine that was new to it, which is given up", j.limits.reform))
		}
		if j.Generation > 1 {
			return j.reform(fmt.Sprintf("the worker of %s did not listen within %v", j.name(silent[0]), j.limits.reform), silent...)
		}
		return j.over(exitFailed, fmt.Sprintf("the worker of %s did not start within %v; is its machine overloaded?", j.name(silent[0]), j.limits.meet))
	case jobRunning:
		return j.blameUnreached()
	case jobLeaving, jobEnding:
		return j.judge()
	}
	return nil
}

// abort has the workers end after one failed, or because of Why.
func (j *job) abort() []action {
	j.Phase = jobEnding
	// Each supervisor kills its worker after limits.end; a supervisor that does not
	// answer any more is not waited for.
	return []action{{Do: doTimer, After: 2 * j.limits.end}, j.tellAbort()}
}

func (j *job) tellAbort() action {
	m := message{Kind: kindAbort, Text: j.Why}
	if j.Why != "" { // who hosts rank 0 tells people, or should that be lost, the first that lives
		living := func(s seat) bool { return !s.gone() && s.Ended == nil }
		m.Process = slices.IndexFunc(j.Seats, func(s seat) bool { return living(s) && slices.Contains(s.Ranks, 0) })
		if m.Process == nobody {
			m.Process = slices.IndexFunc(j.Seats, living)
		}
	}
	return action{Do: doTellAll, Message: m}
}

// judge says how the job went.
func (j *job) judge() []action {
	if j.Why != "" {
		return j.over(exitFailed, j.Why)
	}
	if p := j.blame(); p >= 0 {
		o := j.Seats[p].Ended
		return j.over(o.exitCode(), o.explain(j.name(p)))
	}
	for _, p := range j.Order {
		if o := j.Seats[p].Ended; o.stopped() {
			return j.over(exitSignal+j.Signal, o.Report.Error)
		}
	}
	return j.over(0, j.unfired())
}

// blame is the process whose failure is the job's, -1 if none failed: the first
// that failed by itself; else one that fell silent, so that others lost it; else
// the first.
func (j *job) blame() int {
	best, how := -1, 0
	for _, p := range j.Order {
		o, weight := j.Seats[p].Ended, 0
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
	for p := range j.Seats {
		if s := &j.Seats[p]; !s.gone() && s.Ended == nil {
			s.Ended = &outcome{Why: "is lost: neither its worker nor its supervisor answers"}
			return p
		}
	}
	return best
}

func (j *job) over(code int, text string) []action {
	out := j.tellEnd(message{Kind: kindEnd, Code: code})
	if text != "" {
		out = slices.Insert(out, 1, action{Do: doSay, Text: text})
	}
	return out
}

// tellEnd ends the job and tells all.
func (j *job) tellEnd(m message) []action {
	j.Phase, j.End = jobOver, &m
	return []action{{Do: doTimer}, {Do: doTellAll, Message: m}}
}

// name says which process, with its ranks.
func (j *job) name(process int) string {
	if s := &j.Seats[process]; !s.gone() {
		return fmt.Sprintf("process %d (%s)", process, listOf("rank", "ranks", s.Ranks))
	}
	return fmt.Sprintf("process %d (%s)", process, listOf("rank", "ranks", j.ownRanks(process)))
}

// nameSupervisor is name for who has not come, or is gone, before there are
// processes.
func (j *job) nameSupervisor(supervisor int) string {
	if p := j.processOf(supervisor); p != nobody {
		return j.name(p)
	}
	if supervisor < j.processes {
		return j.name(supervisor)
	}
	if supervisor >= j.keepers() {
		return fmt.Sprintf("process %d (a spare, started as process %d)", supervisor, j.Keepers[supervisor].Place)
	}
	return fmt.Sprintf("process %d (a spare)", supervisor)
}
