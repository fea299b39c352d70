package train

import (
	"fmt"
	"strings"
)

// warnIfCrowded warns if the loss of one of several machines would be more than a group of
// ranks can spare. Each world may have other machines.
func (j *job) warnIfCrowded() {
	machine := j.world.Machine
	if machine == nil || !j.coded() || j.hosted[0] != 0 {
		return
	}
	machines := map[string]bool{}
	for rank := range j.ranks {
		machines[machine(rank)] = true
	}
	g, members := j.layout.Crowded(func(owner int) string { return machine(j.roles.first + owner) })
	if len(machines) < 2 || len(members) == 0 {
		return
	}
	var ranks []string
	for _, m := range members {
		ranks = append(ranks, fmt.Sprint(j.roles.first+m))
	}
	warning := fmt.Sprintf("ec: ranks %s are on one machine, and their group, ranks %d to %d, can spare %d: the loss of that machine would end the run, or send it back to a checkpoint; use %d machines or more, or raise ec.r",
		strings.Join(ranks, ", "), j.roles.first+g.First, j.roles.first+g.First+g.Size-1, g.Parity, (g.Size+g.Parity-1)/g.Parity)
	if warning != j.crowded {
		j.crowded = warning
		j.o.Observer.Warned(warning)
	}
}
