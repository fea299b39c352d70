package launcher

import (
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/ecrec/ecrec/launcher/control"
	"github.com/ecrec/ecrec/launcher/place"
	"github.com/ecrec/ecrec/launcher/wire"
)

// endpoint is where a member listens for other members after the rendezvous: for supervisors
// that link to it in case it leads, for supervisors that join the running job, and for the
// connections of the consensus library, whose network it is (raft.StreamLayer).
type endpoint struct {
	wire.Acceptor
	listener net.Listener
	streams  chan net.Conn
	closed   chan struct{}
	closing  sync.Once
}

// openEndpoint listens at an IP address of this machine. It accepts nothing before
// serveMembers.
func openEndpoint(ip string) (*endpoint, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	if err != nil {
		return nil, err
	}
	return &endpoint{listener: l, streams: make(chan net.Conn), closed: make(chan struct{})}, nil
}

// serveMembers accepts peers that have the secret. checkVisit admits the supervisors that
// link, and visit gets their connections; checkJoin handles requests to join the job.
func (e *endpoint) serveMembers(secret []byte, limit time.Duration, checkVisit func(process int) error,
	checkJoin func(control.Message) (control.Message, error), visit func(process int, c *wire.Conn)) {
	e.Key, e.Limit, e.Forget = secret, limit, func(control.Message) {}
	e.Check = func(m control.Message) (control.Message, error) {
		switch m.Kind {
		case control.KindRaft:
			return control.Message{Kind: control.KindWelcome}, nil
		case control.KindVisit:
			return control.Message{Kind: control.KindWelcome}, checkVisit(m.Process)
		case control.KindJoin:
			return checkJoin(m)
		}
		return m, wire.ErrProtocol
	}
	go e.Serve(e.listener, func(p wire.Peer) {
		switch p.First.Kind {
		case control.KindVisit:
			visit(p.First.Process, p.Conn)
			return
		case control.KindJoin: // it has its number now, and links
			p.Conn.Close()
			return
		}
		select {
		case e.streams <- wire.NewStream(p.Conn):
		case <-e.closed:
			p.Conn.Close()
		}
	})
}

// Accept implements raft.StreamLayer, as do the methods that follow.
func (e *endpoint) Accept() (net.Conn, error) {
	select {
	case c := <-e.streams:
		return c, nil
	case <-e.closed:
		return nil, net.ErrClosed
	}
}

// Close stops accepting.
func (e *endpoint) Close() error {
	e.closing.Do(func() { close(e.closed) })
	return e.listener.Close()
}

// Addr is where other members reach the endpoint.
func (e *endpoint) Addr() net.Addr { return e.listener.Addr() }

// Dial connects to another member's endpoint.
func (e *endpoint) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	c, _, err := wire.Dial(string(address), e.Key, control.Message{Kind: control.KindRaft}, min(timeout, e.Limit))
	if err != nil {
		return nil, err
	}
	return wire.NewStream(c), nil
}

// reachableIP is the IP address at which others reach a listener.
func reachableIP(l net.Listener) (string, error) {
	if tcp, ok := l.Addr().(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return place.OwnAddress()
	}
	return wire.IPOf(l.Addr()), nil
}
