package bench

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
)

// drawSlice draws the ids of a trainer's slice of a step, counted from 0. It may reuse the memory of ids.
type drawSlice func(step int64, trainer int, ids []uint32) ([]uint32, error)

// idStream is the ids that a benchmark counts.
type idStream struct {
	name   string // for people
	tables []int64
	draw   func(ranks, batch int) drawSlice
	// samples is the number of samples of a data set; 0: the stream has no end.
	samples int64
	close   func() error
}

// The values of the setting stream that are no mixture.
const (
	independentStream = data.LawIndependent
	burstStream       = data.LawBursts
)

// mixtures are the streams of BagPipe's fig. 18: with a probability, in per cent, one of the hottest 1 % of the rows of a table.
var mixtures = []int{90, 70, 40, 10, 1}

func mixtureName(hot int) string { return fmt.Sprintf("mixture-%d", hot) }

// sharedPopularities are popularities that are given by the shares of the lookups of the hottest 0.05, 0.1 and 1 % of the rows: that of
// OpenEmbedding (ICDE 2023), table II, and ones with more and less skew for its fig. 10. The exponents of that figure are only drawn.
var sharedPopularities = []struct {
	name   string
	points []sharePoint
}{
	{"table-2", openEmbeddingShares},
	{"table-2-more", []sharePoint{{0.0005, 0.88}, {0.001, 0.915}, {0.01, 0.97}}},
	{"table-2-less", []sharePoint{{0.0005, 0.83}, {0.001, 0.873}, {0.01, 0.945}}},
}

// streamNames lists the values of the setting stream.
func streamNames() []string {
	names := []string{independentStream, burstStream}
	for _, hot := range mixtures {
		names = append(names, mixtureName(hot))
	}
	for _, p := range sharedPopularities {
		names = append(names, p.name)
	}
	return names
}

// streamSettings declares the settings that choose the ids to count.
func streamSettings() []Setting {
	return []Setting{
		choice("stream", independentStream, streamNames(), "ids: synthetic as of data.law; with this probability in % one of the hottest "+
			"1 % of a table; or with shares as in OpenEmbedding's table II"),
		choice("tables", "criteo-kaggle", tableNames, "rows of the tables of these ids"),
		text("data", "", "a run's config", "counts the training data of this config, in the order of its files. Default: the stream"),
	}
}

var tableNames = []string{"criteo-kaggle", "criteo-terabyte-40m", "criteo-terabyte", "avazu", equalTables}

// openStream opens the ids that the settings choose. The caller closes it.
func (o Options) openStream() (*idStream, error) {
	if path := o.text("data"); path != "" {
		return openDataStream(path)
	}
	return namedStream(o.text("stream"), o.text("tables"), o.Tiny)
}

// namedStream makes a stream of a law with the tables of a set.
func namedStream(law, set string, isTiny bool) (*idStream, error) {
	tables, err := streamTables(set, isTiny)
	if err != nil {
		return nil, err
	}
	s := &idStream{name: fmt.Sprintf("synthetic ids, %s, tables of %s", law, set), tables: tables, close: func() error { return nil }}
	if popular := popularityOf(law, tables); popular != nil {
		s.draw = func(ranks, batch int) drawSlice { return drawIDs(popular, tables, ranks, batch) }
		return s, nil
	}
	src, err := data.Open(data.Options{Format: data.FormatSynthetic, Tables: tables, Seed: oracleSeed, Law: law})
	if err != nil {
		return nil, err
	}
	s.draw = func(ranks, batch int) drawSlice { return drawFrom(src, ranks, batch) }
	return s, nil
}

// popularityOf is the law of a stream that draws each id by its popularity alone; nil: the stream is one of data.law.
func popularityOf(stream string, tables []int64) idLaw {
	var hot int
	if n, _ := fmt.Sscanf(stream, "mixture-%d", &hot); n == 1 {
		return mixture(float64(hot) / 100)
	}
	for _, p := range sharedPopularities {
		if p.name == stream {
			return newShareLaws(p.points, tables...)
		}
	}
	return nil
}

// equalTables is the name of 26 tables of the same size, 10.5 million rows: OpenEmbedding's 2.1 billion divided by 200.
const equalTables = "equal"

// streamTables returns the tables of a set, small ones for tiny runs.
func streamTables(set string, isTiny bool) (tables []int64, err error) {
	if set == equalTables {
		tables = slices.Repeat([]int64{10_500_000 / 26}, 26)
	} else {
		tables, err = data.Tables(set)
	}
	if isTiny {
		for i := range tables {
			tables[i] = min(tables[i], 1000)
		}
	}
	return tables, err
}

// openDataStream opens the training data of a config.
func openDataStream(path string) (*idStream, error) {
	cfg, err := config.Load(path, nil)
	if err != nil {
		return nil, settingError("data=%s: %v", path, err)
	}
	o := cfg.DataOptions(false)
	o.Env = env.Real()
	if o.Recipe, err = data.Fit(o); err != nil {
		return nil, settingError("data=%s: %v", path, err)
	}
	src, err := data.Open(o)
	if err != nil {
		return nil, settingError("data=%s: %v", path, err)
	}
	schema := src.Schema()
	if schema.TableOf != nil || schema.IDsPerSample() != float64(len(schema.Tables)) {
		src.Close()
		return nil, settingError("data=%s: features with several ids, or with a common table, are not counted", path)
	}
	s := &idStream{name: strings.Join(o.Files, ", "), tables: schema.Tables, close: src.Close}
	if s.samples = src.Len(); s.samples == math.MaxInt64 {
		s.name, s.samples = "synthetic ids of "+path, 0
	}
	s.draw = func(ranks, batch int) drawSlice { return drawFrom(src, ranks, batch) }
	return s, nil
}

// checkLength returns an error if a data set has fewer batches than a count needs.
func (s *idStream) checkLength(batches int64, batch int) error {
	if need := batches * int64(batch); s.samples > 0 && s.samples < need {
		return settingError("the data has %d samples, and %d batches of %d need %d; lower steps, lookahead or batch",
			s.samples, batches, batch, need)
	}
	return nil
}

// drawFrom draws slices of a data set, in its order.
func drawFrom(src data.Source, ranks, batch int) drawSlice {
	order := data.Order{Samples: src.Len(), Batch: batch}
	slices := make([]struct {
		idx   []int64
		batch data.Batch
	}, ranks)
	return func(step int64, trainer int, _ []uint32) ([]uint32, error) {
		s := &slices[trainer]
		s.idx = order.Slice(step+1, trainer, ranks, s.idx)
		err := src.Read(&s.batch, s.idx)
		return s.batch.IDs, err
	}
}

// mixture draws, with a probability, one of the hottest 1 % of the rows, all alike, and else any row, all alike. A table has one hot row at
// least.
type mixture float64

// rank maps u, uniform in [0, 1), to a rank below rows.
func (m mixture) rank(u, rows float64) uint32 {
	p := float64(m)
	if u < p {
		return uint32(u / p * max(1, math.Floor(rows/100)))
	}
	return uint32(min((u-p)/(1-p)*rows, rows-1))
}
