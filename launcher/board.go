package launcher

import (
	"fmt"
	"net"
	"sync"
	"time"
)

// board is a keeper's part in running the job: its copy, the connections on which
// supervisors come, and, while it leads, what the job's actions do. It lives on the
// loop of its supervisor, or of the launcher.
type board struct {
	*replica
	*loop
	shape  shape
	limits limits
	place  Place
	spec   *Spec
	me     keeper

	own    func(message)   // tells this keeper's own supervisor; nil: it has none
	say    func(string)    // tells the person
	expel  func(int)       // ends a supervisor that is lost; nil: it cannot
	came   func(at string) // a supervisor has come to this IP address
	ended  func(message)   // the job is over
	adrift func()          // nobody leads, and nobody will

	hall    *hall         // where supervisors come; nil: it is none of this keeper's business
	door    *door         // where others may come to lead
	links   map[int]*link // to supervisors
	met     map[int]bool  // those that have been linked
	leading bool
	term    uint64
	begun   bool
	armed   int // number of the timer that is set
	timer   *time.Timer
	ticks   int // heartbeats
	unled   int // of those, in a row, without a leader
	open    sync.WaitGroup
}

func newBoard(l *loop, p Place, s shape, lim limits, spec *Spec, self keeper) *board {
	return &board{replica: newReplica(self.Number, s, lim), loop: l, shape: s, limits: lim, place: p, spec: spec, me: self,
		links: map[int]*link{}, met: map[int]bool{},
		say: func(string) {}, came: func(string) {}, ended: func(message) {}, adrift: func() {}}
}

// openDoor begins to keep the job for the host, whose rendezvous is at l.
func (b *board) openDoor(l net.Listener, secret []byte) error {
	b.openHall(l, secret)
	b.hall.seen = map[int]bool{b.me.Number: true}
	if b.shape.elastic {
		ip, err := ipOfListener(l)
		if err == nil {
			b.door, err = openDoor(ip)
		}
		if err != nil {
			return fmt.Errorf("cannot listen for the other supervisors: %w", err)
		}
		b.me.Door = b.door.Addr().String()
	}
	return b.keep(secret)
}

// keep begins to keep the job: alone, or among those who agree on it, where there is a
// door for them. The founder is the host.
func (b *board) keep(secret []byte) error {
	b.self = b.me.Number
	founder := b.self == b.shape.host()
	if b.door == nil {
		b.post(func() { b.lead(1) })
		return nil
	}
	if b.hall == nil {
		b.openHall(nil, secret)
	}
	b.door.serve(secret, b.limits, b.allowed, b.hall.check, func(process int, w *wire) { b.post(func() { b.receive(process, w) }) })
	voters := func() (wanted, lost []keeper) {
		b.view(func(j *job) { wanted, lost = j.voters() })
		return wanted, lost
	}
	g, err := joinGroup(b.me, founder, b.replica, b.door, b.spec.Heartbeat, voters, newOutput(b.spec.log(b.me.Place%b.shape.supervisors())))
	if err != nil {
		return err
	}
	b.group = g
	go g.follow(func(term uint64) { b.post(func() { b.lead(term) }) }, func() { b.post(b.follow) })
	go b.every(b.spec.Heartbeat, b.tick)
	return nil
}

// receive takes the connection of a supervisor that has come.
func (b *board) receive(process int, w *wire) {
	if old := b.links[process]; old != nil {
		old.conn.Close()
	}
	l := &link{wire: w}
	b.links[process], b.met[process] = l, true
	b.open.Add(1)
	go func() {
		defer b.open.Done()
		l.listen(func(m message) { b.post(func() { b.hear(process, m) }) })
		b.post(func() { b.part(process, l) })
	}()
	if b.leading {
		b.resumeFor(process)
	}
}

// hear takes what a supervisor says to the job.
func (b *board) hear(process int, m message) {
	if b.leading {
		b.propose(event{Kind: eventHear, From: process, Message: &m})
	}
}

// part takes the end of a supervisor's connection.
func (b *board) part(process int, l *link) {
	if b.links[process] != l {
		return // it has come again
	}
	b.links[process] = nil
	if b.leading {
		b.propose(event{Kind: eventLose, From: process})
	}
}

// lead begins a term in which this keeper leads.
func (b *board) lead(term uint64) {
	b.decide() // what others have said
	b.leading, b.term, b.armed, b.unled = true, term, 0, 0
	for _, l := range b.links {
		if l != nil {
			l.missed = 0
		}
	}
	var phase jobPhase
	var resume []action
	b.view(func(j *job) { phase, resume = j.Phase, j.resume() })
	b.tellAll(message{Kind: kindLead, Term: term})
	if phase == jobMeeting {
		b.begin()
		return
	}
	b.perform(decision{resume, nobody})
	b.arm()
	if b.group != nil {
		go b.group.settle()
		b.findLost()
	}
}

// begin opens the rendezvous, once.
func (b *board) begin() {
	if !b.begun {
		b.begun = true
		b.propose(event{Kind: eventStart})
		b.propose(event{Kind: eventJoin, Keeper: &b.me})
		b.admit()
	}
}

// admit takes those who come to the rendezvous.
func (b *board) admit() {
	go b.hall.admit(func(g guest) {
		if len(g.welcome.Voters) > 0 { // it knows its number now, and visits
			g.link.conn.Close()
			return
		}
		b.post(func() { b.join(g) })
	})
}

// join takes a supervisor at the rendezvous.
func (b *board) join(g guest) {
	k := *g.Keeper
	k.Lost = false
	b.came(g.at)
	b.receive(k.Number, g.link)
	b.propose(event{Kind: eventJoin, Keeper: &k})
}

