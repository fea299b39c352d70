package commit

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/digest"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/placement"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/shard"
)

// digestRank is a rank with Digests, and a model of them: the digests of the last commit and of later sets, by step.
type digestRank struct {
	t     *testing.T
	h     *shard.Shard
	d     *Digests
	r     *rand.Rand
	log   []string // the calls so far
	steps []int64  // of the model, oldest first
	want  map[int64]digest.Sum
}

func newDigestRank(t *testing.T, seed uint64) *digestRank {
	dev, err := kernels.NewCPU(kernels.CPUOptions{Poison: true})
	if err != nil {
		t.Fatal(err)
	}
	s := dev.Stream(1)
	h, err := shard.New(dev, s, shard.Options{Map: placement.New([]int64{40}, 1), Seed: 3, Width: testWidth, State: testState})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close(); s.Close() })
	h.OpenJournal(shard.KeepRows, env.Real().Now)
	return &digestRank{t: t, h: h, d: NewDigests(), r: rand.New(rand.NewPCG(seed, 9)), steps: []int64{0}, want: map[int64]digest.Sum{0: {}}}
}

func (x *digestRank) must(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatalf("%v: %v", x.log, err)
	}
}

// call notes a call, and ends the test with all calls if it panics.
func (x *digestRank) call(name string, step int64, f func()) {
	x.t.Helper()
	x.log = append(x.log, fmt.Sprint(name, " ", step))
	defer func() {
		if p := recover(); p != nil {
			x.t.Fatalf("%v: panic: %v", x.log, p)
		}
	}()
	f()
}

// rowsNow is the digest of the rank's rows.
func (x *digestRank) rowsNow() digest.Sum {
	sum, err := x.h.Digest()
	x.must(err)
	return sum
}

// start is protection.beginDigests.
func (x *digestRank) start(step int64) {
	sum := x.rowsNow()
	x.call("start", step, func() { x.d.Start(step, sum) })
	x.steps, x.want = []int64{step}, map[int64]digest.Sum{step: sum}
}

func (x *digestRank) begin(step int64, drawn bool) {
	x.call("begin", step, func() { x.d.Begin(step, drawn) })
	if sum, known := x.want[step]; known && x.steps[0] == step && !drawn {
		x.steps, x.want = []int64{step}, map[int64]digest.Sum{step: sum}
	} else {
		x.steps, x.want = []int64{step}, map[int64]digest.Sum{step: {}}
	}
}

// write sets some rows outside an epoch, as a checkpoint does.
func (x *digestRank) write() {
	x.update()
	x.h.Journal().Seal()
	x.h.Journal().Commit()
}

// update writes some rows.
func (x *digestRank) update() {
	slots := []int32{}
	for _, slot := range x.r.Perm(40)[:1+x.r.IntN(6)] {
		slots = append(slots, int32(slot))
	}
	rows := make([]byte, len(slots)*x.h.RowBytes())
	for i := range rows {
		rows[i] = byte(x.r.Uint32())
	}
	x.must(x.h.StoreRows(slots, kernels.Mat(kernels.HostBuffer(rows), len(slots), x.h.RowBytes()/4)))
}

// seal ends an epoch that writes some rows. The digest changes as that of all rows does.
func (x *digestRank) seal(step int64) {
	before, newest := x.rowsNow(), x.steps[len(x.steps)-1]
	x.update()
	var s Set
	s.sealRows(step, x.h, x.r.IntN(2) == 0)
	x.call("seal", step, func() { x.must(x.d.Seal(&s)) })
	x.h.Journal().Commit()
	sum := x.rowsNow()
	sum.Sub(before)
	sum.Add(x.want[newest])
	x.steps, x.want[step] = append(x.steps, step), sum
}

// settle drops the steps from the model that Commit does not keep.
func (x *digestRank) settle(step int64) {
	for len(x.steps) > 1 && x.steps[1] <= step {
		delete(x.want, x.steps[0])
		x.steps = x.steps[1:]
	}
}

func (x *digestRank) commit(step int64) {
	x.call("commit", step, func() { x.d.Commit(step) })
	x.settle(step)
}

func (x *digestRank) roll(step int64) {
	x.call("roll", step, func() { x.d.Roll(step) })
	x.settle(step)
	for _, later := range x.steps[1:] {
		delete(x.want, later)
	}
	x.steps = x.steps[:1]
}

