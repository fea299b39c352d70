package wire

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/ecrec/ecrec/internal/seal"
	"github.com/ecrec/ecrec/launcher/control"
)

const (
	// firstLimit is how long an unauthenticated peer may take to send its first message.
	firstLimit = time.Second
	// maxGreetingBytes bounds each message of an unauthenticated peer.
	maxGreetingBytes = 64 << 10
)

// Peer is a process that has proved that it belongs to the job.
type Peer struct {
	First   control.Message // its first message
	Welcome control.Message // the answer that it got
	Conn    *Conn
	LocalIP string // this process's address, as the peer reached it
}

// Acceptor authenticates the connections of a listener.
type Acceptor struct {
	Key    []byte
	Limit  time.Duration                                              // of a handshake
	Check  func(control.Message) (welcome control.Message, err error) // whether a peer that knows the key is accepted
	Forget func(control.Message)                                      // a peer that Check accepted has disconnected before it knew

	pending  pendingPeers
	refusing sync.Mutex
	refused  string // the last refusal
}

// Serve authenticates connections until the listener is closed, and calls accept for each
// peer that Check accepts.
func (a *Acceptor) Serve(l net.Listener, accept func(Peer)) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		waiting := a.pending.addPeer(conn)
		go func() {
			peer, err := a.authenticate(waiting)
			a.pending.removePeer(waiting)
			if err != nil {
				a.refusing.Lock()
				a.refused = fmt.Sprintf("%s: %v", conn.RemoteAddr(), err)
				a.refusing.Unlock()
				conn.Close()
				return
			}
			accept(peer)
		}()
	}
}

// LastRefusal names the peer that was refused last and the reason, "" if there is none.
func (a *Acceptor) LastRefusal() string {
	a.refusing.Lock()
	defer a.refusing.Unlock()
	return a.refused
}

// authenticate runs a handshake. It uses nothing that the peer sends, except its nonce,
// before the peer has proved that it knows the key.
func (a *Acceptor) authenticate(p *pendingPeer) (peer Peer, err error) {
	conn, began := p.conn, time.Now()
	if err := conn.SetDeadline(began.Add(min(firstLimit, a.Limit))); err != nil {
		return peer, err
	}
	if err := CheckUser(conn); err != nil {
		return peer, err
	}
	c := &Conn{conn: conn, limit: maxGreetingBytes}
	key := seal.NewEphemeral()
	if err := c.Send(control.Message{Kind: control.KindNonce, Nonce: key.Nonce()}); err != nil {
		return peer, err
	}
	m, err := c.Receive()
	if err != nil {
		return peer, err
	}
	if m.Kind != control.KindNonce || c.sealWith(key, a.Key, m.Nonce, false) != nil {
		return peer, ErrProtocol
	}
	a.pending.markSent(p)
	if err := conn.SetDeadline(began.Add(a.Limit)); err != nil {
		return peer, err
	}
	var welcome control.Message
	if m, err = c.Receive(); err == nil {
		welcome, err = a.Check(m)
	} else if errors.Is(err, errForged) {
		err = errors.New("it does not know this job's secret")
		c.refuseInClear(err)
		return peer, err
	}
	if err != nil {
		_ = c.Send(control.Message{Kind: control.KindRefused, Text: err.Error()}) // if it is not delivered, the peer finds the connection closed
		return peer, err
	}
	// A peer that has given up meanwhile and dials again must not be taken for a second one.
	err = c.Send(welcome)
	if err == nil {
		_, err = c.Receive()
	}
	if err != nil {
		a.Forget(m)
		return peer, err
	}
	keepAlive(conn)
	c.limit = 0
	return Peer{m, welcome, c, IPOf(conn.LocalAddr())}, conn.SetDeadline(time.Time{})
}
