package bench

import (
	"fmt"
	"io"
	"maps"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ecrec/ecrec/bench/measure"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/env/virtual"
	"github.com/ecrec/ecrec/internal/probe"
	"github.com/ecrec/ecrec/lrpp"
	"github.com/ecrec/ecrec/transport"
)

var exchangeBench = Bench{
	Name: "exchange",
	Doc:  "step time of the row exchanges of other systems, beside the cache modes, over links",
	Detail: "All systems run in the step loop of ecrec, over links of a given bandwidth, with a stand-in that waits in place of " +
		"the forward and " +
		"backward pass (package bench/baseline has the systems). Rows and bytes are the sums that all ranks receive from others. " +
		"Of large tables only the rows that the steps use are in memory, under other ids: rows shared by steps and ranks stay shared. " +
		"With clock=virtual, our own work on the CPU takes no time, and each repeat draws other ids.",
	Settings: []Setting{
		text("system", "all", "all, or names separated by commas: "+strings.Join(exchangeSystems(), ", "), "systems to measure, by turns"),
		choice("model", "dlrm", exchangeModelNames(), "row width, and number of dense parameters, of BagPipe's models"),
		choice("tables", "criteo-kaggle", tableNames, "rows of the tables"),
		choice("stream", burstStream, streamNames(), "ids: synthetic as of data.law; with this probability in % one of the hottest "+
			"1 % of a table; or with shares as in OpenEmbedding's table II"),
		number("dim", "", 1, 1<<12, "floats of a row. Default: that of the model"),
		number("batch", "16384", 1, maxSamples, "samples of a step, over all ranks").orTiny("48"),
		number("ranks", "8", 1, 1024, "ranks that train and own rows").orTiny("3"),
		text("link", "10Gb/s,50us", "BANDWIDTH,LATENCY such as 10Gb/s,50us", "links between ranks"),
		text("compute", "", "a duration up to 1m, such as 30ms", "time of the stand-in. Default: that of the model").orTiny("1ms"),
		choice("clock", "virtual", []string{"virtual", "real"}, "virtual: time passes on links and in stand-ins only"),
		number("steps", "10", 1, 10_000, "steps that are timed").orTiny("2"),
		number("warmup", "3", 1, 10_000, "steps before them").orTiny("1"),
		number("lookahead", "20", 1, 1000, "steps that lrpp, replicated and partitioned look ahead, and as many more before they "+
			"are timed").orTiny("2"),
		number("history", "50", 0, 10_000, "steps before the first one that fill the caches of het").orTiny("2"),
		number("staleness", "100", 0, 254, "updates that a cached row of het may be behind"),
		text("hot", "0.1", "a share in %", "rows of which static-hot and fae have copies: those with the most lookups in the steps of the run"),
		text("parse", "2us", "a duration", "time in which fb-dlrm reads and parses a sample"),
		number("seed", "1", 0, 1<<31-1, "seed of the ids of the first repeat"),
	},
	measure: runExchange,
}

// ours are the systems that are cache modes.
var ours = append([]string{measure.Ideal}, lrpp.ModeNames()...)

// exchangeModel is a model as far as an exchange depends on it.
type exchangeModel struct {
	name    string
	width   int // floats of a row
	dense   int // dense parameters, without those of a linear model over ids
	perRow  int // dense parameters for each row of all tables
	compute time.Duration
	// perFloat is how many dense parameters each further float of a row adds.
	perFloat int
}

