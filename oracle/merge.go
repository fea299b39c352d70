package oracle

import "fmt"

// Merged is the union of ascending lists of slots, one list of each rank. Its slices
// belong to it and are overwritten by the next Merge.
type Merged struct {
	// Slots holds the distinct slots, ascending.
	Slots []int32
	// Start has len(Slots)+1 entries. The positions of Slots[u] in the lists are
	// Pos[Start[u]:Start[u+1]], in rank order.
	Start, Pos []int32

	words, spare []uint64 // slot << 32 | position
	parts        []int    // number of words in each list
}

// Merge merges the lists of all ranks, which are concatenated in lists. counts[r] is the
// length of rank r's list. Each list ascends and names no slot twice.
func (g *Merged) Merge(lists []int32, counts []int) {
	if r := onlyRank(counts); r >= 0 && counts[r] == len(lists) {
		g.copyList(lists, r)
		return
	}
	g.words, g.spare = resize(g.words, len(lists)), resize(g.spare, len(lists))
	pos := 0
	for r, n := range counts {
		last := int32(-1)
		for i, slot := range lists[pos : pos+n] {
			if slot <= last {
				panic(unsorted(slot, last, r))
			}
			last = slot
			g.words[pos+i] = uint64(slot)<<32 | uint64(pos+i)
		}
		pos += n
	}
	if pos != len(lists) {
		panic(fmt.Sprintf("oracle: lists of %d slots in all, but the counts add up to %d", len(lists), pos))
	}
	g.parts = append(g.parts[:0], counts...)
	for len(g.parts) > 1 {
		g.mergePairs()
	}
	g.collectSlots()
}

// onlyRank returns the rank whose list is the only one with slots, -1 if there is none.
func onlyRank(counts []int) int {
	only := -1
	for r, n := range counts {
		if n > 0 && only >= 0 {
			return -1
		}
		if n > 0 {
			only = r
		}
	}
	return only
}

// copyList is Merge of the list of one rank, while those of all others are empty.
func (g *Merged) copyList(list []int32, rank int) {
	n := len(list)
	g.Slots, g.Start, g.Pos = resize(g.Slots, n), resize(g.Start, n+1), resize(g.Pos, n)
	last := int32(-1)
	for i, slot := range list {
		if slot <= last {
			panic(unsorted(slot, last, rank))
		}
		last = slot
		g.Slots[i], g.Start[i], g.Pos[i] = slot, int32(i), int32(i)
	}
	g.Start[n] = int32(n)
}

func unsorted(slot, last int32, rank int) string {
	return fmt.Sprintf("oracle: slot %d follows slot %d in the list of rank %d; lists must ascend", slot, last, rank)
}

// mergePairs merges each list with its neighbour.
func (g *Merged) mergePairs() {
	words, spare, parts := g.words, g.spare, g.parts
	pairs := (len(parts) + 1) / 2
	for i := range pairs {
		a, b := parts[2*i], 0
		if 2*i+1 < len(parts) {
			b = parts[2*i+1]
		}
		merge(spare[:a+b], words[:a], words[a:a+b])
		words, spare, parts[i] = words[a+b:], spare[a+b:], a+b
	}
	g.words, g.spare, g.parts = g.spare, g.words, parts[:pairs]
}

// merge merges the ascending a and b, without common words, into out.
func merge(out, a, b []uint64) {
	for len(a) > 0 && len(b) > 0 {
		// Neither list can run out within n steps from both ends.
		n := min(len(a), len(b)) / 2
		if n == 0 {
			if a[0] < b[0] {
				out[0], a = a[0], a[1:]
			} else {
				out[0], b = b[0], b[1:]
			}
			out = out[1:]
			continue
		}
		fromA, fromB := mergeEnds(out, a, b, n)
		a, b, out = a[fromA[0]:fromA[1]], b[fromB[0]:fromB[1]], out[n:len(out)-n]
	}
	copy(out[copy(out, a):], b)
}

// mergeEnds moves the n least words to the front of out and the n greatest to its end. It
// returns the ranges of a and b that remain. Each step depends on the previous one, but
// the two ends are independent of each other. There is no branch to mispredict: the
// comparison is added to an index.
//
//go:noinline
func mergeEnds(out, a, b []uint64, n int) (fromA, fromB [2]int) {
	front, back := out[:n], out[len(out)-n:][:n]
	i, j := 0, 0
	p, q := len(a)-1, len(b)-1
	for k := range front {
		x, y := a[i], b[j]
		front[k] = min(x, y)
		i += less(x, y)
		j = k + 1 - i
		x, y = a[p], b[q]
		back[n-1-k] = max(x, y)
		p -= less(y, x)
		q = len(a) + len(b) - 3 - k - p
	}
	return [2]int{i, p + 1}, [2]int{j, q + 1}
}

// less is 1 if x < y, else 0.
func less(x, y uint64) int {
	n := 0
	if x < y {
		n = 1
	}
	return n
}

// collectSlots lists the distinct slots of the merged list.
func (g *Merged) collectSlots() {
	words := g.words
	g.Slots = resize(g.Slots, len(words))
	g.Start = resize(g.Start, len(words)+1)
	g.Pos = resize(g.Pos, len(words))
	g.Start[0] = 0
	n := listSlots(words, g.Slots, g.Start[1:], g.Pos)
	g.Slots, g.Start = g.Slots[:n], g.Start[:n+1]
}

// listSlots lists the distinct slots of ascending words, the end of each slot's words,
// and all positions. It returns the number of distinct slots.
//
//go:noinline
func listSlots(words []uint64, slots, end, pos []int32) int {
	slots, end, pos = slots[:len(words)], end[:len(words)], pos[:len(words)]
	n, last := -1, int32(-1)
	for i, w := range words {
		slot := int32(w >> 32)
		if slot != last {
			n++
		}
		last = slot
		slots[n], end[n], pos[i] = slot, int32(i+1), int32(uint32(w))
	}
	return n + 1
}
