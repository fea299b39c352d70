package lrpp

import "github.com/ecrec/ecrec/oracle"

// segment is a part of a list of rows, which lie at one rank or belong to one owner.
type segment struct {
	of         int // the rank or owner
	first, end int
	rows       [classValues]int32 // of each class: rows, then the rows of the segments before
	positions  [classValues]int32 // the same for their positions: cells or gradients
}

// classValues is the number of values of a class.
const classValues = 4

// segmentRows is the most number of rows of a segment, but in tests.
const segmentRows = 1 << 14

// splitter splits lists on some threads, in segments of at most most rows.
type splitter struct {
	oracle.Threads
	most int
}

// cut cuts a list, which has a number of entries for each rank or owner.
func (x splitter) cut(to []segment, perRank ...int) []segment {
	to = to[:0]
	first := 0
	for r, n := range perRank {
		for end := first + n; first < end; {
			next := min(first+x.most, end)
			to = append(to, segment{of: r, first: first, end: next})
			first = next
		}
	}
	return to
}

// placeSegments makes the counts of the segments places, and returns the sums.
func placeSegments(all []segment) (rows, positions [classValues]int32) {
	for i := range all {
		g := &all[i]
		for k := range classValues {
			n, p := g.rows[k], g.positions[k]
			g.rows[k], g.positions[k] = rows[k], positions[k]
			rows[k] += n
			positions[k] += p
		}
	}
	return rows, positions
}

// sumOf sums counts of the classes of which the bits in mask are bit.
func sumOf(n [classValues]int32, mask, bit class) (sum int32) {
	for k, x := range n {
		if class(k)&mask == bit {
			sum += x
		}
	}
	return sum
}

// run calls f for each segment.
func (x splitter) run(all []segment, f func(g *segment)) {
	x.Run(len(all), func(_, i int) { f(&all[i]) })
}
