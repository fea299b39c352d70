package place

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/ecrec/ecrec/launcher/control"
	"github.com/ecrec/ecrec/launcher/wire"
)

// A process that gives up before it receives its acceptance may join again. Another one
// with its number may join once the first is gone, and not before.
func TestPlaceIsFreeAgain(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const limit = 2 * time.Second
	secret := []byte("0123456789abcdef")
	s := NewServer(Place{Processes: 2, Rendezvous: Rendezvous{"tcp", l.Addr().String()}}, 0, secret, "", limit)
	s.HostJob(control.Member{Number: 0, ID: "host"})
	go s.ServeJoins(l, func(wire.Peer) {})
	join := func(id string, wrap func(net.Conn) net.Conn) (net.Conn, error) {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		conn = wrap(conn)
		_, _, err = wire.Introduce(conn, secret, control.Message{Kind: control.KindJoin, Processes: 2,
			Member: &control.Member{Number: 1, ID: id}}, limit)
		return conn, err
	}
	asIs := func(c net.Conn) net.Conn { return c }
	_, err = join("first", func(c net.Conn) net.Conn { return &vanishing{Conn: c} })
	if !errors.Is(err, wire.ErrBroken) {
		t.Fatalf("the first process: %v", err)
	}
	taken := func() int { s.mu.Lock(); defer s.mu.Unlock(); return len(s.claims) }
	for end := time.Now().Add(30 * time.Second); taken() > 1; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the place is never released")
		}
	}
	for range 2 {
		conn, err := join("second", asIs)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	if _, err := join("third", asIs); err == nil || !strings.Contains(err.Error(), "process 1 has joined already") {
		t.Errorf("another process with its number: %v", err)
	}
}

// vanishing is a connection that ends in place of its third message, after nonce and join.
type vanishing struct {
	net.Conn
	messages int
}

func (c *vanishing) Write(p []byte) (int, error) {
	if c.messages++; c.messages == 3 {
		c.Close()
	}
	return c.Conn.Write(p)
}
