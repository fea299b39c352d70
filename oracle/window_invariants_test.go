package oracle

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// caches applies the decisions of one owner to counters: the value of a row is the number
// of its updates. It carries out each decision at its time. It reports an error if a
// training step would miss, lose or repeat an update.
type caches struct {
	o       WindowOptions
	writer  func(int) int
	updates map[int32]int   // the truth: number of steps that used the row
	owner   map[int32]int   // values at the owner
	copies  []map[int32]int // values at each trainer
	last    *Decisions      // the previous step
	later   []func()        // delayed work of the previous step
}

func newCaches(o WindowOptions, writer func(int) int) *caches {
	c := &caches{o: o, writer: writer, updates: map[int32]int{}, owner: map[int32]int{}}
	for range o.Trainers {
		c.copies = append(c.copies, map[int32]int{})
	}
	return c
}

func (c *caches) holders(holder int16) (all []int) {
	for q := range c.o.Trainers {
		if holder == Shared || int(holder) == q {
			all = append(all, q)
		}
	}
	return all
}

// fetch copies the owner's value to the holders.
func (c *caches) fetch(slot int32, holder int16) error {
	for _, q := range c.holders(holder) {
		if _, ok := c.copies[q][slot]; ok {
			return fmt.Errorf("row %d is fetched while trainer %d still holds it", slot, q)
		}
		c.copies[q][slot] = c.owner[slot]
	}
	return nil
}

// drop removes the row from its holders and returns the writer's value.
func (c *caches) drop(slot int32, holder int16) (value int, err error) {
	for _, q := range c.holders(holder) {
		v, ok := c.copies[q][slot]
		if !ok {
			return 0, fmt.Errorf("row %d is dropped by trainer %d, which does not hold it", slot, q)
		}
		if q == c.writer(int(holder)) {
			value = v
		}
		delete(c.copies[q], slot)
	}
	return value, nil
}

// step applies the decisions from the previous step's computation to the reads of this
// one.
func (c *caches) step(d *Decisions) error {
	if err := c.whileLastComputes(d); err != nil {
		return fmt.Errorf("before step %d: %w", d.Step, err)
	}
	if err := c.finishLast(); err != nil {
		return fmt.Errorf("after step %d: %w", d.Step-1, err)
	}
	for _, u := range d.FetchCritical {
		if err := c.fetch(d.Slots[u], d.Holder[u]); err != nil {
			return err
		}
	}
	if err := c.read(d); err != nil {
		return fmt.Errorf("step %d: %w", d.Step, err)
	}
	c.last = d
	return nil
}

func (c *caches) whileLastComputes(d *Decisions) error {
	for _, f := range c.later {
		f()
	}
	c.later = nil
	for _, r := range d.EvictForRoom {
		used := slices.Contains(d.Slots, r.Slot) || c.last != nil && slices.Contains(c.last.Slots, r.Slot)
		if used {
			return fmt.Errorf("row %d is evicted to make room although it is in use", r.Slot)
		}
		value, err := c.drop(r.Slot, r.Holder)
		if err != nil {
			return err
		}
		c.owner[r.Slot] = value
	}
	for _, u := range d.FetchEarly {
		if err := c.fetch(d.Slots[u], d.Holder[u]); err != nil {
			return err
		}
	}
	most := 0
	for q, copies := range c.copies {
		held := len(copies)
		for _, u := range d.FetchCritical {
			if slices.Contains(c.holders(d.Holder[u]), q) {
				held++
			}
		}
		most = max(most, held)
	}
	if most != d.Held || c.o.CapacityRows > 0 && most > c.o.CapacityRows {
		return fmt.Errorf("%d rows are held, want %d of %d", most, d.Held, c.o.CapacityRows)
	}
	return nil
}

