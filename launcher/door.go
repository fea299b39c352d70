package launcher

import (
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// door is where a keeper listens for the others once they have met: for supervisors
// that will hear it should it lead, and for the connections of the consensus library,
// whose network it is (raft.StreamLayer).
type door struct {
	reception
	streams chan net.Conn
	closed  chan struct{}
	closing sync.Once
}

// openDoor listens at an IP address of this machine. It lets nobody in before serve.
func openDoor(ip string) (*door, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	if err != nil {
		return nil, err
	}
	return &door{reception: reception{listener: l}, streams: make(chan net.Conn), closed: make(chan struct{})}, nil
}

// serve lets those in who know the secret, and hands visitors on whom allowed lets pass. Who
// comes to the job asks comes.
func (d *door) serve(secret []byte, lim limits, allowed func(process int) error, comes func(message) (message, error), visit func(process int, w *wire)) {
	d.key, d.limits, d.forget = secret, lim, func(message) {}
	d.check = func(m message) (message, error) {
		switch m.Kind {
		case kindRaft:
			return message{Kind: kindWelcome}, nil
		case kindVisit:
			return message{Kind: kindWelcome}, allowed(m.Process)
		case kindJoin:
			return comes(m)
		}
		return m, errStranger
	}
	go d.admit(func(g guest) {
		switch g.Kind {
		case kindVisit:
			visit(g.Process, g.link)
			return
		case kindJoin: // it knows its number now, and visits
			g.link.conn.Close()
			return
		}
		select {
		case d.streams <- &stream{Conn: g.link.conn, wire: g.link}:
		case <-d.closed:
			g.link.conn.Close()
		}
	})
}

// Accept implements raft.StreamLayer, as do the methods that follow.
func (d *door) Accept() (net.Conn, error) {
	select {
	case c := <-d.streams:
		return c, nil
	case <-d.closed:
		return nil, net.ErrClosed
	}
}

// Close lets nobody in any more.
func (d *door) Close() error {
	d.closing.Do(func() { close(d.closed) })
	return d.listener.Close()
}

// Addr is where the others find the door.
func (d *door) Addr() net.Addr { return d.listener.Addr() }

// Dial goes to another's door.
func (d *door) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	w, _, err := knock(string(address), d.key, message{Kind: kindRaft}, limits{handshake: min(timeout, d.limits.handshake)})
	if err != nil {
		return nil, err
	}
	return &stream{Conn: w.conn, wire: w}, nil
}

// knock goes to a door and says m. It returns the answer too.
func knock(address string, secret []byte, m message, lim limits) (*wire, message, error) {
	conn, err := net.DialTimeout("tcp", address, lim.handshake)
	if err != nil {
		return nil, m, err
	}
	w, m, err := present(conn, secret, m, lim)
	if err != nil {
		conn.Close()
	}
	return w, m, err
}

// stream is a wire's connection as one of bytes: each write is signed.
type stream struct {
	net.Conn
	wire *wire
	rest []byte // received and not read
}

func (s *stream) Write(p []byte) (n int, err error) {
	for n < len(p) {
		part := p[n:min(len(p), n+maxMessageBytes)]
		if err := s.wire.sendBytes(part); err != nil {
			return n, err
		}
		n += len(part)
	}
	return n, nil
}

func (s *stream) Read(p []byte) (n int, err error) {
	for len(s.rest) == 0 {
		if s.rest, err = s.wire.receiveBytes(); err != nil {
			s.rest = nil
			return 0, err
		}
	}
	n = copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// ipOfListener is the address at which others reach who listens there.
func ipOfListener(l net.Listener) (string, error) {
	if tcp, ok := l.Addr().(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return OwnAddress()
	}
	return ipOf(l.Addr()), nil
}
