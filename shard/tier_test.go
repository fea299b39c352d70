package shard

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/placement"
	"github.com/ecrec/ecrec/kernels"
)

// tierTwin is a shard whose rows are partly in memory, and one with all of them.
type tierTwin struct {
	t            *testing.T
	tiered, full []*Shard // views
	below        *memBelow
	sealed       []*commitEpoch
	pins         [2]*Pin
	at           int64 // of the pins
	hits         int   // rows that were read ahead when rows were accessed
}

// commitEpoch is a sealed epoch that the log receives when it is committed.
type commitEpoch struct {
	slots []int32
	rows  []byte
	mark  int64
}

func newTierTwin(t *testing.T, r *rand.Rand, keep Keep) *tierTwin {
	dev, err := kernels.NewCPU(kernels.CPUOptions{Poison: true})
	if err != nil {
		t.Fatal(err)
	}
	x := &tierTwin{t: t, below: newMemBelow(t, r.Uint64())}
	frames := 1 + r.IntN(1+r.IntN(300))
	for i, views := range []*[]*Shard{&x.tiered, &x.full} {
		s := dev.Stream(1)
		o := Options{Map: placement.New(tables, 2), Owner: 1, Seed: seed, Width: width, State: 1}
		if i == 0 {
			o.Frames, o.Ahead = frames, r.IntN(1+r.IntN(300))
		} else {
			o.Packed = r.IntN(2) == 0
		}
		h, err := New(dev, s, o)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			h.OpenTier(env.Real(), x.below)
		}
		h.OpenJournal(keep, func() time.Duration { return 0 })
		*views = []*Shard{h, h.On(s)}
		t.Cleanup(func() {
			(*views)[1].Close()
			h.Close()
			s.Close()
			if i == 0 && x.below.under > 0 {
				t.Errorf("%d readings have not ended", x.below.under)
			}
		})
	}
	return x
}

// both calls f for the same view of both shards, and compares what it returns.
func (x *tierTwin) both(what string, r *rand.Rand, f func(r *rand.Rand, h *Shard) []byte) {
	x.t.Helper()
	a, b, view := r.Uint64(), r.Uint64(), r.IntN(2)
	got := f(rand.New(rand.NewPCG(a, b)), x.tiered[view])
	want := f(rand.New(rand.NewPCG(a, b)), x.full[view])
	if !bytes.Equal(got, want) {
		x.t.Fatalf("%s: the shard with a tier of %d frames differs", what, x.tiered[0].rows.Rows)
	}
}

func (x *tierTwin) check(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
}

// TestTier does the same at random on a shard with a tier and on one with all rows in memory: reads, writes, epochs, rollbacks and pins.
func TestTier(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	reads, spills, hits := 0, 0, 0
	for n := range 60 {
		x := newTierTwin(t, r, []Keep{KeepRows, KeepHashes}[n%2])
		for range 60 {
			x.change(r, n%2 == 0)
		}
		x.both("digest", r, func(_ *rand.Rand, h *Shard) []byte {
			d, err := h.Digest()
			x.check(err)
			return []byte(d.String())
		})
		reads, spills, hits = reads+x.below.reads, spills+x.below.spills, hits+x.hits
	}
	t.Logf("%d rows were read, %d spilled and %d read ahead", reads, spills, hits)
	if reads == 0 || spills == 0 || hits == 0 {
		t.Error("a case is missing")
	}
}

