package commit

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ecrec/ecrec/ec"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/placement"
	"github.com/ecrec/ecrec/kernels"
)

// cpuSeconds is the CPU time of this process.
func cpuSeconds(t testing.TB) float64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// BenchmarkRebuild rebuilds one of five owners, with all of its rows written or a third of them. It
// reports the CPU time of all owners per MB of rows and parities.
func BenchmarkRebuild(b *testing.B) {
	for _, part := range []int64{1, 3} {
		b.Run(fmt.Sprint("1 of ", part), func(b *testing.B) { benchmarkRebuild(b, part) })
	}
}

func benchmarkRebuild(b *testing.B, part int64) {
	const width = 16
	c := newClusterOf(b, ec.XOR, 5, 4, 1, 10, placement.New([]int64{2_000_000}, 5), width, width)
	for i, m := range c.members {
		r, slots := rand.New(rand.NewPCG(2, uint64(i))), []int32(nil)
		for slot := range m.h.Slots() {
			if r.Int64N(part) == 0 {
				slots = append(slots, int32(slot))
			}
		}
		r.Shuffle(len(slots), func(i, k int) { slots[i], slots[k] = slots[k], slots[i] }) // steps use them in any order
		m.h.Journal().Pause(true)
		if err := m.write(slots, width); err != nil {
			b.Fatal(err)
		}
		m.h.Journal().Pause(false)
		m.c.Begin(0, false)
	}
	all := make([]Loss, len(c.members))
	for i, m := range c.members {
		all[i] = Loss{Parities: m.p.Left().Parities}
	}
	c.rebuild(b, all)
	b.ResetTimer()
	cpu, bytes := 0.0, int64(0)
	for range b.N {
		b.StopTimer()
		fresh := c.newMember(b, 2, 10)
		fresh.c.Begin(0, false)
		fresh.p.Lose()
		c.members[2] = fresh
		lost := make([]Loss, len(c.members))
		lost[2] = fresh.p.Left()
		b.StartTimer()
		began := cpuSeconds(b)
		c.rebuild(b, lost)
		cpu += cpuSeconds(b) - began
		shards, _, _ := fresh.p.Rebuilt()
		bytes += shards * int64(fresh.h.RowBytes())
	}
	b.SetBytes(bytes / int64(b.N))
	b.ReportMetric(1e9*cpu/float64(bytes), "cpu-ms/MB")
}

// BenchmarkEpoch updates random rows in ten steps and commits them: without a code, with one, and
// with digests beside it. It reports the CPU time of all five owners per row written.
func BenchmarkEpoch(b *testing.B) {
	const steps, writes, width = 10, 1500, 16
	for _, name := range []string{"none", "xor", "xor and digests"} {
		b.Run(name, func(b *testing.B) {
			coded := name != "none"
			c := newClusterOf(b, ec.XOR, 5, 4, 1, steps, placement.New([]int64{10_000_000}, 5), width, width)
			for i, m := range c.members {
				if name == "xor and digests" {
					m.c = New(Options{Env: env.Real(), Shard: m.h, Every: steps, Sinks: []Sink{m.p, NewDigests()}})
				}
				if err := m.h.TouchAll(); err != nil {
					b.Fatal(err)
				}
				m.c.Begin(0, true)
				m.p.TouchAll()
				m.h.Journal().Pause(!coded)
				m.r = rand.New(rand.NewPCG(1, uint64(i)))
			}
			c.join()
			defer c.leave()
			epoch := func() {
				c.each(b, func(m *member) error {
					for range steps {
						if err := m.writeSome(writes, width); err != nil {
							return err
						}
					}
					if coded {
						return m.c.Settle(m.c.Committed() + steps)
					}
					return m.status.Barrier().Wait()
				})
			}
			epoch() // takes memory
			b.ResetTimer()
			began := cpuSeconds(b)
			for range b.N {
				epoch()
			}
			b.ReportMetric(1e9*(cpuSeconds(b)-began)/float64(b.N*steps*writes*len(c.members)), "cpu-ns/row")
		})
	}
}

// writeSome updates n random rows, ascending as in a step.
func (m *member) writeSome(n, width int) error {
	slots := make([]int32, 0, n)
	gap := m.h.Slots() / int64(n)
	for i := range int64(n) {
		slots = append(slots, int32(i*gap+m.r.Int64N(gap)))
	}
	return m.write(slots, width)
}

// write updates rows.
func (m *member) write(slots []int32, width int) error {
	n := len(slots)
	start, pos := make([]int32, n+1), make([]int32, n)
	for i := range slots {
		start[i+1], pos[i] = int32(i+1), int32(i)
	}
	values := make([]float32, n*width)
	for i := range values {
		values[i] = 1
	}
	grads := kernels.Mat(kernels.HostBuffer(values), n, width)
	return m.h.Apply(kernels.WholeRow(kernels.Optimizer{Kind: kernels.Adagrad, LR: 0.1, Eps: 1e-8}), slots, grads, kernels.HostBuffer(start),
		kernels.HostBuffer(pos))
}
