package rowlog

import (
	"errors"
	"slices"
	"testing"
)

// TestDropParts appends parts of an epoch until the disk fails, and drops them: the log is as large as before, and takes other epochs. That may
// fail too, and the power may be cut.
func TestDropParts(t *testing.T) {
	rnd, failed := seeded(t), 0
	for range 400 {
		d := NewMemDir(rnd)
		o := options(rnd, d)
		w, l := newTwin(), must(Open(o))
		add := func(step int64) {
			slots, rows, extra := epoch(rnd, &o)
			if err := errors.Join(l.Append(step, slots, rows, extra), l.Sync()); err != nil {
				t.Fatal(err)
			}
			w.add(step, slots, rows, extra, o.RowBytes)
		}
		steps := rnd.Int64N(4)
		for step := range steps {
			add(step + 1)
		}
		before, _ := l.Size()
		for range 1 + rnd.IntN(8) {
			slots, rows, _ := epoch(rnd, &o)
			if d.FailIn(rnd.IntN(9)); l.AppendPart(steps+1, slots, rows) != nil {
				break
			}
		}
		d.FailIn(0)
		if l.Failed() != nil { // of a sync
			continue
		}
		d.FailIn(max(0, rnd.IntN(20)-10))
		err := l.DropParts()
		if d.FailIn(0); err != nil {
			failed++
			l.Close()
			d.CutPower()
			if l = must(Open(o)); l.Step() != steps {
				t.Fatalf("%v; after a loss of power the log ends at step %d of %d", err, l.Step(), steps)
			}
			if steps > 0 {
				w.check(t, l)
			}
			continue
		}
		after, _ := l.Size()
		if steps > 0 && after != before || len(l.parts) > 0 || l.Step() != steps {
			t.Fatalf("%d bytes, and %d before; %d parts, step %d of %d", after, before, len(l.parts), l.Step(), steps)
		}
		if rnd.IntN(2) == 0 {
			l.Close()
			d.CutPower()
			if l = must(Open(o)); l.Step() != steps {
				t.Fatalf("after a loss of power the log ends at step %d of %d", l.Step(), steps)
			}
			if err := l.CutTo(steps); err != nil {
				t.Fatal(err)
			}
		}
		add(steps + 2)
		w.check(t, l)
		l.Close()
		l = must(Open(o))
		w.check(t, l)
		if files, _ := d.List(); len(files) != len(l.files) || !slices.IsSorted(files) {
			t.Errorf("files %v, of which the log has %d", files, len(l.files))
		}
	}
	if failed == 0 {
		t.Error("no parts stayed since the disk failed")
	}
}
