package control

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// A cluster is state machines without processes: the job, its supervisors and their workers. A
// seed orders their events. TestClusters injects failures, and checks that the job succeeds.

type cluster struct {
	t     *testing.T
	seed  uint64
	draw  *rand.Rand
	job   *Job // the leader's
	copy  *Job // another voter's, which takes the same events
	nodes []*node
	timer bool // the job's timer runs
	again bool // a new leader repeats messages
	back  int  // supervisors that joined the running job
	taken int  // processes that a spare took over
	code  int  // the job's exit code; -1: it runs
	told  map[uint64]string
	trace []string
}

// node is a supervisor with its worker.
type node struct {
	*Supervisor
	number       int
	up, down     []Message // to the job, from the job
	cut          bool      // the job has lost it
	lost         bool      // the connection has ended, and the supervisor has not noticed
	dead         bool
	timer        bool
	worker       *toy
	process, inc int // of the worker that was started last
}

// toy is a worker.
type toy struct {
	in, out      []Message
	world        *Membership
	listens      uint64
	done, frozen bool
	commits      int      // that it has yet to report in this world
	end          *Outcome // it has ended, and its supervisor has not noticed
}

func newCluster(t *testing.T, seed uint64, s Shape) *cluster {
	lim := Limits{Meet: 1, Reform: 1, End: 1, Doubt: 1}
	c := &cluster{t: t, seed: seed, draw: rand.New(rand.NewPCG(seed, 0)), job: NewJob(s, lim), copy: NewJob(s, lim),
		code: -1, told: map[uint64]string{}}
	for i := range s.Supervisors() {
		c.nodes = append(c.nodes, newNode(i, lim))
	}
	c.take(Event{Kind: EventStart})
	for i := range c.nodes {
		c.take(Event{Kind: EventJoin, Member: &Member{Number: i, Host: "h"}})
	}
	return c
}

// take applies an event to all copies of the job, and performs the leader's actions.
func (c *cluster) take(e Event) {
	text, err := json.Marshal(e)
	if err != nil {
		c.t.Fatal(err)
	}
	var leaders, others Event
	if json.Unmarshal(text, &leaders) != nil || json.Unmarshal(text, &others) != nil {
		c.fail("an event cannot be encoded and decoded")
	}
	actions := c.job.Step(leaders)
	if other := c.copy.Step(others); fmt.Sprint(actions) != fmt.Sprint(other) {
		c.fail("after %s one copy does %v and another %v", text, actions, other)
	}
	if c.draw.IntN(20) == 0 {
		c.copy = NewJob(c.job.Shape, c.job.limits)
		if err := c.copy.Restore(c.job.Snapshot()); err != nil {
			c.fail("%v", err)
		}
	}
	c.decide(actions)
}

// elect makes another copy the leader. Messages to the old leader are lost. Its own messages may
// be lost, or arrive late.
func (c *cluster) elect() {
	c.job, c.copy = c.copy, c.job
	late := make([][]Message, len(c.nodes))
	for i, n := range c.nodes {
		if n.up = nil; n.cut {
			continue // every voter refuses it
		}
		n.down = n.down[:c.draw.IntN(len(n.down)+1)]
		if c.draw.IntN(2) == 0 {
			late[i], n.down = n.down, nil
		}
	}
	c.timer = c.job.Timer.After > 0
	c.again = true
	c.decide(c.job.Resume())
	c.again = false
	for i, n := range c.nodes {
		n.down = append(n.down, late[i]...)
		if !n.dead && !n.cut {
			c.act(n, n.Step(Event{Kind: EventLed}))
		}
	}
}

// newNode is a supervisor that has joined.
func newNode(number int, limits Limits) *node {
	s := NewSupervisor(number, limits, "")
	s.joined = true
	return &node{Supervisor: s, number: number}
}

func (c *cluster) lose(supervisor int) { c.take(Event{Kind: EventLose, From: supervisor}) }

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