// check compares the digests with the model.
func (x *digestRank) check() {
	x.t.Helper()
	x.call("at", x.steps[0], func() {
		for step, want := range x.want {
			if got := x.d.At(step); got != want {
				x.t.Fatalf("%v: step %d has the digest %v, want %v", x.log, step, got, want)
			}
		}
	})
	x.log = x.log[:len(x.log)-1]
	if got, want := x.d.Prepared(), x.steps[len(x.steps)-1]; got != want {
		x.t.Fatalf("%v: prepared for step %d, want %d", x.log, got, want)
	}
	if got, want := len(x.d.sums), len(x.steps); got != want {
		x.t.Fatalf("%v: %d digests, want %d", x.log, got, want)
	}
}

// TestDigestOrders runs orders of calls that losses lead to.
func TestDigestOrders(t *testing.T) {
	type rank = *digestRank
	for name, do := range map[string]func(x rank){
		"epochs":         func(x rank) { x.begin(0, true); x.seal(10); x.commit(10); x.seal(20); x.commit(20) },
		"a commit twice": func(x rank) { x.begin(0, true); x.seal(10); x.commit(10); x.commit(10); x.seal(20) },
		"rolled forward": func(x rank) { x.begin(0, true); x.seal(10); x.roll(10); x.seal(20) },
		"rolled back": func(x rank) {
			x.begin(0, true)
			x.seal(10)
			x.commit(10)
			x.seal(20)
			x.roll(10)
			x.seal(20)
		},
		"resumed":                     func(x rank) { x.write(); x.start(40); x.begin(40, false); x.seal(50); x.commit(50) },
		"resumed, as one step before": func(x rank) { x.write(); x.start(40); x.begin(50, false); x.start(50); x.seal(60) },
		"a restore that failed":       func(x rank) { x.begin(0, true); x.seal(60); x.commit(60); x.start(40); x.roll(60) },
		"a restore twice": func(x rank) {
			x.begin(0, true)
			x.seal(60)
			x.commit(60)
			x.start(40)
			x.roll(60)
			x.start(40)
			x.begin(40, false)
		},
		"a restore thrice": func(x rank) {
			x.start(60)
			x.start(40)
			x.roll(60)
			x.start(40)
			x.roll(60)
			x.start(20)
			x.begin(20, false)
			x.seal(30)
		},
		"a later one, of a log": func(x rank) {
			x.seal(60)
			x.commit(60)
			x.start(80)
			x.roll(60)
			x.start(80)
			x.begin(80, false)
			x.seal(90)
		},
		"a commit that never began": func(x rank) { x.start(40); x.commit(60); x.start(60) },
		"between two sets": func(x rank) {
			x.begin(0, true)
			x.seal(10)
			x.commit(5)
			x.roll(5)
			x.seal(10)
			x.commit(10)
		},
		"before the first": func(x rank) {
			x.start(40)
			x.begin(40, false)
			x.seal(50)
			x.commit(20)
			x.seal(60)
			x.roll(20)
		},
		"begun again with a set": func(x rank) {
			x.write()
			x.start(40)
			x.begin(40, false)
			x.seal(50)
			x.begin(40, false)
			x.seal(50)
		},
		"drawn again with a set":       func(x rank) { x.begin(0, true); x.seal(10); x.begin(0, true); x.seal(10) },
		"of a lost rank, with its sum": func(x rank) { x.begin(40, false); x.write(); x.start(40); x.seal(50); x.commit(50) },
	} {
		t.Run(name, func(t *testing.T) {
			x := newDigestRank(t, 1)
			do(x)
			x.check()
		})
	}
}

// TestDigestsAgainstModel draws orders of calls, and checks all digests after each.
func TestDigestsAgainstModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	x := newDigestRank(t, seed)
	for range 300 {
		x.d, x.steps, x.want, x.log = NewDigests(), []int64{0}, map[int64]digest.Sum{0: {}}, nil
		for range 1 + x.r.IntN(12) {
			newest := x.steps[len(x.steps)-1]
			some := max(0, newest-15+x.r.Int64N(30))
			if x.r.IntN(2) == 0 {
				some = x.steps[x.r.IntN(len(x.steps))]
			}
			switch x.r.IntN(6) {
			case 0:
				x.start(some)
			case 1:
				x.begin(some, x.r.IntN(4) == 0)
			case 2, 3:
				x.seal(newest + 1 + x.r.Int64N(10))
			case 4:
				x.commit(some)
			case 5:
				x.roll(some)
			}
			x.check()
		}
	}
}
