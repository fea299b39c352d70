package bench

import (
	"math"
	"math/rand/v2"
)

// sharePoint is the share of the lookups that the most popular rows have, themselves as a share of all rows.
type sharePoint struct{ rows, lookups float64 }

// openEmbeddingShares are those of OpenEmbedding (ICDE 2023), table II.
var openEmbeddingShares = []sharePoint{{0.0005, 0.857}, {0.001, 0.895}, {0.01, 0.957}}

// shareLaw draws ranks of rows, from 0 for the most popular, so that the lookups have given shares. Between two points
// the popularity of rank r is in proportion to 1/(r+1), which is an assumption.
type shareLaw []sharePart

// sharePart is the ranks between two points.
type sharePart struct {
	begin, end float64               // lookups, as shares
	first      float64               // 1 + the first rank
	roots      [shareLawBits]float64 // of the ratio of the last rank to the first, each plus 1: the square root, its square root, and so on
}

const shareLawBits = 30

// shareLaws are the laws of tables of several sizes, with the same shares.
type shareLaws map[float64]shareLaw

func newShareLaws(points []sharePoint, tables ...int64) shareLaws {
	l := shareLaws{}
	for _, rows := range tables {
		l[float64(rows)] = newShareLaw(points, float64(rows))
	}
	return l
}

// rank maps u, uniform in [0, 1), to a rank below rows.
func (l shareLaws) rank(u, rows float64) uint32 { return l[rows].rank(u, rows) }

func newShareLaw(points []sharePoint, rows float64) (law shareLaw) {
	before := sharePoint{}
	for _, p := range append(points[:len(points):len(points)], sharePoint{1, 1}) {
		part := sharePart{begin: before.lookups, end: p.lookups, first: 1 + before.rows*rows}
		root := (1 + p.rows*rows) / part.first
		for i := range part.roots {
			root = math.Sqrt(root)
			part.roots[i] = root
		}
		law = append(law, part)
		before = p
	}
	return law
}

// rank maps u, uniform in [0, 1), to a rank below rows.
func (l shareLaw) rank(u, rows float64) uint32 {
	i := 0
	for u >= l[i].end {
		i++
	}
	part := &l[i]
	x, exponent := part.first, (u-part.begin)/(part.end-part.begin)
	for _, root := range part.roots { // x = first * ratio^exponent, one bit of the exponent after the other
		if exponent *= 2; exponent >= 1 {
			exponent--
			x *= root
		}
	}
	return uint32(max(0, min(x-1, rows-1)))
}

// idLaw is a popularity of rows.
type idLaw interface {
	// rank maps u, uniform in [0, 1), to a rank below rows.
	rank(u, rows float64) uint32
}

// drawIDs draws slices with a law in every table.
func drawIDs(law idLaw, tables []int64, ranks, batch int) drawSlice {
	return func(step int64, trainer int, ids []uint32) ([]uint32, error) {
		random := rand.New(rand.NewPCG(oracleSeed, uint64(step)<<16|uint64(trainer)))
		samples := batch*(trainer+1)/ranks - batch*trainer/ranks
		ids = ids[:0]
		for range samples {
			for _, rows := range tables {
				ids = append(ids, law.rank(random.Float64(), float64(rows)))
			}
		}
		return ids, nil
	}
}
