package collectives_test

import (
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// plainStream is the part of a CPU stream that collectives use.
type plainStream struct{ kernels.Stream }

func (plainStream) Sync() error                  { return nil }
func (plainStream) Copy(dst, src kernels.Buffer) { copy(dst.Host(), src.Host()) }
func (plainStream) Add(dst, src kernels.Buffer) {
	d, s := kernels.HostView[float32](dst), kernels.HostView[float32](src)
	s = s[:len(d)]
	for i := range d {
		d[i] += s[i]
	}
}

// plainDevice allocates on the Go heap and counts what is not freed.
type plainDevice struct {
	kernels.Device
	live atomic.Int64
}

func (d *plainDevice) Alloc(bytes int, _ kernels.Use) (kernels.Buffer, error) {
	d.live.Add(1)
	return kernels.HostBuffer(make([]uint64, (bytes+7)/8)).Slice(0, bytes), nil
}

func (d *plainDevice) Free(kernels.Buffer) { d.live.Add(-1) }

// group is a world with one communicator for each rank.
type group struct {
	eps   []transport.Endpoint
	comms []*collectives.Comm
}

func newGroup(tb testing.TB, eps []transport.Endpoint) *group {
	g := &group{eps: eps}
	dev := &plainDevice{}
	for _, ep := range eps {
		g.comms = append(g.comms, collectives.New(env.Real(), ep, 5, dev, plainStream{}))
	}
	tb.Cleanup(func() {
		for _, c := range g.comms {
			c.Close()
		}
		for _, ep := range g.eps {
			_ = ep.Close()
		}
		if n := dev.live.Load(); n != 0 {
			tb.Errorf("%d allocations are not freed", n)
		}
	})
	return g
}

func mem(n int) []transport.Endpoint { return transport.NewMem(env.Real(), n, 3) }

// all starts an operation on every rank and waits for all; it returns the errors.
func (g *group) all(start func(rank int, c *collectives.Comm) *collectives.Handle) []error {
	handles := make([]*collectives.Handle, len(g.comms))
	for r, c := range g.comms {
		handles[r] = start(r, c)
	}
	errs := make([]error, len(handles))
	for r, h := range handles {
		errs[r] = h.Wait()
	}
	return errs
}

func (g *group) ok(tb testing.TB, start func(rank int, c *collectives.Comm) *collectives.Handle) {
	tb.Helper()
	for r, err := range g.all(start) {
		if err != nil {
			tb.Fatalf("rank %d: %v", r, err)
		}
	}
}
