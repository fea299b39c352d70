package launcher

import (
	"fmt"
	"slices"
)

// hurt does something bad.
func (c *cluster) hurt() {
	n := c.nodes[c.draw.IntN(len(c.nodes))]
	w := n.worker
	what := c.draw.IntN(18)
	left := 0
	for _, o := range c.nodes {
		if !o.dead && !o.cut {
			left++
		}
	}
	c.note("> fault %d at node %d", what, n.number)
	switch {
	case what >= 14:
		c.come()
	case what >= 12:
		c.elect()
	case n.dead:
	case what < 5 && w != nil:
		w.dies(outcome{Signal: 9})
	case what < 7 && w != nil && w.end == nil:
		w.frozen = true
	case what == 7 && w != nil && w.end == nil && w.world != nil:
		w.out = append(w.out, message{Kind: kindLost, Generation: w.world.Generation, Process: c.draw.IntN(c.job.processes+1) - 1})
	case n.cut || left == 1:
	case what == 8:
		n.dead, n.worker = true, nil
	case what == 9: // its machine is cut off
		n.lost = true
		c.lose(n.number)
	case what == 10: // it stands still for long, and hears then that it is lost
		c.lose(n.number)
	case what == 11: // its machine dies together with the leader's
		n.dead, n.worker = true, nil
		c.elect()
	}
}

// come has a supervisor come to the job, which takes it in where its place is free. Its
// request may come twice, the second time late.
func (c *cluster) come() {
	c.back++
	k := keeper{Place: c.draw.IntN(c.job.supervisors()), Host: "h", ID: fmt.Sprint("back", c.back)}
	if lost := slices.IndexFunc(c.job.Keepers, func(k keeper) bool { return k.Lost }); lost >= 0 && c.draw.IntN(4) > 0 {
		k.Place = c.job.Keepers[lost].Place
	}
	may := c.job.mayReturn(k) == nil
	for range 1 + c.draw.IntN(2) {
		c.take(event{Kind: eventJoin, Keeper: &k})
	}
	number := c.job.numberOf(k.ID)
	if may != (number == len(c.nodes)) {
		c.fail("%v: gets number %d of %d", k, number, len(c.nodes))
	}
	if !may {
		return
	}
	if n := slices.IndexFunc(c.job.Keepers, func(o keeper) bool { return o.Place == k.Place && !o.Lost }); n != number {
		c.fail("two supervisors for place %d: %d and %d", k.Place, n, number)
	}
	n := &node{member: &member{supervisor: number, limits: c.job.limits, met: true}, number: number}
	c.nodes = append(c.nodes, n)
	for _, a := range c.job.resume() {
		if a.Do == doTellAll || a.Do == doTell && a.To == number {
			n.down = append(n.down, a.Message)
		}
	}
}
