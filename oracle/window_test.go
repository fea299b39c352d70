package oracle

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"
)

// stream returns random steps of a few skewed rows.
func stream(r *rand.Rand, steps, owners, trainers int) []batch {
	slots := 1 + r.IntN(60)
	lookups := r.IntN(24)
	if r.IntN(10) == 0 { // rows of many blocks
		slots, lookups = slots+10*linkBlock, lookups*linkBlock/4
	}
	all := make([]batch, steps)
	for t := range all {
		all[t] = batch{}
		for trainer := range trainers {
			for range lookups {
				u := r.Float64()
				row := globalRow{r.IntN(owners), int32(u * u * u * float64(slots))}
				if by := all[t][row]; !slices.Contains(by, trainer) {
					all[t][row] = append(by, trainer)
				}
			}
		}
	}
	return all
}

// lists returns one owner's part of a step in the form that Add takes.
func (b batch) lists(owner, trainers int) (slots, start, pos []int32, perTrainer []int) {
	var lists []int32
	for trainer := range trainers {
		before := len(lists)
		for r, by := range b {
			if r.owner == owner && slices.Contains(by, trainer) {
				lists = append(lists, r.slot)
			}
		}
		slices.Sort(lists[before:])
		perTrainer = append(perTrainer, len(lists)-before)
	}
	var m Merged
	m.Merge(lists, perTrainer)
	return m.Slots, m.Start, m.Pos, perTrainer
}

// toPlain names rows by slot, as the reference does.
func toPlain(d *Decisions, cached []Cached) plain {
	p := plain{Step: int(d.Step), Lookahead: d.Lookahead, Held: d.Held, Holder: map[int32]int{}, By: map[int32][]int{},
		Room: slices.Clone(d.EvictForRoom), Cached: cached}
	for u, slot := range d.Slots {
		p.Holder[slot] = int(d.Holder[u])
		for _, q := range d.By[d.Start[u]:d.Start[u+1]] {
			p.By[slot] = append(p.By[slot], int(q))
		}
	}
	for _, l := range []struct {
		to   *[]int32
		from []int32
	}{{&p.FetchEarly, d.FetchEarly}, {&p.FetchCritical, d.FetchCritical}, {&p.SyncNow, d.SyncNow}, {&p.SyncLater, d.SyncLater},
		{&p.EvictNow, d.EvictNow}, {&p.EvictLater, d.EvictLater}} {
		for _, u := range l.from {
			*l.to = append(*l.to, d.Slots[u])
		}
	}
	if len(p.Room) == 0 {
		p.Room = nil
	}
	return p
}

// windowRun feeds steps to one window and returns its decisions.
type windowRun struct {
	w     *Window
	added int
}

func (f *windowRun) next(steps []batch, owner int, d *Decisions) error {
	for !f.w.Ready() {
		if f.added == len(steps) {
			f.w.End()
			continue
		}
		f.w.Add(steps[f.added].lists(owner, f.w.o.Trainers))
		f.added++
	}
	return f.w.Next(d)
}

func options(r *rand.Rand, i int) (o WindowOptions, owners int) {
	o = WindowOptions{Trainers: 1 + r.IntN(5), Lookahead: []int{1, 2, 7, 50, 20}[i%5], Auto: i%5 == 4}
	o.Self = r.IntN(o.Trainers+1) - 1
	if o.Auto || r.IntN(3) > 0 {
		o.CapacityRows = 10 + r.IntN(60)
	}
	return o, 1 + r.IntN(5)
}

// The windows of all owners together decide what Algorithm 1 decides centrally.
func TestWindowsEqualOneCentralPlanner(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	var roomMade, tooSmall int
	for i := range 200 {
		o, owners := options(r, i)
		steps := stream(r, 1+r.IntN(70), owners, o.Trainers)
		name := fmt.Sprintf("seed %d, run %d: %+v, %d owners, %d steps", seed, i, o, owners, len(steps))
		c := newCentral(o, owners, steps)
		for owner := range owners {
			f := windowRun{w: NewWindow(o)}
			var d Decisions
			for step := range steps {
				want, needed := c.plan(step, owner)
				err := f.next(steps, owner, &d)
				if needed > 0 {
					var full *CapacityError
					if !errors.As(err, &full) || full.NeededRows != needed || full.Step != int64(step) || full.CapacityRows != o.CapacityRows {
						t.Fatalf("%s: step %d needs %d rows: %v", name, step, needed, err)
					}
					tooSmall++
					break
				}
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if got := toPlain(&d, f.w.AppendCached(nil)); !reflect.DeepEqual(got, want) {
					t.Fatalf("%s: owner %d:\n got %+v\nwant %+v", name, owner, got, want)
				}
				roomMade += len(d.EvictForRoom)
			}
		}
	}
	if roomMade == 0 || tooSmall == 0 {
		t.Errorf("seed %d: not covered: %d rows evicted to make room, %d caches too small", seed, roomMade, tooSmall)
	}
}

