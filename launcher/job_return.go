package launcher

import (
	"fmt"
	"slices"
)

// Supervisors that come to a job that runs, and what they take back.

// mayReturn is nil if a supervisor may come to a job that runs: in a place whose own is lost.
func (j *job) mayReturn(k keeper) error {
	living := slices.ContainsFunc(j.Keepers, func(o keeper) bool { return o.Place == k.Place && !o.Lost && o.ID != k.ID })
	switch {
	case k.Place < 0 || k.Place >= j.supervisors() || k.ID == "":
		return errStranger
	case living:
		return fmt.Errorf("process %d is there already; two processes were started with this number", k.Place)
	case !j.elastic || j.Phase >= jobLeaving:
		return fmt.Errorf("process %d comes too late: the job takes nobody in any more", k.Place)
	case len(j.Keepers) >= maxKeepers:
		return fmt.Errorf("process %d comes after %d others; start the job again with --resume auto", k.Place, len(j.Keepers))
	}
	return nil
}

// returned takes in a supervisor that comes to a job that runs. It gets a number that nobody
// has had, and waits for a loss, or takes back what others have adopted.
func (j *job) returned(k keeper) []action {
	if j.mayReturn(k) != nil || j.numberOf(k.ID) != nobody {
		return nil
	}
	k.Number, k.Lost = len(j.Keepers), false
	j.Keepers, j.Spare = append(j.Keepers, k), append(j.Spare, k.Number)
	out := []action{{Do: doExpect, To: k.Number},
		{Do: doSay, Text: fmt.Sprintf("%s has come; spares: %d", j.nameSupervisor(k.Number), len(j.Spare))}}
	return append(append(out, j.elect()...), j.takeBack()...)
}

// numberOf is the number of a supervisor's process, nobody if it has none.
func (j *job) numberOf(id string) int {
	return slices.IndexFunc(j.Keepers, func(k keeper) bool { return k.ID == id })
}

// takeBack has a spare take back a process whose ranks others have adopted. These are lost
// once more on the way and rebuilt, so it is done where all is whole: then it is no more
// than was lost before. It is no loss that counts.
func (j *job) takeBack() []action {
	p := slices.IndexFunc(j.Seats, func(s seat) bool { return s.gone() })
	over := func(s seat) bool { return s.over() && !s.gone() || s.Left }
	if p < 0 || len(j.Spare) == 0 || !j.Whole || j.Phase != jobRunning || j.Signal != 0 || slices.ContainsFunc(j.Seats, over) {
		return nil
	}
	j.Generation++
	j.Lost = j.now
	s := &j.Seats[p]
	by := j.giveSpare(p)
	s.Ended = nil
	s.Incarnation++
	for _, r := range j.ownRanks(p) {
		for q := range j.Seats {
			j.Seats[q].give(r)
		}
		s.take(r, j.Generation)
	}
	text := fmt.Sprintf("%s takes back %s, which others had adopted; all connect anew (generation %d)", by, j.name(p), j.Generation)
	return append([]action{{Do: doSay, Text: text}}, j.form(j.limits.reform)...)
}

// giveSpare has a spare take a process. It returns the spare's name.
func (j *job) giveSpare(process int) (name string) {
	s, at := &j.Seats[process], j.roomiest()
	n := j.Spare[at]
	name = j.nameSupervisor(n)
	s.Supervisor, s.New, j.Spare = n, true, slices.Delete(j.Spare, at, at+1)
	return name
}

// unproven reports whether a process's machine has done nothing for the job yet, and so may
// not be fit for it, and another could go on without.
func (j *job) unproven(s *seat) bool {
	return s.New && slices.ContainsFunc(j.Keepers, func(k keeper) bool { return !k.Lost && !j.isLauncher(k.Number) && k.Number != s.Supervisor })
}

// give takes a rank from a process, if it has that.
func (s *seat) give(rank int) {
	if at, has := slices.BinarySearch(s.Ranks, rank); has {
		s.Ranks, s.Since = slices.Delete(s.Ranks, at, at+1), slices.Delete(s.Since, at, at+1)
	}
}