// exchangeModels are BagPipe's, with the numbers of parameters of its public code. deepfm has the weights of its linear model over ids
// as a dense table, and all-reduces the gradient of that table in each step, after the backward pass; deepfm-row has them in the rows.
// The times of the stand-ins are such that a step without exchange takes the time of the paper's ideal step on a p3 machine (fig. 15).
// It gives none for wdl and dcn, which have that of dlrm. openembedding is the DeepFM of OpenEmbedding, with three layers of 400 and no
// linear weights of rows; its paper gives no time of a step either: 10 ms is our choice.
var exchangeModels = []exchangeModel{
	{"dlrm", 48, 2_962_289, 0, 30 * time.Millisecond, 0},
	{"wdl", 48, 136_673, 0, 30 * time.Millisecond, 0},
	{"dcn", 48, 2_718_609, 0, 30 * time.Millisecond, 0},
	{"deepfm", 48, 88_706, 1, 47 * time.Millisecond, 0},
	{"deepfm-row", 49, 88_706, 0, 47 * time.Millisecond, 0},
	{"openembedding", 16, 493_214, 0, 10 * time.Millisecond, 26 * 400},
}

func exchangeModelNames() (names []string) {
	for _, m := range exchangeModels {
		names = append(names, m.name)
	}
	return names
}

// exchangeSettings are those of a run.
type exchangeSettings struct {
	systems                                    []string
	model                                      exchangeModel
	tables                                     []int64
	stream                                     string
	batch, ranks                               int
	link                                       transport.EmulatedLink
	compute, parse                             time.Duration
	isVirtual                                  bool
	onLoopback                                 bool // real connections on this machine, in place of link
	steps, warmup, lookahead, history, staleAt int
	hot                                        float64 // share of the rows
	seed                                       uint64
}

// exchangeHeap is the size of the heap from which on the garbage collector works harder: programs of many steps are large, and
// short-lived.
const exchangeHeap = 1 << 30

func runExchange(out io.Writer, o Options) (*Report, error) {
	c, err := o.exchangeSettings()
	if err != nil {
		return nil, err
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(exchangeHeap))
	turns := o.repeats()
	if c.isVirtual && o.Repeats == 0 {
		turns = 1
	}
	samples := make([][]exchangeSample, len(c.systems))
	var report *Report
	for k := 0; o.moreTurns(k, turns); k++ {
		d, err := drawExchangeData(c, c.seed+uint64(k))
		if err != nil {
			return nil, err
		}
		for i, name := range c.systems {
			o.mustRun()
			s, device, err := measureExchange(c, name, d)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			samples[i] = append(samples[i], s)
			if report == nil {
				report = o.newReport(device)
				report.writeHeader(out)
			}
		}
	}
	report.evidence = Simulated
	if c.isVirtual {
		report.evidence = Virtual
	}
	report.exchangeFigures(out, c, samples)
	return report, nil
}

// exchangeSample is one measurement of a system.
type exchangeSample struct {
	measure.Sample
	placing  float64 // s for a batch, of a system that places samples
	hot      float64 // share of batches without cold rows, of a system that sorts samples
	distinct float64 // rows of a batch
}

// runOn calls f with the clock of the settings.
func (c *exchangeSettings) runOn(f func(e env.Env) error) error {
	if c.isVirtual {
		return virtual.Run(c.seed, f)
	}
	return f(env.Real())
}

// joinRanks connects the ranks by links.
func (c *exchangeSettings) joinRanks(e env.Env) ([]transport.Endpoint, error) {
	switch {
	case c.isVirtual:
		return transport.NewNetwork(e, c.ranks, 1, c.link), nil
	case c.onLoopback:
		return joinLoopback(c.ranks, transport.SecureOff)
	}
	eps := transport.NewMem(e, c.ranks, 1)
	for i := range eps {
		eps[i] = transport.EmulateLink(e, eps[i], c.link)
	}
	return eps, nil
}

// moreOf returns a case with more settings: names and values by turns.
func moreOf(base map[string]string, more ...string) map[string]string {
	of := maps.Clone(base)
	for i := 0; i+1 < len(more); i += 2 {
		of[more[i]] = more[i+1]
	}
	return of
}

