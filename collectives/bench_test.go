package collectives_test

import (
	"fmt"
	"testing"

	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/kernels"
)

// bench times one operation on all ranks. As in nccl-tests, algbw is bytes/time. busbw is
// algbw * factor, the data that every rank must send and receive in any algorithm per
// time.
func bench(b *testing.B, ranks, bytes int, factor float64, start func(rank int, c *collectives.Comm) *collectives.Handle) {
	g := newGroup(b, mem(ranks))
	g.ok(b, start)
	b.ReportAllocs()
	b.ResetTimer()
	handles := make([]*collectives.Handle, ranks)
	for range b.N {
		for r, c := range g.comms {
			handles[r] = start(r, c).Start()
		}
		for _, h := range handles {
			if err := h.Wait(); err != nil {
				b.Fatal(err)
			}
		}
	}
	algbw := float64(bytes) * float64(b.N) / b.Elapsed().Seconds() / 1e9
	b.ReportMetric(algbw, "algGB/s")
	b.ReportMetric(algbw*factor, "busGB/s")
}

func BenchmarkAllReduce(b *testing.B) {
	for _, ranks := range []int{2, 4} {
		for _, bytes := range []int{4 << 10, 64 << 10, 1 << 20, 12_000_000} {
			b.Run(fmt.Sprintf("ranks=%d/bytes=%d", ranks, bytes), func(b *testing.B) {
				buf := make([]kernels.Buffer, ranks)
				for r := range buf {
					buf[r] = newBuffer(bytes)
				}
				bench(b, ranks, bytes, 2*float64(ranks-1)/float64(ranks), func(r int, c *collectives.Comm) *collectives.Handle {
					return c.AllReduce(buf[r])
				})
			})
		}
	}
}

func BenchmarkAllToAllV(b *testing.B) {
	for _, ranks := range []int{2, 4} {
		for _, bytes := range []int{4 << 10, 10_000_000} {
			b.Run(fmt.Sprintf("ranks=%d/bytes=%d", ranks, bytes), func(b *testing.B) {
				src, dst := make([]kernels.Buffer, ranks), make([]kernels.Buffer, ranks)
				counts := make([]int, ranks)
				for r := range ranks {
					counts[r] = bytes / ranks
					src[r], dst[r] = newBuffer(bytes), newBuffer(bytes)
				}
				bench(b, ranks, bytes, float64(ranks-1)/float64(ranks), func(r int, c *collectives.Comm) *collectives.Handle {
					return c.AllToAllV(dst[r], counts, src[r], counts)
				})
			})
		}
	}
}

func BenchmarkAllGatherStepStatus(b *testing.B) {
	for _, ranks := range []int{2, 4} {
		b.Run(fmt.Sprintf("ranks=%d", ranks), func(b *testing.B) {
			src, dst := make([]kernels.Buffer, ranks), make([]kernels.Buffer, ranks)
			for r := range ranks {
				src[r], dst[r] = newBuffer(64), newBuffer(64*ranks)
			}
			bench(b, ranks, 64, float64(ranks-1), func(r int, c *collectives.Comm) *collectives.Handle {
				return c.AllGather(dst[r], src[r])
			})
		})
	}
}
