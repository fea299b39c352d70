package shard

import (
	"math/rand/v2"
	"testing"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/placement"
	"github.com/ecrec/ecrec/kernels"
)

// BenchmarkAccess reads and updates the rows of a step, with all rows in memory and with frames for all of them.
func BenchmarkAccess(b *testing.B) {
	const rows, used, width = 1 << 20, 20000, 64
	for _, frames := range []int{0, rows} {
		b.Run(map[bool]string{true: "memory", false: "frames"}[frames == 0], func(b *testing.B) {
			dev, err := kernels.NewCPU(kernels.CPUOptions{})
			if err != nil {
				b.Fatal(err)
			}
			s := dev.Stream(1)
			defer s.Close()
			h, err := New(dev, s, Options{Map: placement.New([]int64{rows}, 1), Width: width, State: 1, Frames: frames})
			if err != nil {
				b.Fatal(err)
			}
			defer h.Close()
			if frames > 0 {
				h.OpenTier(env.Real(), newMemBelow(nil, 1))
			}
			r := rand.New(rand.NewPCG(1, 2))
			lists := make([][]int32, 20)
			for i := range lists {
				slot := int32(0)
				for len(lists[i]) < used {
					slot += int32(1 + r.IntN(2*rows/used-2))
					lists[i] = append(lists[i], slot%rows)
				}
			}
			out := make([]float32, used*width)
			m := kernels.Mat(kernels.HostBuffer(out), used, width)
			start, pos := make([]int32, used+1), make([]int32, used)
			for i := range used {
				start[i+1], pos[i] = int32(i+1), int32(i)
			}
			rule := kernels.WholeRow(kernels.Optimizer{Kind: kernels.RowwiseAdagrad, LR: 0.1})
			n := 0
			for b.Loop() {
				list := lists[n%len(lists)]
				n++
				if err := h.Read(m, list); err != nil {
					b.Fatal(err)
				}
				if err := h.Apply(rule, list, m, kernels.HostBuffer(start), kernels.HostBuffer(pos)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
