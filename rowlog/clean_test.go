package rowlog

import (
	"bytes"
	"errors"
	"testing"
)

// TestCleaning checks that a log which is cleaned as fast as it grows stays small, whatever rows are written.
func TestCleaning(t *testing.T) {
	rnd := seeded(t)
	d := NewMemDir(rnd)
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

// TestRemovalIsLast opens a log one of whose files is dropped, lets CutTo fail at each of its operations, and cuts the power: no file
// is removed before the segment that drops it is durable.
func TestRemovalIsLast(t *testing.T) {
	rnd := seeded(t)
	for round := range 200 {
		d := NewMemDir(rnd)
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
		d.FailIn(1 + round%12)
		err := l.CutTo(l.Step())
		d.FailIn(0)
		l.Close()
		d.CutPower()
		if l, e := Open(o); e != nil || l.Step() != 4 {
			t.Fatalf("CutTo: %v; after a loss of power: %+v, %v", err, l, e)
		}
	}
}