// An automatic lookahead grows up to its limit while the cache has room. It shrinks when
// rows are evicted to make room.
func TestAutoLookahead(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	steps := append(zipfLike(r, 50, 60, 3), zipfLike(r, 10, 100, 3)...) // a surge
	for _, c := range []struct {
		capacity, least, most int
		falls                 bool
	}{{0, 30, 30, false}, {100_000, 30, 30, false}, {160, 2, 30, true}} {
		w := NewWindow(WindowOptions{Trainers: 3, Lookahead: 30, Auto: true, CapacityRows: c.capacity})
		var d Decisions
		most, before, falls := 0, 0, false
		for range 5 {
			for _, add := range steps {
				if add(w); !w.Ready() {
					continue
				}
				if err := w.Next(&d); err != nil {
					t.Fatal(err)
				}
				if d.Lookahead > before+1 {
					t.Fatalf("capacity %d: lookahead %d after %d", c.capacity, d.Lookahead, before)
				}
				falls = falls || d.Lookahead < before
				before, most = d.Lookahead, max(most, d.Lookahead)
			}
		}
		if most < c.least || most > c.most || falls != c.falls {
			t.Errorf("capacity %d: lookahead up to %d, fell: %t; want %+v", c.capacity, most, falls, c)
		}
	}
}

// Steps are distinguished by 16 bits. A row that stays in view for more than 1<<16 steps
// must still count as exclusive.
func TestRowInEveryWindow(t *testing.T) {
	o := WindowOptions{Trainers: 2, Self: -1, Lookahead: 4, CapacityRows: 4}
	steps := make([]batch, 70_000)
	for s := range steps {
		steps[s] = batch{}
		if s%4 == 0 {
			steps[s][globalRow{0, 7}] = []int{0}
		}
		if s%9_000 == 8_998 { // fill the cache: row 7 is evicted and fetched again
			for slot := range int32(4) {
				steps[s][globalRow{0, 100 + slot}] = []int{0}
			}
		}
	}
	steps[len(steps)-1][globalRow{0, 7}] = []int{1}
	c := newCentral(o, 1, steps)
	f := windowRun{w: NewWindow(o)}
	var d Decisions
	left := 0
	for s := range steps {
		want, needed := c.plan(s, 0)
		if err := f.next(steps, 0, &d); err != nil || needed > 0 {
			t.Fatalf("step %d: %v, needs %d", s, err, needed)
		}
		if got := toPlain(&d, f.w.AppendCached(nil)); !reflect.DeepEqual(got, want) {
			t.Fatalf("step %d:\n got %+v\nwant %+v", s, got, want)
		}
		left += len(d.EvictForRoom)
	}
	if left < 5 {
		t.Fatalf("the row was evicted %d times", left)
	}
}

func TestReadyRespectsLookahead(t *testing.T) {
	w := NewWindow(WindowOptions{Trainers: 1, Lookahead: 2})
	add := func() { w.Add([]int32{7}, []int32{0, 1}, []int32{0}, []int{1}) }
	for range 2 {
		add()
		if w.Ready() {
			t.Fatal("window is ready too early")
		}
	}
	add()
	var d Decisions
	if !w.Ready() || w.Next(&d) != nil || w.Ready() || d.Lookahead != 2 {
		t.Fatalf("after three steps: %+v", d)
	}
	w.End()
	for want := 1; want >= 0; want-- {
		if !w.Ready() || w.Next(&d) != nil || d.Lookahead != want {
			t.Fatalf("at the end: %+v, want a lookahead of %d", d, want)
		}
	}
	if w.Ready() || len(d.EvictLater) != 1 || len(w.AppendCached(nil)) != 0 {
		t.Fatalf("after the end: %+v", d)
	}
}

