package feed

import (
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/placement"
	"github.com/ecrec/ecrec/internal/probe"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/lrpp"
	"github.com/ecrec/ecrec/transport"
)

// given are slices of a sample each, one for each step, and the error after them.
type given struct {
	step, steps int64
	end         error
}

func (g *given) Next() (*data.Batch, error) {
	if g.step == g.steps {
		return nil, g.end
	}
	g.step++
	return &data.Batch{Step: g.step, GlobalN: 2, N: 1, IDs: []uint32{uint32(g.step) % 3, 1}}, nil
}

func (g *given) Release(*data.Batch) {}
func (g *given) Close()              {}

// TestLossWhileFilling: rank 1 cannot get its slice of a step, since a rank is lost, when the slices of rank 0 have ended before that step or
// not. Rank 1 does not plan the steps that lack it, nor does it send what rank 0 does not expect: rank 0 ends with the loss too.
func TestLossWhileFilling(t *testing.T) {
	const steps = 3
	lost := &transport.PeerLost{Rank: 2, Generation: 1, Cause: errors.New("power")}
	for name, more := range map[string]int64{"rank 0 has ended": 0, "rank 0 has one more": 1, "rank 0 has many more": 9} {
		for _, mode := range []lrpp.Mode{lrpp.Direct, lrpp.Planned, lrpp.Cached} {
			e := env.Real()
			dev, err := kernels.NewCPU(kernels.CPUOptions{Poison: true})
			if err != nil {
				t.Fatal(err)
			}
			eps := transport.NewMem(e, 2, 1)
			errs := [2]error{}
			var all sync.WaitGroup
			for rank, g := range []*given{{steps: steps + more, end: io.EOF}, {steps: steps, end: lost}} {
				all.Go(func() {
					p := Start(Options{Env: e, Endpoint: eps[rank], Channel: 1, Host: dev, Lists: dev, Threads: 2, Place: placement.New([]int64{5, 4}, 2), TableOf: []int{0, 1},
						Steps: steps + more, Open: func(int) Batches { return g },
						Plan: lrpp.PlanOptions{Mode: mode, Trainers: 2, Lookahead: 2, DelayedSync: true}, Probe: probe.New(e, nil, nil)})
					for errs[rank] == nil {
						_, errs[rank] = p.Advance()
					}
					if errs[rank] != io.EOF { // rank 0 may have planned all
						p.Close(errs[rank])
					}
				})
			}
			over := make(chan struct{})
			go func() { all.Wait(); close(over) }()
			select {
			case <-over:
			case <-time.After(30 * time.Second):
				t.Fatalf("%s, %v: it hangs", name, mode)
			}
			if !errors.Is(errs[1], lost) {
				t.Errorf("%s, %v: rank 1 ends with %v", name, mode, errs[1])
			}
			if !errors.As(errs[0], new(*transport.PeerLost)) && errs[0] != io.EOF {
				t.Errorf("%s, %v: rank 0 ends with %v", name, mode, errs[0])
			}
		}
	}
}
