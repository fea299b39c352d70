package launcher

import (
	"fmt"
	"slices"
)

// reform makes the next generation, because of what happened to the processes named:
// they, and those whose workers have ended, get new workers; the others keep theirs.
func (j *job) reform(why string, lost ...int) []action {
	j.Restarts++
	if j.Restarts > j.maxRestarts {
		j.Why = fmt.Sprintf("%s; that is loss %d in a row without a commit between, and elastic.max_restarts = %d", why, j.Restarts, j.maxRestarts)
		if j.allEnded() {
			return j.judge()
		}
		return j.abort()
	}
	j.Generation++
	if j.Phase == jobRunning { // else the loss before it is not made good yet
		j.Lost = j.now
	}
	if j.Struck != 0 {
		j.Lost, j.Struck = min(j.Lost, j.Struck), 0
	}
	remedy, others := "all connect anew", []action(nil)
	for p := range j.Seats {
		s := &j.Seats[p]
		if s.gone() || s.Ended == nil && !slices.Contains(lost, p) {
			continue
		}
		name, does := j.name(p), j.restart(p)
		if slices.Contains(lost, p) {
			remedy = does
		} else {
			others = append(others, action{Do: doSay, Text: fmt.Sprintf("%s is needed again; %s (generation %d)", name, does, j.Generation)})
		}
	}
	out := append([]action{{Do: doSay, Text: fmt.Sprintf("%s; %s (generation %d)", why, remedy, j.Generation)}}, others...)
	return append(out, j.form(j.limits.reform)...)
}

// restart gives a process a new worker, or its ranks to others. It says what it did.
func (j *job) restart(process int) (does string) {
	s := &j.Seats[process]
	s.Ended, s.Accused = nil, false
	j.Order = slices.DeleteFunc(j.Order, func(p int) bool { return p == process })
	does = "it is started again"
	if s.Supervisor == nobody {
		does = j.replace(process)
	}
	if !s.gone() {
		s.Incarnation++
		for i := range s.Since {
			s.Since[i] = j.Generation
		}
	}
	return does
}

// replace finds another supervisor for a process whose own is gone: a spare one, or
// else the surviving processes adopt its ranks.
func (j *job) replace(process int) string {
	s := &j.Seats[process]
	if len(j.Spare) > 0 {
		j.giveSpare(process)
		return "a spare takes its place"
	}
	var by []int
	for _, r := range s.Ranks {
		p := j.leastLoaded()
		j.Seats[p].take(r, j.Generation)
		by = append(by, p)
	}
	slices.Sort(by)
	by = slices.Compact(by)
	s.Ranks, s.Since = nil, nil
	takes := "take"
	if len(by) == 1 {
		takes = "takes"
	}
	return fmt.Sprintf("%s %s its ranks; from here on fewer losses can be survived", listOf("process", "processes", by), takes)
}

// leastLoaded is the process with the fewest ranks, of those the first, among those
// that have a supervisor. There is one, or lose has ended the job.
func (j *job) leastLoaded() int {
	best := nobody
	for p := range j.Seats {
		if s := &j.Seats[p]; s.Supervisor != nobody && (best == nobody || len(s.Ranks) < len(j.Seats[best].Ranks)) {
			best = p
		}
	}
	return best
}

// accuse says that a process's worker does not reach another's, process, though nobody heard
// of that one's end; nobody where it cannot tell whose. Others say so too, or will: whoever
// leaves a world is not reached by them. Once there was time for that, blameUnreached
// decides.
func (j *job) accuse(by, process int) []action {
	s := &j.Seats[by]
	if !j.elastic || j.Phase != jobRunning || by == process || process < nobody || process >= len(j.Seats) || s.Left {
		return nil
	}
	first := !slices.ContainsFunc(j.Seats, func(s seat) bool { return s.Left })
	s.Left, s.Misses = true, process
	switch {
	case !slices.ContainsFunc(j.Seats, func(s seat) bool { return !s.over() && !s.Left }):
		return j.blameUnreached()
	case first:
		return []action{{Do: doTimer, After: j.limits.doubt}}
	}
	return nil
}

// blameUnreached makes a generation in which all connect anew, because of what accuse was
// told. Who has left for another is excused, and that one accused: the one who has not
// said why it is not reached. Where each has left for another, some connection is broken,
// and one at its ends is accused. Who is accused again without a commit between is ended. (One that is silent its supervisor
// has found so before, and ended.)
func (j *job) blameUnreached() []action {
	by := slices.IndexFunc(j.Seats, func(s seat) bool { return s.Left })
	if by < 0 {
		return nil
	}
	accused, seen := j.Seats[by].Misses, []int{by}
	for accused != nobody && j.Seats[accused].Left && !slices.Contains(seen, accused) {
		seen, by, accused = append(seen, accused), accused, j.Seats[accused].Misses
	}
	if accused == nobody || j.Seats[accused].gone() {
		return j.reform(fmt.Sprintf("process %d has lost touch with the others", by))
	}
	s := &j.Seats[accused]
	why := fmt.Sprintf("process %d does not reach %s", by, j.name(accused))
	if s.Accused {
		return j.reform(why, accused)
	}
	s.Accused = true
	return j.reform(why)
}

// committed says that there was a commit: what happened before it is forgotten. whole says
// that nothing was missing any more that was lost.
func (j *job) committed(whole bool) []action {
	j.Restarts, j.Trained = 0, true
	for p := range j.Seats {
		j.Seats[p].Accused, j.Seats[p].New = false, false
	}
	j.Whole = j.Whole || whole
	return j.takeBack()
}