// exchangeFigures reports times, stages and traffic.
func (r *Report) exchangeFigures(out io.Writer, c *exchangeSettings, samples [][]exchangeSample) {
	base := map[string]string{}
	for _, key := range []string{"model", "tables", "stream", "batch", "ranks", "link", "clock", "lookahead"} {
		base[key] = r.Settings[key]
	}
	base["compute"], base["dim"] = c.compute.String(), fmt.Sprint(c.model.width)
	fmt.Fprintf(out, "\n%s on %s, ids %s, rows of %d floats, %d dense parameters, batch %d, %d ranks, link %s, compute %v, clock %s\n\n",
		c.model.name, r.Settings["tables"], c.stream, c.model.width, c.denseFloats(), c.batch, c.ranks, r.Settings["link"], c.compute,
		r.Settings["clock"])
	t := table(out)
	fmt.Fprint(t, "system\tms per step\tleast\tgreatest\trows\tcritical\tMB\tcritical\t\n")
	for i, name := range c.systems {
		of := moreOf(base, "system", name)
		values := func(f func(exchangeSample) float64) (all []float64) {
			for _, s := range samples[i] {
				all = append(all, f(s))
			}
			return all
		}
		add := func(e Evidence, name, unit string, f func(exchangeSample) float64) Figure {
			first := len(r.Figures)
			x := r.addAs(e, name, unit, values(f)...)
			r.setCase(first, of)
			return x
		}
		step := add(r.evidence, "step", "ms", func(s exchangeSample) float64 { return 1e3 * s.Step.Seconds() })
		all := add(Counted, "rows", "rows/step", func(s exchangeSample) float64 { return float64(s.Total.Critical.Rows + s.Total.Delayed.Rows) })
		now := add(Counted, "rows, critical", "rows/step", func(s exchangeSample) float64 { return float64(s.Total.Critical.Rows) })
		bytes := add(Counted, "bytes", "bytes/step", func(s exchangeSample) float64 { return float64(s.Total.Critical.Bytes + s.Total.Delayed.Bytes) })
		critical := add(Counted, "bytes, critical", "bytes/step", func(s exchangeSample) float64 { return float64(s.Total.Critical.Bytes) })
		fmt.Fprintf(t, "%s\t%.2f\t%.2f\t%.2f\t%.0f\t%.0f\t%.2f\t%.2f\t\n", name, step.Median, step.Min, step.Max, all.Median, now.Median,
			bytes.Median/1e6, critical.Median/1e6)
		if name == "partitioned-placed" {
			add(Measured, "placing a batch", "s", func(s exchangeSample) float64 { return s.placing })
		}
		if name == "fae" {
			add(Counted, "hot batches", "%", func(s exchangeSample) float64 { return 100 * s.hot })
		}
	}
	t.Flush()
	first := len(r.Figures)
	r.addAs(Counted, "distinct rows of a batch", "rows", distinctRows(samples[0])...)
	r.addAs(Counted, "dense parameters", "floats", float64(c.denseFloats()))
	r.setCase(first, base)
	r.addDenseRows(out, c, base)
	r.exchangeStages(out, c, base, samples)
}

// addDenseRows adds the cost to all-reduce the gradient of all rows of all tables as one dense gradient, as a framework does
// with tables that are dense variables: the bytes that all ranks receive, and the time of a step that computes and then waits for them.
func (r *Report) addDenseRows(out io.Writer, c *exchangeSettings, base map[string]string) {
	rows := int64(0)
	for _, n := range c.tables {
		rows += n
	}
	gradient := 4 * rows * int64(c.model.width)
	each := 2 * float64(c.ranks-1) / float64(c.ranks) * float64(gradient)
	step := 1e3 * (c.compute.Seconds() + each/c.link.BytesPerS)
	first := len(r.Figures)
	r.addAs(Counted, "bytes", "bytes/step", float64(c.ranks)*each)
	r.addAs(Modelled, "step", "ms", step)
	r.setCase(first, moreOf(base, "system", "dense rows"))
	fmt.Fprintf(out, "\nall rows as a dense gradient: %.0f MB a step, %.0f ms by the bandwidth of the links\n",
		float64(c.ranks)*each/1e6, step)
}

