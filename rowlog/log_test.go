package rowlog

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/internal/env"
)

// TestPowerCuts appends epochs, makes some durable, cleans files, lets writes fail, and cuts the power at any time. The log that is
// opened then ends at a step that was appended, no older than the durable one, and holds the rows of exactly that step.
func TestPowerCuts(t *testing.T) {
	rnd := seeded(t)
	rounds := 250
	if testing.Short() {
		rounds = 60
	}
	var seen struct{ cuts, failures, torn, copied, dropped, voided, undone int }
	for range rounds {
		d := NewMemDir(rnd)
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
				d.FailIn(1 + rnd.IntN(6))
			}
			err = l.CutTo(cut)
			d.FailIn(0)
			if errors.Is(err, ErrDisk) {
				l.Close()
				d.CutPower()
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			w.cutTo(cut)
			if cut == 0 {
				w, step, settled = newTwin(), 0, 0
			}
			if l.Step() != cut || l.Durable() != cut {
				t.Fatalf("after a cut to step %d the log ends at %d, durable up to %d", cut, l.Step(), l.Durable())
			}
			w.check(t, l)
			for range rnd.IntN(12) {
				d.FailIn(max(0, rnd.IntN(60)-45))
				slots, rows, extra := epoch(rnd, &o)
				step = max(step, l.Step()) + 1 + rnd.Int64N(3)
				parts := w.appendParts(rnd, l, step, &o)
				if rnd.IntN(4) == 0 {
					if err := l.DropParts(); err != nil && !errors.Is(err, ErrDisk) {
						t.Fatal(err)
					}
					seen.undone += len(parts)
					clear(parts)
				}
				if rnd.IntN(4) == 0 {
					// the epoch is not complete
				} else if err := l.Append(step, slots, rows, extra); err == nil {
					w.add(step, slots, rows, extra, o.RowBytes)
					w.addOlder(step, parts, slots)
				} else if seen.failures++; !errors.Is(err, ErrDisk) {
					t.Fatal(err)
				}
				if err := l.Clean(rnd.Int64N(3) * rnd.Int64N(40_000)); err != nil && !errors.Is(err, ErrDisk) {
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
				d.FailIn(0)
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
				d.CutPower()
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
	if seen.torn == 0 || seen.failures == 0 || seen.copied == 0 || seen.dropped == 0 || seen.voided == 0 || seen.undone == 0 {
		t.Error("something never happened")
	}
}

// recorder records what may block.
type recorder struct {
	env.Env
	did []string
}

func (r *recorder) Do(what string, action func() error) error {
	r.did = append(r.did, what)
	return r.Env.Do(what, action)
}

// TestFoldersAreDurable: the name of each folder that is made survives a loss of power.
func TestFoldersAreDurable(t *testing.T) {
	e, home := &recorder{Env: env.Real()}, t.TempDir()
	for _, want := range [][]string{{home + "/a/b", home + "/a", home}, nil} { // the second time they are there
		e.did = nil
		d, err := OpenDir(e, home+"/a/b/rows", Access{})
		if err != nil {
			t.Fatal(err)
		}
		d.Close()
		for i := range want {
			want[i] = "sync " + want[i]
		}
		got := slices.DeleteFunc(e.did, func(what string) bool { return !strings.HasPrefix(what, "sync ") })
		if !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
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
	l := must(Open(Options{Dir: NewMemDir(rand.New(rand.NewPCG(1, 2))), Owners: 1, RowBytes: rowBytes, Slots: 1 << 20}))
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
