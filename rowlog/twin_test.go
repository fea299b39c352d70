package rowlog

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// seeded is a source of random cases that prints its seed.
func seeded(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// twin is the content that a log must have, by step.
type twin struct {
	rows  map[int64]map[int32][]byte
	extra map[int64][]byte
	steps []int64
}

func newTwin() *twin {
	return &twin{rows: map[int64]map[int32][]byte{0: {}}, extra: map[int64][]byte{}, steps: []int64{0}}
}

func (w *twin) last() int64 { return w.steps[len(w.steps)-1] }

func (w *twin) add(step int64, slots []int32, rows, extra []byte, rowBytes int) {
	all := maps.Clone(w.rows[w.last()])
	for i, slot := range slots {
		all[slot] = rows[i*rowBytes : (i+1)*rowBytes]
	}
	w.rows[step], w.extra[step], w.steps = all, extra, append(w.steps, step)
}

// appendParts appends parts of an epoch, sometimes, and returns the rows that succeeded.
func (w *twin) appendParts(rnd *rand.Rand, l *Log, step int64, o *Options) map[int32][]byte {
	parts := map[int32][]byte{}
	for range max(0, rnd.IntN(5)-2) {
		slots, rows, _ := epoch(rnd, o)
		if l.AppendPart(step, slots, rows) == nil { // else the disk failed
			for i, slot := range slots {
				parts[slot] = rows[i*o.RowBytes : (i+1)*o.RowBytes]
			}
		}
	}
	return parts
}

// addOlder adds the rows of the parts of a step, unless they are in slots.
func (w *twin) addOlder(step int64, parts map[int32][]byte, slots []int32) {
	for slot, row := range parts {
		if _, ok := slices.BinarySearch(slots, slot); !ok {
			w.rows[step][slot] = row
		}
	}
}

// cutTo drops the steps after one, which the twin has.
func (w *twin) cutTo(step int64) {
	w.steps = slices.DeleteFunc(w.steps, func(s int64) bool { return s > step })
}

// check compares all rows of a log.
func (w *twin) check(t *testing.T, l *Log) {
	t.Helper()
	want := w.rows[l.Step()]
	if want == nil || !slices.Contains(w.steps, l.Step()) {
		t.Fatalf("the log ends at step %d, which was not appended: %v", l.Step(), w.steps)
	}
	var slots []int32
	for slot := range int32(l.o.Slots) {
		if _, ok := want[slot]; ok != l.Has(slot) {
			t.Fatalf("step %d: slot %d: in the log %v, want %v", l.Step(), slot, l.Has(slot), ok)
		} else if ok {
			slots = append(slots, slot)
		}
	}
	rand.Shuffle(len(slots), func(i, j int) { slots[i], slots[j] = slots[j], slots[i] })
	got := make([]byte, len(slots)*l.rowBytes)
	if err := l.Read(slots, got); err != nil {
		t.Fatal(err)
	}
	for i, slot := range slots {
		if b := got[i*l.rowBytes : (i+1)*l.rowBytes]; !bytes.Equal(b, want[slot]) {
			t.Fatalf("step %d: slot %d: %x, want %x", l.Step(), slot, b, want[slot])
		}
	}
	if l.Step() > 0 {
		if extra, err := l.Extra(); err != nil || !bytes.Equal(extra, w.extra[l.Step()]) {
			t.Fatalf("step %d: extra part %x, %v; want %x", l.Step(), extra, err, w.extra[l.Step()])
		}
	}
}

// epoch draws the rows of an epoch.
func epoch(rnd *rand.Rand, o *Options) (slots []int32, rows, extra []byte) {
	share := max(0, rnd.Float64()*1.25-0.25)
	for slot := range int32(o.Slots) {
		if rnd.Float64() < share {
			slots = append(slots, slot)
		}
	}
	fill := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		return b
	}
	return slots, fill(len(slots) * o.RowBytes), fill(rnd.IntN(3) * rnd.IntN(5000))
}

func options(rnd *rand.Rand, d Dir) Options {
	return Options{Dir: d, Lineage: [16]byte{1, 2, 3}, Owner: 1, Owners: 3, RowBytes: 4 * (1 + rnd.IntN(40)), Slots: 1 + rnd.Int64N(200),
		FileBytes: 1 + rnd.Int64N(200_000)}
}

// cutStep draws a step that a log can be cut to: that of an epoch, not before the settled step, or 0, which begins the log anew.
func (w *twin) cutStep(rnd *rand.Rand, l *Log, settled int64) int64 {
	switch rnd.IntN(12) {
	case 0, 1, 2, 3: // other ranks have less
		var steps []int64
		for _, s := range w.steps {
			if s > 0 && s >= settled && s <= l.Step() {
				steps = append(steps, s)
			}
		}
		if len(steps) > 0 {
			return steps[rnd.IntN(len(steps))]
		}
	case 4:
		return 0
	}
	return l.Step()
}

func must(l *Log, err error) *Log {
	if err != nil {
		panic(err)
	}
	return l
}