// finishLast updates the rows of the previous step.
func (c *caches) finishLast() error {
	d := c.last
	if d == nil {
		return nil
	}
	synced := map[int32]int{}
	add := func(list []int32) {
		for _, u := range list {
			synced[u]++
		}
	}
	add(d.SyncNow)
	add(d.SyncLater)
	now := map[int32]bool{}
	for _, u := range d.SyncNow {
		now[u] = true
	}
	for i, slot := range d.Slots {
		holder := d.Holder[i]
		if shared := holder == Shared; shared != (synced[int32(i)] == 1) || synced[int32(i)] > 1 {
			return fmt.Errorf("row %d of holder %d is synchronised %d times", slot, holder, synced[int32(i)])
		}
		update := func() {
			for _, q := range c.holders(holder) {
				if _, ok := c.copies[q][slot]; ok {
					c.copies[q][slot]++
				}
			}
		}
		switch leaves := slices.Contains(d.EvictLater, int32(i)); {
		case holder != Shared || now[int32(i)]:
			update()
		case leaves: // the sum is written back with the row, below
		default:
			c.later = append(c.later, update)
		}
	}
	for k, list := range [][]int32{d.EvictNow, d.EvictLater} {
		for _, u := range list {
			slot, holder := d.Slots[u], d.Holder[u]
			value, err := c.drop(slot, holder)
			if err != nil {
				return err
			}
			if holder == Shared && !now[u] {
				value++
			}
			if k == 0 {
				c.owner[slot] = value
			} else {
				c.later = append(c.later, func() { c.owner[slot] = value })
			}
		}
	}
	return nil
}

// read checks the staleness invariant: step t reads rows with all updates of earlier
// steps.
func (c *caches) read(d *Decisions) error {
	if !slices.IsSorted(d.Slots) {
		return fmt.Errorf("slots are not ascending")
	}
	for i, slot := range d.Slots {
		by := d.By[d.Start[i]:d.Start[i+1]]
		for _, q := range by {
			if d.Holder[i] != Shared && (int(q) != int(d.Holder[i]) || len(by) != 1) {
				return fmt.Errorf("row %d is wanted by %d and is exclusive to %d", slot, by, d.Holder[i])
			}
			v, ok := c.copies[q][slot]
			if !ok || v != c.updates[slot] {
				return fmt.Errorf("trainer %d reads row %d with %d updates (held: %t), want %d", q, slot, v, ok, c.updates[slot])
			}
		}
		c.updates[slot]++
	}
	return nil
}

// end finishes the last step and checks that the owner has every update.
func (c *caches) end() error {
	if err := c.finishLast(); err != nil {
		return err
	}
	for _, f := range c.later {
		f()
	}
	for q, copies := range c.copies {
		if len(copies) > 0 {
			return fmt.Errorf("at the end: trainer %d still holds %v", q, copies)
		}
	}
	for slot, n := range c.updates {
		if c.owner[slot] != n {
			return fmt.Errorf("at the end: row %d has %d updates at its owner, want %d", slot, c.owner[slot], n)
		}
	}
	return nil
}

func (d *Decisions) clone() *Decisions {
	c := *d
	c.Slots, c.Start, c.By, c.Holder = slices.Clone(d.Slots), slices.Clone(d.Start), slices.Clone(d.By), slices.Clone(d.Holder)
	c.FetchEarly, c.FetchCritical = slices.Clone(d.FetchEarly), slices.Clone(d.FetchCritical)
	c.SyncNow, c.SyncLater = slices.Clone(d.SyncNow), slices.Clone(d.SyncLater)
	c.EvictNow, c.EvictLater = slices.Clone(d.EvictNow), slices.Clone(d.EvictLater)
	c.EvictForRoom = slices.Clone(d.EvictForRoom)
	return &c
}

// plans returns all decisions of a random run with one owner.
func plans(t *testing.T, r *rand.Rand, i int) (name string, w *Window, all []*Decisions) {
	t.Helper()
	o, _ := options(r, i)
	o.Prefetch = func(memory []uint64, at []int32) {
		for _, i := range at {
			_ = memory[i] // panics if an index is out of range
		}
	}
	steps := stream(r, 1+r.IntN(80), 1, o.Trainers)
	f := windowRun{w: NewWindow(o)}
	for range steps {
		var d Decisions
		if f.next(steps, 0, &d) != nil {
			return "", nil, nil // the cache is too small: covered by TestWindowsEqualOneCentralPlanner
		}
		all = append(all, d.clone())
	}
	return fmt.Sprintf("run %d: %+v, %d steps", i, o, len(steps)), f.w, all
}

func runPlans(w *Window, all []*Decisions) error {
	c := newCaches(w.o, w.Writer)
	for _, d := range all {
		if err := c.step(d); err != nil {
			return err
		}
	}
	return c.end()
}

