package oracle

import (
	"maps"
	"slices"
)

// central is BagPipe's Algorithm 1 as in the paper: one planner for all owners. It has
// Window's rules about classes and capacity in their plainest form: maps, and scans of
// all known steps. Nothing is stored that can be recomputed.
type central struct {
	o      WindowOptions
	owners int
	steps  []batch
	by     []*centralOwner
}

// batch is one step: of each row the trainers that use it, ascending.
type batch map[globalRow][]int

type globalRow struct {
	owner int
	slot  int32
}

// centralOwner is the state of one owner: its share of the caches, and its lookahead.
type centralOwner struct {
	lookahead int
	seen      int // steps before this one are seen
	cache     map[int32]int
	ttl       map[int32]int // Algorithm 1: last use of any row so far
	before    map[int32]int // the cache while the previous step was trained
}

func newCentral(o WindowOptions, owners int, steps []batch) *central {
	c := &central{o: o, owners: owners, steps: steps}
	for range owners {
		w := &centralOwner{lookahead: o.Lookahead, cache: map[int32]int{}, ttl: map[int32]int{}, before: map[int32]int{}}
		if o.Auto {
			w.lookahead = 1
		}
		c.by = append(c.by, w)
	}
	return c
}

// plain is a Decisions with slots instead of positions.
type plain struct {
	Step, Lookahead, Held                                               int
	Holder                                                              map[int32]int
	By                                                                  map[int32][]int
	FetchEarly, FetchCritical, SyncNow, SyncLater, EvictNow, EvictLater []int32
	Room                                                                []Copy
	Cached                                                              []Cached // after the step
}

// uses lists the known steps from t on that use a row.
func (c *central) uses(owner int, slot int32, t int) (steps []int) {
	for s := t; s < c.by[owner].seen; s++ {
		if _, ok := c.steps[s][globalRow{owner, slot}]; ok {
			steps = append(steps, s)
		}
	}
	return steps
}

func (c *central) used(owner int, slot int32, t int) bool {
	if t < 0 || t >= len(c.steps) {
		return false
	}
	_, ok := c.steps[t][globalRow{owner, slot}]
	return ok
}

// occupied returns how many rows of a cache a trainer holds.
func occupied(cache map[int32]int, trainer int) (n int) {
	for _, holder := range cache {
		if holder == Shared || holder == trainer {
			n++
		}
	}
	return n
}

// plan decides about step t for one owner. needed is not 0 if a cache is too small.
func (c *central) plan(t, owner int) (p plain, needed int) {
	w := c.by[owner]
	for w.seen < len(c.steps) && w.seen <= t+w.lookahead {
		for r := range c.steps[w.seen] {
			if r.owner == owner {
				w.ttl[r.slot] = w.seen
			}
		}
		w.seen++
	}
	p = plain{Step: t, Lookahead: w.seen - 1 - t, Holder: map[int32]int{}, By: map[int32][]int{}}
	var slots []int32
	for r, trainers := range c.steps[t] {
		if r.owner == owner {
			slots = append(slots, r.slot)
			p.By[r.slot] = trainers
		}
	}
	slices.Sort(slots)
	fetched := map[int32]int{}
	for _, slot := range slots {
		if _, ok := w.cache[slot]; ok {
			continue
		}
		readers := map[int]bool{}
		for _, s := range c.uses(owner, slot, t) {
			for _, q := range c.steps[s][globalRow{owner, slot}] {
				readers[q] = true
			}
		}
		fetched[slot] = Shared
		if len(readers) == 1 {
			fetched[slot] = p.By[slot][0]
		}
		if c.used(owner, slot, t-1) {
			p.FetchCritical = append(p.FetchCritical, slot)
		} else {
			p.FetchEarly = append(p.FetchEarly, slot)
		}
	}
	p.Room, needed = c.room(t, owner, fetched)
	if needed > 0 {
		return p, needed
	}
	full := false
	for q := range c.o.Trainers {
		p.Held = max(p.Held, occupied(w.before, q)+occupied(fetched, q))
		full = full || occupied(w.before, q)+2*occupied(fetched, q) > c.o.CapacityRows
	}
	if c.o.Auto {
		switch {
		case len(p.Room) > 0:
			w.lookahead = max(1, w.lookahead-1)
		case c.o.CapacityRows == 0 || !full:
			w.lookahead = min(c.o.Lookahead, w.lookahead+1)
		}
	}
	maps.Copy(w.cache, fetched)
	w.before = maps.Clone(w.cache)
	c.after(&p, t, owner, slots)
	return p, 0
}

// room evicts rows until the fetched ones fit, the row with the furthest next use first.
func (c *central) room(t, owner int, fetched map[int32]int) (room []Copy, needed int) {
	w := c.by[owner]
	for c.o.CapacityRows > 0 {
		over := map[int]bool{}
		needed = 0
		for q := range c.o.Trainers {
			if n := occupied(w.before, q) + occupied(fetched, q); n > c.o.CapacityRows {
				over[q] = true
				needed = max(needed, n)
			}
		}
		if len(over) == 0 {
			break
		}
		victim, furthest := int32(-1), t
		for slot, holder := range w.cache {
			helps := holder == Shared || over[holder]
			if !helps || c.used(owner, slot, t) || c.used(owner, slot, t-1) {
				continue
			}
			next := c.uses(owner, slot, t)[0]
			if next > furthest || next == furthest && slot < victim {
				victim, furthest = slot, next
			}
		}
		if victim < 0 {
			return nil, needed
		}
		room = append(room, Copy{victim, int16(w.cache[victim])})
		delete(w.cache, victim)
		delete(w.before, victim)
	}
	slices.SortFunc(room, func(a, b Copy) int { return int(a.Slot - b.Slot) })
	return room, 0
}

// after decides what happens to the rows of step t after it is trained.
func (c *central) after(p *plain, t, owner int, slots []int32) {
	w := c.by[owner]
	for _, slot := range slots {
		holder := w.cache[slot]
		p.Holder[slot] = holder
		again := c.used(owner, slot, t+1)
		if holder == Shared {
			if again {
				p.SyncNow = append(p.SyncNow, slot)
			} else {
				p.SyncLater = append(p.SyncLater, slot)
			}
		}
		if w.ttl[slot] != t { // Algorithm 1: it stays while its time to live is not over ...
			next := c.steps[c.uses(owner, slot, t+1)[0]][globalRow{owner, slot}]
			if holder == Shared || len(next) == 1 && next[0] == holder {
				continue // ... and no other trainer uses an exclusive row
			}
		}
		delete(w.cache, slot)
		if again {
			p.EvictNow = append(p.EvictNow, slot)
		} else {
			p.EvictLater = append(p.EvictLater, slot)
		}
	}
	for slot, holder := range w.cache {
		p.Cached = append(p.Cached, Cached{Copy{slot, int16(holder)}, int64(w.ttl[slot])})
	}
	slices.SortFunc(p.Cached, func(a, b Cached) int { return int(a.Slot - b.Slot) })
}
