package launcher

import (
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/ecrec/ecrec/launcher/control"
	"github.com/ecrec/ecrec/launcher/place"
	"github.com/ecrec/ecrec/launcher/wire"
)

// controller is a member's part in running the job: its copy of the job's state machine, the
// connections of the supervisors, and, while it leads, the job's actions. It runs on the loop
// of its supervisor, or of the local launcher.
type controller struct {
	*replica
	*loop
	shape  control.Shape
	limits limits
	place  place.Place
	spec   *Spec
	me     control.Member
	secret []byte

	sendOwn    func(control.Message)        // to this member's own supervisor; nil: it has none
	print      func(text string, last bool) // for people; last: the line about the job's end
	killMember func(int)                    // kills a lost supervisor; nil: it cannot
	joinedAt   func(ip string)              // a supervisor has joined, at this IP address
	ended      func(control.Message)        // the job is over
	leaderless func()                       // there is no leader, and there will be none

	server     *place.Server // accepts supervisors; nil: the job accepts none here
	rendezvous net.Listener  // of server; nil: it is not open here
	reopening  bool          // the rendezvous, in the background
	endpoint   *endpoint     // for other members; nil: the host decides alone
	links      map[int]*link // to supervisors
	linked     map[int]bool  // supervisors that have ever been linked
	leading    bool
	term       uint64
	begun      bool
	armed      int // number of the timer that runs
	timer      *time.Timer
	ticks      int // heartbeats
	unled      int // of those, in a row, without a leader
	open       sync.WaitGroup
}

func newController(l *loop, p place.Place, s control.Shape, lim limits, spec *Spec, self control.Member) *controller {
	return &controller{replica: newReplica(self.Number, s, lim), loop: l, shape: s, limits: lim, place: p, spec: spec, me: self,
		links: map[int]*link{}, linked: map[int]bool{},
		print: func(string, bool) {}, joinedAt: func(string) {}, ended: func(control.Message) {}, leaderless: func() {}}
}

// hostJob starts the controller of the host, whose rendezvous is open at l.
func (c *controller) hostJob(l net.Listener, secret []byte) error {
	c.rendezvous = l
	c.openServer(secret)
	c.server.HostJob(c.me)
	if c.shape.Elastic {
		ip, err := reachableIP(l)
		if err == nil {
			c.endpoint, err = openEndpoint(ip)
		}
		if err != nil {
			return fmt.Errorf("cannot listen for the other supervisors: %w", err)
		}
		c.me.Endpoint = c.endpoint.Addr().String()
	}
	return c.startConsensus(secret)
}

// startConsensus begins to keep the job's state: alone, or with the other voters if there is
// an endpoint for them.
func (c *controller) startConsensus(secret []byte) error {
	c.self = c.me.Number
	if c.endpoint == nil {
		c.post(func() { c.becomeLeader(1) })
		return nil
	}
	if c.server == nil {
		c.openServer(secret)
	}
	c.endpoint.serveMembers(secret, c.limits.handshake, c.checkVisit, c.server.CheckJoin,
		func(process int, conn *wire.Conn) { c.post(func() { c.addLink(process, conn) }) })
	g, err := joinConsensus(consensusConfig{self: c.me, founder: c.self == c.shape.Host(), machine: c.replica, network: c.endpoint,
		heartbeat: c.spec.Heartbeat, voters: c.voters, log: newOutput(c.spec.logPath(c.me.Place % c.shape.Supervisors()))})
	if err != nil {
		return err
	}
	c.consensus = g
	go g.watchLeadership(func(term uint64) { c.post(func() { c.becomeLeader(term) }) }, func() { c.post(c.becomeFollower) })
	go c.postEvery(c.spec.Heartbeat, c.checkHeartbeats)
	return nil
}

// voters are the members that should vote, and the lost ones, which never will again.
func (c *controller) voters() (wanted, lost []control.Member) {
	c.withJob(func(j *control.Job) { wanted, lost = j.Voters() })
	return wanted, lost
}

