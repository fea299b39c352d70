package wire

import (
	"fmt"
	"net"
	"testing"
)

// When pendingPeers is full, the oldest connection that has sent nothing is closed.
func TestFullPendingClosesTheOldestSilentConnection(t *testing.T) {
	var p pendingPeers
	closed := map[int]bool{}
	add := func(i int) *pendingPeer { return p.addPeer(closer{close: func() { closed[i] = true }}) }
	p.markSent(add(0))
	for i := 1; i < maxPending; i++ {
		add(i)
	}
	if add(maxPending); fmt.Sprint(closed) != "map[1:true]" {
		t.Errorf("closed are %v, want the second", closed)
	}
}

// closer is a connection that can only be closed.
type closer struct {
	net.Conn
	close func()
}

func (c closer) Close() error {
	c.close()
	return nil
}
