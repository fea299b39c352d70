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

// countingDevice is the CPU device. It counts allocations that are not freed.
type countingDevice struct {
	kernels.Device
	live atomic.Int64
}

func (d *countingDevice) Alloc(bytes int, use kernels.Use) (kernels.Buffer, error) {
	d.live.Add(1)
	return d.Device.Alloc(bytes, use)
}

func (d *countingDevice) Free(b kernels.Buffer) {
	d.live.Add(-1)
	d.Device.Free(b)
}

func newDevice(tb testing.TB) kernels.Device {
	tb.Helper()
	cpu, err := kernels.NewCPU(kernels.CPUOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	dev := &countingDevice{Device: cpu}
	tb.Cleanup(func() {
		if n := dev.live.Load(); n != 0 {
			tb.Errorf("%d allocations are not freed", n)
		}
	})
	return dev
}

// group is a set of connected endpoints with one communicator for each rank.
type group struct {
	eps   []transport.Endpoint
	comms []*collectives.Comm
}

func newGroup(tb testing.TB, eps []transport.Endpoint) *group {
	tb.Helper()
	g := &group{eps: eps}
	tb.Cleanup(func() {
		for _, ep := range g.eps {
			_ = ep.Close()
		}
	})
	g.comms = newComms(tb, eps, 5, newDevice(tb))
	return g
}

// newComms returns a communicator for each endpoint.
func newComms(tb testing.TB, eps []transport.Endpoint, channel uint16, dev kernels.Device) []*collectives.Comm {
	var comms []*collectives.Comm
	for _, ep := range eps {
		s := dev.Stream(1)
		c := collectives.New(env.Real(), ep, channel, dev, s)
		tb.Cleanup(func() {
			c.Close()
			s.Close()
		})
		comms = append(comms, c)
	}
	return comms
}

func mem(n int) []transport.Endpoint { return transport.NewMem(env.Real(), n, 3) }

// all starts an operation on every rank, waits for all, and returns the errors.
func (g *group) all(start func(rank int, c *collectives.Comm) *collectives.Handle) []error {
	handles := make([]*collectives.Handle, len(g.comms))
	for r, c := range g.comms {
		handles[r] = start(r, c).Start()
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
