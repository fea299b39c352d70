package train

import "github.com/ecrec/ecrec/collectives"

// joinedFrom is the number of trainers from which on buckets are joined. With fewer, the messages of the least bucket of package model
// (2^18 floats, except the last one) have 16 KiB at least.
const joinedFrom = 65

// gradRanges cuts the flat dense gradient into ranges that are reduced together. Among few trainers these are the buckets of package
// model. Among many the messages of a bucket would be short. So buckets are joined, and cut again where the chunks of all messages are
// whole; only the last range has shorter ones. The ranges depend on nothing but the shape of the model and the number of trainers, and no
// bit of a sum depends on them.
type gradRanges struct {
	unit        int // floats, of which all ranges except the last are multiples; 1: buckets are ranges
	final, sent int // floats of the gradient that are computed, and those in ranges
}

// ofTrainers begins a gradient.
func (g *gradRanges) ofTrainers(n int) {
	*g = gradRanges{unit: 1}
	if n >= joinedFrom {
		g.unit = collectives.AllReduceWhole(n)
	}
}

// addBucket notes that the next floats of the gradient are final. It returns the range to reduce now; n is 0 if there is none.
func (g *gradRanges) addBucket(floats int) (from, n int) {
	g.final += floats
	from, n = g.sent, (g.final-g.sent)/g.unit*g.unit
	g.sent += n
	return from, n
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
