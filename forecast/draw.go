package forecast

import "slices"

// slots draws n of some slots.
func (b *bench) slots(n, of int) []int32 {
	list := make([]int32, n)
	for i := range list {
		list[i] = int32(b.random.IntN(of))
	}
	return list
}

// distinct draws n different slots, ascending. n is at most of.
func (b *bench) distinct(n, of int) []int32 {
	list := make([]int32, 0, n)
	for slot := 0; len(list) < n; slot++ {
		if b.random.IntN(of-slot) < n-len(list) {
			list = append(list, int32(slot))
		}
	}
	return list
}

// requests are the slots that some ranks request, ascending for each.
type requests struct {
	slots   []int32
	perRank []int
}

// requests draws n slots, divided among some ranks.
func (b *bench) requests(n, ranks, of int) (r requests) {
	for rank := range ranks {
		part := b.slots((rank+1)*n/ranks-rank*n/ranks, of)
		slices.Sort(part)
		part = slices.Compact(part)
		r.slots, r.perRank = append(r.slots, part...), append(r.perRank, len(part))
	}
	return r
}

// count lists the numbers below n.
func count(n int) []int32 {
	list := make([]int32, n)
	for i := range list {
		list[i] = int32(i)
	}
	return list
}
