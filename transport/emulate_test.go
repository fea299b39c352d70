package transport_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/transport"
	"github.com/ecrec/ecrec/transport/transporttest"
)

func parseLink(tb testing.TB, spec string) transport.EmulatedLink {
	tb.Helper()
	l, err := transport.ParseEmulatedLink(spec)
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

// linked connects endpoints by emulated links.
func linked(tb testing.TB, eps []transport.Endpoint, spec string) []transport.Endpoint {
	tb.Helper()
	e := env.Real()
	for i := range eps {
		eps[i] = transport.EmulateLink(e, eps[i], parseLink(tb, spec))
	}
	return eps
}

func TestLinkKeepsTheContract(t *testing.T) {
	for _, spec := range []string{"100Gb/s,50us", "100GB/s,0s"} {
		t.Run(strings.ReplaceAll(spec, "/", " per "), func(t *testing.T) {
			transporttest.Run(t, func(t *testing.T, n int) []transport.Endpoint { return linked(t, mem(t, n), spec) })
		})
	}
}

func TestLinkBetweenProcessesKeepsTheContract(t *testing.T) {
	transporttest.Run(t, func(t *testing.T, n int) []transport.Endpoint {
		return linked(t, joinAll(t, n, 1, share), "10GB/s,50us")
	})
}

func TestLinkOverFaultsKeepsTheContract(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	transporttest.Run(t, func(t *testing.T, n int) []transport.Endpoint {
		return linked(t, faulty(t, n, seed, "delay(200us, p=0.05); delay(2ms, p=0.002, recv)"), "10GB/s,50us")
	})
}

// span is the times when a request was posted and done.
type span struct{ posted, done time.Duration }

// timed waits for a request on a goroutine of its own.
func timed(t *testing.T, e env.Env, posted time.Duration, r transport.Request) func() span {
	t.Helper()
	done := make(chan span, 1)
	go func() {
		if err := r.Wait(); err != nil {
			t.Error(err)
		}
		done <- span{posted, e.Now()}
	}()
	return func() span { return <-done }
}

func atLeast(t *testing.T, what string, got, want time.Duration) {
	t.Helper()
	t.Logf("%s took %v of %v", what, got, want)
	if got < want {
		t.Errorf("%s took %v, less than %v", what, got, want)
	}
}

// Lower bounds only: on a busy host, lateness proves nothing.
func TestLinkTiming(t *testing.T) {
	const size = 1 << 20
	const bandwidth, latency = 100e6, 2 * time.Millisecond
	transfer := time.Duration(size / bandwidth * float64(time.Second))
	// the time for which a port may count as idle before the first of many pieces
	const slack = time.Millisecond
	for _, c := range []struct {
		name  string
		moves [][2]int // from, to
		last  time.Duration
	}{
		{"one", [][2]int{{0, 1}}, transfer + latency},
		{"two to one rank", [][2]int{{0, 1}, {0, 1}}, 2*transfer + latency},
		{"two to two ranks", [][2]int{{0, 1}, {0, 2}}, 2*transfer + latency},
		{"from three to one", [][2]int{{0, 3}, {1, 3}, {2, 3}}, 3*transfer + latency - slack},
		{"both ways", [][2]int{{0, 1}, {1, 0}}, transfer + latency},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := env.Real()
			eps := linked(t, mem(t, 4), "800Mb/s,2ms")
			defer closeAll(t, eps)
			var sends, recvs []func() span
			first := e.Now()
			for i, m := range c.moves {
				tag := transport.Tag(i)
				recvs = append(recvs, timed(t, e, first, eps[m[1]].Recv(m[0], tag, make([]byte, size))))
				sends = append(sends, timed(t, e, first, eps[m[0]].Send(m[1], tag, make([]byte, size))))
			}
			last := time.Duration(0)
			for i := range c.moves {
				s, r := sends[i](), recvs[i]()
				atLeast(t, "a send", s.done-first, transfer)
				atLeast(t, "a receive", r.done-first, transfer+latency)
				last = max(last, r.done)
			}
			atLeast(t, "all", last-first, c.last)
		})
	}
}

// A short message is sent in turn: it does not wait until a long one has left.
func TestLinkIsSharedFairly(t *testing.T) {
	eps := linked(t, mem(t, 3), "10MB/s,0s")
	defer closeAll(t, eps)
	const long = 2 << 20 // 200 ms
	e := env.Real()
	r := timed(t, e, 0, eps[1].Recv(0, 1, make([]byte, long)))
	s := timed(t, e, 0, eps[0].Send(1, 1, make([]byte, long)))
	var word span
	for tag, to := range []int{1, 2} { // to the same rank and to another
		r := timed(t, e, 0, eps[to].Recv(0, transport.Tag(100+tag), make([]byte, 8)))
		word = timed(t, e, 0, eps[0].Send(to, transport.Tag(100+tag), make([]byte, 8)))()
		r()
	}
	if whole := r(); whole.done < word.done {
		t.Errorf("the long message arrived at %v, the short one left at %v", whole.done, word.done)
	}
	s()
}

