package paper

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ecrec/ecrec/bench"
)

// cacheSizes are the caches of fig. 8, in the paper's MB, and ours, in KiB: divided by 200.
var cacheSizes = []struct{ mb, kib int }{{10, 49}, {20, 98}, {40, 195}, {100, 488}, {400, 1953}, {2048, 10_000}, {20_480, 100_000}}

func cacheRuns(size Size) []Run {
	var all []string
	for i, c := range cacheSizes {
		if size == Full || size == Quick && i%3 == 0 || i < 2 {
			all = append(all, strconv.Itoa(c.kib))
		}
	}
	trainers := map[Size]string{Tiny: "trainers=2", Quick: "trainers=2", Full: "trainers=4"}[size]
	runs := serverRun(size, "stores=tier,inline-lru", trainers, "cache="+strings.Join(all, ","))
	if size == Tiny { // so that the rows do not fit in either
		runs[0].Args = append(runs[0].Args, "rows=26000", "batch=64")
	}
	return runs
}

// drawCaches draws fig. 8: the time over that of the smallest cache, and the rows that are read.
func drawCaches(f *Figure, reports []*bench.Report) error {
	r := reports[0]
	for _, system := range []string{"PMem-OE", "Ori-Cache"} {
		times, misses := Series{System: system}, Series{System: system + ", rows read of the requested ones"}
		var first Point
		for _, c := range cacheSizes {
			label := fmt.Sprintf("%d KiB", c.kib)
			of := []string{"store", storeOf[system], "cache_kib", strconv.Itoa(c.kib)}
			p, kind, err := point(r, float64(c.mb), label, "epoch", of...)
			if err != nil { // a tiny run has fewer sizes, and a store may need more memory
				continue
			}
			if len(times.Points) == 0 {
				first = p
			}
			if err := times.addPoint(percentOver(over(p, first)), kind); err != nil {
				return err
			}
			if p, kind, err = point(r, float64(c.mb), label, "misses", of...); err != nil {
				return err
			}
			if err := misses.addPoint(p, kind); err != nil {
				return err
			}
		}
		if len(times.Points) == 0 {
			return fmt.Errorf("no size of the cache is enough for %s", system)
		}
		times.Points[0].Least, times.Points[0].Most = 0, 0 // it is the measure of the others
		f.Series = append(f.Series, times, misses)
	}
	describeStores(f, r)
	f.Params = append(f.Params, Param{"cache", "10 MB to 20 GB", "50 KB to 100 MB: drawn at 200 times its size"})
	f.Notes = append(f.Notes, "The batch is not divided by s, so a step needs far more rows than the smallest caches hold; they are "+
		"then read in pieces. The memory of PMem-OE includes the rows that are read ahead. Rows read may be more than 100 %: a row is "+
		"requested to compute and again to be updated.")
	for _, system := range []string{"PMem-OE", "Ori-Cache"} {
		misses := f.points(system + ", rows read of the requested ones")
		f.Checks = append(f.Checks, fallsToLast(system+": fewer rows are read with the largest cache than with the smallest", misses))
	}
	f.Checks = append(f.Checks, fallsToLast("PMem-OE is faster with the largest cache than with the smallest", f.points("PMem-OE")))
	return nil
}

// fallsToLast checks that the last value is below the first.
func fallsToLast(text string, points []Point) Check {
	if len(points) < 2 {
		return Check{Text: text, Seen: "too few values"}
	}
	return below(text, points[len(points)-1], points[0])
}

func switchRuns(size Size) []Run {
	trainers := map[Size]string{Tiny: "trainers=2", Quick: "trainers=2", Full: "trainers=4"}[size]
	return serverRun(size, "stores=neither,no-pipeline,no-cache,tier", trainers)
}

