package transport_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/transport"
	"github.com/ecrec/ecrec/transport/transporttest"
)

// faulty returns in-memory endpoints with injected faults.
func faulty(t *testing.T, n int, seed uint64, spec string) []transport.Endpoint {
	t.Helper()
	faults, err := transport.ParseFaults(seed, spec)
	if err != nil {
		t.Fatal(err)
	}
	e := env.Real()
	eps := transport.NewMem(e, n, 42)
	for i := range eps {
		eps[i] = transport.Wrap(e, eps[i], faults)
	}
	return eps
}

func TestWrapWithoutFaults(t *testing.T) {
	transporttest.Run(t, func(t *testing.T, n int) []transport.Endpoint { return faulty(t, n, 1, "") })
}

func TestWrapWithDelays(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	transporttest.Run(t, func(t *testing.T, n int) []transport.Endpoint {
		return faulty(t, n, seed, "delay(200us, p=0.2); delay(2ms, p=0.01, recv)")
	})
}

func TestDelayedMessageIsOvertakenByOtherTags(t *testing.T) {
	eps := faulty(t, 2, 1, "delay(1h, rank=0, send, after=1); stall(rank=1, recv, after=2)")
	defer closeAll(t, eps)
	for range 3 { // the first is not delayed, the later ones may each wait up to an hour
		eps[0].Send(1, 7, []byte("slow"))
	}
	got := make([]byte, 4)
	if err := eps[1].Recv(0, 7, got).Wait(); err != nil || string(got) != "slow" {
		t.Fatalf("got %q, %v", got, err)
	}
	back := eps[0].Recv(1, 8, got)
	if err := eps[1].Send(0, 8, []byte("fast")).Wait(); err != nil {
		t.Fatal(err)
	}
	if err := back.Wait(); err != nil || string(got) != "fast" {
		t.Fatalf("got %q, %v", got, err)
	}
}

func closeAll(t *testing.T, eps []transport.Endpoint) {
	for _, ep := range eps {
		if err := ep.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestStallEndsWithTheEndpoint(t *testing.T) {
	eps := faulty(t, 2, 1, "stall(rank=0, send, after=1)")
	defer closeAll(t, eps)
	p := make([]byte, 8)
	r := eps[1].Recv(0, 1, p)
	if err := errors.Join(eps[0].Send(1, 1, p).Wait(), r.Wait()); err != nil {
		t.Fatalf("the message before the stall: %v", err)
	}
	stalled := make(chan error, 1)
	s := eps[0].Send(1, 1, p)
	go func() { stalled <- s.Wait() }()
	select {
	case err := <-stalled:
		t.Fatalf("the stalled send ended with %v", err)
	case <-time.After(10 * time.Millisecond):
	}
	cause := errors.New("world changed")
	eps[0].Abort(cause)
	if err := <-stalled; !errors.Is(err, cause) {
		t.Fatalf("got %v, want the abort's cause", err)
	}
}

func TestLoseAndDie(t *testing.T) {
	for _, c := range []struct {
		spec        string
		rank0, peer string // the errors of the two ends
	}{
		{"lose(rank=0, peer=1, send, after=1)", "rank 1 of generation 42 is lost: injected fault",
			"rank 1 of generation 42 is lost: injected fault"},
		{"die(rank=0, send, after=1)", "transport: endpoint closed", "rank 0 of generation 42 is lost: transport: endpoint closed"},
	} {
		eps := faulty(t, 2, 1, c.spec)
		p := make([]byte, 8)
		r := eps[1].Recv(0, 1, p)
		if err := errors.Join(eps[0].Send(1, 1, p).Wait(), r.Wait()); err != nil {
			t.Fatalf("%s: the message before: %v", c.spec, err)
		}
		r = eps[1].Recv(0, 1, p)
		if err := eps[0].Send(1, 1, p).Wait(); fmt.Sprint(err) != c.rank0 {
			t.Errorf("%s: rank 0 gets %v", c.spec, err)
		}
		if err := r.Wait(); fmt.Sprint(err) != c.peer {
			t.Errorf("%s: the peer gets %v", c.spec, err)
		}
		closeAll(t, eps)
	}
}

func TestFaultsAreAFunctionOfTheSeed(t *testing.T) {
	run := func(seed uint64) (faults []transport.Fault, hit int) {
		f, err := transport.ParseFaults(seed, "delay(1ms, p=0.1, send)")
		if err != nil {
			t.Fatal(err)
		}
		for i := range uint64(10_000) {
			x := f.Inject(transport.Message{Rank: 1, Peer: 0, Sending: true, Number: i})
			if x.Delay > 0 {
				hit++
			}
			if x.Delay > time.Millisecond {
				t.Fatalf("a delay of %v", x.Delay)
			}
			faults = append(faults, x)
		}
		return faults, hit
	}
	a, hit := run(1)
	b, _ := run(1)
	c, _ := run(2)
	if fmt.Sprint(a) != fmt.Sprint(b) || fmt.Sprint(a) == fmt.Sprint(c) {
		t.Fatal("faults do not depend on the seed alone")
	}
	if hit < 900 || hit > 1100 {
		t.Fatalf("%d of 10,000 messages are delayed, p = 0.1", hit)
	}
}

func TestParseFaults(t *testing.T) {
	f, err := transport.ParseFaults(9, " lose(rank=0, send, peer=2, after=100) ; stall( rank=1,recv);die(p=1, rank=3);")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		m    transport.Message
		want transport.Fault
	}{
		{transport.Message{Rank: 0, Peer: 2, Sending: true, Number: 100}, transport.Fault{Lose: true}},
		{transport.Message{Rank: 0, Peer: 2, Sending: true, Number: 99}, transport.Fault{}},
		{transport.Message{Rank: 0, Peer: 1, Sending: true, Number: 100}, transport.Fault{}},
		{transport.Message{Rank: 0, Peer: 2, Sending: false, Number: 100}, transport.Fault{}},
		{transport.Message{Rank: 1, Peer: 2, Sending: false}, transport.Fault{Stall: true}},
		{transport.Message{Rank: 1, Peer: 2, Sending: true}, transport.Fault{}},
		{transport.Message{Rank: 3, Peer: 0, Sending: true}, transport.Fault{Die: true}},
	} {
		if got := f.Inject(c.m); got != c.want {
			t.Errorf("%+v: got %+v, want %+v", c.m, got, c.want)
		}
	}
	for spec, says := range map[string]string{
		"explode()":          `unknown action "explode"`,
		"delay":              "want action(condition, ...)",
		"delay()":            "takes a duration",
		"delay(-1ms)":        "takes a duration",
		"delay(25h)":         "takes a duration",
		"stall(1ms)":         "takes a duration",
		"lose(pear=1)":       "unknown condition",
		"lose(peer=-1)":      "invalid syntax",
		"lose(p=1.5)":        "probability",
		"lose(p=NaN)":        "probability",
		"delay(1ms) lose(x)": "unknown condition",
	} {
		if _, err := transport.ParseFaults(1, spec); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want an error that says %q", spec, err, says)
		}
	}
}

func FuzzParseFaults(f *testing.F) {
	f.Add("lose(rank=0, send, peer=2, after=100); delay(1.5ms, p=0.25, recv)")
	f.Fuzz(func(t *testing.T, spec string) {
		faults, err := transport.ParseFaults(1, spec)
		if err != nil {
			return
		}
		for i := range uint64(4) {
			if x := faults.Inject(transport.Message{Rank: 0, Peer: 1, Sending: i%2 == 0, Number: i}); x.Delay < 0 {
				t.Fatalf("%q delays by %v", spec, x.Delay)
			}
		}
	})
}