// After a message of several pieces that matched a receive of another length, the stream
// continues in order.
func TestLinkKeepsAStreamAfterAWrongLength(t *testing.T) {
	for _, c := range [][2]int{{200_000, 8}, {8, 200_000}, {200_000, 131_072}, {131_072, 65_536}, {100_000, 0}} {
		eps := linked(t, mem(t, 2), "10GB/s,10us")
		s := eps[0].Send(1, 4, make([]byte, c[0]))
		var wrong *transport.LengthError
		if err := eps[1].Recv(0, 4, make([]byte, c[1])).Wait(); !errors.As(err, &wrong) || wrong.Sent != c[0] || wrong.Wants != c[1] {
			t.Errorf("%d bytes for a receive of %d: %v", c[0], c[1], err)
		}
		_ = s.Wait()
		want, got := bytes.Repeat([]byte("next"), 50_000), make([]byte, 200_000)
		s = eps[0].Send(1, 4, want)
		if err := errors.Join(eps[1].Recv(0, 4, got).Wait(), s.Wait()); err != nil || !bytes.Equal(got, want) {
			t.Errorf("the message after %d bytes for %d: %v", c[0], c[1], err)
		}
		closeAll(t, eps)
	}
}

// Requests that wait for a slow link end with the endpoint, and with the peer.
func TestSlowLinkEndsWithTheEndpoint(t *testing.T) {
	for _, closes := range []int{0, 1} {
		eps := linked(t, mem(t, 2), "0.001MB/s,1h")
		p := make([]byte, 1<<20)
		r, s := eps[1].Recv(0, 1, make([]byte, 1<<20)), eps[0].Send(1, 1, p)
		behind := eps[0].Send(1, 1, p)
		if err := eps[closes].Close(); err != nil {
			t.Fatal(err)
		}
		if err := r.Wait(); err == nil {
			t.Error("a message was received")
		}
		for _, s := range []transport.Request{s, behind} {
			err := s.Wait()
			if lost := new(transport.PeerLost); errors.As(err, &lost) != (closes == 1) || !errors.Is(err, transport.ErrClosed) {
				t.Errorf("rank %d closes: a send ends with %v", closes, err)
			}
		}
		closeAll(t, eps)
	}
}

func TestParseLink(t *testing.T) {
	for spec, want := range map[string]transport.EmulatedLink{
		"10Gb/s,50us":       {BytesPerS: 1.25e9, Latency: 50 * time.Microsecond},
		" 100Mb/s , 1ms ":   {BytesPerS: 12.5e6, Latency: time.Millisecond},
		"1.5GB/s,0s":        {BytesPerS: 1.5e9},
		"2.5 MB/s,1m":       {BytesPerS: 2.5e6, Latency: time.Minute},
		"0.001MB/s,1500ns ": {BytesPerS: 1000, Latency: 1500 * time.Nanosecond},
	} {
		if got, err := transport.ParseEmulatedLink(spec); err != nil || got != want {
			t.Errorf("%q: got %+v, %v", spec, got, err)
		}
	}
	for spec, says := range map[string]string{
		"":                 "comma is missing",
		"10Gb/s":           "comma is missing",
		"10Gbps,50us":      "not a bandwidth",
		"10,50us":          "not a bandwidth",
		"-1Gb/s,50us":      "not a bandwidth",
		"NaNGb/s,50us":     "not a bandwidth",
		"InfMB/s,50us":     "not a bandwidth",
		"0.0001MB/s,50us":  "not a bandwidth",
		"tenGb/s,50us":     "not a number",
		"10Gb/s,50":        "not a latency",
		"10Gb/s,-1us":      "not a latency",
		"10Gb/s,25h":       "not a latency",
		"10Gb/s,50us,50us": "not a latency",
	} {
		if l, err := transport.ParseEmulatedLink(spec); err == nil || !strings.Contains(err.Error(), says) ||
			!strings.Contains(err.Error(), fmt.Sprintf("%q", spec)) {
			t.Errorf("%q: got %+v, %v, want an error that says %q", spec, l, err, says)
		}
	}
}

// BenchmarkLink compares the performance of messages with the link's parameters.
func BenchmarkLink(b *testing.B) {
	for _, size := range []int{8, 64 << 10, 1 << 20, 12 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			const spec = "10Gb/s,50us"
			eps := linked(b, transport.NewMem(env.Real(), 2, 1), spec)
			defer func() { _, _ = eps[0].Close(), eps[1].Close() }()
			p, q := make([]byte, size), make([]byte, size)
			for b.Loop() {
				r := eps[1].Recv(0, 1, q)
				s := eps[0].Send(1, 1, p)
				if err := errors.Join(r.Wait(), s.Wait()); err != nil {
					b.Fatal(err)
				}
			}
			l := parseLink(b, spec)
			ideal := float64(size)/l.BytesPerS*1e9 + float64(l.Latency)
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/ideal, "x-ideal")
		})
	}
}
