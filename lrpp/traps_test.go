package lrpp

import (
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ecrec/ecrec/internal/digest"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/placement"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/transport"
)

// scripted makes a task of two ranks over 8 rows from the ids of each rank at each step.
func scripted(tables int, ids ...[2][]uint32) task {
	rows := make([]int64, tables)
	for t := range rows {
		rows[t] = 8
	}
	j := task{ranks: 2, trainers: 2, width: 3, place: placement.New(rows, 2),
		opt: kernels.Optimizer{Kind: kernels.Adagrad, LR: 0.25, Eps: 1e-8}}
	g := float32(0.125)
	for _, step := range ids {
		var grads [][]float32
		for _, slice := range step {
			mine := make([]float32, len(slice)*j.width)
			for i := range mine {
				mine[i] = g
				g = -0.75*g + 0.01*float32(i)
			}
			grads = append(grads, mine)
		}
		j.ids, j.grads = append(j.ids, step[:]), append(j.grads, grads)
	}
	return j
}

// moves counts what the plans do with rows, on all ranks.
type moves struct{ early, critical, now, later, leaveNow, leave, room, own int }

func (m *moves) add(p *cachePlan) {
	m.early += len(p.early.slots)
	m.critical += len(p.critical.slots)
	m.now += p.now.sums
	m.later += p.later.sums
	m.leaveNow += len(p.evictNow.slots)
	m.leave += len(p.evictLater.slots)
	m.room += len(p.evictForRoom.slots)
	m.own += len(p.own.cached)
}

// Known defects of published code, one small case each. The result equals that of mode
// Direct, and the plans do contain the case. Package train has the remaining ones.
// TestGolden compares the scale of row and dense gradients with PyTorch in one mode, and
// TestCacheModesAgree extends that to all modes. TestCacheJustLargeEnough has a batch
// that exceeds the cache. In every case testRank.trainSteps checks that nothing is cached
// after the last step.
func TestKnownDefects(t *testing.T) {
	one := func(a, b int) (s [2][]uint32) { // rank 0 uses row a, rank 1 row b; -1: none
		for rank, row := range []int{a, b} {
			if row >= 0 {
				s[rank] = []uint32{uint32(row)}
			}
		}
		return s
	}
	for name, c := range map[string]struct {
		task      task
		lookahead int
		capacity  int
		happens   func(m moves) bool
	}{
		"gradients of rows used once are applied": {
			scripted(1, one(0, 1), one(2, 3), one(4, 5), one(6, 7)), 2, 0,
			func(m moves) bool { return m.own == 8 && m.leave == 8 && m.now+m.later == 0 },
		},
		"optimizer state survives eviction and fetch": {
			scripted(1, one(0, 1), one(2, 3), one(4, 5), one(1, 0), one(2, 3), one(0, 1)), 1, 0,
			func(m moves) bool { return m.early+m.critical > 10 },
		},
		"a row evicted at t is needed again at t+L+1": {
			scripted(1, one(0, -1), one(1, -1), one(0, -1), one(1, -1), one(-1, 0), one(-1, 1)), 1, 0,
			func(m moves) bool { return m.early == 6 && m.leave == 6 },
		},
		"a dirty row of one trainer becomes another's": {
			scripted(1, one(0, -1), one(0, -1), one(-1, 0), one(-1, 0), one(0, 0)), 1, 0,
			func(m moves) bool { return m.leaveNow == 2 && m.critical == 3 },
		},
		"a delayed update meets the fetch of the same row": {
			scripted(1, one(0, 0), one(1, -1), one(0, 0), one(1, -1), one(0, 0)), 1, 0,
			func(m moves) bool { return m.later == 3 && m.early > 4 },
		},
		"a delayed update of a row that stays": {
			scripted(1, one(0, 0), one(1, -1), one(0, 0), one(1, -1), one(0, 0)), 2, 0,
			func(m moves) bool { return m.later == 3 && m.early == 3 },
		},
		"a fetched row is neither evicted before use nor overwritten in use": {
			scripted(1, one(0, 1), one(2, 3), one(4, 5), one(6, 7), one(0, 1), one(2, 3), one(4, 5), one(6, 7)), 5, 2,
			func(m moves) bool { return m.room > 0 },
		},
		"ids repeated within a sample and across samples": {
			scripted(2, [2][]uint32{{3, 3, 3, 3, 5, 3}, {3, 5}}, [2][]uint32{{3, 5}, {5, 5, 5, 5}}, [2][]uint32{{}, {3, 3}}), 2, 0,
			func(m moves) bool { return m.now+m.later > 0 },
		},
		"the window drains at the end": {
			scripted(1, one(0, 1), one(0, 1), one(0, 1)), 50, 0,
			func(m moves) bool { return m.early == 2 && m.leave == 2 },
		},
	} {
		for _, delayedSync := range []bool{true, false} {
			o := PlanOptions{Mode: Cached, Check: true, DelayedSync: delayedSync, Lookahead: c.lookahead, CapacityRows: c.capacity}
			name := fmt.Sprintf("%s, delayed sync %t", name, delayedSync)
			want := c.task.train(t, 0, "", PlanOptions{Mode: Direct, Check: true})
			got := c.task.train(t, 1, "delay(200us, p=0.3)", o)
			sum := func(settled [][]digest.Sum) (s digest.Sum) {
				for _, rank := range settled {
					s.Add(rank[len(rank)-1])
				}
				return s
			}
			if !reflect.DeepEqual(got.seen, want.seen) || sum(got.settled) != sum(want.settled) {
				t.Fatalf("%s: read %v, want %v", name, got.seen, want.seen)
			}
			if delayedSync && !c.happens(got.moves) {
				t.Errorf("%s: the plans do not contain the case: %+v", name, got.moves)
			}
		}
	}
}