// change does one thing.
func (x *tierTwin) change(r *rand.Rand, rows bool) {
	x.t.Helper()
	if r.IntN(2) == 0 {
		x.expect(r)
	}
	if a := x.tiered[0].frames.ahead; a != nil {
		before := len(a.places)
		defer func() { x.hits += before - len(a.places) }()
	}
	switch r.IntN(16) {
	case 0, 1, 2:
		x.both("update", r, func(r *rand.Rand, h *Shard) []byte { update(x.t, r, h); return nil })
	case 3:
		x.both("rewrite", r, func(r *rand.Rand, h *Shard) []byte { rewrite(x.t, r, h); return nil })
	case 4, 5, 6, 7:
		x.read(r)
	case 8, 9:
		x.seal(r)
	case 10, 11:
		x.commit()
	case 12:
		if rows {
			x.both("ReadCommitted", r, func(r *rand.Rand, h *Shard) []byte {
				slots := slices.DeleteFunc(randomSlots(r, int(h.Slots())), func(s int32) bool { return !isSet(h.touched, s) })
				b := make([]float32, len(slots)*h.rows.Stride)
				x.check(h.ReadCommitted(kernels.Mat(kernels.HostBuffer(b), len(slots), h.rows.Stride), slots))
				return kernels.BytesOf(b)
			})
		}
	case 13:
		x.pin(r)
	case 14:
		if rows && x.pins[0] == nil {
			keep := r.IntN(len(x.sealed) + 1)
			x.both("Rollback", r, func(_ *rand.Rand, h *Shard) []byte { x.check(h.Rollback(keep)); return nil })
			x.sealed = x.sealed[:keep]
		}
	default:
		if len(x.sealed) == 0 && x.tiered[0].Journal().Written() == 0 && x.pins[0] == nil {
			x.restart(r)
		}
	}
}

// expect declares rows of later accesses, which may never come. The accesses of this test use any rows.
func (x *tierTwin) expect(r *rand.Rand) {
	h := x.tiered[r.IntN(2)]
	steps := make([][]int32, r.IntN(4))
	for i := range steps {
		steps[i] = append(randomSlots(r, int(h.Slots())), randomSlots(r, int(h.Slots()))...)
	}
	h.Expect(steps...)
	if r.IntN(20) == 0 {
		h.EndReads()
	}
}

// read reads rows in some way.
func (x *tierTwin) read(r *rand.Rand) {
	x.t.Helper()
	switch r.IntN(4) {
	case 0:
		x.both("Read", r, func(r *rand.Rand, h *Shard) []byte {
			slots := append(randomSlots(r, int(h.Slots())), randomSlots(r, int(h.Slots()))...)
			b, m := matrix(len(slots))
			x.check(h.Read(m, slots))
			return kernels.BytesOf(b)
		})
	case 1:
		x.both("Peek", r, func(r *rand.Rand, h *Shard) []byte {
			slots := randomSlots(r, int(h.Slots()))
			b, m := matrix(len(slots))
			x.check(h.Peek(m, slots))
			return kernels.BytesOf(b)
		})
	case 2:
		x.both("Export", r, func(r *rand.Rand, h *Shard) []byte {
			from := r.IntN(int(h.Slots()))
			b := make([]float32, width*(1+r.IntN(int(h.Slots())-from)))
			x.check(h.Export(b, int64(from), len(b)/width))
			return kernels.BytesOf(b)
		})
	default:
		x.both("all rows", r, func(_ *rand.Rand, h *Shard) []byte { return stateOf(x.t, h).rows })
	}
}

// seal ends an epoch, and compares what it wrote.
func (x *tierTwin) seal(r *rand.Rand) {
	if len(x.sealed) == 2 {
		return
	}
	x.both("Seal", r, func(_ *rand.Rand, h *Shard) []byte {
		e := h.Journal().Seal()
		slots, places := e.Sorted(nil, nil)
		rows := make([]byte, len(slots)*h.RowBytes())
		sum, err := h.DigestChange(e, places, slots, rows)
		x.check(err)
		changed, err := h.Changed(nil, e, places, slots)
		x.check(err)
		out := append(append([]byte(sum.String()), kernels.BytesOf(changed)...), rows...)
		x.check(h.ReadBytes(rows, slots))
		if h.Journal().Keeps() == KeepRows {
			delta := make([]float32, len(slots)*h.rows.Stride)
			x.check(h.Delta(kernels.Mat(kernels.HostBuffer(delta), len(slots), h.rows.Stride), e, places, slots))
			out = append(out, kernels.BytesOf(delta)...)
		}
		if h.frames != nil {
			x.sealed = append(x.sealed, &commitEpoch{slots, rows, h.Mark()})
		}
		return append(out, rows...)
	})
}

