package lrpp

import (
	"fmt"
	"testing"

	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/placement"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/transport"
)

// BenchmarkBags plans steps of MLPerf's DLRM-DCNv2 on one rank: 26 tables of at most 2.4 million rows, 214 ids a sample.
func BenchmarkBags(b *testing.B) {
	tables, err := data.Tables("criteo-terabyte-40m")
	if err != nil {
		b.Fatal(err)
	}
	for t := range tables {
		tables[t] = min(tables[t], 2_400_000)
	}
	hots, err := data.HotSet("mlperf")
	if err != nil {
		b.Fatal(err)
	}
	const samples = 65536
	src, err := data.Open(data.Options{Format: data.FormatSynthetic, Tables: tables, Hots: hots, Seed: 42})
	if err != nil {
		b.Fatal(err)
	}
	order := data.Order{Samples: src.Len(), Batch: samples}
	batches := make([]data.Batch, 3)
	for i := range batches {
		if err := src.Read(&batches[i], order.Slice(int64(i+1), 0, 1, nil)); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("read", func(b *testing.B) {
		var batch data.Batch
		idx := order.Slice(1, 0, 1, nil)
		for b.Loop() {
			if err := src.Read(&batch, idx); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, c := range []struct {
		mode    Mode
		threads int
	}{{Direct, 1}, {Direct, 2}, {Planned, 1}, {Planned, 2}, {Cached, 1}} {
		b.Run(fmt.Sprintf("%v/threads=%d", Modes[c.mode].Name, c.threads), func(b *testing.B) {
			mode, threads := c.mode, kernels.NewThreads(c.threads)
			defer threads.Close()
			e := env.Real()
			dev, err := kernels.NewCPU(kernels.CPUOptions{})
			if err != nil {
				b.Fatal(err)
			}
			s := dev.Stream(1)
			defer s.Close()
			ep := transport.NewMem(e, 1, 1)[0]
			defer ep.Close()
			comm := collectives.New(e, ep, 1, dev, s)
			defer comm.Close()
			p := NewPlanner(comm, placement.New(tables, 1), PlanOptions{Mode: mode, DelayedSync: true, Trainers: 1, Lookahead: 1, Threads: threads})
			steps := make([]Step, 4)
			filled := 0
			fill := func() {
				x := &batches[filled%len(batches)]
				if err := p.Fill(&steps[filled%len(steps)], Lookups{IDs: x.IDs, Offsets: x.Offsets, Weights: x.Weights}); err != nil {
					b.Fatal(err)
				}
				filled++
			}
			fill()
			fill()
			plan := func() {
				i := filled - 2
				var prev *Step
				if i > 0 {
					prev = &steps[(i-1)%len(steps)]
				}
				if err := p.Plan(prev, &steps[i%len(steps)], &steps[(i+1)%len(steps)]); err != nil {
					b.Fatal(err)
				}
			}
			plan()
			for range 3 {
				fill()
				plan()
			}
			for b.Loop() {
				fill()
				plan()
			}
		})
	}
}
