package control

import (
	"fmt"
	"slices"

	eventlog "github.com/ecrec/ecrec/internal/event"
	"github.com/ecrec/ecrec/internal/heartbeat"
)

// startGeneration begins to form the next generation because of c, which happened to the
// lost processes. These get new workers, as do processes whose workers have ended; the
// others keep theirs.
func (j *Job) startGeneration(c cause, lost ...int) []Action {
	why := c.Text
	if len(lost) > 0 {
		why = j.nodeAndName(lost[0]) + " " + c.Text
	}
	j.Restarts++
	if j.Restarts > j.MaxRestarts {
		return j.giveUp(why, c, lost)
	}
	j.Generation++
	if j.Phase == phaseRunning { // in another phase the recovery from an earlier loss continues
		j.LostAt = j.now
	}
	if j.FaultAt != 0 {
		j.LostAt, j.FaultAt = min(j.LostAt, j.FaultAt), 0
	}
	remedy, others := "all processes reconnect", []Action(nil)
	for p := range j.Slots {
		s := &j.Slots[p]
		if s.isGone() || s.Exited == nil && !slices.Contains(lost, p) {
			continue
		}
		name, loss, before := j.nodeAndName(p), j.lossOf(p, c), s.Supervisor
		does := j.restartProcess(p)
		if slices.Contains(lost, p) {
			remedy = does
			j.addReplacement(loss, before)
		} else {
			others = append(others, Action{Do: DoPrint, Text: fmt.Sprintf("%s is needed again; %s (generation %d)", name, does, j.Generation)})
		}
	}
	if len(lost) == 0 {
		j.addIncident(Incident{Kind: IncidentWarning, Cause: why + "; all processes reconnect", Code: c.Code, Generation: j.Generation})
	}
	out := append([]Action{{Do: DoPrint, Text: fmt.Sprintf("%s; %s (generation %d)", why, remedy, j.Generation)}}, others...)
	return append(out, j.formGeneration(j.limits.Reform)...)
}

// giveUp ends the job after too many losses in a row, the last because of c.
func (j *Job) giveUp(why string, c cause, lost []int) []Action {
	j.Why = fmt.Sprintf("%s; that is loss %d in a row without a commit between, and elastic.max_restarts = %d", why, j.Restarts, j.MaxRestarts)
	for _, p := range lost {
		j.addIncident(j.lossOf(p, c))
	}
	if j.allExited() {
		return j.judgeJob()
	}
	return j.abortWorkers()
}

// restartProcess gives a process a new worker, or reassigns its ranks. It returns a
// phrase about that, for messages.
func (j *Job) restartProcess(process int) (does string) {
	s := &j.Slots[process]
	s.Exited, s.Accused = nil, false
	j.Order = slices.DeleteFunc(j.Order, func(p int) bool { return p == process })
	does = "it is started again"
	if s.Supervisor == None {
		does = j.replaceSupervisor(process)
	}
	if !s.isGone() {
		s.Incarnation++
		for i := range s.Since {
			s.Since[i] = j.Generation
		}
	}
	return does
}

// replaceSupervisor gives a process whose supervisor is lost to a spare. Without a spare its
// ranks are reassigned to the other processes.
func (j *Job) replaceSupervisor(process int) string {
	s := &j.Slots[process]
	if len(j.Spare) > 0 {
		j.assignSpare(process)
		return "a spare takes its place"
	}
	var by []int
	for _, r := range s.Ranks {
		p := j.leastLoaded()
		j.Slots[p].addRank(r, j.Generation)
		by = append(by, p)
	}
	slices.Sort(by)
	by = slices.Compact(by)
	s.Ranks, s.Since = nil, nil
	takes := "take"
	if len(by) == 1 {
		takes = "takes"
	}
	return fmt.Sprintf("%s %s over its ranks; the job now survives fewer losses", listOf("process", "processes", by), takes)
}

// leastLoaded is the process with the fewest ranks that has a supervisor, the first of equals.
// There is one, or loseSupervisor would have ended the job.
func (j *Job) leastLoaded() int {
	best := None
	for p := range j.Slots {
		if s := &j.Slots[p]; s.Supervisor != None && (best == None || len(s.Ranks) < len(j.Slots[best].Ranks)) {
			best = p
		}
	}
	return best
}

// assignSpare gives a process to a spare. It returns the spare's name.
func (j *Job) assignSpare(process int) (name string) {
	var spares, processes []string
	for _, n := range j.Spare {
		spares = append(spares, j.Members[n].Host)
	}
	for _, s := range j.Slots {
		if s.Supervisor != None {
			processes = append(processes, j.Members[s.Supervisor].Host)
		}
	}
	at := roomiest(spares, processes)
	n := j.Spare[at]
	name = j.supervisorName(n)
	s := &j.Slots[process]
	s.Supervisor, s.New, j.Spare = n, true, slices.Delete(j.Spare, at, at+1)
	return name
}

// reportUnreachable handles a worker's report that it cannot reach a process; None: which one
// is unclear. No worker has ended. Others will report too, since a worker that leaves the
// generation is unreachable for its peers. accuseUnreached decides
// once there was time for their reports.
func (j *Job) reportUnreachable(by, process int) []Action {
	s := &j.Slots[by]
	if !j.Elastic || j.Phase != phaseRunning || by == process || process < None || process >= len(j.Slots) || s.Reported {
		return nil
	}
	first := !slices.ContainsFunc(j.Slots, func(s slot) bool { return s.Reported })
	s.Reported, s.Misses = true, process
	switch {
	case !slices.ContainsFunc(j.Slots, func(s slot) bool { return !s.isFinished() && !s.Reported }):
		return j.accuseUnreached()
	case first:
		return []Action{{Do: DoTimer, After: heartbeat.Doubled(j.limits.Doubt, j.Doubts)}}
	}
	return nil
}

// accuseUnreached starts a generation in which all reconnect, after reports of unreachable
// processes. A process that reported a peer unreachable is not blamed; the peer is. If all
// have reported, some connection is broken, and one of its ends is accused. A process that
// is accused again without a commit between gets a new worker. (A silent worker was ended
// by its supervisor before.)
func (j *Job) accuseUnreached() []Action {
	by := slices.IndexFunc(j.Slots, func(s slot) bool { return s.Reported })
	if by < 0 {
		return nil
	}
	j.Doubts++
	accused, seen := j.Slots[by].Misses, []int{by}
	for accused != None && j.Slots[accused].Reported && !slices.Contains(seen, accused) {
		seen, by, accused = append(seen, accused), accused, j.Slots[accused].Misses
	}
	if accused == None || j.Slots[accused].isGone() {
		return j.startGeneration(cause{fmt.Sprintf("process %d has lost its connections to the others", by), eventlog.Unreachable})
	}
	s := &j.Slots[accused]
	if s.Accused {
		return j.startGeneration(cause{fmt.Sprintf("is unreachable for process %d", by), eventlog.Unreachable}, accused)
	}
	s.Accused = true
	return j.startGeneration(cause{fmt.Sprintf("%sprocess %d cannot reach %s", onNode(j.Slots[by].Node), by,
		j.processName(accused)), eventlog.Unreachable})
}
