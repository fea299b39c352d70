package launcher

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// A cluster of state machines without processes: the job, its members and their
// workers, whose events a seed orders. TestClusters loses what it can and sees the
// job end well.

type cluster struct {
	t     *testing.T
	seed  uint64
	draw  *rand.Rand
	job   *job // the leader's
	copy  *job // another's, which takes the same events
	nodes []*node
	timer bool // the job's is set
	again bool // the leader is new, and repeats what was told
	back  int  // supervisors that came while the job ran
	taken int  // processes that were taken back
	code  int  // of the job; -1: it goes on
	told  map[uint64]string
	trace []string
}

// node is a supervisor with its worker.
type node struct {
	*member
	number       int
	up, down     []message // to the job, from the job
	cut          bool      // the job has lost it
	lost         bool      // the connection is gone, the member does not know yet
	dead         bool
	timer        bool
	worker       *toy
	process, inc int // of the worker that was started last
}

// toy is a worker.
type toy struct {
	in, out      []message
	world        *members
	listens      uint64
	done, frozen bool
	commits      int      // that it tells of yet in this world
	end          *outcome // it is gone, and its supervisor does not know yet
}

func newCluster(t *testing.T, seed uint64, s shape) *cluster {
	lim := limits{meet: 1, reform: 1, end: 1, doubt: 1}
	c := &cluster{t: t, seed: seed, draw: rand.New(rand.NewPCG(seed, 0)), job: newJob(s, lim), copy: newJob(s, lim), code: -1, told: map[uint64]string{}}
	for i := range s.supervisors() {
		c.nodes = append(c.nodes, &node{member: &member{supervisor: i, limits: lim, met: true}, number: i})
	}
	c.take(event{Kind: eventStart})
	for i := range c.nodes {
		c.take(event{Kind: eventJoin, Keeper: &keeper{Number: i, Host: "h"}})
	}
	return c
}

// take has all copies of the job take an event, and does what the leader's says.
func (c *cluster) take(e event) {
	text, err := json.Marshal(e)
	if err != nil {
		c.t.Fatal(err)
	}
	var leaders, others event
	if json.Unmarshal(text, &leaders) != nil || json.Unmarshal(text, &others) != nil {
		c.fail("an event cannot be written and read")
	}
	actions := c.job.apply(leaders)
	if other := c.copy.apply(others); fmt.Sprint(actions) != fmt.Sprint(other) {
		c.fail("after %s one copy does %v and another %v", text, actions, other)
	}
	if c.draw.IntN(20) == 0 {
		c.copy = newJob(c.job.shape, c.job.limits)
		if err := c.copy.restore(c.job.snapshot()); err != nil {
			c.fail("%v", err)
		}
	}
	c.decide(actions)
}

// elect has another copy lead. What was under way to the old leader is lost; what that had
// told may be, or comes late.
func (c *cluster) elect() {
	c.job, c.copy = c.copy, c.job
	late := make([][]message, len(c.nodes))
	for i, n := range c.nodes {
		if n.up = nil; n.cut {
			continue // it finds that it is lost wherever it comes
		}
		n.down = n.down[:c.draw.IntN(len(n.down)+1)]
		if c.draw.IntN(2) == 0 {
			late[i], n.down = n.down, nil
		}
	}
	c.timer = c.job.Timer.After > 0
	c.again = true
	c.decide(c.job.resume())
	c.again = false
	for i, n := range c.nodes {
		n.down = append(n.down, late[i]...)
		if !n.dead && !n.cut {
			c.act(n, n.lead())
		}
	}
}

func (c *cluster) lose(supervisor int) { c.take(event{Kind: eventLose, From: supervisor}) }

func (c *cluster) fail(format string, args ...any) {
	c.t.Helper()
	for _, line := range c.trace[max(0, len(c.trace)-80):] {
		c.t.Log(line)
	}
	c.t.Fatalf("seed %d: %s", c.seed, fmt.Sprintf(format, args...))
}

func (c *cluster) note(format string, args ...any) {
	c.trace = append(c.trace, fmt.Sprintf(format, args...))
}