func TestDecisionsKeepRowsExact(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range 500 {
		name, w, all := plans(t, r, i)
		if w == nil {
			continue
		}
		if err := runPlans(w, all); err != nil {
			t.Fatalf("seed %d, %s: %v", seed, name, err)
		}
	}
}

// take removes a random item of a list and returns it.
func take[T any](r *rand.Rand, list *[]T) (item T, ok bool) {
	if len(*list) == 0 {
		return item, false
	}
	i := r.IntN(len(*list))
	item = (*list)[i]
	*list = slices.Delete(*list, i, i+1)
	return item, true
}

// forget drops an item of a list. move moves one to another list.
func forget[T any](list func(*Decisions) *[]T) func(*rand.Rand, *Decisions) bool {
	return func(r *rand.Rand, d *Decisions) bool { _, ok := take(r, list(d)); return ok }
}

func move(from, to func(*Decisions) *[]int32) func(*rand.Rand, *Decisions) bool {
	return func(r *rand.Rand, d *Decisions) bool {
		u, ok := take(r, from(d))
		if ok {
			*to(d) = append(*to(d), u)
		}
		return ok
	}
}

// breaks are faults of a planner: each changes one decision.
func breaks() map[string]func(*rand.Rand, *Decisions) bool {
	early := func(d *Decisions) *[]int32 { return &d.FetchEarly }
	critical := func(d *Decisions) *[]int32 { return &d.FetchCritical }
	now, later := func(d *Decisions) *[]int32 { return &d.SyncNow }, func(d *Decisions) *[]int32 { return &d.SyncLater }
	evictNow, evictLater := func(d *Decisions) *[]int32 { return &d.EvictNow }, func(d *Decisions) *[]int32 { return &d.EvictLater }
	return map[string]func(*rand.Rand, *Decisions) bool{
		"an early fetch is omitted":                              forget(early),
		"a critical fetch is omitted":                            forget(critical),
		"a critical fetch races the update":                      move(critical, early),
		"a sum for the next step is omitted":                     forget(now),
		"a sum for the next step is delayed":                     move(now, later),
		"a delayed sum is omitted":                               forget(later),
		"an eviction is omitted":                                 forget(evictLater),
		"the eviction of a row fetched again at once is omitted": forget(evictNow),
		"a row fetched again at once is written back late":       move(evictNow, evictLater),
		"no row is evicted to make room":                         forget(func(d *Decisions) *[]Copy { return &d.EvictForRoom }),
		"a row is evicted that is used again": func(r *rand.Rand, d *Decisions) bool {
			for i := range d.Slots {
				if u := int32(i); !slices.Contains(d.EvictNow, u) && !slices.Contains(d.EvictLater, u) {
					d.EvictNow = append(d.EvictNow, u)
					return true
				}
			}
			return false
		},
		"a row in use is evicted to make room": func(r *rand.Rand, d *Decisions) bool {
			if len(d.Slots) == 0 || d.Held == 0 {
				return false
			}
			i := r.IntN(len(d.Slots))
			d.EvictForRoom = append(d.EvictForRoom, Copy{d.Slots[i], d.Holder[i]})
			return true
		},
		"a shared row is treated as exclusive": func(r *rand.Rand, d *Decisions) bool {
			for i, h := range d.Holder {
				if h == Shared {
					d.Holder[i] = int16(d.By[d.Start[i]])
					return true
				}
			}
			return false
		},
		"an exclusive row is treated as shared": func(r *rand.Rand, d *Decisions) bool {
			for i, h := range d.Holder {
				if h != Shared {
					d.Holder[i] = Shared
					return true
				}
			}
			return false
		},
	}
}

// The counters notice every fault of a planner.
func TestBrokenPlannersAreCaught(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	for name, spoil := range breaks() {
		r := rand.New(rand.NewPCG(seed, 0))
		spoiled := 0
		for i := 0; i < 2000 && spoiled < 20; i++ {
			run, w, all := plans(t, r, i)
			begin := 0
			if len(all) > 0 {
				begin = r.IntN(len(all))
			}
			for _, d := range all[begin:] {
				if spoil(r, d) {
					spoiled++
					if runPlans(w, all) == nil {
						t.Errorf("seed %d, %s: step %d: %s, not noticed", seed, run, d.Step, name)
					}
					break
				}
			}
		}
		if spoiled < 20 {
			t.Errorf("seed %d: %s: tried only %d times", seed, name, spoiled)
		}
	}
}
