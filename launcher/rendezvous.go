package launcher

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// limits are how long things may take.
type limits struct {
	meet      time.Duration // all supervisors to come to the rendezvous, and the first workers to listen
	reform    time.Duration // the workers of a later generation to listen
	handshake time.Duration // a peer to prove who it is
	end       time.Duration // workers to end by themselves after a failure
}

func defaultLimits() limits {
	return limits{meet: time.Minute, reform: 10 * time.Second, handshake: 5 * time.Second, end: 5 * time.Second}
}

const (
	nonceBytes  = 32
	secretBytes = 32
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

// guest is a supervisor that has come to the rendezvous.
type guest struct {
	process int
	host    string
	link    *wire
	at      string // our IP address, as it came to it
}

// hall is process 0's end of the rendezvous.
type hall struct {
	listener net.Listener
	place    Place
	secret   []byte
	job      string
	limits   limits

	mu      sync.Mutex
	refused string // the last refusal
	seen    map[int]bool
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

// admit serves those who come, until the listener is closed, and hands guests on.
func (h *hall) admit(come func(guest)) {
	h.seen = map[int]bool{0: true}
	room := make(chan struct{}, maxHandshakes)
	for {
		conn, err := h.listener.Accept()
		if err != nil {
			return
		}
		room <- struct{}{}
		go func() {
			defer func() { <-room }()
			g, err := h.greet(conn)
			if err != nil {
				h.mu.Lock()
				h.refused = fmt.Sprintf("%s: %v", conn.RemoteAddr(), err)
				h.mu.Unlock()
				conn.Close()
				return
			}
			come(g)
		}()
	}
}

// lastRefusal says whom admit sent away, "" if nobody.
func (h *hall) lastRefusal() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.refused
}

// greet lets a peer prove that it belongs to the job. Nothing of what it says is
// used before.
func (h *hall) greet(conn net.Conn) (g guest, err error) {
	if err := conn.SetDeadline(time.Now().Add(h.limits.handshake)); err != nil {
		return g, err
	}
	if err := checkUser(conn); err != nil {
		return g, err
	}
	w := &wire{conn: conn, us: 0, them: 1}
	nonce := draw(nonceBytes)
	if err := w.send(message{Kind: kindNonce, Nonce: nonce}); err != nil {
		return g, err
	}
	m, err := w.receive()
	if err != nil {
		return g, err
	}
	if m.Kind != kindNonce || len(m.Nonce) != nonceBytes {
		return g, errors.New("the peer does not speak ecrec's protocol")
	}
	w.rekey(handshakeKey(h.place.Meet, h.secret), nonce, m.Nonce)
	if m, err = w.receive(); err == nil {
		err = h.check(m)
	} else if errors.Is(err, errForged) {
		err = errors.New("it does not know this job's secret")
	}
	if err != nil {
		_ = w.send(message{Kind: kindRefused, Text: err.Error()}) // it will be told, or finds the connection closed
		return g, err
	}
	welcome := message{Kind: kindWelcome}
	if h.place.Meet.Network == "unix" {
		welcome.Secret = h.secret
	}
	if err := w.send(welcome); err != nil {
		h.forget(m.Process)
		return g, err
	}
	keepAlive(conn)
	return guest{m.Process, m.Host, w, ipOf(conn.LocalAddr())}, conn.SetDeadline(time.Time{})
}

// check decides whether a peer that knows the secret may take its place.
func (h *hall) check(m message) error {
	p := h.place
	switch {
	case m.Kind != kindJoin || m.Process < 1 || m.Process >= p.Processes && m.Processes == p.Processes:
		return errors.New("the peer does not speak ecrec's protocol")
	case m.Processes != p.Processes:
		return fmt.Errorf("process %d was started as one of %d, process 0 as one of %d; start all with the same number", m.Process, m.Processes, p.Processes)
	case m.Job != h.job:
		return fmt.Errorf("process %d and process 0 were started with different configs or programs; give all the same", m.Process)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.seen[m.Process] {
		return fmt.Errorf("process %d is there already; two processes were started with this number", m.Process)
	}
	h.seen[m.Process] = true
	return nil
}

func (h *hall) forget(process int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.seen, process)
}

// handshakeKey is what both ends of a rendezvous must know. Where the kernel
// vouches for the peer, that is nothing.
func handshakeKey(m Meeting, secret []byte) []byte {
	if m.Network == "unix" {
		return []byte{}
	}
	return secret
}

// visit goes to the rendezvous and takes this process's place. It returns the
// connection and the job's secret.
func (p Place) visit(secret []byte, job, host string, lim limits, cancelled <-chan struct{}) (*wire, []byte, error) {
	end := time.Now().Add(lim.meet)
	for {
		conn, err := net.DialTimeout(p.Meet.Network, p.Meet.socket(), lim.handshake)
		if err == nil {
			w, got, err := p.present(conn, secret, job, host, lim)
			if err != nil {
				conn.Close()
				return nil, nil, fmt.Errorf("rendezvous %s: %w", p.Meet.Address, err)
			}
			return w, got, nil
		}
		if time.Now().After(end) {
			return nil, nil, fmt.Errorf("rendezvous %s: process 0 was not found there for %v (%w); was it started? is the address right? give another with --rdzv HOST:PORT",
				p.Meet.Address, lim.meet, errors.Unwrap(err))
		}
		select {
		case <-time.After(dialAgain):
		case <-cancelled:
			return nil, nil, errCancelled
		}
	}
}

var errCancelled = errors.New("stopped before the job began")

// present proves that this process belongs to the job, and sees the same proof.
func (p Place) present(conn net.Conn, secret []byte, job, host string, lim limits) (*wire, []byte, error) {
	if err := conn.SetDeadline(time.Now().Add(lim.handshake)); err != nil {
		return nil, nil, err
	}
	if err := checkUser(conn); err != nil {
		return nil, nil, err
	}
	stranger := errors.New("whoever listens there is not this job's process 0; choose another place with --rdzv HOST:PORT")
	w := &wire{conn: conn, us: 1, them: 0}
	m, err := w.receive()
	if err != nil || m.Kind != kindNonce || len(m.Nonce) != nonceBytes {
		return nil, nil, stranger
	}
	nonce := draw(nonceBytes)
	if err := w.send(message{Kind: kindNonce, Nonce: nonce}); err != nil {
		return nil, nil, err
	}
	w.rekey(handshakeKey(p.Meet, secret), m.Nonce, nonce)
	if err := w.send(message{Kind: kindJoin, Process: p.Process, Processes: p.Processes, Job: job, Host: host}); err != nil {
		return nil, nil, err
	}
	m, err = w.receive()
	switch {
	case (err == nil || errors.Is(err, errForged)) && m.Kind == kindRefused:
		return nil, nil, fmt.Errorf("process %d was refused: %s", p.Process, oneLine(m.Text))
	case err != nil || m.Kind != kindWelcome:
		return nil, nil, stranger
	}
	if p.Meet.Network == "unix" {
		secret = m.Secret
	}
	keepAlive(conn)
	return w, bytes.Clone(secret), conn.SetDeadline(time.Time{})
}

// keepAlive has the system notice a machine that is gone without a word. Its
// workers are noticed sooner, by transport.
func keepAlive(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: time.Second, Count: 5})
	}
}

// checkUser makes sure that the peer of a local socket is of the same user.
func checkUser(conn net.Conn) error {
	local, ok := conn.(*net.UnixConn)
	if !ok {
		return nil
	}
	raw, err := local.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	if ctlErr := raw.Control(func(fd uintptr) {
		peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); ctlErr != nil || err != nil {
		return errors.Join(ctlErr, err)
	}
	if int(peer.Uid) != os.Getuid() {
		return fmt.Errorf("the peer is a process of user %d", peer.Uid)
	}
	return nil
}

// ipOf is the IP address of a socket's end; loopback's for a local socket.
func ipOf(a net.Addr) string {
	if tcp, ok := a.(*net.TCPAddr); ok && tcp.IP != nil {
		return tcp.IP.String()
	}
	return "127.0.0.1"
}