// decide does what the job says.
func (c *cluster) decide(actions []action) {
	for _, a := range actions {
		c.note("  job: %s", a)
		switch a.Do {
		case doSay:
			if strings.Contains(a.Text, " takes back ") {
				c.taken++
			}
		case doTell:
			if a.To == len(c.nodes) {
				continue // it comes, and is told again
			}
			if n := c.nodes[a.To]; !n.cut {
				n.down = append(n.down, a.Message)
			}
		case doTellAll:
			if a.Message.Kind == kindWorld {
				c.checkWorld(a.Message.World)
			}
			if a.Message.Kind == kindEnd {
				if c.code >= 0 && !c.again {
					c.fail("the job ends twice")
				}
				c.code = a.Message.Code
			}
			for _, n := range c.nodes {
				if !n.cut {
					n.down = append(n.down, a.Message)
				}
			}
		case doExpel:
			n := c.nodes[a.To]
			n.cut, n.down = true, nil
			if !n.dead && !n.lost {
				n.down = []message{{Kind: kindEnd, Code: exitFailed}}
			}
		case doTimer:
			c.timer = a.After > 0
		}
	}
}

// checkWorld checks that each rank is hosted once and that generations grow.
func (c *cluster) checkWorld(m *members) {
	var ranks []int
	for _, p := range m.Processes {
		ranks = append(ranks, p.Ranks...)
	}
	slices.Sort(ranks)
	if len(ranks) != c.job.ranks || ranks[0] != 0 || len(slices.Compact(ranks)) != c.job.ranks {
		c.fail("ranks %v in the world of generation %d", ranks, m.Generation)
	}
	text := fmt.Sprint(m.Processes)
	if before := c.told[m.Generation]; before != "" && (!c.again || before != text) {
		c.fail("generation %d is told twice: %s, %s", m.Generation, before, text)
	}
	c.told[m.Generation] = text
}

// act does what a member says.
func (c *cluster) act(n *node, actions []action) {
	for _, a := range actions {
		c.note("  member %d: %s", n.number, a)
		switch a.Do {
		case doTellJob:
			n.up = append(n.up, a.Message)
		case doTellWorker:
			if n.worker == nil {
				c.fail("member %d tells no worker %s", n.number, a.Message)
			}
			n.worker.in = append(n.worker.in, a.Message)
		case doStart:
			c.start(n, a.Message)
		case doKill:
			n.worker.dies(outcome{Signal: 9})
		case doTimer:
			n.timer = a.After > 0
		case doLeave:
			n.dead, n.worker = true, nil
		}
	}
}

func (c *cluster) start(n *node, m message) {
	for _, o := range c.nodes {
		if o.worker != nil && o.process == m.Process && !o.cut {
			c.fail("a second worker of process %d is started on node %d: the first lives on node %d", m.Process, n.number, o.number)
		}
	}
	n.process, n.inc = m.Process, m.Incarnation
	n.worker = &toy{in: []message{{Kind: kindListen, Generation: m.Generation}}}
}

func (w *toy) dies(o outcome) {
	if w != nil && w.end == nil {
		w.end, w.in = &o, nil
	}
}

// hear is a worker that takes a message.
func (c *cluster) hear(n *node, w *toy) {
	m := w.in[0]
	w.in = w.in[1:]
	switch m.Kind {
	case kindListen:
		w.listens, w.world, w.done = m.Generation, nil, false
		w.out = append(w.out, message{Kind: kindListening, Addr: "a:1", Generation: m.Generation})
	case kindWorld:
		if m.World.Generation != w.listens {
			c.fail("node %d is told the world of generation %d and listens for %d", n.number, m.World.Generation, w.listens)
		}
		if p := m.World.Processes[n.process]; p.Incarnation != n.inc {
			c.fail("node %d has incarnation %d of process %d, the world says %d", n.number, n.inc, n.process, p.Incarnation)
		}
		w.world, w.commits = m.World, c.draw.IntN(8)
	case kindLeave:
		w.dies(outcome{})
	case kindAbort:
		w.dies(outcome{Code: 1, Report: &Report{Code: 1, Error: "follows", Follows: true}})
	}
}

