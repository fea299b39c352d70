package transporttest

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/ecrec/ecrec/transport"
)

// hangLimit is how long a Wait may take before the suite reports a hang.
const hangLimit = 20 * time.Second

// world is the ranks under test, each driven by the test's goroutines.
type world struct {
	t   *testing.T
	eps []transport.Endpoint
}

// mustEnd is r.Wait, but fails the test instead of hanging.
func (w world) mustEnd(what string, r transport.Request) error {
	w.t.Helper()
	done := make(chan error, 1)
	go func() { done <- r.Wait() }()
	select {
	case err := <-done:
		return err
	case <-time.After(hangLimit):
		w.t.Fatalf("%s: Wait hangs", what)
		return nil
	}
}

func (w world) mustSucceed(what string, r transport.Request) {
	w.t.Helper()
	if err := w.mustEnd(what, r); err != nil {
		w.t.Fatalf("%s: %v", what, err)
	}
}

func (w world) mustBeLost(what string, r transport.Request, rank int) {
	w.t.Helper()
	err := w.mustEnd(what, r)
	var lost *transport.PeerLost
	if !errors.As(err, &lost) {
		w.t.Fatalf("%s: got %v, want PeerLost of rank %d", what, err, rank)
	}
	if lost.Rank != rank || lost.Generation != w.eps[0].Generation() || lost.Cause == nil {
		w.t.Fatalf("%s: got %+v, want rank %d of generation %d with its cause", what, lost, rank, w.eps[0].Generation())
	}
}

func (w world) mustBeClosed(what string, r transport.Request) {
	w.t.Helper()
	if err := w.mustEnd(what, r); !errors.Is(err, transport.ErrClosed) {
		w.t.Fatalf("%s: got %v, want ErrClosed", what, err)
	}
}

// pattern returns n bytes that depend on seed and position. Long patterns repeat a block
// whose length is prime, preceded by the block's number. (Byte by byte, the race detector
// takes a minute for them.)
func pattern(seed, n int) []byte {
	const block = 65521 // prime
	p := make([]byte, n)
	for i := range min(n, block) {
		p[i] = byte(seed*31 + i + i>>8*7)
	}
	for at := block; at < n; at += block {
		p[at] = byte(at / block)
		copy(p[at+1:], p[1:block])
	}
	return p
}

func (w world) mustEqual(what string, got, want []byte) {
	w.t.Helper()
	if !bytes.Equal(got, want) {
		w.t.Fatalf("%s: %d bytes differ from what was sent", what, len(want))
	}
}
