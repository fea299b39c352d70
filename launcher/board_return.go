package launcher

import (
	"errors"
	"net"
	"slices"
	"time"
)

// A keeper's part in taking in supervisors that come to a job that runs.

// openHall lets supervisors come: at the rendezvous l, or only at the door, where l is nil.
func (b *board) openHall(l net.Listener, secret []byte) {
	b.hall = newHall(l, b.place, b.me.Number, secret, b.spec.Same, b.limits)
	if b.shape.elastic {
		b.hall.comes = b.takeIn
	}
}

// allowed lets supervisors visit that have a place.
func (b *board) allowed(process int) (err error) {
	b.view(func(j *job) {
		switch {
		case process < 0 || process >= len(j.Keepers):
			err = errNotYet
		case j.Keepers[process].Lost:
			err = errLost
		}
	})
	return err
}

var (
	errLost   = errors.New("it was lost, and its place is given away")
	errNotYet = errors.New("it is not known here yet")
)

// supervisors are those that are not lost.
func (b *board) supervisors() (all []int) {
	b.view(func(j *job) {
		for _, k := range j.Keepers {
			if !k.Lost && !j.isLauncher(k.Number) {
				all = append(all, k.Number)
			}
		}
	})
	return all
}

// takeIn has a supervisor that comes to a job that runs taken in, if this keeper leads. It
// waits for the loss that makes room for it, which may not be known yet.
func (b *board) takeIn(k keeper) (message, error) {
	welcome, proposed := message{Kind: kindWelcome}, false
	for end := time.Now().Add(b.limits.handshake / 2); ; time.Sleep(takeInEvery) {
		var may error
		votes := false
		b.view(func(j *job) {
			welcome.Voters, _ = j.voters()
			welcome.Process, may = j.numberOf(k.ID), j.mayReturn(k)
			votes = b.self == j.host() && len(j.Voters) == 0 || slices.Contains(j.Voters, b.self)
		})
		late := time.Now().After(end)
		switch {
		case !votes && len(welcome.Voters) == 0:
			return welcome, errNotYet
		case welcome.Process != nobody || !votes:
			return welcome, nil
		case may != nil && late:
			return welcome, may
		case may == nil && (late || !proposed && !b.propagate(k)):
			return welcome, nil // another leads
		case may == nil:
			proposed = true
		}
	}
}

// takeInEvery is how often a keeper looks whether the job has taken somebody in.
const takeInEvery = 5 * time.Millisecond

// propagate tells the job of one who comes, if this keeper leads.
func (b *board) propagate(k keeper) (leads bool) {
	asked := make(chan bool, 1)
	b.post(func() {
		if b.leading {
			b.propose(event{Kind: eventJoin, Keeper: &k})
		}
		asked <- b.leading
	})
	select {
	case leads = <-asked:
	case <-b.done:
	}
	return leads
}

// expect finds that a supervisor is lost which was taken in and does not come.
func (b *board) expect(supervisor int) {
	time.AfterFunc(b.limits.handshake, func() {
		b.post(func() {
			if b.leading && b.links[supervisor] == nil && supervisor != b.me.Number {
				b.propose(event{Kind: eventLose, From: supervisor})
			}
		})
	})
}

// succeed opens the rendezvous anew, on this machine, once the host is lost.
func (b *board) succeed() {
	if b.hall == nil || b.hall.listener != nil {
		return
	}
	lost := false
	b.view(func(j *job) { lost = j.Keepers[j.host()].Lost && slices.Contains(j.Voters, b.me.Number) })
	if !lost {
		return
	}
	l, err := b.place.reopen(ipOf(b.door.Addr()), b.hall.key)
	if err != nil {
		return // another has it
	}
	b.hall.listener = l
	b.admit()
}

// reopen opens the rendezvous on another machine, at an address of that.
func (p Place) reopen(ip string, secret []byte) (net.Listener, error) {
	m := p.Meet
	switch m.Network {
	case "file":
		return p.offer(secret)
	case "tcp":
		if _, port, err := net.SplitHostPort(m.Address); err == nil {
			m.Address = net.JoinHostPort(ip, port)
		}
	}
	return net.Listen(m.Network, m.socket())
}