// findLost finds those that were lost while nobody led. Who has not come yet to this keeper
// has longer than one that is silent: its machine may be busy.
func (b *board) findLost() {
	lose := func(evenNew bool) {
		for _, n := range b.supervisors() {
			if b.leading && n != b.me.Number && b.links[n] == nil && (b.met[n] || evenNew) {
				b.propose(event{Kind: eventLose, From: n})
			}
		}
	}
	lose(false)
	time.AfterFunc(leaderlessBeats*b.spec.Heartbeat, func() { b.post(func() { lose(true) }) })
}

// follow ends a term.
func (b *board) follow() {
	b.leading = false
	b.arm()
	b.tellAll(message{Kind: kindFollow})
}

// decide does what was decided.
func (b *board) decide() {
	for _, d := range b.take() {
		b.perform(d)
	}
	b.arm()
	var end *message
	b.view(func(j *job) { end = j.End })
	if end != nil {
		b.ended(*end)
	}
}

// perform does what a decision says. Most is the leader's to do.
func (b *board) perform(d decision) {
	for _, a := range d.actions {
		switch a.Do {
		case doTell:
			b.tell(a.To, a.Message)
		case doTellAll:
			b.tellAll(a.Message)
		case doExpel:
			b.fence(a.To)
			b.succeed()
		case doExpect:
			b.expect(a.To)
		case doVote:
			if b.leading && b.group != nil {
				go b.group.settle()
			}
		case doSay:
			if d.speaker == b.me.Number {
				b.say(a.Text)
			}
		}
	}
}

// fence ends a supervisor that is lost, if it is there yet.
func (b *board) fence(supervisor int) {
	end := message{Kind: kindEnd, Code: exitFailed}
	if supervisor == b.me.Number { // it has slept, and hears now what was decided
		b.own(end)
		return
	}
	if l := b.links[supervisor]; l != nil {
		b.tell(supervisor, end)
		b.links[supervisor] = nil
		l.conn.Close()
	}
	if b.expel != nil {
		b.expel(supervisor)
	}
}

// tell is the job's message to a supervisor.
func (b *board) tell(supervisor int, m message) {
	switch {
	case !b.leading && m.Kind != kindFollow:
	case supervisor == b.me.Number:
		b.own(m)
	case b.links[supervisor] != nil:
		b.links[supervisor].tell(m)
	}
}

func (b *board) tellAll(m message) {
	for _, n := range b.supervisors() {
		b.tell(n, m)
	}
}

// resumeFor tells a supervisor that has come late what the job has told.
func (b *board) resumeFor(process int) {
	var resume []action
	b.view(func(j *job) { resume = j.resume() })
	b.tell(process, message{Kind: kindLead, Term: b.term})
	for _, a := range resume {
		if a.Do == doTellAll || a.Do == doTell && a.To == process {
			b.tell(process, a.Message)
		}
	}
}

// arm sets the job's timer, which the leader keeps.
func (b *board) arm() {
	var t timer
	b.view(func(j *job) { t = j.Timer })
	if b.leading && t.Number == b.armed {
		return
	}
	if b.timer != nil {
		b.timer.Stop()
	}
	if !b.leading {
		return
	}
	if b.armed = t.Number; t.After == 0 {
		return
	}
	b.timer = time.AfterFunc(t.After, func() {
		b.post(func() {
			if !b.leading {
				return
			}
			e := event{Kind: eventExpire, Timer: t.Number}
			if b.hall != nil {
				e.Text = b.hall.lastRefusal()
			}
			b.propose(e)
		})
	})
}

// leaderlessBeats is how long a job may be without a leader, in heartbeats, where too few are
// left: for as long as others need to find that it is silent, and to agree on another, twice.
const leaderlessBeats = 3 * silentBeats

// tick shows supervisors that their leader lives, and finds those that do not show it.
func (b *board) tick() {
	if !b.leading {
		if b.unled++; b.group.led() {
			b.unled = 0
		}
		if b.unled >= leaderlessBeats && (b.unled >= electionTimes*leaderlessBeats || !b.majority()) {
			b.adrift()
		}
	}
	if b.ticks++; b.ticks%silentBeats == 0 {
		b.succeed()
	}
	if !b.leading {
		return
	}
	for n, l := range b.links {
		switch {
		case l == nil:
		case l.tick():
			b.propose(event{Kind: eventLose, From: n})
		default:
			l.tell(message{Kind: kindLead, Term: b.term})
		}
	}
}

// majority reports whether enough voters are linked that they could agree with this one.
func (b *board) majority() bool {
	var voters []keeper
	b.view(func(j *job) { voters, _ = j.voters() })
	return majority(voters, func(n int) bool { return n == b.me.Number || b.links[n] != nil })
}

// flush has all take effect that was proposed here.
func (b *board) flush() {
	if b.group != nil && b.leading {
		b.group.agreed(leaveLimit)
	}
	b.decide()
}

// close ends what the board holds, once the others have heard of the end.
func (b *board) close() {
	if b.hall != nil && b.hall.listener != nil {
		b.place.Meet.withdraw(b.hall.listener.Addr())
		b.hall.listener.Close()
	}
	if b.timer != nil {
		b.timer.Stop()
	}
	if b.leading {
		// The others close first: a connection that is closed with something unread
		// loses what was sent on it.
		gone := make(chan struct{})
		go func() {
			b.open.Wait()
			close(gone)
		}()
		select {
		case <-gone:
		case <-time.After(leaveLimit):
		}
	}
	for _, l := range b.links {
		if l != nil {
			l.conn.Close()
		}
	}
	if b.group != nil {
		b.group.close()
	}
	if b.door != nil {
		b.door.Close()
	}
}
