package bench

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
)

var popularityBench = Bench{
	Name: "popularity",
	Doc:  "shares of the hottest rows: of the lookups, and of a batch's rows",
	Detail: "Counts the lookups of each row. Of rows with the same number of lookups, those with the lower number are hotter. " +
		"Then it counts, for each size of a batch, the distinct rows among the hottest 0.1 % of all rows. Nothing is timed.",
	Settings: append([]Setting{
		numbers("batch", "2048,4096,8192,16384,65536", 1, maxSamples, "samples of a batch").orTiny("16,64"),
		number("samples", "3276800", 1, 1<<40, "samples whose lookups are counted; of a data set, its length at most").orTiny("2000"),
		number("batches", "10", 1, 100_000, "batches of each size whose distinct rows are counted, spread evenly").orTiny("4"),
	}, streamSettings()...),
	Evidence: Counted,
	measure:  runPopularity,
}

// hotShares are the shares of the rows for which lookups are counted, in per cent.
var hotShares = []float64{0.001, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 50, 100}

// cachedShare is the share of the rows in the static cache of BagPipe's fig. 4, in per cent.
const cachedShare = 0.1

// rowCounts counts rows in an open-addressing table: the rows of large tables that are never looked up take no memory.
type rowCounts struct {
	keys   []uint64 // row + 1; 0 is an empty place. The length is a power of two
	counts []uint32
	marks  []uint32 // the last batch that used the row, from 1
	isHot  []bool
	used   int
}

func newRowCounts(places int) *rowCounts {
	return &rowCounts{keys: make([]uint64, places), counts: make([]uint32, places), marks: make([]uint32, places), isHot: make([]bool, places)}
}

// findRow returns the place of a row, which it adds if it is absent.
func (c *rowCounts) findRow(row uint64) int {
	mask := uint64(len(c.keys) - 1)
	x := (row + 1) * 0x9E3779B97F4A7C15
	for i := (x ^ x>>32) & mask; ; i = (i + 1) & mask {
		if c.keys[i] == row+1 {
			return int(i)
		}
		if c.keys[i] != 0 {
			continue
		}
		if 4*(c.used+1) > 3*len(c.keys) {
			c.grow()
			return c.findRow(row)
		}
		c.used++
		c.keys[i] = row + 1
		return int(i)
	}
}

func (c *rowCounts) grow() {
	larger := newRowCounts(2 * len(c.keys))
	for i, key := range c.keys {
		if key != 0 {
			k := larger.findRow(key - 1)
			larger.counts[k], larger.marks[k], larger.isHot[k] = c.counts[i], c.marks[i], c.isHot[i]
		}
	}
	*c = *larger
}

// hottest returns the places of the rows, the hottest first.
func (c *rowCounts) hottest() []int {
	places := make([]int, 0, c.used)
	for i, key := range c.keys {
		if key != 0 {
			places = append(places, i)
		}
	}
	slices.SortFunc(places, func(a, b int) int {
		return cmp.Or(cmp.Compare(c.counts[b], c.counts[a]), cmp.Compare(c.keys[a], c.keys[b]))
	})
	return places
}

// popularity counts a stream.
type popularity struct {
	ids   *idStream
	bases []uint64 // the number of the first row of each table
	rows  int64
	*rowCounts
	sorted []int // places of the rows that are looked up, the hottest first; until countBatches
}

func runPopularity(out io.Writer, o Options) (*Report, error) {
	ids, err := o.openStream()
	if err != nil {
		return nil, err
	}
	defer ids.close()
	samples := int64(o.number("samples"))
	if ids.samples > 0 {
		samples = min(samples, ids.samples)
	}
	p := &popularity{ids: ids, rowCounts: newRowCounts(1 << 16)}
	for _, rows := range ids.tables {
		p.bases = append(p.bases, uint64(p.rows))
		p.rows += rows
	}
	report := o.newReport("none")
	report.writeHeader(out)
	if err := p.countLookups(o, samples); err != nil {
		return nil, err
	}
	report.popularityCurve(out, p, samples)
	t := table(out)
	defer t.Flush()
	fmt.Fprintf(t, "\nbatch\tdistinct rows\tin a cache of the hottest %g %%\t%% of them\t\n", cachedShare)
	for _, batch := range o.numbers("batch") {
		distinct, hot, err := p.countBatches(o, samples, batch)
		if err != nil {
			return nil, err
		}
		of := []string{"batch", strconv.Itoa(batch)}
		fmt.Fprintf(t, "%d\t%.0f\t%.0f\t%.1f\t\n", batch, report.addCase("distinct rows", "rows/batch", distinct, of...).Median,
			report.addCase("distinct rows in the cache", "rows/batch", hot, of...).Median,
			report.addCase("in the cache", "%", 100*hot/distinct, of...).Median)
	}
	return report, nil
}

