package data

import (
	"math"

	"github.com/ecrec/ecrec/internal/rng"
)

// synthetic is a Source of Criteo-like samples, made on the fly. Sample i is a
// pure function of (seed, tables, i): 26 ids with the skew of real tables
// (skew.go), 13 skewed integers, and a label that a hidden teacher draws
// (teacher.go). Every index is valid; the samples are independent.
type synthetic struct {
	schema  Schema
	key     uint64
	skews   []skew
	dense   [criteoDense]denseSkew
	teacher *teacher
}

// The items of the stream rng.Synthetic.
const (
	itemKey     = iota // the key of the samples
	itemScatter        // one per table: where its hot rows are
	itemTeacher        // one per table: its weights
)

// denseSkew shapes one dense feature: a share of zeros (missing values), and
// otherwise a heavy tail with a median and a bound.
type denseSkew struct {
	zeros  uint32  // of 256
	median float64 // of the others
	floor  float64 // median / bound: what keeps the tail finite
	shift  int32   // subtracted: some values are negative
}

func newSynthetic(schema Schema, seed uint64) (*synthetic, error) {
	if err := schema.check(); err != nil {
		return nil, err
	}
	if len(schema.Tables) == 0 {
		return nil, usageErr("synthetic data needs a table at least; set model.tables")
	}
	s := &synthetic{schema: schema, key: drawKey(seed, itemKey, 0)}
	for t, rows := range schema.Tables {
		s.skews = append(s.skews, newSkew(rows, drawKey(seed, itemScatter, uint64(t))))
	}
	// Medians and bounds in the manner of Criteo's 13 counts.
	medians := [criteoDense]float64{1, 6, 8, 4, 2500, 40, 4, 7, 30, 1, 2, 1, 4}
	bounds := [criteoDense]float64{5775, 257675, 65535, 969, 23159456, 431037, 56311, 6047, 29019, 11, 231, 4008, 7393}
	for j := range s.dense {
		s.dense[j] = denseSkew{zeros: uint32(16 + 13*(j*5%criteoDense)/2), median: medians[j], floor: medians[j] / bounds[j]}
	}
	s.dense[1].shift = 2
	s.teacher = newTeacher(s, drawKey(seed, itemTeacher, 0))
	return s, nil
}

func drawKey(seed uint64, item uint32, n uint64) uint64 {
	d := rng.Draw(seed, rng.Synthetic, item, n, 0)
	return uint64(d[1])<<32 | uint64(d[0])
}

// draw is the one place that makes a sample: raw integers, ids below their
// tables' rows, and the teacher's raw score. It returns the bits left for the
// label. The stream of a sample is SplitMix64 from a state of its own.
func (s *synthetic) draw(i uint64, dense *[criteoDense]int32, ids []uint32) (score int32, last uint64) {
	state := mix(s.key + mix(i+golden))
	weights := s.teacher.weights
	for t := range s.skews {
		state += golden
		k := &s.skews[t]
		rank := k.rank(mix(state))
		score += weights[t][min(rank, hotRanks)]
		ids[t] = k.scatter(rank)
	}
	for j := 0; j < criteoDense; j += 2 {
		state += golden
		w := mix(state)
		dense[j] = s.dense[j].value(uint32(w))
		if j+1 < criteoDense {
			dense[j+1] = s.dense[j+1].value(uint32(w >> 32))
		}
	}
	return score + s.teacher.scoreDense(dense), mix(state + golden)
}

// value maps 32 random bits to a feature's value.
func (d *denseSkew) value(w uint32) int32 {
	if w&255 < d.zeros {
		return 0
	}
	// The distribution function of x is x / (x + median): half are below it.
	u := float64((float64(w>>8) + 0.5) * (1.0 / (1 << 24))) // in (0, 1)
	x := d.median/(u+d.floor) - d.median
	return int32(max(x, 0)) - d.shift
}

func (s *synthetic) Schema() Schema { return s.schema }
func (s *synthetic) Len() int64     { return math.MaxInt64 }
func (s *synthetic) Skipped() int64 { return 0 }
func (s *synthetic) Close() error   { return nil }

func (s *synthetic) Read(b *Batch, idx []int64) error {
	b.resize(len(idx), &s.schema)
	tables := len(s.schema.Tables)
	var raw [criteoDense]int32
	for n, i := range idx {
		if i < 0 {
			return usageErr("sample %d asked for", i)
		}
		score, w := s.draw(uint64(i), &raw, b.IDs[n*tables:(n+1)*tables])
		b.Labels[n] = float32(s.teacher.label(score, w))
		d := (*[criteoDense]float32)(b.Dense[n*criteoDense:])
		for j, x := range &raw {
			d[j] = logInt(x)
		}
	}
	return nil
}
