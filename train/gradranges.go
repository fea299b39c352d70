package train

import "github.com/ecrec/ecrec/collectives"

// gradRanges cuts the flat dense gradient into ranges that are reduced together: the buckets of package model, of which neighbours are
// joined if there are so many trainers that the messages of a bucket would be short. The ranges depend on nothing but the shape of the
// model and the number of trainers, and no bit of a sum depends on them.
type gradRanges struct {
	least       int // floats of a range, but for the last one
	final, sent int // floats of the gradient that are computed, and those in ranges
}

// ofTrainers begins a gradient.
func (g *gradRanges) ofTrainers(n int) { *g = gradRanges{least: collectives.AllReduceLeast(n)} }

// addBucket notes that the next floats of the gradient are final. It returns the range to reduce now; n is 0 if there is none.
func (g *gradRanges) addBucket(floats int) (from, n int) {
	g.final += floats
	if g.final-g.sent < g.least {
		return 0, 0
	}
	return g.takeRest()
}

// takeRest returns the range of all final floats that are in none.
func (g *gradRanges) takeRest() (from, n int) {
	from, g.sent = g.sent, g.final
	return from, g.final - from
}

// joinBuckets returns the floats of each range of a gradient with these buckets.
func joinBuckets(buckets []int, trainers int) (floats []int) {
	var g gradRanges
	g.ofTrainers(trainers)
	for _, b := range buckets {
		if _, n := g.addBucket(b); n > 0 {
			floats = append(floats, n)
		}
	}
	if _, n := g.takeRest(); n > 0 {
		floats = append(floats, n)
	}
	return floats
}
