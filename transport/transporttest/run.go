package transporttest

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ecrec/ecrec/transport"
)

// Make connects a world of n ranks.
type Make func(t *testing.T, n int) []transport.Endpoint

// Run runs the suite on the worlds that connect makes.
func Run(t *testing.T, connect Make) {
	for _, c := range []struct {
		name  string
		ranks int
		run   func(t *testing.T, w world)
	}{
		{"Identity", 3, testIdentity},
		{"Order", 2, testOrder},
		{"SendBeforeReceive", 2, testSendBeforeReceive},
		{"ReceiveBeforeSend", 2, testReceiveBeforeSend},
		{"Lengths", 2, testLengths},
		{"WrongLength", 2, testWrongLength},
		{"ManyTags", 2, testManyTags},
		{"Concurrent", 4, testConcurrent},
		{"BackPressure", 2, testBackPressure},
		{"Views", 3, testViews},
		{"ViewsOfTheClosed", 3, testViewsOfTheClosed},
		{"Close", 3, testClose},
		{"PeerClosesAfterPost", 3, testPeerClosesAfterPost},
		{"PeerClosesBeforePost", 3, testPeerClosesBeforePost},
		{"PeerClosesWhileBytesMove", 2, testPeerClosesWhileBytesMove},
		{"AbortNamesTheLost", 3, testAbortNamesTheLost},
		{"AbortNamesItself", 2, testAbortNamesItself},
		{"CloseTwice", 2, testCloseTwice},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := goleak.IgnoreCurrent()
			w := world{t, connect(t, c.ranks)}
			c.run(t, w)
			for _, ep := range w.eps {
				if err := ep.Close(); err != nil {
					t.Errorf("close of rank %d: %v", ep.Rank(), err)
				}
			}
			goleak.VerifyNone(t, before)
		})
	}
}

func testIdentity(t *testing.T, w world) {
	for i, ep := range w.eps {
		if ep.Rank() != i || ep.Size() != len(w.eps) || ep.Generation() != w.eps[0].Generation() {
			t.Fatalf("endpoint %d reports rank %d of %d, generation %d", i, ep.Rank(), ep.Size(), ep.Generation())
		}
	}
}

func testOrder(t *testing.T, w world) {
	const messages = 500
	var sends, recvs [messages]transport.Request
	var got [messages][]byte
	for i := range messages {
		sends[i] = w.eps[0].Send(1, 7, pattern(i, 8+i%3))
		if i >= 100 { // the receiver lags behind
			got[i-100] = make([]byte, 8+(i-100)%3)
			recvs[i-100] = w.eps[1].Recv(0, 7, got[i-100])
		}
	}
	for i := messages - 100; i < messages; i++ {
		got[i] = make([]byte, 8+i%3)
		recvs[i] = w.eps[1].Recv(0, 7, got[i])
	}
	for i := range messages {
		w.mustSucceed("send", sends[i])
		w.mustSucceed("receive", recvs[i])
		w.mustEqual("message", got[i], pattern(i, 8+i%3))
	}
}

func testSendBeforeReceive(t *testing.T, w world) {
	s := w.eps[1].Send(0, 1, pattern(1, 1000))
	time.Sleep(5 * time.Millisecond)
	got := make([]byte, 1000)
	w.mustSucceed("receive", w.eps[0].Recv(1, 1, got))
	w.mustSucceed("send", s)
	w.mustEqual("message", got, pattern(1, 1000))
}

func testReceiveBeforeSend(t *testing.T, w world) {
	got := make([]byte, 1000)
	r := w.eps[0].Recv(1, 1, got)
	time.Sleep(5 * time.Millisecond)
	w.mustSucceed("send", w.eps[1].Send(0, 1, pattern(1, 1000)))
	w.mustSucceed("receive", r)
	w.mustEqual("message", got, pattern(1, 1000))
}

func testLengths(t *testing.T, w world) {
	longest := 64<<20 + 3
	if testing.Short() {
		longest = transport.MaxHeldBytes + 3
	}
	for _, n := range []int{0, 1, 2, 63, 64, 65, 4095, 4096, 65536, 65537, 1 << 20, longest} {
		want, got := pattern(n, n), make([]byte, n)
		s, r := w.eps[0].Send(1, 2, want), w.eps[1].Recv(0, 2, got)
		w.mustSucceed("send", s)
		w.mustSucceed("receive", r)
		w.mustEqual("message", got, want)
	}
}

