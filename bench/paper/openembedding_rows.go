package paper

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ecrec/ecrec/bench"
)

// openEmbeddingRows is the time of training with each store of rows (O, fig. 3, 6, 7, 8, 9, 11, tab. V).
func openEmbeddingRows() []Drawing {
	return []Drawing{
		{ID: "O3", Runs: storeRuns, Draw: drawGaps},
		{ID: "O6", Runs: savingStoreRuns, Draw: drawSavingStores},
		{ID: "O-tab5", Runs: savingStoreRuns, Draw: drawMoney},
		{ID: "O7", Runs: storeRuns, Draw: drawStores},
		{ID: "O8", Runs: cacheRuns, Draw: drawCaches},
		{ID: "O9", Runs: switchRuns, Draw: drawSwitches},
		{ID: "O11", Runs: popularityRuns, Draw: drawPopularities},
	}
}

// tableTwo is the popularity of OpenEmbedding's table II.
const tableTwo = "85.7/89.5/95.7"

// serverRun is a run of the benchmark servers. Its caches are those for which inline-lru, without saves, reads about the 13.6 % of the
// requested rows that the paper's PMem-OE does (fig. 11): at 85.7/89.5/95.7, 10.8 to 13.6 % for Quick, and 8.9 to 15.2 % for Full.
func serverRun(size Size, args ...string) []Run {
	r := Run{Bench: "servers", Args: append([]string{"skew=" + tableTwo}, args...)}
	cache := ""
	switch size {
	case Quick:
		r.Args, r.Repeats, cache = append(r.Args, "batch=512", "steps=16"), 1, "cache=4096"
	case Full:
		r.Args, r.Repeats, cache = append(r.Args, "batch=1024", "steps=64"), 3, "cache=10240"
	}
	if cache != "" && !slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "cache=") }) {
		r.Args = append(r.Args, cache)
	}
	return []Run{r}
}

func storeRuns(size Size) []Run { return serverRun(size) }

// savingStoreRuns has checkpoints: 4 in an epoch, or 16 as the paper has.
func savingStoreRuns(size Size) []Run {
	saves := map[Size]string{Tiny: "saves=4", Quick: "saves=4", Full: "saves=16"}[size]
	return serverRun(size, "stores=dram-ps,tier,inline-lru", saves)
}

// storeOf is our store in place of each system of the paper.
var storeOf = map[string]string{"DRAM-PS": "dram-ps", "PMem-OE": "tier", "Ori-Cache": "inline-lru", "PMem-Hash": "pmem-hash"}

// perServer is the number of GPUs of the paper for each of our trainers.
const perServer = 4

// gpus returns a system's values over the number of trainers, drawn at the paper's number of GPUs.
func gpus(r *bench.Report, system, name string) (Series, error) {
	s, err := line(r, system, name, "trainers", "store", storeOf[system])
	for i := range s.Points {
		s.Points[i].X *= perServer
	}
	return s, err
}

// percentOver returns by how many per cent a ratio is above 1.
func percentOver(p Point) Point {
	p.Y, p.Least, p.Most, p.Unit = 100*(p.Y-1), 100*(p.Least-1), 100*(p.Most-1), ""
	return p
}

// sameTrainers pairs the points of two systems, from few trainers to many.
func sameTrainers(text string, a, b []Point, check func(string, Point, Point) Check) Check {
	if len(a) != len(b) || len(a) == 0 {
		return Check{Text: text, Seen: fmt.Sprintf("%d and %d values", len(a), len(b))}
	}
	var checks []Check
	for i := range a {
		checks = append(checks, check("", a[i], b[i]))
	}
	return all(text, checks...)
}