// addLink takes the connection of a supervisor.
func (c *controller) addLink(process int, conn *wire.Conn) {
	if old := c.links[process]; old != nil {
		old.Close()
	}
	l := &link{Conn: conn}
	c.links[process], c.linked[process] = l, true
	c.open.Add(1)
	go func() {
		defer c.open.Done()
		l.receiveAll(func(m control.Message) { c.post(func() { c.receive(process, m) }) })
		c.post(func() { c.removeLink(process, l) })
	}()
	if c.leading {
		c.resumeFor(process)
	}
}

// receive handles a supervisor's message to the job.
func (c *controller) receive(process int, m control.Message) {
	if c.leading {
		c.propose(control.Event{Kind: control.EventReceive, From: process, Message: &m})
	}
}

// removeLink handles the end of a supervisor's connection.
func (c *controller) removeLink(process int, l *link) {
	if c.links[process] != l {
		return // it has connected again
	}
	c.links[process] = nil
	if c.leading {
		c.loseSupervisor(process)
	}
}

// loseSupervisor proposes that a supervisor is lost.
func (c *controller) loseSupervisor(number int) {
	c.propose(control.Event{Kind: control.EventLose, From: number})
}

// becomeLeader begins a term in which this member leads.
func (c *controller) becomeLeader(term uint64) {
	c.performDecisions() // those of earlier leaders
	c.leading, c.term, c.armed, c.unled = true, term, 0, 0
	for _, l := range c.links {
		if l != nil {
			l.beginWatch()
		}
	}
	meeting := false
	var resume []control.Action
	c.withJob(func(j *control.Job) { meeting, resume = j.IsMeeting(), j.Resume() })
	c.broadcast(control.Message{Kind: control.KindLead, Term: term})
	if meeting {
		c.openMeeting()
		return
	}
	c.performDecision(decision{resume, control.None})
	c.armTimer()
	if c.consensus != nil {
		go c.consensus.changeVoters()
		c.findLost()
	}
}

// openMeeting begins to accept supervisors at the rendezvous, once.
func (c *controller) openMeeting() {
	if !c.begun {
		c.begun = true
		c.propose(control.Event{Kind: control.EventStart})
		c.propose(control.Event{Kind: control.EventJoin, Member: &c.me})
		c.serveRendezvous()
		time.AfterFunc(c.limits.notice, func() { c.post(c.printMissing) })
	}
}

// printMissing prints which process the rendezvous waits for. The local launcher does not: it
// has started them all, and sees their ends.
func (c *controller) printMissing() {
	missing := ""
	c.withJob(func(j *control.Job) { missing = j.Missing() })
	if missing != "" && !c.shape.Launched {
		c.print(fmt.Sprintf("process %d waits for %s at %s, for %v at most", c.me.Number, missing, c.place.Where(), c.limits.Meet), false)
	}
}

// findLost proposes the loss of supervisors that disappeared while there was no leader. One
// that has never linked to this member has more time than a silent one: its machine may be
// busy.
func (c *controller) findLost() {
	lose := func(evenNew bool) {
		for _, n := range c.supervisors() {
			if c.leading && n != c.me.Number && c.links[n] == nil && (c.linked[n] || evenNew) {
				c.loseSupervisor(n)
			}
		}
	}
	lose(false)
	time.AfterFunc(leaderlessBeats*c.spec.Heartbeat, func() { c.post(func() { lose(true) }) })
}

// becomeFollower ends this member's term, unless the job is over: then its state is final, and
// a supervisor that links late still receives the end from this member.
func (c *controller) becomeFollower() {
	over := false
	c.withJob(func(j *control.Job) { over = j.EndMessage() != nil })
	if over {
		return
	}
	c.leading = false
	c.armTimer()
	c.broadcast(control.Message{Kind: control.KindFollow})
}

// performDecisions performs the job's decisions.
func (c *controller) performDecisions() {
	decided := c.takeDecisions()
	var end *control.Message
	c.withJob(func(j *control.Job) { end = j.EndMessage() })
	if end != nil && c.consensus != nil {
		c.consensus.muteLog()
	}
	for _, d := range decided {
		c.performDecision(d)
	}
	c.armTimer()
	if end != nil {
		c.ended(*end)
	}
}

