package collectives_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/transport"
)

// faulty returns in-memory endpoints with injected faults.
func faulty(t *testing.T, n int, seed uint64, spec string) []transport.Endpoint {
	t.Helper()
	faults, err := transport.ParseFaults(seed, spec)
	if err != nil {
		t.Fatal(err)
	}
	eps := mem(n)
	for i := range eps {
		eps[i] = transport.Wrap(env.Real(), eps[i], faults)
	}
	return eps
}

// TestOperationsUnderDelays runs random operations of random sizes one after the other
// and several at a time. It checks each result.
func TestOperationsUnderDelays(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for n := 1; n <= 5; n++ {
		g := newGroup(t, faulty(t, n, seed, "delay(200us, p=0.2); delay(1ms, p=0.02)"))
		for range 12 {
			switch r.IntN(6) {
			case 0:
				g.checkAllToAllV(t, r, 1<<r.IntN(16))
			case 1:
				g.checkAllGatherV(t, r, 1<<r.IntN(16), r.IntN(2) == 0)
			case 2:
				g.checkBroadcast(t, r, r.IntN(700_000), r.IntN(n))
			case 3:
				g.ok(t, func(_ int, c *collectives.Comm) *collectives.Handle { return c.Barrier() })
			case 4:
				g.checkAllGather(t, r, r.IntN(100))
			case 5:
				length := r.IntN(1 << r.IntN(20))
				g.checkAllReduce(t, fmt.Sprintf("%d ranks", n), fill(n, length, func(int, int) float32 {
					return r.Float32() - 0.5
				}))
			}
		}
	}
}

// TestManyOperationsAtOnce keeps the queue full, on two channels of one set of endpoints.
func TestManyOperationsAtOnce(t *testing.T) {
	const n, operations, floats = 3, 200, 500
	eps := mem(n)
	first := newGroup(t, eps)
	second := &group{comms: newComms(t, eps, 6, newDevice(t))}
	data := make([][]float32, 2*n*operations)
	handles := make([]*collectives.Handle, len(data))
	start := func(g *group, c, rank, i int) {
		k := (c*n+rank)*operations + i
		data[k] = make([]float32, floats)
		for j := range data[k] {
			data[k][j] = float32((c + 1) * (rank + 1) * (i + j))
		}
		handles[k] = g.comms[rank].AllReduce(kernels.HostBuffer(data[k])).Start()
	}
	done := make(chan struct{})
	for rank := range n {
		go func() {
			for i := range operations {
				start(first, 0, rank, i)
				start(second, 1, rank, i)
			}
			done <- struct{}{}
		}()
	}
	for range n {
		<-done
	}
	for k, h := range handles {
		if err := h.Wait(); err != nil {
			t.Fatal(err)
		}
		c, i := k/(n*operations), k%operations
		for j, x := range data[k] {
			if want := float32((c + 1) * 6 * (i + j)); x != want {
				t.Fatalf("channel %d operation %d element %d: %g, want %g", c, i, j, x, want)
			}
		}
	}
}

