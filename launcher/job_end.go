package launcher

import (
	"fmt"
	"slices"
	"time"
)

// expire says that the time asked for is over. refused is whom the rendezvous sent
// away last, "" if nobody.
func (j *job) expire(refused string) []action {
	switch j.phase {
	case jobMeeting:
		missing, come := slices.Index(j.hosts, ""), 0
		for _, h := range j.hosts {
			if h != "" {
				come++
			}
		}
		text := fmt.Sprintf("%s did not come within %v (%d of %d did); was it started? does it reach the rendezvous?",
			j.nameSupervisor(missing), j.limits.meet.Round(time.Millisecond), come, len(j.hosts))
		if refused != "" {
			text += " Refused was " + refused
		}
		return j.over(exitFailed, text)
	case jobForming:
		var silent []int
		for p := range j.seats {
			if s := &j.seats[p]; !s.gone() && !s.listens {
				silent = append(silent, p)
			}
		}
		if j.generation > 1 {
			return j.reform(fmt.Sprintf("the worker of %s did not listen within %v", j.name(silent[0]), j.limits.reform), silent...)
		}
		return j.over(exitFailed, fmt.Sprintf("the worker of %s did not start within %v; is its machine overloaded?", j.name(silent[0]), j.limits.meet))
	case jobLeaving, jobEnding:
		return j.judge()
	}
	return nil
}

// judge says how the job went.
func (j *job) judge() []action {
	if p := j.blame(); p >= 0 {
		o := j.seats[p].ended
		return j.over(o.exitCode(), o.explain(j.name(p)))
	}
	for _, p := range j.order {
		if o := j.seats[p].ended; o.stopped() {
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
		o, weight := j.seats[p].ended, 0
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
	for p := range j.seats {
		if s := &j.seats[p]; !s.gone() && s.ended == nil {
			s.ended = &outcome{Why: "is lost: neither its worker nor its supervisor answers"}
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

// name says which process, with its ranks.
func (j *job) name(process int) string {
	if s := &j.seats[process]; !s.gone() {
		return fmt.Sprintf("process %d (%s)", process, listOf("rank", "ranks", s.Ranks))
	}
	return nameOf(process, j.processes, j.ranks)
}

// nameSupervisor is name for who has not come, or is gone, before there are
// processes.
func (j *job) nameSupervisor(supervisor int) string {
	if supervisor < j.processes {
		return j.name(supervisor)
	}
	return fmt.Sprintf("process %d (a spare)", supervisor)
}