// performDecision does the actions of a decision. Most are the leader's.
func (c *controller) performDecision(d decision) {
	for _, a := range d.actions {
		switch a.Do {
		case control.DoSend:
			c.sendTo(a.To, a.Message)
		case control.DoBroadcast:
			c.broadcast(a.Message)
		case control.DoFence:
			c.fenceSupervisor(a.To)
			c.maybeReopenRendezvous()
		case control.DoAwait:
			c.awaitLink(a.To)
		case control.DoVote:
			if c.leading && c.consensus != nil {
				go c.consensus.changeVoters()
			}
		case control.DoPrint:
			if d.printer == c.me.Number {
				c.print(a.Text, d.endsJob())
			}
		}
	}
}

// fenceSupervisor ends a lost supervisor, in case it still lives.
func (c *controller) fenceSupervisor(supervisor int) {
	end := control.Message{Kind: control.KindEnd, Code: control.ExitFailed, Text: countedLost}
	if supervisor == c.me.Number { // it was suspended, and receives the decision only now
		c.sendOwn(end)
		return
	}
	if l := c.links[supervisor]; l != nil {
		c.sendTo(supervisor, end)
		c.links[supervisor] = nil
		l.Close()
	}
	if c.killMember != nil {
		c.killMember(supervisor)
	}
}

// sendTo sends the job's message to a supervisor, if this member leads.
func (c *controller) sendTo(supervisor int, m control.Message) {
	switch {
	case !c.leading && m.Kind != control.KindFollow:
	case supervisor == c.me.Number:
		c.sendOwn(m)
	case c.links[supervisor] != nil:
		c.links[supervisor].sendOrClose(m)
	}
}

func (c *controller) broadcast(m control.Message) {
	for _, n := range c.supervisors() {
		c.sendTo(n, m)
	}
}

// resumeFor repeats the job's messages for a supervisor that has linked late.
func (c *controller) resumeFor(process int) {
	var resume []control.Action
	c.withJob(func(j *control.Job) { resume = j.Resume() })
	c.sendTo(process, control.Message{Kind: control.KindLead, Term: c.term})
	for _, a := range resume {
		if a.Do == control.DoBroadcast || a.Do == control.DoSend && a.To == process {
			c.sendTo(process, a.Message)
		}
	}
}

// armTimer runs the job's timer, if this member leads.
func (c *controller) armTimer() {
	var t control.Timer
	c.withJob(func(j *control.Job) { t = j.PendingTimer() })
	if c.leading && t.Number == c.armed {
		return
	}
	if c.timer != nil {
		c.timer.Stop()
	}
	if !c.leading {
		return
	}
	if c.armed = t.Number; t.After == 0 {
		return
	}
	c.timer = time.AfterFunc(t.After, func() {
		c.post(func() {
			if !c.leading {
				return
			}
			e := control.Event{Kind: control.EventExpire, Timer: t.Number}
			if c.server != nil {
				e.Text = c.server.LastRefusal()
			}
			c.propose(e)
		})
	})
}

// checkHeartbeats runs once per heartbeat. A leader sends its heartbeats to the supervisors
// and finds the silent ones; another member checks that there is a leader.
func (c *controller) checkHeartbeats() {
	if !c.leading {
		if c.unled++; c.consensus.hasLeader() {
			c.unled = 0
		}
		if c.unled >= leaderlessBeats && (c.unled >= electionTimes*leaderlessBeats || !c.hasMajority()) {
			c.leaderless()
		}
	}
	if c.ticks++; c.ticks%silentBeats == 0 {
		c.maybeReopenRendezvous()
	}
	if !c.leading {
		return
	}
	for n, l := range c.links {
		switch {
		case l == nil:
		case l.countTick():
			c.loseSupervisor(n)
		default:
			l.sendOrClose(control.Message{Kind: control.KindLead, Term: c.term})
		}
	}
}

// hasMajority reports whether enough voters are linked to elect a leader together with this
// member.
func (c *controller) hasMajority() bool {
	voters, _ := c.voters()
	return control.IsMajority(voters, func(n int) bool { return n == c.me.Number || c.links[n] != nil })
}