// decide performs the job's actions.
func (c *cluster) decide(actions []Action) {
	for _, a := range actions {
		c.note("  job: %s", a)
		switch a.Do {
		case DoPrint:
			if strings.Contains(a.Text, ", whose ranks had been reassigned") {
				c.taken++
			}
		case DoSend:
			if a.To == len(c.nodes) {
				continue // it has not linked, and will receive this then
			}
			if n := c.nodes[a.To]; !n.cut {
				n.down = append(n.down, a.Message)
			}
		case DoBroadcast:
			if a.Message.Kind == KindWorld {
				c.checkWorld(a.Message.Membership)
			}
			if a.Message.Kind == KindEnd {
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
		case DoFence:
			n := c.nodes[a.To]
			n.cut, n.down = true, nil
			if !n.dead && !n.lost {
				n.down = []Message{{Kind: KindEnd, Code: ExitFailed}}
			}
		case DoTimer:
			c.timer = a.After > 0
		}
	}
}

// checkWorld checks that each rank is hosted once and that generations grow.
func (c *cluster) checkWorld(m *Membership) {
	var ranks []int
	for _, p := range m.Processes {
		ranks = append(ranks, p.Ranks...)
	}
	slices.Sort(ranks)
	if len(ranks) != c.job.Ranks || ranks[0] != 0 || len(slices.Compact(ranks)) != c.job.Ranks {
		c.fail("ranks %v in the world of generation %d", ranks, m.Generation)
	}
	text := fmt.Sprint(m.Processes)
	if before := c.told[m.Generation]; before != "" && (!c.again || before != text) {
		c.fail("generation %d was sent twice: %s, %s", m.Generation, before, text)
	}
	c.told[m.Generation] = text
}

// act performs a supervisor's actions.
func (c *cluster) act(n *node, actions []Action) {
	for _, a := range actions {
		c.note("  supervisor %d: %s", n.number, a)
		switch a.Do {
		case DoSendJob:
			n.up = append(n.up, a.Message)
		case DoSendWorker:
			if n.worker == nil {
				c.fail("supervisor %d sends to no worker: %s", n.number, a.Message)
			}
			n.worker.in = append(n.worker.in, a.Message)
		case DoStart:
			c.start(n, a.Message)
		case DoKill:
			n.worker.dies(Outcome{Signal: 9})
		case DoTimer:
			n.timer = a.After > 0
		case DoLeave:
			n.dead, n.worker = true, nil
		}
	}
}

func (c *cluster) start(n *node, m Message) {
	for _, o := range c.nodes {
		if o.worker != nil && o.process == m.Process && !o.cut {
			c.fail("a second worker of process %d is started on node %d: the first lives on node %d", m.Process, n.number, o.number)
		}
	}
	n.process, n.inc = m.Process, m.Incarnation
	n.worker = &toy{in: []Message{{Kind: KindListen, Generation: m.Generation}}}
}

func (w *toy) dies(o Outcome) {
	if w != nil && w.end == nil {
		w.end, w.in = &o, nil
	}
}

// deliver has a worker receive its next message.
func (c *cluster) deliver(n *node, w *toy) {
	m := w.in[0]
	w.in = w.in[1:]
	switch m.Kind {
	case KindListen:
		w.listens, w.world, w.done = m.Generation, nil, false
		w.out = append(w.out, Message{Kind: KindListening, Addr: "a:1", Generation: m.Generation})
	case KindWorld:
		if m.Membership.Generation != w.listens {
			c.fail("node %d receives the world of generation %d and listens for %d", n.number, m.Membership.Generation, w.listens)
		}
		if p := m.Membership.Processes[n.process]; p.Incarnation != n.inc {
			c.fail("node %d has incarnation %d of process %d, the world has %d", n.number, n.inc, n.process, p.Incarnation)
		}
		w.world, w.commits = m.Membership, c.draw.IntN(8)
	case KindLeave:
		w.dies(Outcome{})
	case KindAbort:
		w.dies(Outcome{Code: 1, Report: &Report{Code: 1, Error: "follows", IsConsequence: true}})
	}
}

// step runs a random possible event. It reports whether there was one.
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
			can = append(can, chance{"loses the job", func() { c.act(n, n.Step(Event{Kind: EventLeaderless, Text: "lost"})) }})
		} else if len(n.down) > 0 {
			can = append(can, chance{"receives " + n.down[0].String(), func() {
				m := n.down[0]
				n.down = n.down[1:]
				c.act(n, n.Step(Event{Kind: EventReceive, Message: reread(m)}))
			}})
		}
		if len(n.up) > 0 && !n.cut {
			can = append(can, chance{"sends " + n.up[0].String(),
				func() { m := n.up[0]; n.up = n.up[1:]; c.take(Event{Kind: EventReceive, From: i, Message: &m}) }})
		}
		w := n.worker
		if w == nil || n.dead {
			continue
		}
		switch {
		case len(w.out) > 0:
			can = append(can, chance{"receives from its worker",
				func() { m := w.out[0]; w.out = w.out[1:]; c.act(n, n.Step(Event{Kind: EventWorker, Message: &m})) }})
		case w.end != nil:
			can = append(can, chance{"sees its worker gone", func() {
				n.worker = nil
				c.act(n,
					n.Step(Event{Kind: EventWorkerExited, Outcome: w.end}))
			}})
		}
		switch {
		case w.end != nil:
		case w.frozen:
			can = append(can, chance{"finds its worker silent", func() { w.frozen = false; c.act(n, n.Step(Event{Kind: EventWorkerSilent})) }})
		case len(w.in) > 0:
			can = append(can, chance{"has a worker that receives", func() { c.deliver(n, w) }})
		case w.world != nil && w.commits > 0:
			can = append(can, chance{"has a worker that commits", func() {
				w.commits--
				w.out = append(w.out, Message{Kind: KindCommitted, Generation: w.world.Generation, FullyRedundant: c.draw.IntN(2) == 0})
			}})
		case w.world != nil && !w.done:
			can = append(can, chance{"has a worker that is done", func() {
				w.done = true
				w.out = append(w.out, Message{Kind: KindDone, Generation: w.world.Generation})
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

// reread encodes and decodes a message.
func reread(m Message) *Message {
	var r Message
	text, err := json.Marshal(m)
	if err != nil || json.Unmarshal(text, &r) != nil {
		panic("a message cannot be encoded and decoded")
	}
	return &r
}

func TestClusters(t *testing.T) {
	back, taken := 0, 0
	runs := uint64(1000)
	if testing.Short() {
		runs = 300
	}
	for seed := range runs {
		draw := rand.New(rand.NewPCG(seed, 1))
		s := Shape{Processes: 1 + draw.IntN(5), Spares: draw.IntN(3), Elastic: true, MaxRestarts: 1000}
		s.Ranks = s.Processes + draw.IntN(4)
		c := newCluster(t, seed, s)
		for faults, steps := draw.IntN(16), 0; c.code < 0; steps++ {
			if steps > 20000 {
				c.fail("the job does not end")
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
					c.fail("no event is possible")
				}
				c.note("> expire")
				c.timer = false
				c.take(Event{Kind: EventExpire, Timer: c.job.Timer.Number})
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
		back += len(c.nodes) - s.Supervisors()
		taken += c.taken
	}
	t.Logf("%d supervisors joined late, %d processes were rebalanced", back, taken)
	if back == 0 || taken == 0 {
		t.Error("no supervisor joined late, or no process was rebalanced")
	}
}