// zipfLike returns steps of rows with a skew like Criteo's, for one owner. Each trainer
// makes the given number of lookups. Each function returned adds a step.
func zipfLike(r *rand.Rand, steps, lookups, trainers int) []func(*Window) {
	const span = 1 << 23
	all := make([]func(*Window), steps)
	for t := range all {
		var lists []int32
		var per []int
		for range trainers {
			before := len(lists)
			for range lookups {
				u := r.Float64()
				rank := uint64(min(span, 1/(1-u)))
				if r.IntN(2) == 0 {
					rank = uint64(span / 2 * u * u * u * u)
				}
				lists = append(lists, int32(rank*2654435761%span)) // scattered
			}
			slices.Sort(lists[before:])
			lists = lists[:before+len(slices.Compact(lists[before:]))]
			per = append(per, len(lists)-before)
		}
		var m Merged
		m.Merge(lists, per)
		all[t] = func(w *Window) { w.Add(m.Slots, m.Start, m.Pos, per) }
	}
	return all
}

func TestWindowDoesNotAllocate(t *testing.T) {
	steps := zipfLike(rand.New(rand.NewPCG(1, 2)), 40, 100, 3)
	for _, capacity := range []int{0, 160} {
		w := NewWindow(WindowOptions{Trainers: 3, Lookahead: 10, CapacityRows: capacity})
		var d Decisions
		made := 0
		round := func() {
			for _, add := range steps {
				add(w)
				if w.Ready() {
					if err := w.Next(&d); err != nil {
						t.Fatal(err)
					}
					made += len(d.EvictForRoom)
				}
			}
		}
		round()
		round()
		if n := testing.AllocsPerRun(5, round); n != 0 {
			t.Errorf("capacity %d: %v allocations", capacity, n)
		}
		if (made > 0) != (capacity > 0) {
			t.Errorf("capacity %d: %d rows evicted to make room", capacity, made)
		}
	}
}

// The newest use of a slot is found until it is dead, also when the 32-bit numbers of
// uses wrap around.
func TestNewestAgainstMap(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	const perStep, window, apart = 8, 40, 1 << 13
	w := NewWindow(WindowOptions{Trainers: 1, Lookahead: window})
	w.uses.reserveUses(w.uses.end, 1, false)
	begin := r.Uint32()
	last := map[int32]int{}
	for s := range 60_000 {
		slots := make([]int32, perStep)
		for i := range slots {
			slots[i] = int32(r.IntN(100))
			if r.IntN(4) == 0 {
				slots[i] = int32(r.IntN(1 + s))
			}
		}
		slices.Sort(slots)
		oldest := max(0, s-window) * perStep
		w.newest.reserveSlots(slots, begin+uint32(oldest)*apart, 0)
		for i, slot := range slots {
			n := s*perStep + i
			use := begin + uint32(n)*apart
			want := use
			if before, used := last[slot]; used && before >= oldest {
				want = begin + uint32(before)*apart
			}
			one := step{slots: slots[i : i+1], solo: []uint16{0}, before: make([]uint32, 1), first: use}
			if w.linkUses(&one, 0); one.before[0] != want {
				t.Fatalf("step %d, slot %d, use %d: the one before is %d, want %d", s, slot, use, one.before[0], want)
			}
			last[slot] = n
		}
	}
}

func BenchmarkWindow(b *testing.B) {
	const trainers, lookups = 8, 18_000 // about 65,000 distinct rows in all, as in 16,384 samples of Criteo Kaggle
	steps := zipfLike(rand.New(rand.NewPCG(1, 2)), 250, lookups, trainers)
	for _, c := range []struct{ lookahead, capacity int }{{10, 0}, {50, 0}, {200, 0}, {200, 400_000}} {
		b.Run(fmt.Sprintf("lookahead=%d,capacity=%d", c.lookahead, c.capacity), func(b *testing.B) {
			w := NewWindow(WindowOptions{Trainers: trainers, Lookahead: c.lookahead, CapacityRows: c.capacity})
			var d Decisions
			at, rows := 0, 0
			step := func() {
				steps[at%len(steps)](w)
				at++
				if w.Ready() {
					if err := w.Next(&d); err != nil {
						b.Fatal(err)
					}
					rows += len(d.Slots)
				}
			}
			for range 2 * c.lookahead {
				step()
			}
			rows = 0
			for b.Loop() {
				step()
			}
			b.ReportMetric(float64(rows)/float64(b.N), "rows")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(rows), "ns/row")
			b.ReportMetric(float64(b.N)*16384/b.Elapsed().Seconds(), "samples/s")
		})
	}
}
