package bench

import (
	"math/rand/v2"
	"slices"

	"github.com/ecrec/ecrec/bench/baseline"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/placement"
)

// exchangeData are the samples of some steps, with tables of only those rows that they use. Rows have other ids, in the order of
// their first use: which samples share a row, and how evenly rows are spread over owners, stays the same.
type exchangeData struct {
	tables   []int64
	ids      []uint32
	batch    int
	ranks    int
	order    []int32 // the sample at each position; nil: they are in order
	skipped  int     // steps before the first one, at which position 0 is
	original func(step int, ids []uint32) ([]uint32, error)
	numbers  []renumbering
}

// renumbering gives the rows of a table new ids.
type renumbering struct {
	list []uint32 // new id + 1 by id, of a table that is not large
	many map[uint32]uint32
	rows uint32
}

// listedRows is the size up to which a table has a list.
const listedRows = 1 << 24

func newRenumbering(rows int64) renumbering {
	if rows <= listedRows {
		return renumbering{list: make([]uint32, rows)}
	}
	return renumbering{many: map[uint32]uint32{}}
}

// numberOf returns the new id of a row.
func (n *renumbering) numberOf(id uint32) uint32 {
	if n.list != nil {
		if n.list[id] == 0 {
			n.rows++
			n.list[id] = n.rows
		}
		return n.list[id] - 1
	}
	x, ok := n.many[id]
	if !ok {
		x = n.rows
		n.many[id] = x
		n.rows++
	}
	return x
}

// findNumber returns the new id of a row, if it has one.
func (n *renumbering) findNumber(id uint32) (uint32, bool) {
	if n.list != nil {
		return n.list[id] - 1, n.list[id] > 0
	}
	x, ok := n.many[id]
	return x, ok
}

// drawExchangeData draws the samples of all steps that are trained or looked at ahead.
func drawExchangeData(c *exchangeSettings, seed uint64) (*exchangeData, error) {
	draw, err := batchesOf(c, seed)
	if err != nil {
		return nil, err
	}
	d := &exchangeData{batch: c.batch, ranks: c.ranks, original: draw}
	for _, rows := range c.tables {
		d.numbers = append(d.numbers, newRenumbering(rows))
	}
	features := len(c.tables)
	var ids []uint32
	for step := range c.allSteps() {
		if ids, err = draw(c.history+step, ids); err != nil {
			return nil, err
		}
		for l, id := range ids {
			d.ids = append(d.ids, d.numbers[l%features].numberOf(id))
		}
	}
	for _, n := range d.numbers {
		d.tables = append(d.tables, int64(n.rows))
	}
	return d, nil
}

// trained is the number of steps of a system without a lookahead. One with a lookahead trains as many steps more as it looks ahead,
// before them, until its caches are full. allSteps also has the steps that it sees ahead of its last one.
func (c *exchangeSettings) trained() int  { return c.warmup + c.steps }
func (c *exchangeSettings) allSteps() int { return c.trained() + 2*c.lookahead + 2 }

// batchesOf returns the function that draws the ids of a batch, by sample and feature.
func batchesOf(c *exchangeSettings, seed uint64) (func(step int, ids []uint32) ([]uint32, error), error) {
	if popular := popularityOf(c.stream, c.tables); popular != nil {
		return drawBatches(popular, c.tables, c.batch, seed), nil
	}
	src, err := data.Open(data.Options{Format: data.FormatSynthetic, Tables: c.tables, Seed: seed, Law: c.stream})
	if err != nil {
		return nil, err
	}
	var b data.Batch
	idx := make([]int64, c.batch)
	return func(step int, ids []uint32) ([]uint32, error) {
		for i := range idx {
			idx[i] = int64(step*c.batch + i)
		}
		err := src.Read(&b, idx)
		return append(ids[:0], b.IDs...), err
	}, nil
}

// drawBatches draws batches with one law in every table.
func drawBatches(law idLaw, tables []int64, batch int, seed uint64) func(step int, ids []uint32) ([]uint32, error) {
	return func(step int, ids []uint32) ([]uint32, error) {
		random := rand.New(rand.NewPCG(seed, uint64(step)))
		ids = ids[:0]
		for range batch {
			for _, rows := range tables {
				ids = append(ids, law.rank(random.Float64(), float64(rows)))
			}
		}
		return ids, nil
	}
}

