package transport

import (
	"errors"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/env"
)

// crowdedLink returns a link between processes of some ranks each. Nothing serves it.
func crowdedLink(t *testing.T, ranks int) *link {
	t.Helper()
	processes := make([]Process, 2)
	for r := range 2 * ranks {
		processes[r/ranks].Ranks = append(processes[r/ranks].Ranks, r)
	}
	w, err := newNetWorld(&NetOptions{Env: env.Real(), Generation: 7, Processes: processes, Heartbeat: time.Second, Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	near, far := net.Pipe()
	t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	return newLink(w, 1, near)
}

// TestLossOfACrowdedLink ends requests of each kind of many pairs of ranks. The end looks at each request once: if it looked at all
// requests for each pair, it would allocate lists of them for each.
func TestLossOfACrowdedLink(t *testing.T) {
	const ranks, each, most = 24, 8, 4 << 20
	l, long := crowdedLink(t, ranks), make([]byte, eagerBytes+1)
	var requests []*netRequest
	for range each {
		for a := range ranks {
			for b := range ranks {
				requests = append(requests, l.postSend(a, ranks+b, 1, long).(*netRequest), l.postRecv(a, ranks+b, 1, long).(*netRequest))
			}
		}
	}
	var f frame
	for range len(requests) / 4 { // half of the sends are offered
		if !l.nextFrame(&f, false) {
			t.Fatal("there is no frame to write")
		}
		l.frameWritten(&f, nil)
	}
	for id, r := range l.offered { // and a few of them are asked for
		if id%16 == 0 {
			delete(l.offered, id)
			l.bulk.push(r)
			l.queued.Add(1)
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	l.failWith(io.ErrUnexpectedEOF)
	runtime.ReadMemStats(&after)
	if bytes := after.TotalAlloc - before.TotalAlloc; bytes > most {
		t.Errorf("the end of %d requests of %d pairs allocates %d bytes, want %d at most", len(requests), ranks*ranks, bytes, most)
	}
	for i, r := range requests {
		lost := (*PeerLost)(nil)
		if !r.over.Load() || !errors.As(r.err, &lost) || lost.Rank != r.pair.remote {
			t.Fatalf("request %d with rank %d ends with %v (ended: %v)", i, r.pair.remote, r.err, r.over.Load())
		}
	}
	if n := len(l.offered) + l.first.len() + l.bulk.len() + int(l.queued.Load()); n != 0 {
		t.Errorf("%d requests are left", n)
	}
}

// TestAbortEndsOneRank: the requests of the other ranks of a link stay.
func TestAbortEndsOneRank(t *testing.T) {
	l, long := crowdedLink(t, 2), make([]byte, eagerBytes+1)
	var sends [2][2]*netRequest
	for a := range 2 {
		for b := range 2 {
			sends[a][b] = l.postSend(a, 2+b, 1, long).(*netRequest)
		}
	}
	l.abortRank(0, ErrClosed, lossSeenByPeers(0, 7, ErrClosed))
	for a := range 2 {
		for b := range 2 {
			if ended := sends[a][b].over.Load(); ended != (a == 0) {
				t.Errorf("the send from rank %d to rank %d has ended: %v", a, 2+b, ended)
			}
		}
	}
	if l.first.len() != 2 || l.first.pop() != sends[1][0] || l.first.pop() != sends[1][1] {
		t.Error("the sends of the other rank have changed")
	}
}