// describeStores adds the common parameters and notes of the figures of stores.
func describeStores(f *Figure, r *bench.Report) {
	f.Params = append(f.Params,
		Param{"model", "DeepFM, 2.1 billion rows of 64 floats: 538 GB", r.Settings["rows"] + " rows of 64 floats, 2.7 GB (s = 200), " +
			"one layer before and after the products"},
		Param{"batch of a trainer", "4,096", r.Settings["batch"]},
		Param{"servers and trainers", "GPUs share servers", "one server; 1, 2 and 4 trainers are drawn at 4, 8 and 16 GPUs"},
		Param{"device", "Optane PMem", "a file: PMem-OE's past the page cache where the disk allows it, the others' in the page cache"},
		Param{"links", "30 Gb/s", r.Settings["link"] + ", emulated"},
		Param{"forward and backward", "V100", "a wait of " + r.Settings["compute"]},
		Param{"popularity", "table II", "drawn by table II's shares: " + r.Settings["skew"] + " %"})
	if !strings.Contains(r.Settings["cache"], ",") {
		f.Params = append(f.Params, Param{"cache", "2 GB, 0.4 % of the rows; 13.6 % of the requested rows are read",
			r.Settings["cache"] + " KiB; " + seenOfStores(r, "misses", " %", "PMem-OE", "Ori-Cache")})
	}
	f.Notes = append(f.Notes,
		"All systems run on one loop, one set of kernels and one transport. Ori-Cache is inline-lru: a hash table and a lock for each "+
			"row within the request, and the least recently used row leaves. PMem-Hash is the same without a cache. Both are stronger "+
			"than the paper's where a row is in memory: that costs no hash table and no lock here.",
		"PMem-OE is ecrec's own store.tier with rows planned ahead: it also keeps a log with sums, which the paper's has not. Its "+
			"device is a disk, far slower than PMem, which makes it weaker.",
		"All ranks share the cores of one machine, so more trainers also take CPU time from the server: gaps between systems are upper bounds.")
}

// seenOfStores lists the values of a name that some systems have in a report, by trainers.
func seenOfStores(r *bench.Report, name, unit string, systems ...string) string {
	var all []string
	for _, system := range systems {
		if s, err := line(r, system, name, "trainers", "store", storeOf[system]); err == nil {
			all = append(all, system+" "+seenAll(s.Points)+unit)
		}
	}
	return strings.Join(all, "; ")
}

// drawStores draws fig. 7.
func drawStores(f *Figure, reports []*bench.Report) error {
	r := reports[0]
	for _, system := range []string{"Ori-Cache", "PMem-OE", "PMem-Hash"} {
		s, err := gpus(r, system, "of dram-ps")
		if err != nil {
			return err
		}
		f.Series = append(f.Series, s)
	}
	epochs, err := gpus(r, "DRAM-PS", "epoch")
	if err != nil {
		return err
	}
	if len(epochs.Points) < 2 {
		return fmt.Errorf("%d numbers of trainers, want at least 2", len(epochs.Points))
	}
	faster := Series{System: "DRAM-PS"}
	for _, p := range epochs.Points[1:] {
		x := percentOver(over(p, epochs.Points[0]))
		x = scaled(x, -1)
		x.Label, x.Unit = fmt.Sprintf("less time, %g over 4 GPUs", p.X), "%"
		if err := faster.addPoint(x, epochs.Kind); err != nil {
			return err
		}
	}
	f.Series = append(f.Series, faster)
	describeStores(f, r)
	f.Checks = []Check{
		sameTrainers("PMem-OE is faster than Ori-Cache", f.points("PMem-OE"), f.points("Ori-Cache"), below),
		sameTrainers("Ori-Cache is faster than PMem-Hash", f.points("Ori-Cache"), f.points("PMem-Hash"), below),
		growsWith("Ori-Cache falls behind more with more trainers", f.points("Ori-Cache")),
		atMost("PMem-OE takes at most 1.1 times DRAM-PS's time with one trainer", f.at("PMem-OE", perServer), 1.1),
		above("more trainers end an epoch sooner", faster.Points[len(faster.Points)-1], Point{N: 1}),
	}
	return nil
}

// growsWith checks that the last value is above the first.
func growsWith(text string, points []Point) Check {
	if len(points) < 2 {
		return Check{Text: text, Seen: "too few values"}
	}
	return above(text, points[len(points)-1], points[0])
}

// drawGaps draws fig. 3, from the runs of fig. 7.
func drawGaps(f *Figure, reports []*bench.Report) error {
	for _, system := range []string{"Ori-Cache", "PMem-Hash"} {
		s, err := gpus(reports[0], system, "of dram-ps")
		if err != nil {
			return err
		}
		for i, p := range s.Points {
			s.Points[i] = percentOver(p)
		}
		f.Series = append(f.Series, s)
	}
	describeStores(f, reports[0])
	f.Checks = []Check{
		sameTrainers("Ori-Cache's gap is less than PMem-Hash's", f.points("Ori-Cache"), f.points("PMem-Hash"), below),
		growsWith("Ori-Cache's gap grows with the trainers", f.points("Ori-Cache")),
		growsWith("PMem-Hash's gap grows with the trainers", f.points("PMem-Hash")),
	}
	return nil
}

