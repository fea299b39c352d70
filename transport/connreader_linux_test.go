package transport

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/env"
)

// polledLink returns a link of one rank over TCP, whose Wait polls, and the other end of its connection.
func polledLink(t *testing.T) (*link, net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	near, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	w, err := newNetWorld(&NetOptions{Env: env.Real(), Generation: 7, Processes: []Process{{Ranks: []int{0}}, {Ranks: []int{1}}},
		Heartbeat: time.Second, Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	w.polling.shared = false
	l := newLink(w, 1, near)
	l.startLoops()
	t.Cleanup(func() {
		_ = far.Close()
		l.failWith(ErrClosed)
		for _, e := range l.stopped {
			_ = e.Wait()
		}
	})
	return l, far
}

// missEvent holds the turn while f makes the connection readable, until readLoop has seen that in vain.
func missEvent(t *testing.T, a *connReader, f func()) {
	t.Helper()
	for !a.taken.CompareAndSwap(false, true) {
		time.Sleep(time.Millisecond)
	}
	a.missed.Store(false)
	f()
	for until := time.Now().Add(10 * time.Second); !a.missed.Load(); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("readLoop was not woken")
		}
	}
	time.Sleep(20 * time.Millisecond) // until it sleeps again
	a.missed.Store(false)
	a.taken.Store(false)
}

// The end of a connection that only a goroutine in Wait has seen ends the link.
func TestEndOfAPolledConnection(t *testing.T) {
	l, far := polledLink(t)
	missEvent(t, l.reader, func() { _ = far.Close() })
	ended := make(chan error, 1)
	go func() { ended <- l.postRecv(0, 1, 1, make([]byte, 8)).Wait() }()
	select {
	case err := <-ended:
		if lost := (*PeerLost)(nil); !errors.As(err, &lost) || !errors.Is(err, errHungUp) {
			t.Errorf("the receive ends with %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the receive does not end")
	}
}

// Bytes that a goroutine in Wait leaves are read, although the system reports them only once.
func TestBytesLeftByAPoll(t *testing.T) {
	const frames = 3 * turnBytes / 2 / headerBytes
	l, far := polledLink(t)
	_ = far.(*net.TCPConn).SetWriteBuffer(4 << 20)
	_ = l.conn.(*net.TCPConn).SetReadBuffer(4 << 20)
	var all []byte
	for i := range frames {
		var b [headerBytes]byte
		h := header{kind: frameHeartbeat, generation: 7, sequence: uint64(i)}
		h.encodeHeader(&b)
		all = append(all, b[:]...)
	}
	_ = far.SetWriteDeadline(time.Now().Add(10 * time.Second)) // if the buffers of the system are too small
	missEvent(t, l.reader, func() {
		if _, err := far.Write(all); err != nil {
			t.Fatal(err)
		}
	})
	read := func() uint64 {
		for !l.reader.taken.CompareAndSwap(false, true) {
			time.Sleep(time.Millisecond)
		}
		defer l.reader.taken.Store(false)
		return l.in.sequence
	}
	if err := l.reader.conn.raw.Control(l.reader.poll); err != nil {
		t.Fatal(err)
	}
	if n := read(); n == 0 || n >= frames {
		t.Fatalf("a turn read %d of %d frames", n, frames)
	}
	over := &netRequest{}
	over.over.Store(true)
	l.reader.readUntilDone(over)
	for until := time.Now().Add(10 * time.Second); read() < frames; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("%d of %d frames were read: %v", read(), frames, l.failure())
		}
	}
}
