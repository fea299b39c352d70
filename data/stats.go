package data

import (
	"errors"
	"fmt"
	"maps"
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

	maxUses int // a power of two, which tests lower; 0: the constant
	// margin is the number of batches at each end that tests leave out of the figures of batches: there the stays of rows are cut.
	margin int64
}

// Check returns an error if there can be no such figures.
func (o *StatsOptions) Check() error {
	if o.Batch < 1 || o.Trainers < 1 || o.Window < 0 || o.Trainers > 1<<15 {
		return usageErr("statistics of batches of %d samples for %d trainers, %d batches ahead: none of these can be",
			o.Batch, o.Trainers, o.Window)
	}
	return nil
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
	TopInBatch      float64 `json:"top_rows_in_batch"`        // share of a batch's unique rows that are among the 0.1 % most looked up
	// SyncedNext is the number of a batch's unique rows that several trainers use while they are cached, and that the next batch uses
	// too: updates of them must arrive between the two.
	SyncedNext float64 `json:"synchronised_before_next_batch"`
}

// TableStats are the figures of one table.
type TableStats struct {
	Rows     int64   `json:"rows"`
	Seen     int64   `json:"seen"`      // rows looked up at least once
	TopShare float64 `json:"top_share"` // lookups of the 0.1 % of rows (one at least) most looked up
	// Curve is the share of the lookups that the rows most looked up have, over their share of all rows. Only all tables taken as one
	// have it.
	Curve []CurvePoint `json:"curve,omitempty"`
}

// CurvePoint is a share of the rows and their share of the lookups.
type CurvePoint struct {
	Rows    float64 `json:"rows"`
	Lookups float64 `json:"lookups"`
}

// CurveShares are the shares of the rows in a curve.
var CurveShares = []float64{0.00001, 0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1}

// maxUses is how many rows Stats has room to follow at a time, of which it uses three quarters: 320 MiB.
const maxUses = 1 << 23

// Stats measures a data set. Its memory grows with the rows of the data, up to 320 MiB. If it meets more than have room, it reads the
// samples again for each share of the rows. The figures are exact.
func Stats(src Source, o StatsOptions) (*Statistics, error) {
	schema := src.Schema()
	if o.Samples <= 0 || o.Samples > src.Len() {
		o.Samples = src.Len()
	}
	if err := o.Check(); err != nil {
		return nil, err
	}
	if len(schema.Tables) == 0 {
		return nil, usageErr("the data has no tables to measure")
	}
	if o.maxUses == 0 {
		o.maxUses = maxUses
	}
	base := make([]int64, len(schema.Tables)+1)
	for t, r := range schema.Tables {
		base[t+1] = base[t] + r
	}
	st := &Statistics{Samples: o.Samples, Skipped: src.Skipped(), Batches: Order{Samples: o.Samples, Batch: o.Batch}.StepsPerEpoch()}
	sums := usesOf{counts: make([]histogram, len(schema.Tables)), uses: histogram{}}
	shares := []share{{0, 1}}
	c := &counter{window: int64(o.Window), first: o.margin + 1, last: st.Batches - o.margin, rows: make([]rowUse, roomFor(src, &o))}
	for pass := 1; len(shares) > 0; pass++ {
		last := len(shares) - 1
		p := shares[last]
		c.reset(p)
		ones, err := c.readUses(src, &o, base, pass)
		switch {
		case err == errManyRows:
			shares[last] = share{p.index, 2 * p.of}
			shares = append(shares, share{p.index + p.of, 2 * p.of})
			continue
		case err != nil:
			return nil, err
		}
		shares = shares[:last]
		st.LabelRate = ones / float64(o.Samples)
		c.addUses(&sums, base)
	}
	sums.summarize(st, schema.Tables, st.Batches-2*o.margin)
	return st, nil
}