// drawSwitches draws fig. 9.
func drawSwitches(f *Figure, reports []*bench.Report) error {
	r := reports[0]
	times := Series{System: "PMem-OE, epoch"}
	at := map[string]Point{}
	for i, x := range []struct{ label, store string }{{"neither", "neither"}, {"cache only", "no-pipeline"}, {"pipeline only", "no-cache"},
		{"both", "tier"}} {
		p, kind, err := point(r, float64(i), x.label, "epoch", "store", x.store)
		if err != nil {
			return err
		}
		p.Unit = "s"
		at[x.label] = p
		if err := times.addPoint(p, kind); err != nil {
			return err
		}
	}
	s := Series{System: "PMem-OE", Kind: times.Kind}
	for i, x := range []struct{ label, a, b string }{{"cache over neither", "cache only", "neither"}, {"pipeline over neither", "pipeline only", "neither"},
		{"both over cache", "both", "cache only"}, {"both over neither", "both", "neither"}} {
		p := percentOver(over(at[x.a], at[x.b]))
		p.X, p.Label = float64(i), x.label
		s.Points = append(s.Points, p)
	}
	f.Series = append(f.Series, s, times)
	describeStores(f, r)
	f.Params = append(f.Params, Param{"without a cache", "not stated", "memory for the rows of one step"},
		Param{"without a pipeline", "rows are moved within the request", "cache.mode = none: the rows of a step are read when it begins"})
	f.Checks = []Check{
		below("cache and pipeline are faster than the cache alone", at["both"], at["cache only"]),
		below("the cache alone is faster than neither", at["cache only"], at["neither"]),
		below("both are faster than neither", at["both"], at["neither"]),
	}
	return nil
}

// popularities are the laws of fig. 10, by the shares of the hottest 0.05, 0.1 and 1 % of the rows.
var popularities = []struct{ label, shares string }{{"fitted", tableTwo}, {"more skewed", "88/91.5/97"}, {"less skewed", "83/87.3/94.5"}}

func popularityRuns(size Size) []Run {
	var laws []string
	for _, p := range popularities {
		laws = append(laws, p.shares)
	}
	trainers := map[Size]string{Tiny: "trainers=1", Quick: "trainers=2", Full: "trainers=4"}[size]
	runs := serverRun(size, "stores=dram-ps,tier,inline-lru", trainers)
	runs[0].Args[0] = "skew=" + strings.Join(laws, ",")
	if size == Tiny {
		runs[0].Args = append(runs[0].Args, "rows=26000", "batch=64", "cache=20")
	}
	return runs
}

// drawPopularities draws the rows that are read, and the times, of three popularities.
func drawPopularities(f *Figure, reports []*bench.Report) error {
	r := reports[0]
	lru := Series{System: "Ori-Cache"}
	oe, times, slower := Series{System: "PMem-OE"}, Series{System: "PMem-OE, time"}, Series{System: "Ori-Cache, time"}
	for i, law := range popularities {
		for _, x := range []struct {
			to                       *Series
			store, name, label, unit string
		}{{&oe, "tier", "misses", law.label, ""}, {&lru, "inline-lru", "misses", law.label, ""},
			{&times, "tier", "of dram-ps", law.label + ", time above DRAM-PS", "%"}, {&slower, "inline-lru", "of dram-ps", law.label + ", time above DRAM-PS", "%"}} {
			p, kind, err := point(r, float64(i), x.label, x.name, "store", x.store, "skew", law.shares)
			if err != nil {
				return err
			}
			if x.unit != "" {
				p = percentOver(p)
			}
			p.Unit = x.unit
			if err := x.to.addPoint(p, kind); err != nil {
				return err
			}
		}
	}
	f.Series = append(f.Series, oe, lru, times, slower)
	describeStores(f, r)
	f.Params = append(f.Params, Param{"more and less skewed", "other exponents, in the picture only", "88, 91.5, 97 and 83, 87.3, " +
		"94.5 % of the accesses by the top 0.05, 0.1, 1 %"})
	f.Notes = append(f.Notes, "A miss is a row that is read from the device, over the rows that trainers request; first uses read "+
		"nothing, and a row may be read again to be updated.", "The size of the cache and the two other laws were chosen so that "+
		"Ori-Cache's misses are near the paper's, which are PMem-OE's. So misses have no check. Those of our PMem-OE also depend on the "+
		"rows that it reads ahead.")
	for i, law := range popularities {
		f.Checks = append(f.Checks, below(law.label+": PMem-OE is closer to DRAM-PS than Ori-Cache", times.Points[i], slower.Points[i]))
	}
	return nil
}
