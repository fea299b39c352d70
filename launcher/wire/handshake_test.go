package wire

import (
	"bytes"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/ecrec/ecrec/launcher/control"
)

// tapped is a connection that changes one received byte, and records what it received.
type tapped struct {
	net.Conn
	at       int // bytes before the changed one; below 0: none is changed
	received bytes.Buffer
}

func (c *tapped) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.received.Write(p[:n])
	if c.at >= 0 && c.at < n {
		p[c.at] ^= 0x10
	}
	if c.at >= 0 {
		c.at -= n
		if c.at < 0 {
			c.at = -1
		}
	}
	return n, err
}

// shakeHands has one end dial another over connections of the test, and returns whether both
// accept each other.
func shakeHands(listener, dialler net.Conn) bool {
	const limit = 300 * time.Millisecond // a length was changed
	a := &Acceptor{Key: []byte("swordfish"), Limit: limit, Forget: func(control.Message) {},
		Check: func(control.Message) (control.Message, error) {
			return control.Message{Kind: control.KindWelcome, Secret: []byte("a secret for the dialler")}, nil
		}}
	var listenerErr, diallerErr error
	var both sync.WaitGroup
	both.Go(func() {
		if _, listenerErr = a.authenticate(&pendingPeer{conn: listener}); listenerErr != nil {
			listener.Close()
		}
	})
	both.Go(func() {
		m := control.Message{Kind: control.KindJoin, Text: "where the dialler listens"}
		if _, _, diallerErr = Introduce(dialler, []byte("swordfish"), m, limit); diallerErr != nil {
			dialler.Close()
		}
	})
	both.Wait()
	return listenerErr == nil && diallerErr == nil
}

func TestEveryByteOfAHandshakeCounts(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	connect := func() (near, far net.Conn) {
		near, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if far, err = l.Accept(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { near.Close(); far.Close() })
		return near, far
	}
	near, far := connect()
	toListener, toDialler := &tapped{Conn: near, at: -1}, &tapped{Conn: far, at: -1}
	if !shakeHands(toListener, toDialler) {
		t.Fatal("two ends with one secret do not accept each other")
	}
	for _, text := range []string{"dialler", "join", "welcome"} {
		if bytes.Contains(toListener.received.Bytes(), []byte(text)) || bytes.Contains(toDialler.received.Bytes(), []byte(text)) {
			t.Errorf("%q crosses in clear", text)
		}
	}
	for at := range toListener.received.Len() {
		near, far := connect()
		if shakeHands(&tapped{Conn: near, at: at}, far) {
			t.Errorf("byte %d to the listener may be changed", at)
		}
	}
	for at := range toDialler.received.Len() {
		near, far := connect()
		if shakeHands(near, &tapped{Conn: far, at: at}) {
			t.Errorf("byte %d to the dialler may be changed", at)
		}
	}
}
