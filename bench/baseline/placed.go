package baseline

import "slices"

// slicesOf returns the number of samples of each rank in a batch.
func slicesOf(batch, ranks int) (room []int) {
	for r := range ranks {
		room = append(room, batch*(r+1)/ranks-batch*r/ranks)
	}
	return room
}

// costScale is the cost of a row that one trainer fetches and returns.
const costScale = 1 << 10

// Place orders the samples of each batch so that they are at the trainers where their rows have homes, as far as the slices stay
// as long as they are. Homes are those of Partitioned over the result. It returns the sample at each position of the stream.
//
// The cost of a sample at a rank is the sum over its rows that have a home elsewhere. A row that many samples use is fetched once for
// all at a rank, so each counts as its share: of a row with k lookups in the batch, min(1, (n-1)/k). Rows without a home cost nothing.
func Place(s *Stream, batch, steps, lookahead int) (order []int32) {
	n := s.Place.Owners
	room := slicesOf(batch, n)
	reordered := *s
	var current [][]uint32 // ids of the steps that are ordered
	reordered.IDs = func(step, rank int) []uint32 {
		if step < len(current) {
			at := batch * rank / n
			return current[step][at*s.Features : (at+room[rank])*s.Features]
		}
		return s.IDs(step, rank)
	}
	w := newWindow(&reordered, lookahead)
	for t := range steps {
		w.nextUses(t) // which rows are used does not depend on the order within a batch
		rows := make([]int32, 0, batch*s.Features)
		ids := make([]uint32, 0, batch*s.Features)
		for r := range n {
			rows, ids = append(rows, s.lookupsOf(t, r)...), append(ids, s.IDs(t, r)...)
		}
		at := PlaceSamples(placingCosts(rows, s.Features, n, w), room)
		ordered := make([]uint32, 0, len(ids))
		for r := range n {
			for i, of := range at {
				if int(of) == r {
					order = append(order, int32(t*batch+i))
					ordered = append(ordered, ids[i*s.Features:(i+1)*s.Features]...)
				}
			}
		}
		current = append(current, ordered)
		if t > 0 {
			current[t-1] = nil
		}
		uses := reordered.usesOf(t)
		all := usersOf(uses)
		w.placeNew(&all)
		w.evictUnused(&all, t)
	}
	return order
}

// placingCosts are the costs of the samples of a batch at all ranks.
func placingCosts(rows []int32, features, n int, w *window) []int32 {
	lookups := map[int32]int32{}
	for _, g := range rows {
		lookups[g]++
	}
	cost := make([]int32, len(rows)/features*n)
	for l, g := range rows {
		at, ok := w.placed[g]
		if !ok {
			continue
		}
		share := min(costScale, int32(n-1)*costScale/lookups[g])
		of := cost[l/features*n:][:n]
		for r := range of {
			if r != at.rank {
				of[r] += share
			}
		}
	}
	return slices.Clip(cost)
}
