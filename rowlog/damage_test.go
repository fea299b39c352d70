package rowlog

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
)

// TestDamage changes one byte of a durable log, and checks that the log returns the rows that were appended, or an error: never
// other rows.
func TestDamage(t *testing.T) {
	rnd := seeded(t)
	found, harmless := 0, 0
	for range 400 {
		d := NewMemDir(rnd)
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

// TestForeign checks that the log of another run or owner is reported as such, and that a misdirected segment is not taken for one of
// the log.
func TestForeign(t *testing.T) {
	rnd := seeded(t)
	d := NewMemDir(rnd)
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
	d := NewMemDir(seeded(t))
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
		d := NewMemDir(rnd)
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
	d := NewMemDir(rnd)
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
		d := NewMemDir(rnd)
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
