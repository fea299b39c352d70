package launcher

import (
	"time"

	"github.com/ecrec/ecrec/launcher/control"
)

// reportEnd calls Spec.Closed in the member that prints the job's messages. why is the
// message that this member printed if its copy of the job lacks the end.
func (c *controller) reportEnd(code int, why string) {
	if c.spec.Closed == nil {
		return
	}
	var end control.Closing
	prints := why != ""
	c.withJob(func(j *control.Job) {
		end = j.Closing(code, why)
		prints = prints || j.EndMessage() != nil && j.Printer() == c.me.Number
	})
	if prints {
		c.spec.Closed(end)
	}
}

// awaitJoined runs the loop until every supervisor that has joined has linked and so has
// received the job's end. Without a leader it would end with an error. It waits leaveLimit at
// most, and not at all if this member does not lead.
func (c *controller) awaitJoined() {
	late := false
	limit := time.AfterFunc(leaveLimit, func() { c.post(func() { late = true }) })
	defer limit.Stop()
	c.runUntil(func() bool { return late || !c.leading || !c.hasUnlinked() }, c.wake, c.performDecisions)
}

// hasUnlinked reports whether a supervisor has joined and has never linked.
func (c *controller) hasUnlinked() (found bool) {
	c.withJob(func(j *control.Job) {
		for _, m := range j.Roster() {
			found = found || m.Host != "" && !m.Lost && !j.IsLauncher(m.Number) && m.Number != c.me.Number && !c.linked[m.Number]
		}
	})
	return found
}

// flushProposals waits until this member's proposals are applied, and performs them.
func (c *controller) flushProposals() {
	if c.consensus != nil && c.leading {
		c.consensus.awaitApplied(leaveLimit)
	}
	c.performDecisions()
}

// releaseAll releases the controller's resources, once the supervisors have received the end.
func (c *controller) releaseAll() {
	if c.rendezvous != nil {
		c.place.Rendezvous.Withdraw(c.rendezvous.Addr())
		c.rendezvous.Close()
	}
	if c.timer != nil {
		c.timer.Stop()
	}
	if c.leading {
		// The supervisors close first: closing a connection with unread bytes would discard
		// sent messages.
		gone := make(chan struct{})
		go func() {
			c.open.Wait()
			close(gone)
		}()
		select {
		case <-gone:
		case <-time.After(leaveLimit):
		}
	}
	for _, l := range c.links {
		if l != nil {
			l.Close()
		}
	}
	if c.consensus != nil {
		c.consensus.shutDown()
	}
	if c.endpoint != nil {
		c.endpoint.Close()
	}
}
