package rowlog

import (
	"bytes"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/env"
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

// addTo changes rows of a step.
func (w *twin) addTo(step int64, slots []int32, rows []byte, rowBytes int) {
	for i, slot := range slots {
		w.rows[step][slot] = rows[i*rowBytes : (i+1)*rowBytes]
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

// TestPowerCuts appends epochs, makes some durable, cleans files, lets writes fail, and cuts the power at any time. The log that is
// opened then ends at a step that was appended, no older than the durable one, and holds the rows of exactly that step.
func TestPowerCuts(t *testing.T) {
	rnd := seeded(t)
	rounds := 600
	if testing.Short() {
		rounds = 60
	}
	var seen struct{ cuts, failures, torn, copied, dropped, voided int }
	for range rounds {
		d := newDisk(rnd)
		o := options(rnd, d)
		w, step, settled := newTwin(), int64(0), int64(0)
		for range 1 + rnd.IntN(6) {
			l, err := Open(o)
			if err != nil {
				t.Fatal(err)
			}
			if l.Step() > 0 {
				w.check(t, l)
			}
			cut := w.cutStep(rnd, l, settled)
			if cut < l.Step() && cut > 0 {
				seen.voided++
			}
			if rnd.IntN(4) == 0 {
				d.failIn = 1 + rnd.IntN(6)
			}
			err = l.CutTo(cut)
			d.failIn = 0
			if errors.Is(err, errDisk) {
				l.Close()
				d.cutPower()
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			w.cutTo(cut)
			if cut == 0 {
				w, step, settled = newTwin(), 0, 0
				for range rnd.IntN(3) {
					slots, rows, _ := epoch(rnd, &o)
					if err := l.AppendFirst(slots, rows); err != nil {
						t.Fatal(err)
					}
					w.addTo(0, slots, rows, o.RowBytes)
				}
			}
			if l.Step() != cut || l.Durable() != cut {
				t.Fatalf("after a cut to step %d the log ends at %d, durable up to %d", cut, l.Step(), l.Durable())
			}
			w.check(t, l)
			for range rnd.IntN(12) {
				d.failIn = max(0, rnd.IntN(60)-45)
				slots, rows, extra := epoch(rnd, &o)
				step = max(step, l.Step()) + 1 + rnd.Int64N(3)
				if rnd.IntN(4) == 0 {
					// nothing is appended
				} else if err := l.Append(step, slots, rows, extra); err == nil {
					w.add(step, slots, rows, extra, o.RowBytes)
				} else if seen.failures++; !errors.Is(err, errDisk) {
					t.Fatal(err)
				}
				if err := l.Clean(rnd.Int64N(3) * rnd.Int64N(40_000)); err != nil && !errors.Is(err, errDisk) {
					t.Fatal(err)
				}
				before := l.Durable()
				if rnd.IntN(2) == 0 {
					dropped := len(l.dropped)
					if err := l.Sync(); err == nil && l.Durable() != l.Step() || err != nil && l.Durable() != before && l.Durable() != l.Step() {
						t.Fatalf("durable up to step %d of %d, %v", l.Durable(), l.Step(), err)
					}
					seen.dropped += dropped - len(l.dropped)
				}
				if rnd.IntN(2) == 0 {
					settled = max(settled, w.steps[rnd.IntN(len(w.steps))])
					settled = min(settled, l.Durable())
					l.Settle(settled)
				}
				d.failIn = 0
				w.check(t, l)
				if !l.Holds(settled) {
					t.Fatalf("the log has no epoch of the settled step %d", settled)
				}
			}
			durable, all := l.Durable(), l.Step()
			seen.copied += int(l.copied)
			l.Close()
			seen.cuts++
			if rnd.IntN(3) > 0 || l.broken != nil {
				d.cutPower()
			} // else only the process ends
			if l, err = Open(o); err != nil || l.Step() < durable {
				t.Fatalf("durable up to step %d of %d; after a loss of power: %+v, %v", durable, all, l, err)
			}
			if l.Step() < all {
				seen.torn++
			}
			if l.Step() > 0 {
				w.check(t, l)
			}
			l.Close()
		}
	}
	t.Logf("%+v", seen)
	if seen.torn == 0 || seen.failures == 0 || seen.copied == 0 || seen.dropped == 0 || seen.voided == 0 {
		t.Error("something never happened")
	}
}

// TestCleaning checks that a log which is cleaned as fast as it grows stays small, whatever rows are written.
func TestCleaning(t *testing.T) {
	rnd := seeded(t)
	d := newDisk(rnd)
	o := Options{Dir: d, Owners: 1, RowBytes: 256, Slots: 4000, FileBytes: 1 << 18}
	w, l := newTwin(), must(Open(o))
	const perEpoch = 200
	most, appended := int64(0), int64(0)
	for step := int64(1); step <= 600; step++ {
		var slots []int32
		for slot := range int32(o.Slots) {
			if share := perEpoch / 2.0 / 200; slot < 200 && rnd.Float64() < share || rnd.Float64() < perEpoch/2.0/float64(o.Slots) {
				slots = append(slots, slot)
			}
		}
		rows := make([]byte, len(slots)*o.RowBytes)
		for i := range rows {
			rows[i] = byte(rnd.Uint32())
		}
		if err := l.Append(step, slots, rows, []byte{byte(step)}); err != nil {
			t.Fatal(err)
		}
		w.add(step, slots, rows, []byte{byte(step)}, o.RowBytes)
		appended += int64(len(rows))
		if err := errors.Join(l.Clean(int64(len(rows))), l.Sync()); err != nil {
			t.Fatal(err)
		}
		if step > 3 {
			l.Settle(step - 3)
			delete(w.rows, step-3)
		}
		if total, _ := l.Size(); step > 100 {
			most = max(most, total)
		}
		if step%100 == 0 {
			w.check(t, l)
		}
	}
	total, live := l.Size()
	t.Logf("%d bytes at the end, %d of them newest, %d at most; %d appended, %d copied", total, live, most, appended, l.copied)
	if most > 2*live+4*o.FileBytes || l.copied == 0 || l.copied > appended {
		t.Error("the log is not cleaned, or too much is copied")
	}
	l.Close()
	l = must(Open(o))
	w.check(t, l)
	seen := map[int32]bool{}
	if err := l.Each(func(slots []int32, rows []byte) error {
		for i, slot := range slots {
			if seen[slot] || !bytes.Equal(rows[i*o.RowBytes:(i+1)*o.RowBytes], w.rows[600][slot]) {
				t.Fatalf("slot %d", slot)
			}
			seen[slot] = true
		}
		return nil
	}); err != nil || len(seen) != len(w.rows[600]) {
		t.Errorf("%d rows, %v; want %d", len(seen), err, len(w.rows[600]))
	}
}

// TestDamage changes one byte of a durable log, and checks that the log returns the rows that were appended, or an error: never
// other rows.
func TestDamage(t *testing.T) {
	rnd := seeded(t)
	found, harmless := 0, 0
	for range 400 {
		d := newDisk(rnd)
		o := options(rnd, d)
		w, l := newTwin(), must(Open(o))
		for step := int64(1); step < 6; step++ {
			slots, rows, extra := epoch(rnd, &o)
			if err := errors.Join(l.Append(step, slots, rows, extra), l.Sync()); err != nil {
				t.Fatal(err)
			}
			w.add(step, slots, rows, extra, o.RowBytes)
		}
		files, _ := d.List()
		file := rnd.IntN(len(files))
		c := d.files[files[file]]
		c.now[rnd.IntN(len(c.now))] ^= byte(1 + rnd.IntN(255))
		l, err := Open(o)
		if isDamage(err) {
			found++
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if l.Step() < 5 && (file < len(files)-1 || l.Step() < 4) {
			t.Fatalf("file %d of %d is damaged, and the log ends at step %d without an error", file, len(files), l.Step())
		}
		bad := false
		for slot := range int32(o.Slots) {
			row := make([]byte, o.RowBytes)
			if !l.Has(slot) {
				continue
			}
			if err := l.Read([]int32{slot}, row); isDamage(err) {
				bad = true
			} else if err != nil || !bytes.Equal(row, w.rows[l.Step()][slot]) {
				t.Fatalf("slot %d: %x, %v; want %x", slot, row, err, w.rows[l.Step()][slot])
			}
		}
		if bad || l.Step() < 5 {
			found++
		} else {
			harmless++ // in a padding, or in a row that a later segment replaces
		}
	}
	t.Logf("%d found, %d without effect", found, harmless)
	if found == 0 || harmless == 0 {
		t.Error("one of the two never happened")
	}
}

func must(l *Log, err error) *Log {
	if err != nil {
		panic(err)
	}
	return l
}

// TestForeign checks that the log of another run or owner is reported as such, and that a misdirected segment is not taken for one of
// the log.
func TestForeign(t *testing.T) {
	rnd := seeded(t)
	d := newDisk(rnd)
	o := options(rnd, d)
	o.FileBytes = 1
	l := must(Open(o))
	for step := int64(1); step <= 2; step++ {
		if err := l.Append(step, []int32{0}, make([]byte, o.RowBytes), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Options){
		"lineage": func(o *Options) { o.Lineage[3]++ }, "owner": func(o *Options) { o.Owner++ }, "owners": func(o *Options) { o.Owners++ },
		"row bytes": func(o *Options) { o.RowBytes += 4 },
	} {
		other, foreign := o, (*Foreign)(nil)
		change(&other)
		want := Foreign{o.Lineage, o.Owner, o.Owners, o.RowBytes}
		if l, err := Open(other); !errors.As(err, &foreign) || *foreign != want {
			t.Errorf("another %s: %+v, %v", name, l, err)
		}
	}
	if err := errors.Join(l.Append(3, nil, nil, []byte("extra")), l.Sync()); err != nil {
		t.Fatal(err)
	}
	d.files[9] = d.files[3]
	if l, err := Open(o); err != nil || l.Step() != 3 {
		t.Errorf("a copy of a file under another name: %+v, %v", l, err)
	}
	d.files[2] = d.files[3]
	if l, err := Open(o); !isDamage(err) {
		t.Errorf("a file in the place of another: %+v, %v", l, err)
	}
}

// TestMissingFile checks that a file that was lost is noticed.
func TestMissingFile(t *testing.T) {
	d := newDisk(seeded(t))
	o := Options{Dir: d, Owners: 1, RowBytes: 4, Slots: 9, FileBytes: 1}
	l := must(Open(o))
	for step := int64(1); step <= 3; step++ {
		if err := l.Append(step, []int32{int32(step)}, make([]byte, 4), nil); err != nil {
			t.Fatal(err)
		}
	}
	delete(d.files, 2)
	if l, err := Open(o); !isDamage(err) {
		t.Errorf("%+v, %v", l, err)
	}
}

// TestHugeHead checks that sizes in a head are compared with the file before memory is allocated.
func TestHugeHead(t *testing.T) {
	rnd := seeded(t)
	for range 200 {
		d := newDisk(rnd)
		o := options(rnd, d)
		s := segment{file: 1, step: 1, rows: rnd.Int64() >> rnd.IntN(63), extra: rnd.Int64() >> rnd.IntN(63)}
		b := make([]byte, Align)
		s.encode(b, layout{o.Lineage, o.Owner, o.Owners, o.RowBytes})
		d.files[1] = &content{now: b}
		if l, err := Open(o); err != nil || l.Step() != 0 && s.rows+s.extra > 0 {
			t.Fatalf("%+v: %+v, %v", s, l, err)
		}
	}
}

// FuzzOpen opens a log whose only file has any content.
func FuzzOpen(f *testing.F) {
	rnd := rand.New(rand.NewPCG(1, 2))
	d := newDisk(rnd)
	o := Options{Dir: d, RowBytes: 8, Owners: 1, Slots: 9}
	l := must(Open(o))
	for step := int64(1); step < 4; step++ {
		slots, rows, extra := epoch(rnd, &o)
		if err := l.Append(step, slots, rows, extra); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(d.files[1].now)
	f.Fuzz(func(t *testing.T, b []byte) {
		d := newDisk(rnd)
		d.files[1] = &content{now: b}
		o.Dir = d
		l, err := Open(o)
		if err != nil {
			return
		}
		row := make([]byte, o.RowBytes)
		for slot := range int32(o.Slots) {
			if l.Has(slot) {
				_ = l.Read([]int32{slot}, row) // it may be damaged
			}
		}
	})
}

// TestOnDisk runs a log on real files.
func TestOnDisk(t *testing.T) {
	rnd := seeded(t)
	d, err := OpenDir(env.Real(), t.TempDir()+"/rows", Access{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	o := options(rnd, d)
	o.Slots = 5000
	w := newTwin()
	for round := range 3 {
		l := must(Open(o))
		w.check(t, l)
		if err := l.CutTo(l.Step()); err != nil {
			t.Fatal(err)
		}
		for k := range 4 {
			slots, rows, extra := epoch(rnd, &o)
			step := int64(round*10 + k + 1)
			if err := l.Append(step, slots, rows, extra); err != nil {
				t.Fatal(err)
			}
			w.add(step, slots, rows, extra, o.RowBytes)
		}
		if err := l.Sync(); err != nil {
			t.Fatal(err)
		}
		w.check(t, l)
		step := w.steps[len(w.steps)-1-rnd.IntN(3)]
		if err := l.CutTo(step); err != nil {
			t.Fatal(err)
		}
		w.cutTo(step)
		w.check(t, l)
		l.Close()
	}
	if numbers, err := d.List(); err != nil || len(numbers) == 0 || !slices.IsSorted(numbers) {
		t.Errorf("files %v, %v", numbers, err)
	}
}

// BenchmarkAppend measures the log on a disk in memory: its own work, without I/O.
func BenchmarkAppend(b *testing.B) {
	const rows, rowBytes = 65536, 128
	l := must(Open(Options{Dir: newDisk(rand.New(rand.NewPCG(1, 2))), Owners: 1, RowBytes: rowBytes, Slots: 1 << 20}))
	slots := make([]int32, rows)
	for i := range slots {
		slots[i] = int32(16 * i)
	}
	data := make([]byte, rows*rowBytes)
	b.SetBytes(rows * rowBytes)
	step := int64(0)
	for b.Loop() {
		step++
		if err := l.Append(step, slots, data, nil); err != nil {
			b.Fatal(err)
		}
		if step%8 == 0 {
			if err := l.CutTo(0); err != nil {
				b.Fatal(err)
			}
			step = 0
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
}

// TestRemovalIsLast opens a log one of whose files is dropped, lets CutTo fail at each of its operations, and cuts the power: no file
// is removed before the segment that drops it is durable.
func TestRemovalIsLast(t *testing.T) {
	rnd := seeded(t)
	for round := range 200 {
		d := newDisk(rnd)
		o := Options{Dir: d, Owners: 1, RowBytes: 64, Slots: 100, FileBytes: 1 << 14}
		l := must(Open(o))
		slots, rows := make([]int32, 100), make([]byte, 6400)
		for i := range slots {
			slots[i] = int32(i)
		}
		for step := int64(1); step <= 4; step++ {
			if err := errors.Join(l.Append(step, slots, rows, nil), l.Sync()); err != nil {
				t.Fatal(err)
			}
		}
		l.Settle(4)
		if err := errors.Join(l.Clean(1<<20), l.Clean(1<<20)); err != nil || len(l.dropped) == 0 {
			t.Fatalf("%d files are dropped, %v", len(l.dropped), err)
		}
		l.Close()
		l = must(Open(o))
		d.failIn = 1 + round%12
		err := l.CutTo(l.Step())
		d.failIn = 0
		l.Close()
		d.cutPower()
		if l, e := Open(o); e != nil || l.Step() != 4 {
			t.Fatalf("CutTo: %v; after a loss of power: %+v, %v", err, l, e)
		}
	}
}
