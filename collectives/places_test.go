package collectives_test

import (
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/transport"
)

// joinHosts returns the endpoints of ranks with a process each, on some hosts.
func joinHosts(t *testing.T, hosts ...string) []transport.Endpoint {
	t.Helper()
	processes, listeners := make([]transport.Process, len(hosts)), make([]net.Listener, len(hosts))
	for i, host := range hosts {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		processes[i], listeners[i] = transport.Process{Ranks: []int{i}, Addr: l.Addr().String(), Host: host}, l
	}
	eps, errs := make([]transport.Endpoint, len(hosts)), make(chan error, len(hosts))
	for i := range hosts {
		go func() {
			mine, err := transport.Join(transport.NetOptions{Env: env.Real(), Generation: 1, Secret: []byte("swordfish"), Processes: processes,
				Self: i, Listener: listeners[i], Heartbeat: 2 * time.Second, Timeout: time.Minute, SharedMemory: true})
			if err == nil {
				eps[i] = mine[0]
			}
			errs <- err
		}()
	}
	for range hosts {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	return eps
}

// TestPlacesAreSentOnce: between hosts, only the first AllReduce finds out that no rank reads another's memory.
func TestPlacesAreSentOnce(t *testing.T) {
	const floats = 1 << 18
	for _, hosts := range [][]string{{"a", "b"}, {"a", "a", "b"}} {
		n := len(hosts)
		eps, counts := joinHosts(t, hosts...), make([]*sending, n)
		for i, ep := range eps {
			v, ok := ep.(transport.Viewer)
			if !ok {
				t.Fatal("no Viewer")
			}
			counts[i] = &sending{Endpoint: ep}
			eps[i] = counting{v, counts[i]}
		}
		g, b := newGroup(t, eps), sharedBuffers(t, n, 4*floats, rand.New(rand.NewPCG(1, 2)))
		for round := range 3 {
			before := make([]int64, n)
			for i, c := range counts {
				before[i] = c.messages.Load()
			}
			g.ok(t, func(i int, c *collectives.Comm) *collectives.Handle { return c.AllReduce(b[i]) })
			for i, c := range counts {
				want := collectives.AllReduceSent(n, i, floats, false).Messages
				if round == 0 {
					want += int64(n - 1)
				}
				if got := c.messages.Load() - before[i]; got != want {
					t.Errorf("hosts %v: rank %d sent %d messages in AllReduce %d, want %d", hosts, i, got, round, want)
				}
			}
		}
	}
}
