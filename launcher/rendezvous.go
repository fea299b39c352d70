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
func (p Place) open(inherited net.Listener, secret []byte) (net.Listener, error) {
	switch {
	case inherited != nil:
		return inherited, nil
	case p.Meet.Network == "file":
		return p.offer(secret)
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

// found is a meeting's socket and secret: a file says them.
func (m Meeting) found(secret []byte) (Meeting, []byte, error) {
	if m.Network == "file" {
		return readOffer(m.Address)
	}
	return m, secret, nil
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
	began := time.Now()
	for {
		w, welcome, got, err = p.visitOnce(secret, lim, join)
		waited := time.Since(began)
		var dns *net.DNSError
		switch {
		case err == nil:
			return w, welcome, got, nil
		case errors.As(err, new(sentAway)):
			return nil, welcome, nil, fmt.Errorf("rendezvous %s: %w", p.Meet.Address, err)
		case errors.As(err, &dns) && dns.IsNotFound && waited > lim.handshake:
			return nil, welcome, nil, fmt.Errorf("rendezvous %s: the name %s is not known on this machine; give --rdzv HOST:PORT with an address of process 0's, or a name that all machines know", p.Meet.Address, dns.Name)
		case waited > lim.meet && p.Meet.Network == "file":
			return nil, welcome, nil, fmt.Errorf("rendezvous %s: process 0 was not found by this file for %v (%w); was it started? do all machines see this folder? name another with --rdzv FILE, or give --rdzv HOST:PORT",
				p.Meet.Address, lim.meet, err)
		case waited > lim.meet:
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

// sentAway is an answer at the rendezvous that will not change.
type sentAway struct{ error }

func (p Place) visitOnce(secret []byte, lim limits, join func(local net.Addr) (message, error)) (w *wire, welcome message, got []byte, err error) {
	m, secret, err := p.Meet.found(secret)
	if err != nil {
		if errors.Is(err, ErrPlace) {
			err = sentAway{err}
		}
		return nil, welcome, nil, err
	}
	conn, err := net.DialTimeout(m.Network, m.socket(), lim.handshake)
	if err != nil {
		return nil, welcome, nil, err
	}
	if w, welcome, err = p.presentAt(conn, secret, lim, join); err != nil {
		conn.Close()
		return nil, welcome, nil, err
	}
	if p.Meet.Network == "unix" {
		secret = welcome.Secret
	}
	return w, welcome, bytes.Clone(secret), nil
}

func (p Place) presentAt(conn net.Conn, secret []byte, lim limits, join func(local net.Addr) (message, error)) (*wire, message, error) {
	m, err := join(conn.LocalAddr())
	if err != nil {
		return nil, m, sentAway{err}
	}
	w, m, err := present(conn, handshakeKey(p.Meet, secret), m, lim)
	var refused refusal
	switch {
	case errors.As(err, &refused):
		return nil, m, sentAway{fmt.Errorf("process %d was refused: %s", p.Process, refused)}
	case errors.Is(err, errStranger) && p.Meet.Network == "file":
		return nil, m, errors.New("the file is old: another program listens there now")
	case errors.Is(err, errStranger):
		return nil, m, sentAway{errors.New("whoever listens there is not this job's process 0; choose another place with --rdzv HOST:PORT")}
	case err != nil && !errors.Is(err, errBroken):
		return nil, m, sentAway{err}
	}
	return w, m, err
}