func testWrongLength(t *testing.T, w world) {
	for _, c := range []struct{ sent, wants int }{{8, 16}, {16, 8}, {0, 1}, {1, 0}} {
		s := w.eps[0].Send(1, 3, make([]byte, c.sent))
		err := w.mustEnd("receive", w.eps[1].Recv(0, 3, make([]byte, c.wants)))
		var wrong *transport.LengthError
		if !errors.As(err, &wrong) {
			t.Fatalf("%d bytes for a receive of %d: got %v, want a LengthError", c.sent, c.wants, err)
		}
		if want := (transport.LengthError{From: 0, To: 1, Tag: 3, Sent: c.sent, Wants: c.wants}); *wrong != want {
			t.Fatalf("got %+v, want %+v", *wrong, want)
		}
		_ = w.mustEnd("send", s) // with any result, but it must end
	}
}

func testManyTags(t *testing.T, w world) {
	const tags, each = 300, 3
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	type message struct {
		send, recv transport.Request
		got        []byte
	}
	m := make([]message, tags*each)
	var order []int // each tag several times
	for i := range tags * each {
		order = append(order, i%tags)
	}
	shuffled := func(post func(tag, k int)) {
		r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		count := make([]int, tags)
		for _, tag := range order {
			post(tag, count[tag])
			count[tag]++
		}
	}
	name := func(tag int) transport.Tag { return transport.Tag(tag%5)<<48 | transport.Tag(tag) }
	shuffled(func(tag, k int) {
		m[tag*each+k].send = w.eps[0].Send(1, name(tag), pattern(tag*each+k, 40))
	})
	shuffled(func(tag, k int) {
		x := &m[tag*each+k]
		x.got = make([]byte, 40)
		x.recv = w.eps[1].Recv(0, name(tag), x.got)
	})
	for i := range m {
		w.mustSucceed("send", m[i].send)
		w.mustSucceed("receive", m[i].recv)
		w.mustEqual("message", m[i].got, pattern(i, 40))
	}
}

// testConcurrent exchanges messages between all pairs at once, with a goroutine for each
// (from, to, tag) and direction.
func testConcurrent(t *testing.T, w world) {
	const tags, messages, window = 3, 60, 4
	n := len(w.eps)
	var wg sync.WaitGroup
	stream := func(post func(i int, p []byte) transport.Request, fill, check func(i int, p []byte)) {
		defer wg.Done()
		var requests [window]transport.Request
		var memory [window][]byte
		for i := range messages + window {
			k := i % window
			if requests[k] != nil {
				if err := requests[k].Wait(); err != nil {
					t.Errorf("message %d: %v", i-window, err)
					return
				}
				check(i-window, memory[k])
			}
			if requests[k] = nil; i < messages {
				memory[k] = make([]byte, i*37%2000)
				fill(i, memory[k])
				requests[k] = post(i, memory[k])
			}
		}
	}
	for from := range n {
		for to := range n {
			if from == to {
				continue
			}
			for tag := range tags {
				id := (from*n+to)*tags + tag
				wg.Add(2)
				go stream(func(_ int, p []byte) transport.Request { return w.eps[from].Send(to, transport.Tag(tag), p) },
					func(i int, p []byte) { copy(p, pattern(id+i, len(p))) }, func(int, []byte) {})
				go stream(func(_ int, p []byte) transport.Request { return w.eps[to].Recv(from, transport.Tag(tag), p) },
					func(int, []byte) {},
					func(i int, p []byte) {
						if !bytes.Equal(p, pattern(id+i, len(p))) {
							t.Errorf("message %d from %d to %d under tag %d differs", i, from, to, tag)
						}
					})
			}
		}
	}
	wg.Wait()
}

func testBackPressure(t *testing.T, w world) {
	const size, messages = 1 << 20, transport.MaxHeldBytes>>20 + 8
	var mu sync.Mutex
	done := 0
	var wg sync.WaitGroup
	for i := range messages {
		r := w.eps[0].Send(1, 9, pattern(i, size))
		wg.Go(func() {
			if err := r.Wait(); err != nil {
				t.Errorf("send %d: %v", i, err)
			}
			mu.Lock()
			done++
			mu.Unlock()
		})
	}
	time.Sleep(50 * time.Millisecond)
	mu.Lock()
	if done*size > transport.MaxHeldBytes {
		t.Errorf("%d sends of %d bytes are done, and none is received: limit %d bytes", done, size, transport.MaxHeldBytes)
	}
	mu.Unlock()
	got := make([]byte, size)
	for i := range messages {
		w.mustSucceed("receive", w.eps[1].Recv(0, 9, got))
		w.mustEqual("message", got, pattern(i, size))
	}
	wg.Wait()
}
