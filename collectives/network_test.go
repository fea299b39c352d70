package collectives_test

import (
	"errors"
	"testing"
	"time"

	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/env/virtual"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/transport"
)

// timeOf returns how long an operation takes on the slowest of n ranks, in virtual time.
func timeOf(t *testing.T, n int, l transport.EmulatedLink, operation func(c *collectives.Comm, rank int) error) (slowest time.Duration) {
	t.Helper()
	dev := newDevice(t)
	if err := virtual.Run(1, func(e env.Env) error {
		eps, ends := transport.NewNetwork(e, n, 1, l), []*env.Event(nil)
		for i, ep := range eps {
			over := env.NewEvent(e, "rank")
			ends = append(ends, over)
			e.Go("rank", func() {
				c := collectives.New(e, ep, 1, dev, dev.Stream(1))
				err := operation(c, i)
				slowest = max(slowest, e.Now())
				if err == nil {
					err = c.Barrier().Wait()
				}
				err = errors.Join(err, ep.Close())
				c.Close()
				over.Set(err)
			})
		}
		var errs []error
		for _, over := range ends {
			errs = append(errs, over.Wait())
		}
		return errors.Join(errs...)
	}); err != nil {
		t.Fatal(err)
	}
	return slowest
}

// TestNetworkTimes compares an all-reduce and an all-to-all of n ranks over links with the formulas of their docs: the bytes of a
// rank at the bandwidth of its link, and a latency for each step. Chunks of 128 KiB overlap the two halves of an all-reduce.
func TestNetworkTimes(t *testing.T) {
	l := transport.EmulatedLink{BytesPerS: 1.25e9, Latency: 50 * time.Microsecond}
	const bytes = 8 << 20
	pass := float64(bytes) / l.BytesPerS * float64(time.Second)
	buffer := func(bytes int) kernels.Buffer { return kernels.HostBuffer(make([]float32, bytes/4)) }
	for _, n := range []int{2, 4, 8, 16} {
		share := float64(n-1) / float64(n)
		got := timeOf(t, n, l, func(c *collectives.Comm, _ int) error { return c.AllReduce(buffer(bytes)).Wait() })
		least := time.Duration(2 * share * pass)
		if most := least + least/10 + 10*l.Latency; got < least || got > most {
			t.Errorf("all-reduce of %d bytes on %d ranks takes %v, want %v to %v", bytes, n, got, least, most)
		}
		got = timeOf(t, n, l, func(c *collectives.Comm, _ int) error { return c.AllToAll(buffer(bytes), buffer(bytes)).Wait() })
		least = time.Duration(share*pass) + l.Latency
		if most := least + least/20 + 6*l.Latency; got < least || got > most {
			t.Errorf("all-to-all of %d bytes on %d ranks takes %v, want %v to %v", bytes, n, got, least, most)
		}
	}
}
