package transport

import (
	"bytes"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/env"
)

// sharing returns both ends of a link. Its bytes move only when the test calls for it.
func sharing(t *testing.T) (ends [2]*link) {
	t.Helper()
	g, name, closeSpare, err := createSegment(7)
	if err != nil {
		t.Skipf("needs shared memory: %v", err)
	}
	other, err := openSegment(name)
	closeSpare()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.closeSegment(); other.closeSegment() })
	near, far := net.Pipe()
	t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	for i, conn := range []net.Conn{near, far} {
		w, err := newNetWorld(&NetOptions{
			Env: env.Real(), Generation: 7, Processes: []Process{{Ranks: []int{0}}, {Ranks: []int{1}}}, Self: i,
			Heartbeat: time.Second, Timeout: time.Second,
		})
		if err != nil {
			t.Fatal(err)
		}
		ends[i] = newLink(w, 1-i, conn)
		ends[i].ring = newShm(ends[i], []*segment{g, other}[i], i == 0)
	}
	for _, l := range ends {
		if l.ring.probePeer(); l.ring.self.reads.Load() == 0 {
			t.Skip("this system does not let a process read another's memory")
		}
	}
	return ends
}

const longMessage = readBytes + 12_345

func longBytes() []byte {
	p := make([]byte, longMessage)
	for i := range p {
		p[i] = byte(i + i>>8)
	}
	return p
}

// post lets rank 0 send p and rank 1 receive it, before or after it is offered.
func post(ends [2]*link, p []byte, early bool) (send, recv *netRequest, got []byte) {
	got = make([]byte, len(p))
	receive := func() { recv = ends[1].postRecv(1, 0, 3, got).(*netRequest) }
	if early {
		receive()
	}
	send = ends[0].postSend(0, 1, 3, p).(*netRequest)
	ends[1].ring.pumpIn()
	if !early {
		receive()
	}
	return send, recv, got
}

func TestLongMessagesAreReadInPlace(t *testing.T) {
	for _, early := range []bool{true, false} {
		ends, p := sharing(t), longBytes()
		send, recv, got := post(ends, p, early)
		ends[1].ring.moveAll()
		if !recv.over.Load() || !bytes.Equal(got, p) {
			t.Fatalf("early %v: the message did not arrive", early)
		}
		if send.over.Load() {
			t.Errorf("early %v: the send ends before the receiver confirmed it", early)
		}
		ends[0].ring.moveAll()
		if ends[1].in.sequence != 1 || ends[0].in.sequence != 1 {
			t.Errorf("early %v: %d and %d frames, want an offer and its answer", early, ends[1].in.sequence, ends[0].in.sequence)
		}
		if err := errors.Join(recv.Wait(), send.Wait()); err != nil {
			t.Error(err)
		}
	}
}

// A sender that gives up may change its memory at once. A receiver that reads it later
// must not accept it as the message.
func TestWithdrawnMessageIsNotReceived(t *testing.T) {
	ends, p := sharing(t), longBytes()
	send, recv, _ := post(ends, p, true)
	ends[0].abortRank(0, ErrClosed, lossSeenByPeers(0, 7, ErrClosed))
	if err := send.Wait(); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	clear(p)
	for ends[1].ring.readNextPiece() {
	}
	if recv.over.Load() {
		t.Fatalf("the receive accepted bytes that the sender wrote later: %v", recv.err)
	}
	ends[1].ring.moveAll()
	if err := recv.Wait(); !errors.As(err, new(*PeerLost)) {
		t.Errorf("the receive ends with %v", err)
	}
}

// A process that is not the peer does not have the secret at the peer's address. The
// message is then sent through the ring.
func TestMemoryOfAnotherProcessIsRefused(t *testing.T) {
	for name, change := range map[string]func(d *sideRecord){
		"another secret":   func(d *sideRecord) { d.secret.Add(1) },
		"unmapped":         func(d *sideRecord) { d.secret.Store(8) },
		"no such process":  func(d *sideRecord) { d.pid.Store(1 << 30) },
		"withdrawn before": func(d *sideRecord) { d.withdrawn.Store(1) },
	} {
		ends, p := sharing(t), longBytes()
		send, recv, got := post(ends, p, true)
		change(&ends[1].ring.other)
		for range 100 {
			ends[1].ring.moveAll()
			ends[0].ring.moveAll()
		}
		if !recv.over.Load() || !send.over.Load() || !bytes.Equal(got, p) {
			t.Fatalf("%s: the message did not arrive", name)
		}
		if err := errors.Join(recv.Wait(), send.Wait()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
