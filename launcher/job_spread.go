package launcher

import "slices"

// Which ranks a process begins with, and which spare takes whose place, by the machines
// that the supervisors have come from.

// spread deals the ranks out: rank i to the process whose turn is i modulo the processes,
// where machines take turns. Ranks next to each other code together (package ec), so a machine
// that is lost takes as few of a group as there can be. On one machine the
// turn is the process's number; rank 0 is process 0's always.
func (j *job) spread() {
	for turn, p := range j.turns() {
		s := &j.Seats[p]
		s.Turn, s.Ranks, s.Since = turn, nil, nil
		for _, r := range j.ownRanks(p) {
			s.take(r, j.Generation)
		}
	}
}

// turns are the processes in the order in which they are dealt ranks.
func (j *job) turns() (order []int) {
	var machines []string
	on := map[string][]int{}
	for p := range j.Seats {
		host := j.Keepers[j.Seats[p].Supervisor].Host
		if !slices.Contains(machines, host) {
			machines = append(machines, host)
		}
		on[host] = append(on[host], p)
	}
	for round := 0; len(order) < len(j.Seats); round++ {
		for _, m := range machines {
			if round < len(on[m]) {
				order = append(order, on[m][round])
			}
		}
	}
	return order
}

// ownRanks are those that a process began with.
func (j *job) ownRanks(process int) []int {
	return ranksOf(j.Seats[process].Turn, j.processes, j.ranks)
}

// roomiest is which of the spares is on the machine with the fewest processes, of those
// the first.
func (j *job) roomiest() (spare int) {
	least := len(j.Seats) + 1
	for i, n := range j.Spare {
		processes := 0
		for _, s := range j.Seats {
			if s.Supervisor != nobody && j.Keepers[s.Supervisor].Host == j.Keepers[n].Host {
				processes++
			}
		}
		if processes < least {
			spare, least = i, processes
		}
	}
	return spare
}
