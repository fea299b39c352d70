package launcher

import (
	"fmt"
	"slices"
)

// reform makes the next generation, because of what happened to the processes named:
// they, and those whose workers have ended, get new workers; the others keep theirs.
func (j *job) reform(why string, lost ...int) []action {
	j.restarts++
	if j.restarts > j.maxRestarts {
		return j.over(exitFailed, fmt.Sprintf("%s; that is loss %d in a row without a commit between, and elastic.max_restarts = %d", why, j.restarts, j.maxRestarts))
	}
	j.generation++
	remedy, others := "all connect anew", []action(nil)
	for p := range j.seats {
		s := &j.seats[p]
		if s.gone() || s.ended == nil && !slices.Contains(lost, p) {
			continue
		}
		name, does := j.name(p), j.restart(p)
		if slices.Contains(lost, p) {
			remedy = does
		} else {
			others = append(others, action{Do: doSay, Text: fmt.Sprintf("%s is needed again; %s (generation %d)", name, does, j.generation)})
		}
	}
	out := append([]action{{Do: doSay, Text: fmt.Sprintf("%s; %s (generation %d)", why, remedy, j.generation)}}, others...)
	return append(out, j.form(j.limits.reform)...)
}

// restart gives a process a new worker, or its ranks to others. It says what it did.
func (j *job) restart(process int) (does string) {
	s := &j.seats[process]
	s.ended, s.accused = nil, false
	j.order = slices.DeleteFunc(j.order, func(p int) bool { return p == process })
	does = "it is started again"
	if s.supervisor == nobody {
		does = j.replace(process)
	}
	if !s.gone() {
		s.Incarnation++
		for i := range s.Since {
			s.Since[i] = j.generation
		}
	}
	return does
}

// replace finds another supervisor for a process whose own is gone: a spare one, or
// else the surviving processes adopt its ranks.
func (j *job) replace(process int) string {
	s := &j.seats[process]
	if len(j.spare) > 0 {
		s.supervisor, j.spare = j.spare[0], j.spare[1:]
		return "a spare takes its place"
	}
	var by []int
	for _, r := range s.Ranks {
		p := j.leastLoaded()
		j.seats[p].take(r, j.generation)
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
// that have a supervisor. There is one: where this runs.
func (j *job) leastLoaded() int {
	best := nobody
	for p := range j.seats {
		if s := &j.seats[p]; s.supervisor != nobody && (best == nobody || len(s.Ranks) < len(j.seats[best].Ranks)) {
			best = p
		}
	}
	return best
}

// accuse says that a process's worker does not reach another's, though nobody heard
// of that one's end. If it is silent, its supervisor will find so and end it; if it
// was the connection, a new generation has new ones. Accused again without a commit
// between, it is ended. process is nobody where the worker cannot tell whom.
func (j *job) accuse(by, process int) []action {
	if !j.elastic || j.phase != jobRunning || by == process || process < nobody || process >= len(j.seats) {
		return nil
	}
	if process == nobody || j.seats[process].gone() {
		return j.reform(fmt.Sprintf("process %d has lost touch with the others", by))
	}
	s := &j.seats[process]
	why := fmt.Sprintf("process %d does not reach %s", by, j.name(process))
	if s.accused {
		return j.reform(why, process)
	}
	s.accused = true
	return j.reform(why)
}

// committed says that there was a commit: what happened before it is forgotten.
func (j *job) committed() []action {
	j.restarts = 0
	for p := range j.seats {
		j.seats[p].accused = false
	}
	return nil
}
