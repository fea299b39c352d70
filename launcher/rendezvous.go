package launcher

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// limits are how long things may take.
type limits struct {
	meet      time.Duration // all supervisors to come to the rendezvous, and the first workers to listen
	reform    time.Duration // the workers of a later generation to listen
	handshake time.Duration // a peer to prove who it is
	end       time.Duration // workers to end by themselves after a failure
	doubt     time.Duration // workers to say that they have left a world, once one has
	revive    time.Duration // until our launcher starts a supervisor in place of a lost one
	idle      time.Duration // until a supervisor without a worker prepares for one: others have one by then
}

func defaultLimits() limits {
	return limits{meet: time.Minute, reform: 10 * time.Second, handshake: 5 * time.Second, end: 5 * time.Second, revive: 10 * time.Second, idle: 5 * time.Second}
}

const (
	nonceBytes  = 32
	secretBytes = 32
	idBytes     = 8
	// leastSecret keeps secrets that people choose from being guessed in a moment.
	leastSecret = 16
	// maxHandshakes bounds the strangers that are served at once.
	maxHandshakes = 64
	dialAgain     = 20 * time.Millisecond
)

func draw(n int) []byte {
	p := make([]byte, n)
	_, _ = rand.Read(p) // never fails
	return p
}

// hall is a keeper's end of the rendezvous. Who comes to the host, first of all, takes a
// supervisor's place; who comes later, or to another, comes to a job that runs.
type hall struct {
	place Place
	self  int
	job   string
	comes func(keeper) (message, error) // to a job that runs; nil: that is not possible
	reception

	mu   sync.Mutex
	seen map[int]bool // places that are taken; nil: all
}

func newHall(l net.Listener, p Place, self int, secret []byte, job string, lim limits) *hall {
	h := &hall{place: p, self: self, job: job}
	h.reception = reception{listener: l, key: handshakeKey(p.Meet, secret), limits: lim, forget: h.forget, check: func(m message) (message, error) {
		welcome, err := h.check(m)
		if p.Meet.Network == "unix" {
			welcome.Secret = secret
		}
		return welcome, err
	}}
	return h
}

// open listens where the others will come.
func (p Place) open(inherited net.Listener) (net.Listener, error) {
	if inherited != nil {
		return inherited, nil
	}
	l, err := net.Listen(p.Meet.Network, p.Meet.socket())
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("rendezvous %s is in use, by another job perhaps; choose another with --rdzv HOST:PORT", p.Meet.Address)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("rendezvous %s is not on this machine, where process 0 runs; give --rdzv HOST:PORT with this one's name or address", p.Meet.Address)
	case err != nil:
		return nil, fmt.Errorf("cannot listen at the rendezvous %s: %w; choose another with --rdzv HOST:PORT", p.Meet.Address, err)
	}
	return l, nil
}

// socket is the address in net's words.
func (m Meeting) socket() string {
	if m.Network == "unix" {
		return fmt.Sprintf("@ecrec-%d-%s", os.Getuid(), m.Address)
	}
	return m.Address
}

// check decides whether a peer that knows the secret may take its place.
func (h *hall) check(m message) (welcome message, err error) {
	p := h.place
	switch {
	case m.Kind != kindJoin || m.Keeper == nil || m.Keeper.Number < 0 || m.Keeper.Number >= p.Processes && m.Processes == p.Processes:
		return m, errStranger
	case m.Processes != p.Processes:
		return m, fmt.Errorf("process %d was started as one of %d, process 0 as one of %d; start all with the same number", m.Keeper.Number, m.Processes, p.Processes)
	case m.Job != h.job:
		return m, fmt.Errorf("process %d and process 0 were started with different configs or programs; give all the same", m.Keeper.Number)
	}
	if h.take(m.Keeper.Number) {
		return message{Kind: kindWelcome, Process: h.self}, nil
	}
	if h.comes == nil {
		return m, fmt.Errorf("process %d is there already; two processes were started with this number", m.Keeper.Number)
	}
	k := *m.Keeper
	k.Place = k.Number
	return h.comes(k)
}

// take takes a place, unless that is taken.
func (h *hall) take(place int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.seen == nil || h.seen[place] {
		return false
	}
	h.seen[place] = true
	return true
}

func (h *hall) forget(m message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.seen != nil {
		delete(h.seen, m.Keeper.Number)
	}
}

// handshakeKey is what both ends of a rendezvous must know. Where the kernel
// vouches for the peer, that is nothing.
func handshakeKey(m Meeting, secret []byte) []byte {
	if m.Network == "unix" {
		return []byte{}
	}
	return secret
}

// visit goes to the rendezvous and takes this process's place there: that which join gives
// once it is known how this process is reached. It returns the connection, the welcome of
// who has it, and the job's secret.
func (p Place) visit(secret []byte, lim limits, join func(local net.Addr) (message, error), cancelled <-chan struct{}) (w *wire, welcome message, got []byte, err error) {
	end := time.Now().Add(lim.meet)
	for {
		conn, err := net.DialTimeout(p.Meet.Network, p.Meet.socket(), lim.handshake)
		if err == nil {
			var m message
			w, m, err = p.presentAt(conn, secret, lim, join)
			if err != nil {
				conn.Close()
			}
			if err != nil && !errors.Is(err, errBroken) {
				return nil, m, nil, fmt.Errorf("rendezvous %s: %w", p.Meet.Address, err)
			}
			if err == nil {
				if p.Meet.Network == "unix" {
					secret = m.Secret
				}
				return w, m, bytes.Clone(secret), nil
			}
		}
		if time.Now().After(end) {
			return nil, welcome, nil, fmt.Errorf("rendezvous %s: process 0 was not found there for %v (%w); was it started? is the address right? give another with --rdzv HOST:PORT",
				p.Meet.Address, lim.meet, cmp.Or(errors.Unwrap(err), err))
		}
		select {
		case <-time.After(dialAgain):
		case <-cancelled:
			return nil, welcome, nil, errCancelled
		}
	}
}

var errCancelled = errors.New("stopped before the job began")

func (p Place) presentAt(conn net.Conn, secret []byte, lim limits, join func(local net.Addr) (message, error)) (*wire, message, error) {
	m, err := join(conn.LocalAddr())
	if err != nil {
		return nil, m, err
	}
	w, m, err := present(conn, handshakeKey(p.Meet, secret), m, lim)
	var refused refusal
	switch {
	case errors.As(err, &refused):
		return nil, m, fmt.Errorf("process %d was refused: %s", p.Process, refused)
	case errors.Is(err, errStranger):
		return nil, m, errors.New("whoever listens there is not this job's process 0; choose another place with --rdzv HOST:PORT")
	}
	return w, m, err
}