// sampleAt is the sample at a position of the order.
func (d *exchangeData) sampleAt(position int64) int {
	position += int64(d.skipped * d.batch)
	if d.order != nil {
		return int(d.order[position])
	}
	return int(position)
}

// idsOf is the data from the view of package baseline.
func (d *exchangeData) idsOf() *baseline.Stream {
	f := len(d.tables)
	order := data.Order{Samples: d.Len(), Batch: d.batch}
	var idx []int64
	var ids []uint32
	return &baseline.Stream{Place: placement.New(d.tables, d.ranks), Features: f, Steps: int(d.Len()) / d.batch,
		IDs: func(step, rank int) []uint32 {
			idx, ids = order.Slice(int64(step)+1, rank, d.ranks, idx), ids[:0]
			for _, p := range idx {
				i := d.sampleAt(p)
				ids = append(ids, d.ids[i*f:(i+1)*f]...)
			}
			return ids
		}}
}

// skipSteps returns the data without the first steps.
func (d *exchangeData) skipSteps(steps int) *exchangeData {
	x := *d
	x.skipped += steps
	return &x
}

// reordered returns the data with samples in another order.
func (d *exchangeData) reordered(order []int32) *exchangeData {
	x := *d
	x.order = order
	return &x
}

// countLookups returns the number of lookups of each row, by global number.
func (d *exchangeData) countLookups() []int32 {
	p := placement.New(d.tables, d.ranks)
	n := make([]int32, p.Rows())
	for l, id := range d.ids {
		n[p.Base[l%len(d.tables)]+int64(id)]++
	}
	return n
}

// pastUses returns a function that returns the rows that each rank used in each of the steps before the first one, if they have new
// ids; then nil.
func (d *exchangeData) pastUses(steps int) func() [][]int32 {
	p, f, step := placement.New(d.tables, d.ranks), len(d.tables), 0
	var ids []uint32
	last := make([]int32, p.Rows()) // by row: the number of the last slice of a rank that used it, from 1 on
	slice := int32(0)
	return func() [][]int32 {
		if step == steps {
			return nil
		}
		ids, _ = d.original(d.skipped+step, ids) // a draw that can fail has failed in drawExchangeData
		step++
		uses := make([][]int32, d.ranks)
		for r := range uses {
			slice++
			first, end := data.SliceStart(d.batch, r, d.ranks), data.SliceStart(d.batch, r+1, d.ranks)
			for l := int(first) * f; l < int(end)*f; l++ {
				id, ok := d.numbers[l%f].findNumber(ids[l])
				if !ok {
					continue
				}
				if g := int32(p.Base[l%f] + int64(id)); last[g] != slice {
					last[g] = slice
					uses[r] = append(uses[r], g)
				}
			}
		}
		return uses
	}
}

// hotSamples reports which samples use hot rows only. hot is ascending.
func (d *exchangeData) hotSamples(hot []int32) []bool {
	p, f := placement.New(d.tables, d.ranks), len(d.tables)
	is := make([]bool, p.Rows())
	for _, g := range hot {
		is[g] = true
	}
	kinds := slices.Repeat([]bool{true}, len(d.ids)/f)
	for l, id := range d.ids {
		kinds[l/f] = kinds[l/f] && is[p.Base[l%f]+int64(id)]
	}
	return kinds
}

// exchangeDense is the number of dense features, which no exchange depends on.
const exchangeDense = 13

// The data are a data.Source.

func (d *exchangeData) Schema() data.Schema {
	return data.Schema{Dense: exchangeDense, Tables: d.tables}
}
func (d *exchangeData) Len() int64     { return int64(len(d.ids) / len(d.tables)) }
func (d *exchangeData) Skipped() int64 { return 0 }
func (d *exchangeData) Close() error   { return nil }

// Read fills b with samples. Their labels and numbers are zeros.
func (d *exchangeData) Read(b *data.Batch, idx []int64) error {
	f := len(d.tables)
	b.N, b.IDs = len(idx), b.IDs[:0]
	if cap(b.Labels) < len(idx) {
		b.Labels, b.Dense = make([]float32, len(idx)), make([]float32, exchangeDense*len(idx))
	}
	b.Labels, b.Dense = b.Labels[:len(idx)], b.Dense[:exchangeDense*len(idx)]
	for _, p := range idx {
		i := d.sampleAt(p)
		b.IDs = append(b.IDs, d.ids[i*f:(i+1)*f]...)
	}
	return nil
}
