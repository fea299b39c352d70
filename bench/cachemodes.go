package bench

import (
	"slices"

	"github.com/ecrec/ecrec/oracle"
)

// countDirect counts modes none and planned at step now, between last and the newest planned step.
func (o *cacheOwner) countDirect() {
	s := &o.now
	o.before, o.after = among(o.before, s.slots, o.last.slots), among(o.after, s.slots, o.d.Slots)
	for i := range s.slots {
		by := s.by[s.start[i]:s.start[i+1]]
		for _, q := range by {
			o.modes[noCache].countSend(o.self, int(q), critical)
			o.modes[noCache].countSend(int(q), o.self, critical)
			o.modes[planned].countSend(o.self, int(q), path(o.before[i]))
			o.modes[planned].countSend(int(q), o.self, path(o.after[i]))
		}
		if len(by) > 1 || int(by[0]) != o.self {
			o.modes[noCache].rows[critical]++
			o.modes[planned].rows[path(o.before[i] || o.after[i])]++
		}
	}
}

// among reports for each slot whether it is also in the other list. Both lists ascend.
func among(dst []bool, slots, other []int32) []bool {
	dst = dst[:0]
	for _, slot := range slots {
		for len(other) > 0 && other[0] < slot {
			other = other[1:]
		}
		dst = append(dst, len(other) > 0 && other[0] == slot)
	}
	return dst
}

func (o *cacheOwner) countReplicated() {
	c := &o.modes[replicated]
	c.rows[critical] += float64(len(o.one.Slots))
	c.allReduce(len(o.one.Slots), critical)
	for range o.one.FetchEarly {
		for q := range o.ranks {
			c.sendState(o.self, q, later)
		}
	}
}

func (o *cacheOwner) countPartitioned() {
	c := &o.modes[partitioned]
	for _, i := range o.one.FetchEarly {
		by := o.readers(int(i))
		home := by[int(o.one.Slots[i])%len(by)]
		o.home[o.one.Slots[i]] = home
		c.sendState(o.self, int(home), later)
	}
	for i, slot := range o.one.Slots {
		home, by := o.home[slot], o.readers(i)
		for _, q := range by {
			c.countSend(int(home), int(q), critical)
			c.countSend(int(q), int(home), critical)
		}
		if len(by) > 1 || by[0] != home {
			c.rows[critical]++
		}
	}
	for _, i := range o.one.EvictLater {
		c.sendState(int(o.home[o.one.Slots[i]]), o.self, later)
		delete(o.home, o.one.Slots[i])
	}
}

// countLRPP counts both ways of keeping shared rows equal.
func (o *cacheOwner) countLRPP() {
	d, reduced, owners := &o.d, &o.modes[lrppReduced], &o.modes[lrppOwners]
	for p, list := range [paths][]int32{later: d.FetchEarly, critical: d.FetchCritical} {
		for _, i := range list {
			if h := d.Holder[i]; h != oracle.Shared {
				reduced.sendState(o.self, int(h), p)
				owners.sendState(o.self, int(h), p)
				continue
			}
			for q := range o.ranks {
				reduced.sendState(o.self, q, p)
				owners.countSend(o.self, q, p)
			}
		}
	}
	for p, list := range [paths][]int32{later: d.SyncLater, critical: d.SyncNow} {
		reduced.allReduce(len(list), p)
		reduced.rows[p] += float64(len(list))
		owners.rows[p] += float64(len(list))
		for _, i := range list {
			for _, q := range o.readers(int(i)) {
				owners.countSend(int(q), o.self, p)
			}
			if _, leaves := slices.BinarySearch(d.EvictLater, i); leaves {
				continue
			}
			for q := range o.ranks {
				owners.countSend(o.self, q, p)
			}
		}
	}
	for p, list := range [paths][]int32{later: d.EvictLater, critical: d.EvictNow} {
		for _, i := range list {
			if h := d.Holder[i]; h != oracle.Shared { // the owner has a copy of shared ones
				reduced.sendState(int(h), o.self, p)
				owners.sendState(int(h), o.self, p)
			}
		}
	}
}

// optimum computes the least number of row messages of any scheme that applies each update in one
// place, given all future uses and caches without limit.
//
// After each use a row's value is at one place v. Before the next use every reader except v must
// receive the value. Every reader except the next place h must send h its gradient. If h is
// neither a reader nor v, it needs the value as well. For readers R that is
// |R \ {v}| + |R \ {h}| + [h not in R or v]. The least sum over all sequences of places is found
// use by use. A row begins at its owner, or anywhere if it was used before counting began. It may
// end anywhere.
type optimum struct {
	self, ranks int
	index       map[int32]int32
	cost        []int32 // (rows, ranks): least messages so far with the row at each rank
}

// unreached is the cost of an impossible place.
const unreached = 1 << 30

func newOptimum(self, ranks int) *optimum {
	return &optimum{self: self, ranks: ranks, index: map[int32]int32{}}
}

func (b *optimum) reset() { clear(b.cost) }

func (b *optimum) addUse(slot int32, readers []uint16) {
	row, ok := b.index[slot]
	if !ok {
		row = int32(len(b.index))
		b.index[slot] = row
		for q := range b.ranks {
			c := int32(unreached)
			if q == b.self {
				c = 0
			}
			b.cost = append(b.cost, c)
		}
	}
	cost := b.cost[int(row)*b.ranks : (int(row)+1)*b.ranks]
	// The least cost up to this use, with the values sent to the readers.
	for q := range cost {
		cost[q] += int32(len(readers))
	}
	for _, q := range readers {
		cost[q]--
	}
	least := slices.Min(cost)
	for h := range cost {
		// A rank that is not a reader must also receive the value, unless it has it.
		cost[h] = min(cost[h], least+1) + int32(len(readers))
	}
	for _, q := range readers {
		cost[q] = least + int32(len(readers)) - 1
	}
}

// messages returns the least sum for all rows.
func (b *optimum) messages() (sum float64) {
	for row := range len(b.index) {
		sum += float64(slices.Min(b.cost[row*b.ranks : (row+1)*b.ranks]))
	}
	return sum
}
