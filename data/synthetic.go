package data

import (
	"math"
	"slices"
	"strings"

	"github.com/ecrec/ecrec/internal/rng"
)

// syntheticFormat is the registry's entry.
var syntheticFormat = Format{
	Name:    FormatSynthetic,
	Doc:     "Criteo-like samples that are made on the fly from job.seed, for any tables; no files",
	Endless: true,
	Keys:    []string{"hots", "law"},
	Columns: func(CSV) (dense, categorical int) { return criteoDense, Any },
	Open: func(o *Options) (Source, error) {
		s, err := newSyntheticOf(o.schema(criteoDense), o.Seed, o.Hots, o.Law)
		if err != nil {
			return nil, err
		}
		return s, nil
	},
}

// synthetic is a Source of Criteo-like samples, made on the fly. Sample i is a
// pure function of (seed, tables, i): 26 ids with the skew of real tables
// (skew.go), 13 skewed integers, and a label that a hidden teacher draws
// (teacher.go). Every index is valid. The samples are independent, unless ids come in bursts (bursts.go).
type synthetic struct {
	schema  Schema
	hots    []int // ids of each feature; nil: one
	key     uint64
	skews   []skew
	bursts  []bursts // nil: ids are independent
	shares  burstShares
	dense   [criteoDense]denseSkew
	teacher *teacher
}

// The items of the stream rng.Synthetic.
const (
	itemKey     = iota // the key of the samples
	itemScatter        // one per table: the places of its hot rows
	itemTeacher        // one per table: its weights
	itemLane           // one per feature: the places of its bursts
)

// denseSkew shapes one dense feature: a share of zeros (missing values), and
// beside it a heavy tail with a median and a bound.
type denseSkew struct {
	zeros  uint32  // of 256
	median float64 // of the others
	floor  float64 // median / bound: it keeps the tail finite
	shift  int32   // subtracted: some values are negative
}

func newSynthetic(schema Schema, seed uint64) (*synthetic, error) {
	return newSyntheticOf(schema, seed, nil, "")
}

// newSyntheticOf is newSynthetic for features with several ids each, or ids of another law.
func newSyntheticOf(schema Schema, seed uint64, hots []int, law string) (*synthetic, error) {
	switch {
	case law != "" && !slices.Contains(Laws, law):
		return nil, usageErr("data.law = %q: synthetic ids are %s", law, strings.Join(Laws, " or "))
	case law == LawBursts && hots != nil:
		return nil, usageErr("data.law = %q draws one id for each feature; remove data.hots", law)
	case law == LawBursts:
		return newBurstySynthetic(schema, seed, fittedBursts)
	}
	s, err := makeSynthetic(schema, seed, hots, law)
	if err == nil {
		s.teacher = newTeacher(s, drawKey(seed, itemTeacher, 0))
	}
	return s, err
}

// newBurstySynthetic is newSynthetic for ids in bursts.
func newBurstySynthetic(schema Schema, seed uint64, shares burstShares) (*synthetic, error) {
	s, err := makeSynthetic(schema, seed, nil, LawBursts)
	if err != nil {
		return nil, err
	}
	s.shares = shares
	for f, rows := range schema.FeatureRows() {
		scatter := drawKey(seed, itemScatter, uint64(schema.TableOfFeature(f)))
		s.bursts = append(s.bursts, newBursts(rows, scatter, drawKey(seed, itemLane, uint64(f)), &shares))
	}
	s.teacher = newTeacher(s, drawKey(seed, itemTeacher, 0))
	return s, nil
}

