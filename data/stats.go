package data

import (
	"slices"
	"sort"
)

// StatsOptions bound the work of Stats.
type StatsOptions struct {
	Samples  int64 // how many samples to read, from the first on; 0: all
	Batch    int   // samples in a batch
	Trainers int   // that share a batch
	Window   int   // batches for which a row stays cached after its last use
	Progress func(Progress) error
}

// Statistics are the figures of a data set that decide the benefit of a cache of its
// rows.
type Statistics struct {
	Samples   int64        `json:"samples"`
	Skipped   int64        `json:"skipped"`
	LabelRate float64      `json:"label_rate"`
	Tables    []TableStats `json:"tables"`
	All       TableStats   `json:"all"` // all tables taken as one
	// Columns are the figures of columns that have names, by DescribeColumns.
	Columns []ColumnStats `json:"columns,omitempty"`

	Batches         int64   `json:"batches"`
	UniquePerBatch  float64 `json:"unique_rows_per_batch"`
	OneTrainerBatch float64 `json:"one_trainer_in_batch"`     // share of a batch's unique rows that one trainer alone uses in that batch
	OneTrainer      float64 `json:"one_trainer_while_cached"` // and in all batches until the row is evicted
}

// TableStats are the figures of one table.
type TableStats struct {
	Rows     int64   `json:"rows"`
	Seen     int64   `json:"seen"`      // rows looked up at least once
	TopShare float64 `json:"top_share"` // lookups of the 0.1 % of rows (one at least) most looked up
}

// Stats measures a data set. Its memory grows with the distinct rows that it
// meets (about 50 bytes each), not with the samples.
func Stats(src Source, o StatsOptions) (*Statistics, error) {
	schema := src.Schema()
	if o.Samples <= 0 || o.Samples > src.Len() {
		o.Samples = src.Len()
	}
	if o.Batch < 1 || o.Trainers < 1 || o.Window < 0 || o.Trainers > 1<<15 {
		return nil, usageErr("statistics of batches of %d samples for %d trainers, %d batches ahead: none of these can be",
			o.Batch, o.Trainers, o.Window)
	}
	if len(schema.Tables) == 0 {
		return nil, usageErr("the data has no tables to measure")
	}
	c := counter{window: int64(o.Window)}
	base := make([]int64, len(schema.Tables)+1)
	for t, r := range schema.Tables {
		base[t+1] = base[t] + r
	}
	order := Order{Samples: o.Samples, Batch: o.Batch}
	st := &Statistics{Samples: o.Samples, Skipped: src.Skipped(), Batches: order.StepsPerEpoch()}
	var b Batch
	var idx []int64
	ones := 0.0
	for step := int64(1); step <= st.Batches; step++ {
		for trainer := range o.Trainers {
			idx = order.Slice(step, trainer, o.Trainers, idx)
			if err := src.Read(&b, idx); err != nil {
				return nil, err
			}
			for _, y := range b.Labels {
				ones += float64(y)
			}
			for cell, n := 0, 0; n < len(b.IDs); cell++ {
				end := n + 1
				if b.Offsets != nil {
					end = int(b.Offsets[cell+1])
				}
				for first := base[schema.TableOfFeature(cell%schema.Features())]; n < end; n++ {
					c.lookUp(uint64(first)+uint64(b.IDs[n]), step, uint16(trainer))
				}
			}
		}
		if o.Progress != nil {
			done := min(step*int64(o.Batch), o.Samples)
			if err := o.Progress(Progress{What: "stats", Done: done, Total: o.Samples}); err != nil {
				return nil, err
			}
		}
	}
	st.LabelRate = ones / float64(o.Samples)
	c.sumUses(st, schema.Tables, base)
	return st, nil
}

// counter follows every row that is looked up, in an open-addressing table.
type counter struct {
	rows   []rowUse // power of two
	used   int
	window int64

	unique, batchAlone, alone int64 // sums over batches of unique rows
}

// rowUse counts the uses of one row. A stay in the cache begins with a use and
// ends when the row is not used for a window of batches.
type rowUse struct {
	key     uint64 // row + 1; 0 is an empty place
	last    int64  // step of the last use
	count   uint32 // lookups
	batches uint32 // batches of this stay that used it
	first   uint16 // trainer that began this stay
	current uint16 // trainer that used it first in step last
	shared  bool   // another trainer used it during this stay
	both    bool   // another trainer used it in step last
}

func (c *counter) lookUp(row uint64, step int64, trainer uint16) {
	if 4*(c.used+1) > 3*len(c.rows) {
		c.growTable()
	}
	e := c.findRow(row + 1)
	if e.key == 0 {
		e.key = row + 1
		c.used++
	}
	e.count++
	if e.last != step {
		if e.last == 0 || step-e.last > c.window {
			c.endStay(e)
			e.batches, e.first, e.shared = 0, trainer, false
		}
		e.batches++
		e.last, e.current, e.both = step, trainer, false
		c.unique++
		c.batchAlone++
	} else if e.current != trainer && !e.both {
		e.both = true
		c.batchAlone--
	}
	if e.first != trainer {
		e.shared = true
	}
}

func (c *counter) endStay(e *rowUse) {
	if !e.shared {
		c.alone += int64(e.batches)
	}
}

func (c *counter) findRow(key uint64) *rowUse {
	mask := uint64(len(c.rows) - 1)
	for i := mix(key); ; i++ {
		if e := &c.rows[i&mask]; e.key == key || e.key == 0 {
			return e
		}
	}
}

func (c *counter) growTable() {
	old := c.rows
	c.rows = make([]rowUse, max(1<<12, 2*len(old)))
	for _, e := range old {
		if e.key != 0 {
			*c.findRow(e.key) = e
		}
	}
}

func (c *counter) sumUses(st *Statistics, tables, base []int64) {
	counts := make([][]uint32, len(tables))
	var all []uint32
	for i := range c.rows {
		e := &c.rows[i]
		if e.key == 0 {
			continue
		}
		c.endStay(e)
		t := sort.Search(len(tables), func(t int) bool { return base[t+1] > int64(e.key-1) })
		counts[t] = append(counts[t], e.count)
		all = append(all, e.count)
	}
	for t, rows := range tables {
		st.Tables = append(st.Tables, tableStats(rows, counts[t]))
	}
	st.All = tableStats(base[len(tables)], all)
	st.UniquePerBatch = float64(c.unique) / float64(st.Batches)
	st.OneTrainerBatch = float64(c.batchAlone) / float64(c.unique)
	st.OneTrainer = float64(c.alone) / float64(c.unique)
}

func tableStats(rows int64, counts []uint32) TableStats {
	slices.Sort(counts)
	top, sum := max(1, rows/1000), 0.0
	covered := 0.0
	for i, n := range counts {
		sum += float64(n)
		if int64(len(counts)-i) <= top {
			covered += float64(n)
		}
	}
	return TableStats{Rows: rows, Seen: int64(len(counts)), TopShare: covered / max(sum, 1)}
}
