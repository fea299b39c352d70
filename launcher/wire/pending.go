package wire

import (
	"net"
	"slices"
	"sync"
)

// maxPending bounds the connections whose peers are not authenticated yet.
const maxPending = 256

// pendingPeers holds the connections whose peers are not authenticated yet. When it is full,
// the oldest connection without a message is closed. A process of this job sends at once, and
// one that is closed by mistake dials again.
type pendingPeers struct {
	mu  sync.Mutex
	all []*pendingPeer // oldest first
}

type pendingPeer struct {
	conn net.Conn
	sent bool // its first message has arrived
}

// addPeer adds a connection, in place of another if need be.
func (p *pendingPeers) addPeer(conn net.Conn) *pendingPeer {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.all) == maxPending {
		oldest := max(0, slices.IndexFunc(p.all, func(c *pendingPeer) bool { return !c.sent }))
		p.all[oldest].conn.Close()
		p.all = slices.Delete(p.all, oldest, oldest+1)
	}
	c := &pendingPeer{conn: conn}
	p.all = append(p.all, c)
	return c
}

// markSent records that a peer's first message has arrived.
func (p *pendingPeers) markSent(c *pendingPeer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.sent = true
}

// removePeer ends a handshake.
func (p *pendingPeers) removePeer(c *pendingPeer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = slices.DeleteFunc(p.all, func(o *pendingPeer) bool { return o == c })
}