// TestLostRank lets rank 1 of 4 die, or be lost to rank 0, at each of its messages in
// turn. On every rank every operation then succeeds or fails with an error that names
// rank 1. No rank hangs. After one operation failed, all later ones fail with the same
// error.
func TestLostRank(t *testing.T) {
	const n, length = 4, 6 * 16384 // one and a half chunks for each rank
	operations := []struct {
		name  string
		start func(rank int, c *collectives.Comm) *collectives.Handle
	}{
		{"AllReduce", func(_ int, c *collectives.Comm) *collectives.Handle { return c.AllReduce(newBuffer(4 * length)) }},
		{"AllToAllV", func(_ int, c *collectives.Comm) *collectives.Handle {
			counts := []int{100, 100, 100, 100}
			return c.AllToAllV(newBuffer(400), counts, newBuffer(400), counts)
		}},
		{"AllGather", func(_ int, c *collectives.Comm) *collectives.Handle {
			return c.AllGather(newBuffer(400), newBuffer(100))
		}},
		{"Broadcast", func(_ int, c *collectives.Comm) *collectives.Handle { return c.Broadcast(newBuffer(200_000), 0) }},
		{"Barrier", func(_ int, c *collectives.Comm) *collectives.Handle { return c.Barrier() }},
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for _, action := range []string{"die(rank=1", "lose(rank=0, peer=1"} {
		for _, direction := range []string{"send", "recv"} {
			for after := range 9 {
				spec := fmt.Sprintf("%s, %s, after=%d); delay(100us, p=0.1)", action, direction, after)
				for _, op := range operations {
					t.Run(op.name+" "+spec, func(t *testing.T) {
						g := newGroup(t, faulty(t, n, seed, spec))
						handles := make([][3]*collectives.Handle, n)
						for r, c := range g.comms {
							for i := range handles[r] {
								handles[r][i] = op.start(r, c).Start()
							}
						}
						for r := range n {
							checkLoss(t, r, handles[r][:])
						}
					})
				}
			}
		}
	}
}

// checkLoss waits for a rank's operations.
func checkLoss(t *testing.T, rank int, handles []*collectives.Handle) {
	var first error
	for i, h := range handles {
		ended := make(chan error, 1)
		go func() { ended <- h.Wait() }()
		var err error
		select {
		case err = <-ended:
		case <-time.After(20 * time.Second):
			t.Fatalf("rank %d hangs in operation %d", rank, i)
		}
		var lost *transport.PeerLost
		switch {
		case first != nil && err != first:
			t.Errorf("rank %d operation %d: got %v after %v", rank, i, err, first)
		case err == nil:
		case errors.As(err, &lost) && lost.Rank == 1:
			first = err
		case rank == 1 && errors.Is(err, transport.ErrClosed):
			first = err
		default:
			t.Errorf("rank %d operation %d: got %v, want PeerLost of rank 1", rank, i, err)
		}
	}
}

// TestUnequalLengthsFailEverywhere: if ranks disagree about a length, the receivers get
// an error with both lengths, and the next operation fails on all ranks.
func TestUnequalLengthsFailEverywhere(t *testing.T) {
	g := newGroup(t, mem(3))
	errs := g.all(func(r int, c *collectives.Comm) *collectives.Handle {
		return c.AllGatherV(newBuffer(20+r), []int{8, 8, 4 + r}, newBuffer([]int{8, 8, 6}[r]))
	})
	var wrong *transport.LengthError
	if !errors.As(errs[0], &wrong) && !errors.As(errs[1], &wrong) {
		t.Fatalf("no receiver reports the lengths: %v", errs)
	}
	if wrong.From != 2 || wrong.Sent != 6 || wrong.Wants != 4+wrong.To {
		t.Errorf("got %v", wrong)
	}
	for r, err := range g.all(func(_ int, c *collectives.Comm) *collectives.Handle { return c.Barrier() }) {
		if err == nil {
			t.Errorf("rank %d: an operation succeeded after the failure", r)
		}
	}
}

type failingDevice struct{ kernels.Device }

func (failingDevice) Alloc(int, kernels.Use) (kernels.Buffer, error) {
	return kernels.Buffer{}, errors.New("out of memory")
}

func TestAllReduceWithoutScratchFailsEverywhere(t *testing.T) {
	eps := mem(2)
	g := newGroup(t, eps[:1])
	g.comms = append(g.comms, newComms(t, eps[1:], 5, failingDevice{newDevice(t)})...)
	errs := g.all(func(_ int, c *collectives.Comm) *collectives.Handle { return c.AllReduce(newBuffer(64)) })
	var lost *transport.PeerLost
	if !errors.As(errs[0], &lost) || lost.Rank != 1 || errs[1] == nil || errs[1].Error() != "out of memory" {
		t.Fatalf("got %v", errs)
	}
}