func distinctRows(samples []exchangeSample) (all []float64) {
	for _, s := range samples {
		all = append(all, s.distinct)
	}
	return all
}

// exchangeStages reports the time of each stage on rank 0.
func (r *Report) exchangeStages(out io.Writer, c *exchangeSettings, base map[string]string, samples [][]exchangeSample) {
	fmt.Fprintln(out)
	t := table(out)
	defer t.Flush()
	fmt.Fprint(t, "ms\t")
	for st := probe.Stage(0); st < probe.Stages; st++ {
		fmt.Fprintf(t, "%s\t", st)
	}
	fmt.Fprintln(t)
	for i, name := range c.systems {
		fmt.Fprintf(t, "%s\t", name)
		for st := probe.Stage(0); st < probe.Stages; st++ {
			var ms []float64
			for _, s := range samples[i] {
				ms = append(ms, 1e3*s.Stages[st].Seconds())
			}
			first := len(r.Figures)
			fmt.Fprintf(t, "%.2f\t", r.addFigure("stage", "ms", ms...).Median)
			r.setCase(first, moreOf(base, "system", name, "stage", st.String()))
		}
		fmt.Fprintln(t)
	}
}

// exchangeSettings reads the settings.
func (o Options) exchangeSettings() (*exchangeSettings, error) {
	c := &exchangeSettings{batch: o.number("batch"), ranks: o.number("ranks"), steps: o.number("steps"), warmup: o.number("warmup"),
		lookahead: o.number("lookahead"), history: o.number("history"), staleAt: o.number("staleness"), seed: uint64(o.number("seed")),
		isVirtual: o.text("clock") == "virtual"}
	c.model = exchangeModels[slices.IndexFunc(exchangeModels, func(m exchangeModel) bool { return m.name == o.text("model") })]
	c.systems = strings.Split(o.text("system"), ",")
	if o.text("system") == "all" {
		c.systems = exchangeSystems()
	}
	for _, name := range c.systems {
		if !slices.Contains(exchangeSystems(), name) {
			return nil, settingError("system=%s: %q is no system; want all, or some of %s", o.text("system"), name,
				strings.Join(exchangeSystems(), ", "))
		}
	}
	c.stream = o.text("stream")
	if n := o.number("dim"); n > 0 {
		c.model.dense += c.model.perFloat * (n - c.model.width)
		c.model.width = n
	}
	var err error
	if c.tables, err = streamTables(o.text("tables"), o.Tiny); err != nil {
		return nil, settingError("tables=%s: %v", o.text("tables"), err)
	}
	link, compute, err := o.linkAndCompute()
	if err != nil {
		return nil, err
	}
	if link == nil {
		return nil, settingError("link: want a bandwidth and a latency, such as 10Gb/s,50us")
	}
	if c.link, c.compute = *link, compute; compute == 0 {
		c.compute = c.model.compute
	}
	if c.parse, err = time.ParseDuration(o.text("parse")); err != nil || c.parse < 0 {
		return nil, settingError("parse=%s: want a duration, such as 2us", o.text("parse"))
	}
	if c.hot, err = strconv.ParseFloat(o.text("hot"), 64); err != nil || !(c.hot >= 0 && c.hot <= 100) {
		return nil, settingError("hot=%s: want a share from 0 to 100", o.text("hot"))
	}
	c.hot /= 100
	if c.batch < c.ranks {
		return nil, settingError("batch=%d: want at least 1 sample for each of the %d ranks", c.batch, c.ranks)
	}
	return c, nil
}

// denseFloats is the number of dense parameters.
func (c *exchangeSettings) denseFloats() int {
	rows := 0
	for _, n := range c.tables {
		rows += int(n)
	}
	return c.model.dense + c.model.perRow*rows
}
