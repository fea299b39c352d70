package kernels

import "github.com/ecrec/ecrec/internal/rng"

// Dropout chooses units that are dropped: a function of the seed, the step, the sample's index in
// the global batch, the layer and the unit.
type Dropout struct {
	Seed  uint64
	Step  int64   // below 2^48
	First int64   // index of the first row's sample; the last one's is below 2^32
	Layer int     // below 256
	Rate  float64 // the probability that a unit is dropped, in [0, 1)
}

// least is the least draw of rng.Symmetric with which a unit is kept.
func (d Dropout) least() float32 { return float32(2*d.Rate - 1) }

// Scale is the factor of the units that are kept: 1/(1-Rate).
func (d Dropout) Scale() float32 { return float32(1 / (1 - d.Rate)) }

// counterOf is the key and the first counter of a row's draws. Its last word counts blocks of four
// units; layers have ranges of it.
func (d Dropout) counterOf(row int) rowDraw {
	r := rowDraw{scale: 1}
	r.key, r.counter = rng.Counter(d.Seed, rng.Dropout, uint32(d.First)+uint32(row), uint64(d.Step), uint32(d.Layer)<<24)
	return r
}

func (s *stream) Dropout(y Matrix, d Dropout) {
	v := elementsOf("Dropout", "y", y, y.Rows, y.Cols)
	if len(v) == 0 {
		return
	}
	s.dropping = dropTask{s: s, y: v, stride: y.Stride, rows: y.Rows, cols: y.Cols, drop: d, grain: grainFor(16 * y.Cols)}
	s.pool.runTask(partsOf(y.Rows, s.dropping.grain), &s.dropping)
	s.dropping = dropTask{}
}

type dropTask struct {
	s                         *stream
	y                         []float32
	stride, rows, cols, grain int
	drop                      Dropout
}

func (t *dropTask) runPart(worker, i int) {
	w := &t.s.workers[worker]
	n := (t.cols + drawn - 1) / drawn * drawn
	if len(w.init) < n {
		w.init = make([]float32, n)
	}
	least, by := t.drop.least(), t.drop.Scale()
	for r, hi := partSpan(i, t.grain, t.rows); r < hi; r++ {
		w.dropped = t.drop.counterOf(r)
		t.s.draw.one(w.init[:n], &w.dropped)
		t.s.vectors.keep(t.y[r*t.stride:][:t.cols], w.init[:t.cols], least, by)
	}
}
