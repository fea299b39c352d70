package control

import "slices"

// The functions here decide by machine: which ranks a process begins with, and which
// spare replaces a lost process.

// ranksOf are the ranks of a turn: those equal to it modulo the number of processes.
func ranksOf(turn, processes, ranks int) []int {
	var mine []int
	for r := turn; r < ranks; r += processes {
		mine = append(mine, r)
	}
	return mine
}

// turns are the processes in the order in which ranks are dealt, given the machine of each:
// machines take turns. Consecutive ranks share an erasure code group (package ec), so a lost
// machine takes the fewest ranks of each group. On one machine the turn is the process's
// number. Process 0 is always first.
func turns(hosts []string) (order []int) {
	var machines []string
	on := map[string][]int{}
	for p, host := range hosts {
		if !slices.Contains(machines, host) {
			machines = append(machines, host)
		}
		on[host] = append(on[host], p)
	}
	for round := 0; len(order) < len(hosts); round++ {
		for _, m := range machines {
			if round < len(on[m]) {
				order = append(order, on[m][round])
			}
		}
	}
	return order
}

// roomiest is the index of the spare whose machine hosts the fewest processes, the first of
// equals. It takes the machines of the spares and of the processes.
func roomiest(spares, processes []string) (index int) {
	least := len(processes) + 1
	for i, host := range spares {
		n := 0
		for _, p := range processes {
			if p == host {
				n++
			}
		}
		if n < least {
			index, least = i, n
		}
	}
	return index
}