// countChunk is the number of samples that are drawn at a time.
const countChunk = 4096

// countLookups counts the lookups of the first samples, and marks the hottest rows.
func (p *popularity) countLookups(o Options, samples int64) error {
	draw := p.ids.draw(1, countChunk)
	for step := range samples / countChunk {
		o.mustRun()
		ids, err := draw(step, 0, nil)
		if err != nil {
			return err
		}
		p.addIDs(ids)
	}
	if rest := samples % countChunk; rest > 0 {
		ids, err := draw(samples/countChunk, 0, nil)
		if err != nil {
			return err
		}
		p.addIDs(ids[:rest*int64(len(p.bases))])
	}
	p.sorted = p.hottest()
	for _, i := range p.sorted[:min(len(p.sorted), p.numberOf(cachedShare))] {
		p.isHot[i] = true
	}
	return nil
}

func (p *popularity) addIDs(ids []uint32) {
	for i, id := range ids {
		p.counts[p.findRow(p.bases[i%len(p.bases)]+uint64(id))]++
	}
}

// numberOf is the number of rows of a share in per cent, one at least.
func (p *popularity) numberOf(share float64) int { return max(1, int(share/100*float64(p.rows))) }

// countBatches returns the means of the distinct rows of a batch, and of the hot ones among them.
func (p *popularity) countBatches(o Options, samples int64, batch int) (distinct, hot float64, err error) {
	all := samples / int64(batch)
	batches := min(int64(o.number("batches")), all)
	if batches == 0 {
		return 0, 0, settingError("batch=%d: %d samples are counted; lower it, or raise samples", batch, samples)
	}
	draw := p.ids.draw(1, batch)
	clear(p.marks)
	for n := range batches {
		o.mustRun()
		ids, err := draw((2*n+1)*all/(2*batches), 0, nil) // the first samples of a stream have fewer bursts
		if err != nil {
			return 0, 0, err
		}
		for f, id := range ids {
			i := p.findRow(p.bases[f%len(p.bases)] + uint64(id)) // the other laws draw other samples for each size of a batch
			if p.marks[i] == uint32(n+1) {
				continue
			}
			p.marks[i] = uint32(n + 1)
			distinct++
			if p.isHot[i] {
				hot++
			}
		}
	}
	return distinct / float64(batches), hot / float64(batches), nil
}

// popularityCurve reports the share of the lookups that the hottest rows have.
func (r *Report) popularityCurve(out io.Writer, p *popularity, samples int64) {
	fmt.Fprintf(out, "\n%s; %d samples\n", p.ids.name, samples)
	fmt.Fprintf(out, "%d rows, of which %.0f are looked up\n\n", p.rows, r.addFigure("rows looked up", "rows", float64(p.used)).Median)
	t := table(out)
	defer t.Flush()
	fmt.Fprint(t, "hottest rows, %\trows\tof the lookups, %\t\n")
	sum, done, all := uint64(0), 0, float64(samples)*float64(len(p.bases))
	for _, share := range hotShares {
		for ; done < min(len(p.sorted), p.numberOf(share)); done++ {
			sum += uint64(p.counts[p.sorted[done]])
		}
		f := r.addCase("lookups", "%", 100*float64(sum)/all, "hottest", fmt.Sprint(share))
		fmt.Fprintf(t, "%g\t%d\t%.2f\t\n", share, p.numberOf(share), f.Median)
	}
}
