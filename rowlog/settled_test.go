package rowlog

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/zeebo/xxh3"
)

// changeHeads changes the heads of all segments, and their sums.
func changeHeads(d *MemDir, change func(head []byte)) {
	le := binary.LittleEndian
	for _, c := range d.files {
		for at := 0; at+headSize <= len(c.now); at += Align {
			b := c.now[at : at+headSize]
			if le.Uint32(b) == magic && le.Uint64(b[headSize-8:]) == xxh3.Hash(b[:headSize-8]) {
				change(b)
				le.PutUint64(b[headSize-8:], xxh3.Hash(b[:headSize-8]))
			}
		}
	}
}

// TestSettledStepStays: the rows of an epoch before the settled step may be gone, though the log still has the epoch. The next process does
// not go back to it.
func TestSettledStepStays(t *testing.T) {
	d := NewMemDir(seeded(t))
	o := Options{Dir: d, Owners: 1, RowBytes: 64, Slots: 200, FileBytes: 1}
	l := must(Open(o))
	many, others := make([]int32, 100), make([]int32, 100)
	for i := range many {
		many[i], others[i] = int32(i), int32(100+i)
	}
	for i, slots := range [][]int32{many, others, many} {
		if err := errors.Join(l.Append(int64(i+1), slots, make([]byte, 6400), nil), l.Sync()); err != nil {
			t.Fatal(err)
		}
	}
	l.Settle(3)
	if err := errors.Join(l.Clean(1<<20), l.Clean(1<<20), l.Sync()); err != nil || d.files[1] != nil || d.files[2] == nil {
		t.Fatalf("%v; of the files of steps 1 and 2 the first is to be removed: %v", err, d.files)
	}
	l.Close()
	l = must(Open(o))
	if l.Settled() != 3 || !l.Holds(3) || l.Holds(2) || l.StepUpTo(2) != 0 || l.StepUpTo(4) != 3 || !l.Holds(0) {
		t.Errorf("settled at step %d; steps held: 3 %v, 2 %v, 0 %v; up to 2 %d, up to 4 %d", l.Settled(), l.Holds(3), l.Holds(2), l.Holds(0),
			l.StepUpTo(2), l.StepUpTo(4))
	}
	l.Close()
	changeHeads(d, func(head []byte) { clear(head[112:120]) }) // older versions wrote zeros
	l = must(Open(o))
	if l.Settled() != 0 || l.Step() != 3 || !l.Holds(2) {
		t.Errorf("a log of an older version: settled at step %d of %d", l.Settled(), l.Step())
	}
	l.Settle(3)
	if err := errors.Join(l.CutTo(0), l.Append(1, many, make([]byte, 6400), nil), l.Sync()); err != nil {
		t.Fatal(err)
	}
	l.Close()
	if l = must(Open(o)); l.Settled() != 0 || !l.Holds(1) {
		t.Errorf("a log that began anew is settled at step %d of %d", l.Settled(), l.Step())
	}
}

// TestOtherFormat: a log of another format is an error, and no file of it counts as torn, whichever segments have the format.
func TestOtherFormat(t *testing.T) {
	rnd := seeded(t)
	for _, all := range []bool{true, false} {
		d := NewMemDir(rnd)
		o := options(rnd, d)
		l := must(Open(o))
		for step := int64(1); step <= 3; step++ {
			slots, rows, extra := epoch(rnd, &o)
			if err := errors.Join(l.Append(step, slots, rows, extra), l.Sync()); err != nil {
				t.Fatal(err)
			}
		}
		l.Close()
		changeHeads(d, func(head []byte) {
			if all || kind(binary.LittleEndian.Uint32(head[84:])) != kindFile {
				binary.LittleEndian.PutUint32(head[4:], version+1)
			}
		})
		before, _ := d.List()
		l, err := Open(o)
		if format := (*Format)(nil); !errors.As(err, &format) || format.Version != version+1 {
			t.Errorf("all segments %v: %+v, %v", all, l, err)
			if err == nil {
				t.Logf("after a cut: %v", l.CutTo(l.Step()))
			}
		}
		if after, _ := d.List(); len(after) != len(before) {
			t.Errorf("all segments %v: files %v, then %v", all, before, after)
		}
	}
}
