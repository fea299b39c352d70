package transport_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/env/virtual"
	"github.com/ecrec/ecrec/transport"
	"github.com/ecrec/ecrec/transport/transporttest"
)

func TestNetworkKeepsTheContract(t *testing.T) {
	for _, spec := range []string{"100Gb/s,50us", "100GB/s,0s"} {
		t.Run(spec[:3], func(t *testing.T) {
			transporttest.Run(t, func(t *testing.T, n int) []transport.Endpoint {
				return transport.NewNetwork(env.Real(), n, 42, parseLink(t, spec))
			})
		})
	}
}

// networks are the two implementations of one model of links.
var networks = []struct {
	name string
	make func(e env.Env, n int, l transport.EmulatedLink) []transport.Endpoint
}{
	{"NewNetwork", func(e env.Env, n int, l transport.EmulatedLink) []transport.Endpoint {
		return transport.NewNetwork(e, n, 1, l)
	}},
	{"EmulateLink", func(e env.Env, n int, l transport.EmulatedLink) []transport.Endpoint {
		eps := transport.NewMem(e, n, 1)
		for i := range eps {
			eps[i] = transport.EmulateLink(e, eps[i], l)
		}
		return eps
	}},
}

// move is a message that is posted at time 0.
type move struct {
	from, to, bytes int
	tag             transport.Tag
}

// runMoves returns when each receive is done, in virtual time.
func runMoves(t *testing.T, seed uint64, n int, make_ func(env.Env, int, transport.EmulatedLink) []transport.Endpoint, l transport.EmulatedLink,
	moves []move) (done []time.Duration) {
	t.Helper()
	done = make([]time.Duration, len(moves))
	if err := virtual.Run(seed, func(e env.Env) error {
		eps := make_(e, n, l)
		var waits []*env.Event
		wait := func(r transport.Request, then func()) {
			over := env.NewEvent(e, "over")
			waits = append(waits, over)
			e.Go("wait", func() {
				err := r.Wait()
				then()
				over.Set(err)
			})
		}
		for i, m := range moves {
			wait(eps[m.to].Recv(m.from, m.tag, make([]byte, m.bytes)), func() { done[i] = e.Now() })
			wait(eps[m.from].Send(m.to, m.tag, make([]byte, m.bytes)), func() {})
		}
		var errs []error
		for _, w := range waits {
			errs = append(errs, w.Wait())
		}
		for _, ep := range eps {
			errs = append(errs, ep.Close())
		}
		return errors.Join(errs...)
	}); err != nil {
		t.Fatal(err)
	}
	return done
}

// TestNetworkTimes compares times with formulas. Both implementations of the model must keep them: NewNetwork to a microsecond,
// EmulateLink to 60 us, the time for which its receiving ports do not count as idle. With several streams the times of some pieces
// are added.
func TestNetworkTimes(t *testing.T) {
	const size, latency = 10_000_000, 50 * time.Microsecond
	l := transport.EmulatedLink{BytesPerS: 1.25e9, Latency: latency}
	const pass = 8 * time.Millisecond // of size bytes
	allToAll := func(n int) (moves []move) {
		for from := range n {
			for k := 1; k < n; k++ {
				moves = append(moves, move{from, (from + k) % n, size / n, 1})
			}
		}
		return moves
	}
	for _, c := range []struct {
		name  string
		n     int
		moves []move
		last  time.Duration
	}{
		{"one message", 2, []move{{0, 1, size, 1}}, pass + latency},
		{"an empty message", 2, []move{{0, 1, 0, 1}}, latency},
		{"two messages of one stream", 2, []move{{0, 1, size, 1}, {0, 1, size, 1}}, 2*pass + latency},
		{"two tags", 2, []move{{0, 1, size, 1}, {0, 1, size, 2}}, 2*pass + latency},
		{"both ways", 2, []move{{0, 1, size, 1}, {1, 0, size, 1}}, pass + latency},
		{"one sender", 4, []move{{0, 1, size, 1}, {0, 2, size, 1}, {0, 3, size, 1}}, 3*pass + latency},
		{"one receiver", 4, []move{{1, 0, size, 1}, {2, 0, size, 1}, {3, 0, size, 1}}, 3*pass + latency},
		{"all to all of 4", 4, allToAll(4), 3*pass/4 + latency},
		{"all to all of 8", 8, allToAll(8), 7*pass/8 + latency},
	} {
		for i, w := range networks {
			most := []time.Duration{time.Microsecond, 60 * time.Microsecond}[i]
			if c.n > 2 { // the order of pieces of several streams leaves a port idle
				most += []time.Duration{60 * time.Microsecond, 300 * time.Microsecond}[i]
			}
			for seed := range uint64(3) {
				done, last := runMoves(t, seed, c.n, w.make, l, c.moves), time.Duration(0)
				for _, d := range done {
					last = max(last, d)
				}
				if off := last - c.last; off < -most || off > most {
					t.Errorf("%s, %s, seed %d: all are done after %v, want %v", w.name, c.name, seed, last, c.last)
				}
			}
		}
	}
}

