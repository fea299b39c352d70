package transporttest

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/ecrec/ecrec/transport"
)

func testClose(t *testing.T, w world) {
	ep := w.eps[0]
	// larger than a transport may hold, so that the send cannot be done
	big := make([]byte, transport.MaxHeldBytes+1)
	s, r := ep.Send(1, 1, big), ep.Recv(2, 1, make([]byte, 8))
	if err := ep.Close(); err != nil {
		t.Fatal(err)
	}
	w.mustBeClosed("send posted before Close", s)
	w.mustBeClosed("receive posted before Close", r)
	w.mustBeClosed("send posted after Close", ep.Send(1, 1, big))
	w.mustBeClosed("receive posted after Close", ep.Recv(2, 1, make([]byte, 8)))
	w.exchangeMessages(1, 2) // the others continue
}

// exchangeMessages sends one message each way between two ranks.
func (w world) exchangeMessages(a, b int) {
	w.t.Helper()
	const tag = 77
	want := [2][]byte{pattern(a, 500), pattern(b, 600)}
	got := [2][]byte{make([]byte, 500), make([]byte, 600)}
	s := [2]transport.Request{w.eps[a].Send(b, tag, want[0]), w.eps[b].Send(a, tag, want[1])}
	r := [2]transport.Request{w.eps[b].Recv(a, tag, got[0]), w.eps[a].Recv(b, tag, got[1])}
	for i := range 2 {
		w.mustSucceed("send", s[i])
		w.mustSucceed("receive", r[i])
		w.mustEqual("message", got[i], want[i])
	}
}

func testPeerClosesAfterPost(t *testing.T, w world) {
	big := make([]byte, transport.MaxHeldBytes+1)
	s, r := w.eps[0].Send(1, 1, big), w.eps[0].Recv(1, 2, make([]byte, 8))
	got := make([]byte, 500)
	other := w.eps[0].Recv(2, 78, got)
	if err := w.eps[1].Close(); err != nil {
		t.Fatal(err)
	}
	w.mustBeLost("send", s, 1)
	w.mustBeLost("receive", r, 1)
	w.exchangeMessages(0, 2)
	w.mustSucceed("send", w.eps[2].Send(0, 78, pattern(3, 500)))
	w.mustSucceed("receive from a third rank, posted before the loss", other)
	w.mustEqual("message", got, pattern(3, 500))
}

func testPeerClosesBeforePost(t *testing.T, w world) {
	w.exchangeMessages(0, 1)
	r := w.eps[0].Recv(1, 1, make([]byte, 8))
	if err := w.eps[1].Close(); err != nil {
		t.Fatal(err)
	}
	w.mustBeLost("receive", r, 1) // now rank 0 has noticed the loss, with any transport
	w.mustBeLost("later receive", w.eps[0].Recv(1, 1, make([]byte, 8)), 1)
	w.mustBeLost("later send", w.eps[0].Send(1, 1, make([]byte, transport.MaxHeldBytes+1)), 1)
	w.exchangeMessages(0, 2)
}

// testPeerClosesWhileBytesMove closes an endpoint at random moments of a stream of large
// messages. Each message arrives complete and in order, or its request and all later ones
// end with PeerLost. Their memory is not written after that.
func testPeerClosesWhileBytesMove(t *testing.T, w world) {
	const size, messages = 4 << 20, 12
	var sends, recvs [messages]transport.Request
	var got [messages][]byte
	var lost [][]byte
	closed := make(chan struct{})
	go func() {
		time.Sleep(time.Millisecond)
		_ = w.eps[0].Close()
		close(closed)
	}()
	for i := range messages {
		got[i] = make([]byte, size)
		sends[i] = w.eps[0].Send(1, 5, pattern(i, size))
		recvs[i] = w.eps[1].Recv(0, 5, got[i])
	}
	gone := false
	for i := range messages {
		if err := w.mustEnd("send", sends[i]); err != nil && !errors.Is(err, transport.ErrClosed) {
			t.Fatalf("send %d: got %v, want success or ErrClosed", i, err)
		}
		err := w.mustEnd("receive", recvs[i])
		switch {
		case err == nil && gone:
			t.Fatalf("message %d arrived after one was lost", i)
		case err == nil:
			w.mustEqual("message", got[i], pattern(i, size))
		default:
			gone = true
			w.mustBeLost("receive", failed{err}, 0)
			clear(got[i])
			lost = append(lost, got[i])
		}
	}
	<-closed
	time.Sleep(5 * time.Millisecond)
	zeros := make([]byte, size)
	for _, p := range lost {
		if !bytes.Equal(p, zeros) {
			t.Fatal("the memory of a lost message was written after its request had ended")
		}
	}
}

type failed struct{ err error }

func (f failed) Wait() error { return f.err }

// testAbortNamesTheLost: rank 2 has nothing outstanding with rank 1, which is lost, and
// learns of the loss through rank 0.
func testAbortNamesTheLost(t *testing.T, w world) {
	onLost := w.eps[0].Recv(1, 1, make([]byte, 8))
	onThird := w.eps[0].Recv(2, 1, make([]byte, 8))
	thirds := w.eps[2].Recv(0, 1, make([]byte, 8))
	if err := w.eps[1].Close(); err != nil {
		t.Fatal(err)
	}
	err := w.mustEnd("receive from the lost rank", onLost)
	w.mustBeLost("receive from the lost rank", failed{err}, 1)
	w.eps[0].Abort(err)
	w.mustBeLost("receive from a third rank", onThird, 1)
	w.mustBeLost("later send", w.eps[0].Send(2, 1, make([]byte, 8)), 1)
	w.mustBeLost("the third rank's receive", thirds, 1)
	w.mustBeLost("the third rank's later send", w.eps[2].Send(0, 1, make([]byte, transport.MaxHeldBytes+1)), 1)
}

func testAbortNamesItself(t *testing.T, w world) {
	cause := errors.New("world changed")
	own, peers := w.eps[0].Recv(1, 1, make([]byte, 8)), w.eps[1].Recv(0, 1, make([]byte, 8))
	w.eps[0].Abort(cause)
	if err := w.mustEnd("receive", own); !errors.Is(err, cause) {
		t.Fatalf("got %v, want the cause of the abort", err)
	}
	w.mustBeLost("the peer's receive", peers, 0)
	w.eps[0].Abort(errors.New("a later cause"))
	if err := w.mustEnd("send", w.eps[0].Send(1, 1, nil)); !errors.Is(err, cause) {
		t.Fatalf("got %v, want the first cause", err)
	}
}

func testCloseTwice(t *testing.T, w world) {
	for range 2 {
		if err := w.eps[0].Close(); err != nil {
			t.Fatal(err)
		}
	}
	w.mustBeLost("receive", w.eps[1].Recv(0, 1, make([]byte, 8)), 0)
	w.mustBeClosed("own receive", w.eps[0].Recv(1, 1, make([]byte, 8)))
}