// roomFor returns the room for all rows that the samples may look up, or the most that there is.
func roomFor(src Source, o *StatsOptions) int {
	schema := src.Schema()
	most := int64(0)
	for _, rows := range schema.Tables {
		most += rows
	}
	if schema.IDs == 0 { // each feature has one id
		most = min(most, o.Samples*int64(schema.Features()))
	}
	room := 1
	for room < o.maxUses && 3*int64(room) < 4*(most+1) {
		room *= 2
	}
	return room
}

// share is a share of all rows: those whose hash is index modulo of, a power of two.
type share struct{ index, of uint64 }

// hasKey reports whether the share has the row of a key. The place of a key follows from other bits of its hash.
func (s share) hasKey(key uint64) bool { return mix(key)>>32&(s.of-1) == s.index }

// errManyRows is the error of a counter that is full.
var errManyRows = errors.New("more rows than a counter follows")

// readUses follows the rows that the samples look up. It returns the sum of the labels.
func (c *counter) readUses(src Source, o *StatsOptions, base []int64, pass int) (ones float64, err error) {
	schema := src.Schema()
	order := Order{Samples: o.Samples, Batch: o.Batch}
	what := "stats"
	if pass > 1 {
		what = fmt.Sprintf("stats, pass %d", pass)
	}
	var b Batch
	var idx []int64
	for step := int64(1); step <= order.StepsPerEpoch(); step++ {
		for trainer := range o.Trainers {
			idx = order.Slice(step, trainer, o.Trainers, idx)
			if err := src.Read(&b, idx); err != nil {
				return 0, err
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
					if !c.lookUp(uint64(first)+uint64(b.IDs[n]), step, uint16(trainer)) {
						return 0, errManyRows
					}
				}
			}
		}
		if o.Progress != nil {
			done := min(step*int64(o.Batch), o.Samples)
			if err := o.Progress(Progress{What: what, Done: done, Total: o.Samples}); err != nil {
				return 0, err
			}
		}
	}
	return ones, nil
}

// counter follows every row of a share that is looked up, in an open-addressing table.
type counter struct {
	share       share
	rows        []rowUse // power of two
	used        int
	window      int64
	first, last int64 // batches whose unique rows are counted

	unique, batchAlone, alone, next int64 // sums over batches of unique rows
}

// rowUse counts the uses of one row. A stay in the cache begins with a use and
// ends when the row is not used for a window of batches.
type rowUse struct {
	key     uint64 // row + 1; 0 is an empty place
	last    int64  // step of the last use
	count   uint32 // lookups, modulo 2^32
	batches uint32 // batches of this stay that used it
	next    uint32 // those of them whose next batch used it too
	uses    uint32 // batches of all stays that used it
	first   uint16 // trainer that began this stay
	current uint16 // trainer that used it first in step last
	shared  bool   // another trainer used it during this stay
	both    bool   // another trainer used it in step last
	wraps   uint16 // of count
}

// lookups is the number of lookups of the row.
func (e *rowUse) lookups() uint64 { return uint64(e.wraps)<<32 | uint64(e.count) }

// reset begins to follow the rows of a share.
func (c *counter) reset(s share) {
	clear(c.rows)
	*c = counter{share: s, rows: c.rows, window: c.window, first: c.first, last: c.last}
}

// lookUp counts a use of a row. It reports false if there is no room for the row.
func (c *counter) lookUp(row uint64, step int64, trainer uint16) bool {
	if !c.share.hasKey(row + 1) {
		return true
	}
	if 4*(c.used+1) > 3*len(c.rows) {
		return false
	}
	e := c.findRow(row + 1)
	if e.key == 0 {
		e.key = row + 1
		c.used++
	}
	if e.count++; e.count == 0 {
		e.wraps++
	}
	isCounted := c.isCounted(step)
	if e.last != step {
		if e.last == 0 || step-e.last > c.window {
			c.endStay(e)
			e.batches, e.next, e.first, e.shared = 0, 0, trainer, false
		} else if step == e.last+1 && c.isCounted(e.last) {
			e.next++
		}
		e.last, e.current, e.both = step, trainer, false
		if isCounted {
			e.batches++
			e.uses++
			c.unique++
			c.batchAlone++
		}
	} else if e.current != trainer && !e.both {
		e.both = true
		if isCounted {
			c.batchAlone--
		}
	}
	if e.first != trainer {
		e.shared = true
	}
	return true
}