// drawSavingStores draws fig. 6.
func drawSavingStores(f *Figure, reports []*bench.Report) error {
	r := reports[0]
	dram, err := gpus(r, "PMem-OE", "of dram-ps")
	if err != nil {
		return err
	}
	lru, err := gpus(r, "Ori-Cache", "of dram-ps")
	if err != nil {
		return err
	}
	a, b := Series{System: "PMem-OE over DRAM-PS"}, Series{System: "PMem-OE over Ori-Cache"}
	for i, p := range dram.Points {
		if err := a.addPoint(percentOver(p), dram.Kind); err != nil {
			return err
		}
		if err := b.addPoint(percentOver(over(p, lru.Points[i])), dram.Kind); err != nil {
			return err
		}
	}
	f.Series = append(f.Series, a, b)
	describeStores(f, r)
	f.Params = append(f.Params, Param{"checkpoints of an epoch", "16 (every 20 minutes of 5.3 hours)", r.Settings["saves"] +
		", or commits of PMem-OE; in the timed half, by trainers: " + seenOfStores(r, "saves", "", "DRAM-PS", "PMem-OE", "Ori-Cache")})
	f.Notes = append(f.Notes, "DRAM-PS and Ori-Cache save the rows that changed since the checkpoint before, and training waits for "+
		"that, as the incremental checkpoints of the paper. PMem-OE has at least as many commits, which survive the "+
		"loss of all processes: it also commits when the rows of an epoch take an eighth of its memory. Rows that Ori-Cache reads "+
		"to save them count as read, so its rate is higher than without checkpoints.")
	f.Checks = []Check{
		sameTrainers("with checkpoints PMem-OE is faster than Ori-Cache", b.Points, zeros(b.Points), below),
		sameTrainers("with checkpoints PMem-OE is faster than DRAM-PS", a.Points, zeros(a.Points), below),
	}
	return nil
}

func zeros(points []Point) []Point {
	z := make([]Point, len(points))
	for i := range z {
		z[i].N = 1
	}
	return z
}

// drawMoney draws tab. V, from the runs of fig. 6 with the fewest trainers.
func drawMoney(f *Figure, reports []*bench.Report) error {
	r := reports[0]
	hours, ok := f.paperAt("DRAM-PS", 0, "epoch")
	if !ok {
		return fmt.Errorf("the paper's hours of an epoch are missing")
	}
	epochs := map[string]Point{}
	for _, system := range []string{"DRAM-PS", "PMem-OE", "Ori-Cache"} {
		s, err := gpus(r, system, "epoch")
		if err != nil {
			return err
		}
		p := s.Points[0]
		p.X, p.Label, p.Unit = 0, "epoch", "s"
		epochs[system] = p
		s.Points = []Point{p}
		f.Series = append(f.Series, s)
	}
	prices := map[string]Point{}
	for i, system := range []string{"DRAM-PS", "PMem-OE", "Ori-Cache"} {
		price, ok := f.paperAt(system, 0, "price of an hour")
		if !ok {
			return fmt.Errorf("the paper's price of an hour of %s is missing", system)
		}
		p := scaled(over(epochs[system], epochs["DRAM-PS"]), hours*price)
		if system == "DRAM-PS" { // it is the measure of the others
			p.Least, p.Most = p.Y, p.Y
		}
		p.X, p.Label, p.Unit = float64(1+i), "price of an epoch", "$"
		prices[system] = p
		f.Series = append(f.Series, Series{System: system, Kind: bench.Modelled, Points: []Point{p}})
	}
	for _, of := range []string{"DRAM-PS", "Ori-Cache"} {
		p := percentOver(over(prices["PMem-OE"], prices[of]))
		p.Label, p.Unit = "price of an epoch", "%"
		f.Series = append(f.Series, Series{System: "PMem-OE over " + of, Kind: bench.Modelled, Points: []Point{p}})
	}
	describeStores(f, r)
	f.Params = append(f.Params, Param{"prices of an hour", "$6.07 with DRAM, $3.80 with PMem", "the paper's"})
	f.Notes = append(f.Notes, "The paper's hours are those of 4 GPUs: one trainer here. O6 has the others.",
		fmt.Sprintf("The price of an epoch is computed: the paper's price of an hour, times the paper's %g "+
			"hours of DRAM-PS, times our time over DRAM-PS's. It is no price of this machine.", hours))
	f.Checks = []Check{
		below("an epoch of PMem-OE is cheaper than one of DRAM-PS", prices["PMem-OE"], prices["DRAM-PS"]),
		below("an epoch of PMem-OE is cheaper than one of Ori-Cache", prices["PMem-OE"], prices["Ori-Cache"]),
	}
	return nil
}
