package transport_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/transport"
	"github.com/ecrec/ecrec/transport/transporttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func mem(_ *testing.T, n int) []transport.Endpoint {
	return transport.NewMem(env.Real(), n, 42)
}

func TestMem(t *testing.T) { transporttest.Run(t, mem) }

func TestMemSteadyStateAllocatesNothing(t *testing.T) {
	eps := mem(t, 2)
	p, q := make([]byte, 64), make([]byte, 64)
	allocs := testing.AllocsPerRun(1000, func() {
		r := eps[1].Recv(0, 1, q)
		s := eps[0].Send(1, 1, p)
		if s.Wait() != nil || r.Wait() != nil {
			t.Fatal("exchange failed")
		}
	})
	if allocs != 0 {
		t.Fatalf("an exchange allocates %v times", allocs)
	}
}

func mustPanic(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s does not panic", what)
		}
	}()
	f()
}

func TestMemMisusePanics(t *testing.T) {
	eps := mem(t, 2)
	mustPanic(t, "sending to oneself", func() { eps[0].Send(0, 1, nil) })
	mustPanic(t, "receiving from rank 2 of 2", func() { eps[0].Recv(2, 1, nil) })
	r, s := eps[1].Recv(0, 1, nil), eps[0].Send(1, 1, nil)
	if s.Wait() != nil || r.Wait() != nil {
		t.Fatal("exchange failed")
	}
	mustPanic(t, "waiting twice", func() { _ = r.Wait() })
	for range transport.MaxPosted {
		eps[0].Send(1, 2, nil)
	}
	mustPanic(t, "posting too much", func() { eps[0].Send(1, 2, nil) })
}

func BenchmarkMemRoundTrip(b *testing.B) {
	eps := mem(nil, 2)
	go func() {
		p := make([]byte, 64)
		for eps[1].Recv(0, 1, p).Wait() == nil && eps[1].Send(0, 1, p).Wait() == nil {
		}
	}()
	p := make([]byte, 64)
	for b.Loop() {
		r := eps[0].Recv(1, 1, p)
		_ = eps[0].Send(1, 1, p).Wait()
		_ = r.Wait()
	}
	_ = eps[0].Close()
}
