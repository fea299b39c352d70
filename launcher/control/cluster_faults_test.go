package control

import (
	"fmt"
	"slices"
)

// hurt injects a random failure.
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
		c.joinLate()
	case what >= 12:
		c.elect()
	case n.dead:
	case what < 5 && w != nil:
		w.dies(Outcome{Signal: 9})
	case what < 7 && w != nil && w.end == nil:
		w.frozen = true
	case what == 7 && w != nil && w.end == nil && w.world != nil:
		w.out = append(w.out, Message{Kind: KindUnreachable, Generation: w.world.Generation, Process: c.draw.IntN(c.job.Processes+1) - 1})
	case n.cut || left == 1:
	case what == 8:
		n.dead, n.worker = true, nil
	case what == 9: // its machine is cut off
		n.lost = true
		c.lose(n.number)
	case what == 10: // it is suspended for long, and learns then that it is lost
		c.lose(n.number)
	case what == 11: // its machine is lost together with the leader's
		n.dead, n.worker = true, nil
		c.elect()
	}
}

// joinLate has a supervisor join the running job, which accepts it if its place is free. The
// request may arrive twice, the second time late.
func (c *cluster) joinLate() {
	c.back++
	k := Member{Place: c.draw.IntN(c.job.Supervisors()), Host: "h", ID: fmt.Sprint("back", c.back)}
	if lost := slices.IndexFunc(c.job.Members, func(m Member) bool { return m.Lost }); lost >= 0 && c.draw.IntN(4) > 0 {
		k.Place = c.job.Members[lost].Place
	}
	may := c.job.CheckJoin(k) == nil
	for range 1 + c.draw.IntN(2) {
		c.take(Event{Kind: EventJoin, Member: &k})
	}
	number := c.job.NumberOf(k.ID)
	if may != (number == len(c.nodes)) {
		c.fail("%v: gets number %d of %d", k, number, len(c.nodes))
	}
	if !may {
		return
	}
	if n := slices.IndexFunc(c.job.Members, func(o Member) bool { return o.Place == k.Place && !o.Lost }); n != number {
		c.fail("two live supervisors in place %d: %d and %d", k.Place, n, number)
	}
	n := newNode(number, c.job.limits)
	c.nodes = append(c.nodes, n)
	for _, a := range c.job.Resume() {
		if a.Do == DoBroadcast || a.Do == DoSend && a.To == number {
			n.down = append(n.down, a.Message)
		}
	}
}