func (c *counter) isCounted(step int64) bool { return step >= c.first && step <= c.last }

func (c *counter) endStay(e *rowUse) {
	if e.shared {
		c.next += int64(e.next)
	} else {
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

// usesOf are sums over the rows of all counters.
type usesOf struct {
	counts                          []histogram // of each table
	uses                            histogram   // the batches that use the rows of each number of lookups
	unique, batchAlone, alone, next int64
}

// histogram is the number of rows for each number of lookups.
type histogram map[uint64]int64

// addUses ends the stays of all rows, and adds the sums.
func (c *counter) addUses(to *usesOf, base []int64) {
	for i := range c.rows {
		e := &c.rows[i]
		if e.key == 0 {
			continue
		}
		c.endStay(e)
		t := sort.Search(len(to.counts), func(t int) bool { return base[t+1] > int64(e.key-1) })
		if to.counts[t] == nil {
			to.counts[t] = histogram{}
		}
		to.counts[t][e.lookups()]++
		to.uses[e.lookups()] += int64(e.uses)
	}
	to.unique += c.unique
	to.batchAlone += c.batchAlone
	to.alone += c.alone
	to.next += c.next
}

// summarize computes the figures. Batches are those whose unique rows are counted.
func (u *usesOf) summarize(st *Statistics, tables []int64, batches int64) {
	all, rows := histogram{}, int64(0)
	for t, n := range tables {
		st.Tables = append(st.Tables, u.counts[t].tableStats(n))
		for count, k := range u.counts[t] {
			all[count] += k
		}
		rows += n
	}
	st.All = all.tableStats(rows)
	for _, share := range CurveShares {
		covered, _ := all.sumTop(int64(share*float64(rows)), all)
		st.All.Curve = append(st.All.Curve, CurvePoint{share, covered / max(float64(all.lookups()), 1)})
	}
	_, inBatch := all.sumTop(max(1, rows/1000), u.uses)
	st.TopInBatch = inBatch / float64(u.unique)
	st.SyncedNext = float64(u.next) / float64(batches)
	st.UniquePerBatch = float64(u.unique) / float64(batches)
	st.OneTrainerBatch = float64(u.batchAlone) / float64(u.unique)
	st.OneTrainer = float64(u.alone) / float64(u.unique)
}

// tableStats returns the figures of a table, or of all tables, with some rows.
func (h histogram) tableStats(rows int64) TableStats {
	seen := int64(0)
	for _, n := range h {
		seen += n
	}
	covered, _ := h.sumTop(max(1, rows/1000), h)
	return TableStats{Rows: rows, Seen: seen, TopShare: covered / max(float64(h.lookups()), 1)}
}

// lookups is the number of lookups of all rows.
func (h histogram) lookups() (sum int64) {
	for count, n := range h {
		sum += int64(count) * n
	}
	return sum
}

// sumTop sums the lookups of the rows most looked up, and the batches that use them: uses has those of all rows of a number of lookups.
// Of the rows at the border, which have the same number, as many as are missing have their share of the uses.
func (h histogram) sumTop(top int64, uses histogram) (lookups, inBatches float64) {
	for _, count := range slices.Backward(slices.Sorted(maps.Keys(h))) {
		n := min(h[count], top)
		lookups += float64(int64(count) * n)
		inBatches += float64(uses[count]) * float64(n) / float64(h[count])
		if top -= n; top == 0 {
			break
		}
	}
	return lookups, inBatches
}
