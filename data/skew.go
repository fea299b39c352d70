package data

import "math/bits"

// skew is how popular the rows of one synthetic table are.
//
// Rank r, from 0 for the most popular row, is drawn from the power law
// 1/(r + shift)^2. In a table of at least longTailRows rows, or of any size with
// LawTails, every second lookup is drawn from a long tail instead, the power law
// 1/r^(3/4) over all rows. Both have inverse distribution functions that need no more than a
// division, so ids are drawn exactly, without tables, with the same result on every machine. A
// bijection then scatters the ranks over the table.
//
// The shape is calibrated to published figures of Criteo's data (BagPipe,
// SOSP'23). Measured with Stats, on 1,600 batches of Kaggle and 12 of Terabyte,
// shared by 8 trainers, with rows cached for 200 batches (TestSkew checks the
// first, second and last):
//
//	                                              reported      here
//	Kaggle, batch 16,384: unique rows               65,000    60,100
//	Kaggle: lookups by the top 0.1 % of rows          90 %      88 %
//	Kaggle: a batch's unique rows that one
//	  trainer alone uses while they are cached        25 %      27 %
//	Terabyte 40M, batch 2,048: unique rows           8,900     9,550
type skew struct {
	rows  uint64
	long  uint64  // 1 when there is a long tail, else 0: a mask for one random bit
	size  float64 // rows
	shift float64
	hi    float64 // 1/shift
	span  float64 // 1/shift - 1/(rows + shift)

	mul, add uint64 // scatter: rank*mul + add mod rows
	inverse  uint64 // floor((2^64 - 1) / rows)
}

const (
	longTailRows = 50_000
	shortShift   = 2 // of a table without a long tail
	longShift    = 1 // of a table with one
)

// newSkew returns the skew of a table, whose size decides on its tail.
func newSkew(rows int64, key uint64) skew { return newTailedSkew(rows, key, rows >= longTailRows) }

// newTailedSkew returns the skew of a table with a long tail, or of one without.
func newTailedSkew(rows int64, key uint64, tail bool) skew {
	k := skew{rows: uint64(rows), size: float64(rows), shift: shortShift}
	if tail {
		k.long, k.shift = 1, longShift
	}
	k.hi = 1 / k.shift
	k.span = k.hi - 1/(k.size+k.shift)
	k.mul = mix(key) % k.rows
	for gcd(k.mul, k.rows) != 1 {
		k.mul++
	}
	k.add = mix(key+golden) % k.rows
	k.inverse = ^uint64(0) / k.rows
	return k
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// drawRank draws a rank from 64 random bits.
func (k *skew) drawRank(w uint64) uint32 {
	u := float64(int64(w>>11)) * (1.0 / (1 << 53)) // in [0, 1)
	var x float64
	if w&k.long != 0 {
		u *= u
		x = k.size * float64(u*u)
	} else {
		x = k.drawHead(u)
	}
	return k.rankAt(x)
}

// drawHead maps u, uniform in [0, 1), to a place by the power law of popular rows.
func (k *skew) drawHead(u float64) float64 { return 1/(k.hi-float64(k.span*u)) - k.shift }

// rankAt is the rank at a place.
func (k *skew) rankAt(x float64) uint32 { return uint32(min(uint64(int64(x)), k.rows-1)) }

// scatterRank is the row of a rank.
func (k *skew) scatterRank(rank uint32) uint32 {
	x := uint64(rank)*k.mul + k.add
	q, _ := bits.Mul64(x, k.inverse) // x / rows, or one less
	r := x - q*k.rows
	if r >= k.rows {
		r -= k.rows
	}
	return uint32(r)
}