// A short message does not wait until a long one of another stream has left.
func TestNetworkIsSharedFairly(t *testing.T) {
	l := transport.EmulatedLink{BytesPerS: 1.25e9, Latency: 50 * time.Microsecond}
	for _, w := range networks {
		done := runMoves(t, 1, 3, w.make, l, []move{{0, 1, 10_000_000, 1}, {0, 1, 8, 2}, {0, 2, 8, 1}})
		for _, d := range done[1:] {
			if most := 250 * time.Microsecond; d > most {
				t.Errorf("%s: a short message is done after %v, more than %v", w.name, d, most)
			}
		}
	}
}

// A message with a receive that is posted late takes the receiver's port only then.
func TestNetworkWaitsForReceives(t *testing.T) {
	l := transport.EmulatedLink{BytesPerS: 1e9}
	err := virtual.Run(1, func(e env.Env) error {
		eps := transport.NewNetwork(e, 2, 1, l)
		s := eps[0].Send(1, 1, make([]byte, 1e6)) // 1 ms
		e.Sleep(5 * time.Millisecond)
		if err := eps[1].Recv(0, 1, make([]byte, 1e6)).Wait(); err != nil {
			return err
		}
		// the last of the 16 pieces that wait passes 15 after the first one
		if now, want := e.Now(), 5*time.Millisecond+time.Millisecond*15/16; now < want || now > want+50*time.Microsecond {
			t.Errorf("done at %v, want %v", now, want)
		}
		return errors.Join(s.Wait(), eps[0].Close(), eps[1].Close())
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Random messages of many ranks arrive at the same times in every run of a seed, and nearly at those of EmulateLink.
func TestNetworkIsEmulateLink(t *testing.T) {
	l := transport.EmulatedLink{BytesPerS: 1.25e9, Latency: 50 * time.Microsecond}
	var moves []move
	const n = 5
	for i := range 200 {
		from, k := i*7%n, 1+i*11%(n-1)
		moves = append(moves, move{from, (from + k) % n, 1 + i*i*131%400_000, transport.Tag(i % 3)})
	}
	last := func(done []time.Duration) (at time.Duration) {
		for _, d := range done {
			at = max(at, d)
		}
		return at
	}
	got := runMoves(t, 1, n, networks[0].make, l, moves)
	if again := runMoves(t, 1, n, networks[0].make, l, moves); fmt.Sprint(got) != fmt.Sprint(again) {
		t.Error("two runs of a seed differ")
	}
	a, b := last(got), last(runMoves(t, 1, n, networks[1].make, l, moves))
	if ratio := float64(a) / float64(b); ratio < 0.97 || ratio > 1.03 {
		t.Errorf("all messages take %v, over emulated links %v", a, b)
	}
}
