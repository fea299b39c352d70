package launcher

import (
	"errors"
	"time"

	"github.com/ecrec/ecrec/launcher/control"
	"github.com/ecrec/ecrec/launcher/place"
	"github.com/ecrec/ecrec/launcher/wire"
)

// A controller's part in accepting supervisors, before the job begins and while it runs.

// openServer prepares to accept supervisors, at the rendezvous and at the endpoint.
func (c *controller) openServer(secret []byte) {
	c.secret = secret
	c.server = place.NewServer(c.place, c.me.Number, secret, c.spec.Same, c.limits.handshake)
	if c.shape.Elastic {
		c.server.JoinRunning = c.joinRunning
	}
}

// serveRendezvous accepts supervisors at the rendezvous.
func (c *controller) serveRendezvous() {
	go c.server.ServeJoins(c.rendezvous, func(p wire.Peer) {
		c.post(func() {
			m := *p.First.Member
			m.Lost = false
			c.joinedAt(p.LocalIP)
			c.addLink(m.Number, p.Conn)
			c.propose(control.Event{Kind: control.EventJoin, Member: &m})
		})
	})
}

var (
	errLost     = errors.New("it was lost, and its place is given away")
	errNoMember = errors.New("this voter does not have it as a member yet")
)

// checkVisit admits the links of supervisors that are members.
func (c *controller) checkVisit(process int) (err error) {
	c.withJob(func(j *control.Job) {
		switch {
		case process < 0 || process >= len(j.Roster()):
			err = errNoMember
		case j.IsLost(process):
			err = errLost
		}
	})
	return err
}

// supervisors are the live supervisors, as far as the job has observed.
func (c *controller) supervisors() (all []int) {
	c.withJob(func(j *control.Job) {
		for _, m := range j.Roster() {
			if !m.Lost && !j.IsLauncher(m.Number) {
				all = append(all, m.Number)
			}
		}
	})
	return all
}

// joinRunning has the running job accept a supervisor, if this member leads. It waits for the
// loss that makes room for the supervisor, which may not be reported to the job yet.
func (c *controller) joinRunning(m control.Member) (control.Message, error) {
	const pollEvery = 5 * time.Millisecond
	welcome, proposed := control.Message{Kind: control.KindWelcome}, false
	for end := time.Now().Add(c.limits.handshake / 2); ; time.Sleep(pollEvery) {
		var may error
		votes := false
		c.withJob(func(j *control.Job) {
			welcome.Voters, _ = j.Voters()
			welcome.Process, may = j.NumberOf(m.ID), j.CheckJoin(m)
			votes = c.self == j.Host() && len(welcome.Voters) == 0 || j.IsVoter(c.self)
		})
		late := time.Now().After(end)
		switch {
		case !votes && len(welcome.Voters) == 0:
			return welcome, errNoMember
		case welcome.Process != control.None || !votes:
			return welcome, nil
		case may != nil && late:
			return welcome, may
		case may == nil && (late || !proposed && !c.proposeJoin(m)):
			return welcome, nil // another member leads
		case may == nil:
			proposed = true
		}
	}
}

// proposeJoin proposes that a supervisor joins, if this member leads.
func (c *controller) proposeJoin(m control.Member) (leads bool) {
	asked := make(chan bool, 1)
	c.post(func() {
		if c.leading {
			c.propose(control.Event{Kind: control.EventJoin, Member: &m})
		}
		asked <- c.leading
	})
	select {
	case leads = <-asked:
	case <-c.done:
	}
	return leads
}

// awaitLink proposes the loss of a supervisor that has joined and does not link in time.
func (c *controller) awaitLink(supervisor int) {
	time.AfterFunc(c.limits.handshake, func() {
		c.post(func() {
			if c.leading && c.links[supervisor] == nil && supervisor != c.me.Number {
				c.loseSupervisor(supervisor)
			}
		})
	})
}

// maybeReopenRendezvous opens the rendezvous on this machine if the host is lost and this
// member votes. It does so in the background: a host that is silent does not refuse the connection by which it is
// found to be gone, and meanwhile the loop must send heartbeats.
func (c *controller) maybeReopenRendezvous() {
	if c.server == nil || c.rendezvous != nil || c.reopening {
		return
	}
	reopen := false
	c.withJob(func(j *control.Job) { reopen = j.IsLost(j.Host()) && j.IsVoter(c.me.Number) })
	if !reopen {
		return
	}
	c.reopening = true
	go func(p place.Place, ip string) {
		l, err := p.Reopen(ip, c.secret)
		opened := func() {
			c.reopening = false
			if err == nil { // else another member has it
				c.rendezvous = l
				c.serveRendezvous()
			}
		}
		select {
		case <-c.done:
			if err == nil {
				p.Rendezvous.Withdraw(l.Addr())
				l.Close()
			}
		default:
			c.post(opened)
		}
	}(c.place, wire.IPOf(c.endpoint.Addr()))
}