// makeSynthetic makes a source without a teacher.
func makeSynthetic(schema Schema, seed uint64, hots []int, law string) (*synthetic, error) {
	if err := schema.checkLimits(); err != nil {
		return nil, err
	}
	if len(schema.Tables) == 0 {
		return nil, usageErr("synthetic data needs a table at least; set model.tables")
	}
	if hots != nil && len(hots) != schema.Features() {
		return nil, usageErr("data.hots has %d numbers of ids for %d features", len(hots), schema.Features())
	}
	s := &synthetic{schema: schema, hots: hots, key: drawKey(seed, itemKey, 0)}
	for _, n := range hots {
		s.schema.IDs += float64(n)
	}
	for f, rows := range schema.FeatureRows() {
		key := drawKey(seed, itemScatter, uint64(schema.TableOfFeature(f)))
		s.skews = append(s.skews, newTailedSkew(rows, key, law == LawTails || rows >= longTailRows))
	}
	// Medians and bounds in the manner of Criteo's 13 counts.
	medians := [criteoDense]float64{1, 6, 8, 4, 2500, 40, 4, 7, 30, 1, 2, 1, 4}
	bounds := [criteoDense]float64{5775, 257675, 65535, 969, 23159456, 431037, 56311, 6047, 29019, 11, 231, 4008, 7393}
	for j := range s.dense {
		s.dense[j] = denseSkew{zeros: uint32(16 + 13*(j*5%criteoDense)/2), median: medians[j], floor: medians[j] / bounds[j]}
	}
	s.dense[1].shift = 2
	return s, nil
}

func drawKey(seed uint64, item uint32, n uint64) uint64 {
	d := rng.Draw(seed, rng.Synthetic, item, n, 0)
	return uint64(d[1])<<32 | uint64(d[0])
}

// drawSample is the one place that makes a sample: raw integers, ids below their
// tables' rows, by feature and position, and the teacher's raw score, of which a bag has
// the mean of its ids' weights. It returns the bits left for the label. The stream of a
// sample is SplitMix64 from a state of its own. That of a bag begins at the bits of its
// first id.
func (s *synthetic) drawSample(i uint64, dense *[criteoDense]int32, ids []uint32) (score int32, last uint64) {
	state := mix(s.key + mix(i+golden))
	weights := s.teacher.weights
	for t := range s.skews {
		state += golden
		k := &s.skews[t]
		if s.hots != nil {
			bag := ids[:s.hots[t]]
			score += s.drawBag(t, mix(state), bag)
			ids = ids[len(bag):]
			continue
		}
		var rank uint32
		if s.bursts != nil {
			rank = s.bursts[t].drawRank(s.key, i, t, s.shares.again)
		} else {
			rank = k.drawRank(mix(state))
		}
		score += weights[t][min(rank, hotRanks)]
		ids[t] = k.scatterRank(rank)
	}
	for j := 0; j < criteoDense; j += 2 {
		state += golden
		w := mix(state)
		dense[j] = s.dense[j].drawValue(uint32(w))
		if j+1 < criteoDense {
			dense[j+1] = s.dense[j+1].drawValue(uint32(w >> 32))
		}
	}
	return score + s.teacher.scoreDense(dense), mix(state + golden)
}

// drawBag draws the ids of a bag of feature f. It returns the mean of their weights.
func (s *synthetic) drawBag(f int, state uint64, ids []uint32) int32 {
	k, weights, sum := &s.skews[f], &s.teacher.weights[f], int64(0)
	for p := range ids {
		rank := k.drawRank(state)
		sum += int64(weights[min(rank, hotRanks)])
		ids[p] = k.scatterRank(rank)
		state = mix(state + golden)
	}
	return int32(sum / int64(len(ids)))
}

// drawValue maps 32 random bits to a feature's value.
func (d *denseSkew) drawValue(w uint32) int32 {
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
func (s *synthetic) readsApart()    {}

func (s *synthetic) Read(b *Batch, idx []int64) error {
	b.resize(len(idx), &s.schema)
	perSample := int(s.schema.IDsPerSample())
	if s.hots != nil {
		b.cutBags(len(idx), &s.schema, s.hots)
	}
	var raw [criteoDense]int32
	for n, i := range idx {
		if i < 0 {
			return usageErr("sample %d is out of range", i)
		}
		score, w := s.drawSample(uint64(i), &raw, b.IDs[n*perSample:(n+1)*perSample])
		b.Labels[n] = float32(s.teacher.drawLabel(score, w))
		d := (*[criteoDense]float32)(b.Dense[n*criteoDense:])
		for j, x := range &raw {
			d[j] = logInt(x)
		}
	}
	return nil
}
