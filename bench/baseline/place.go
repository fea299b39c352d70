package baseline

import "math"

// PlaceSamples assigns samples to ranks so that their sum of costs is least, with room[r] samples at rank r: a transportation problem.
// cost[i*n+r] is the cost of sample i at rank r of n. The sum of room must be the number of samples.
//
// Each sample begins at its cheapest rank. While a rank has too many, one sample moves along each edge of the cheapest path of ranks to
// one that has too few; the cost of an edge is that of the sample that moves for the least. These are successive shortest paths of
// a min-cost flow (Ahuja, Magnanti and Orlin, Network Flows, 1993, section 9.7), in which no cycle of negative cost ever arises, so
// the result is exact. A heap for each pair of ranks finds the cheapest sample: O(samples * n (log samples + n^2)).
func PlaceSamples(cost []int32, room []int) []uint16 {
	p := newPlacing(cost, room)
	for r := range p.n {
		for p.load[r] > room[r] {
			p.shiftSample(r)
		}
	}
	return p.at
}

type placing struct {
	n     int
	cost  []int32
	room  []int
	load  []int
	at    []uint16
	heaps []edgeHeap // of the samples at rank a, by the cost of a move to b: at a*n + b
}

func newPlacing(cost []int32, room []int) *placing {
	n := len(room)
	p := &placing{n: n, cost: cost, room: room, load: make([]int, n), at: make([]uint16, len(cost)/n), heaps: make([]edgeHeap, n*n)}
	for i := range p.at {
		best := 0
		for r := range n {
			if cost[i*n+r] < cost[i*n+best] {
				best = r
			}
		}
		p.addSample(int32(i), best)
	}
	return p
}

// addSample puts a sample at a rank.
func (p *placing) addSample(i int32, r int) {
	p.at[i] = uint16(r)
	p.load[r]++
	for b := range p.n {
		if b != r {
			p.heaps[r*p.n+b].pushEdge(edge{p.cost[int(i)*p.n+b] - p.cost[int(i)*p.n+r], i})
		}
	}
}

// cheapestMove is the sample at rank a that moves to b for the least. ok is false if a has none.
func (p *placing) cheapestMove(a, b int) (e edge, ok bool) {
	h := &p.heaps[a*p.n+b]
	for len(*h) > 0 {
		if e := (*h)[0]; int(p.at[e.sample]) == a {
			return e, true
		}
		h.popEdge() // it has left
	}
	return e, false
}

// shiftSample moves one sample from rank r, which has too many, along the cheapest path to a rank that has too few.
func (p *placing) shiftSample(r int) {
	dist, from := make([]int64, p.n), make([]int, p.n)
	for b := range dist {
		dist[b], from[b] = math.MaxInt64, -1
	}
	dist[r] = 0
	for changed := true; changed; { // Bellman and Ford: edges may be negative
		changed = false
		for a := range p.n {
			for b := range p.n {
				if a == b || dist[a] == math.MaxInt64 {
					continue
				}
				if e, ok := p.cheapestMove(a, b); ok && dist[a]+int64(e.cost) < dist[b] {
					dist[b], from[b], changed = dist[a]+int64(e.cost), a, true
				}
			}
		}
	}
	best := -1
	for b := range p.n {
		if p.load[b] < p.room[b] && dist[b] < math.MaxInt64 && (best < 0 || dist[b] < dist[best]) {
			best = b
		}
	}
	if best < 0 {
		panic("baseline: there is no room for all samples")
	}
	type step struct {
		sample int32
		to     int
	}
	var path []step
	for b := best; b != r; b = from[b] {
		e, _ := p.cheapestMove(from[b], b)
		path = append(path, step{e.sample, b})
	}
	for _, s := range path {
		p.load[p.at[s.sample]]--
		p.addSample(s.sample, s.to)
	}
}

// edge is a sample, and the cost of a move.
type edge struct {
	cost   int32
	sample int32
}

// edgeHeap has the cheapest edge first; of equals, that of the first sample.
type edgeHeap []edge

func (h edgeHeap) isLess(i, j int) bool {
	return h[i].cost < h[j].cost || h[i].cost == h[j].cost && h[i].sample < h[j].sample
}

func (h *edgeHeap) pushEdge(e edge) {
	*h = append(*h, e)
	for i := len(*h) - 1; i > 0 && h.isLess(i, (i-1)/2); i = (i - 1) / 2 {
		(*h)[i], (*h)[(i-1)/2] = (*h)[(i-1)/2], (*h)[i]
	}
}

func (h *edgeHeap) popEdge() {
	s := *h
	last := len(s) - 1
	s[0] = s[last]
	s = s[:last]
	*h = s
	for i := 0; ; {
		child := 2*i + 1
		if child+1 < last && s.isLess(child+1, child) {
			child++
		}
		if child >= last || !s.isLess(child, i) {
			return
		}
		s[i], s[child] = s[child], s[i]
		i = child
	}
}