// Plans of mode Cached that move rows at the wrong time, or not at all, break the
// invariant, and the checks report it.
func TestBrokenCachePlansAreCaught(t *testing.T) {
	for name, spoil := range map[string]func(p *cachePlan){
		"sums are applied too late":        func(p *cachePlan) { p.now, p.later = p.later, p.now },
		"rows are written back late":       func(p *cachePlan) { p.evictNow, p.evictLater = p.evictLater, p.evictNow },
		"rows are fetched too early":       func(p *cachePlan) { p.early, p.critical = p.critical, p.early },
		"rows are not written back":        func(p *cachePlan) { p.evictLater.resetLists(2) },
		"gradients are not applied":        func(p *cachePlan) { p.own.cached = nil },
		"sums are lost":                    func(p *cachePlan) { p.now.resetLists(2); p.now.orderGradients() },
		"rows are stored in a slot in use": func(p *cachePlan) { shift(p.early.cached, p.slots) },
		"rows are dropped while in use": func(p *cachePlan) {
			if len(p.used.cached) > 0 {
				p.evictForRoom.dropped = append(p.evictForRoom.dropped, p.used.cached[0])
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var ids [][2][]uint32
			for i := range 14 {
				a, b := uint32(i/3%4), uint32(i/4%4)
				ids = append(ids, [2][]uint32{{a, a + 4}, {b, 3}})
			}
			j := scripted(1, ids...)
			dev, err := kernels.NewCPU(kernels.CPUOptions{Poison: true})
			if err != nil {
				t.Fatal(err)
			}
			o := PlanOptions{Mode: Cached, Check: true, DelayedSync: true, Lookahead: 1, Trainers: 2}
			var noticed atomic.Int64
			var wait sync.WaitGroup
			e := env.Real()
			for _, ep := range transport.NewMem(e, j.ranks, 1) {
				wait.Add(1)
				go func() {
					defer wait.Done()
					r := newTestRank(t, e, dev, ep, j, o)
					defer r.closeAll()
					r.spoilCache = spoil
					count := func(string) { noticed.Add(1) }
					r.base.check.violated, r.cache.check.violated = count, count
					if _, err := r.trainSteps(t, j); err != nil {
						t.Error(err)
					}
				}()
			}
			wait.Wait()
			if noticed.Load() == 0 {
				t.Error("no violation was reported")
			}
		})
	}
}

func shift(slots []int32, n int) {
	for i, s := range slots {
		slots[i] = (s + 1) % int32(max(n, 1))
	}
}