// step runs an event that can happen; it reports whether there was one.
func (c *cluster) step() bool {
	type chance struct {
		name string
		do   func()
	}
	var can []chance
	for i, n := range c.nodes {
		if n.dead {
			if !n.cut && len(n.up) == 0 {
				can = append(can, chance{"the job loses", func() { c.lose(i); n.cut = true }})
			}
		} else if n.lost {
			can = append(can, chance{"loses the job", func() { c.act(n, n.loseJob("lost")) }})
		} else if len(n.down) > 0 {
			can = append(can, chance{"hears " + n.down[0].String(), func() { m := n.down[0]; n.down = n.down[1:]; c.act(n, n.hear(reread(m))) }})
		}
		if len(n.up) > 0 && !n.cut {
			can = append(can, chance{"is heard: " + n.up[0].String(), func() { m := n.up[0]; n.up = n.up[1:]; c.take(event{Kind: eventHear, From: i, Message: &m}) }})
		}
		w := n.worker
		if w == nil || n.dead {
			continue
		}
		switch {
		case len(w.out) > 0:
			can = append(can, chance{"hears of its worker", func() { m := w.out[0]; w.out = w.out[1:]; c.act(n, n.hearWorker(m)) }})
		case w.end != nil:
			can = append(can, chance{"sees its worker gone", func() { n.worker = nil; c.act(n, n.workerGone(*w.end)) }})
		}
		switch {
		case w.end != nil:
		case w.frozen:
			can = append(can, chance{"finds its worker silent", func() { w.frozen = false; c.act(n, n.workerSilent()) }})
		case len(w.in) > 0:
			can = append(can, chance{"has a worker that hears", func() { c.hear(n, w) }})
		case w.world != nil && w.commits > 0:
			can = append(can, chance{"has a worker that commits", func() {
				w.commits--
				w.out = append(w.out, message{Kind: kindCommitted, Generation: w.world.Generation, Whole: c.draw.IntN(2) == 0})
			}})
		case w.world != nil && !w.done:
			can = append(can, chance{"has a worker that is done", func() {
				w.done = true
				w.out = append(w.out, message{Kind: kindDone, Generation: w.world.Generation})
			}})
		}
	}
	if len(can) == 0 {
		return false
	}
	i := c.draw.IntN(len(can))
	c.note("> %s (one of %d)", can[i].name, len(can))
	can[i].do()
	return true
}

// reread is a message as it comes out of a wire.
func reread(m message) (r message) {
	text, err := json.Marshal(m)
	if err != nil || json.Unmarshal(text, &r) != nil {
		panic("a message cannot be written and read")
	}
	return r
}

func TestClusters(t *testing.T) {
	back, taken := 0, 0
	runs := uint64(1000)
	if testing.Short() {
		runs = 300
	}
	for seed := range runs {
		draw := rand.New(rand.NewPCG(seed, 1))
		s := shape{processes: 1 + draw.IntN(5), spares: draw.IntN(3), elastic: true, maxRestarts: 1000}
		s.ranks = s.processes + draw.IntN(4)
		c := newCluster(t, seed, s)
		for faults, steps := draw.IntN(16), 0; c.code < 0; steps++ {
			if steps > 20000 {
				c.fail("it does not end")
			}
			if faults > 0 && draw.IntN(20) == 0 {
				faults--
				c.hurt()
				continue
			}
			if draw.IntN(500) == 0 && c.timer && c.job.Generation > 1 || !c.step() {
				if faults > 0 {
					faults--
					c.hurt()
					continue
				}
				if !c.timer {
					c.fail("nothing can happen any more")
				}
				c.note("> expire")
				c.timer = false
				c.take(event{Kind: eventExpire, Timer: c.job.Timer.Number})
			}
		}
		if c.code != 0 {
			c.fail("exit code %d", c.code)
		}
		for c.step() {
		}
		for _, n := range c.nodes {
			if !n.dead || n.worker != nil {
				c.fail("node %d is left", n.number)
			}
		}
		back += len(c.nodes) - s.supervisors()
		taken += c.taken
	}
	t.Logf("%d supervisors came, %d processes were taken back", back, taken)
	if back == 0 || taken == 0 {
		t.Error("that is not enough")
	}
}