// commit commits the oldest sealed epoch, and logs it.
func (x *tierTwin) commit() {
	if len(x.sealed) == 0 {
		return
	}
	x.tiered[0].Journal().Commit()
	x.full[0].Journal().Commit()
	e := x.sealed[0]
	x.sealed = x.sealed[1:]
	n := x.tiered[0].RowBytes()
	for i, slot := range e.slots {
		x.below.log[slot] = e.rows[i*n : (i+1)*n]
	}
	x.below.logged = e.mark
}

// pin pins the rows, or reads on.
func (x *tierTwin) pin(r *rand.Rand) {
	if x.pins[0] == nil {
		x.pins, x.at = [2]*Pin{x.tiered[1].Pin(), x.full[1].Pin()}, 0
	}
	room := r.IntN(int(x.full[0].Slots())) * x.full[0].RowBytes()
	var got [2][]byte
	var next int64
	for i, p := range x.pins {
		got[i] = make([]byte, room)
		n, to, err := p.ReadTouched(got[i], x.at)
		x.check(err)
		got[i], next = got[i][:n*x.full[0].RowBytes()], to
	}
	if !bytes.Equal(got[0], got[1]) {
		x.t.Fatal("pinned rows differ")
	}
	if x.at = next; x.at == x.full[0].Slots() || r.IntN(3) == 0 {
		x.pins[0].Close()
		x.pins[1].Close()
		x.pins = [2]*Pin{}
	}
}

// restart begins with other rows: some are stored from a copy, while the log has those of before, or the tier adopts those of the log.
func (x *tierTwin) restart(r *rand.Rand) {
	h := x.tiered[0]
	all, adopt := allRows(x.t, x.full[0]), r.IntN(2) == 0
	var slots []int32
	var rows []byte
	for slot := range int32(h.Slots()) {
		if isSet(x.full[0].touched, slot) && (adopt || r.IntN(2) == 0) {
			slots = append(slots, slot)
			rows = append(rows, all[int(slot)*h.RowBytes():int(slot+1)*h.RowBytes()]...)
		}
	}
	x.full[0].Reset()
	x.check(x.full[0].StoreRaw(slots, rows))
	h.Reset()
	if !adopt {
		x.check(h.StoreRaw(slots, rows))
		for range r.IntN(4) {
			x.read(r)
		}
		clear(x.below.log)
	}
	for i, slot := range slots {
		x.below.log[slot] = rows[i*h.RowBytes() : (i+1)*h.RowBytes()]
	}
	if x.below.logged = h.Mark(); adopt {
		h.Adopt(slots)
	}
}

// TestTierWithoutDisk: once a row could not be moved, all accesses fail, until the rows are reset.
func TestTierWithoutDisk(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	x := newTierTwin(t, r, KeepRows)
	for len(x.below.spilled) < 3 {
		x.both("update", r, func(r *rand.Rand, h *Shard) []byte { update(x.t, r, h); return nil })
	}
	h := x.tiered[0]
	slots := make([]int32, h.Slots())
	for i := range slots {
		slots[i] = int32(i)
	}
	_, m := matrix(len(slots))
	x.below.fails = errors.New("no space left on device")
	for range 2 {
		if err := h.Read(m, slots); !errors.Is(err, x.below.fails) {
			t.Fatalf("%v, with a disk that fails", err)
		}
	}
	fails := x.below.fails
	x.below.fails = nil
	if err := h.Read(m, slots); !errors.Is(err, fails) {
		t.Fatalf("%v, after rows could not be moved", err)
	}
	h.Reset()
	x.check(h.Read(m, slots))
}
