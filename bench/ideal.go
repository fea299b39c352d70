package bench

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/ecrec/ecrec/bench/measure"
	"github.com/ecrec/ecrec/lrpp"
	"github.com/ecrec/ecrec/train"
	"github.com/ecrec/ecrec/transport"
)

var idealBench = Bench{
	Name: "ideal",
	Doc:  "step time of each cache mode, beside a step that exchanges no rows",
	Detail: "The ideal step has every row at hand (BagPipe, fig. 15). All modes take turns in one run. With link the ranks " +
		"exchange messages over simulated links; with compute a stand-in waits in place of the forward and backward pass. " +
		"With clock=virtual the same step loop runs on a simulated clock: links and stand-in take their time, the work of this machine's " +
		"CPU takes none, and rows and gradients have sizes but no values. Its repeats have different seeds.",
	Settings: []Setting{
		choice("clock", realClock, []string{realClock, virtualClock, bothClocks},
			"clock of the steps. both: a run on each by turns, and their ratio; it needs link and compute"),
		choice("model", "", []string{"dim48", "dim16", "deepfm48"}, "model to train. Default: dim48 and dim16; with compute dim48 alone"),
		numbers("batch", "", 1, maxSamples, "samples of a step, over all ranks. Default: 2048; with compute 8192; with a virtual clock "+
			"2048 for each rank"),
		numbers("ranks", "", 1, 1024, "number of ranks. Default: 4; with clock=virtual 8"),
		threadsSetting,
		number("steps", "", 1, maxSteps, "steps in a turn. Default: 40960 / batch, at least 4; with a virtual clock 4"),
		number("warmup", "2", 0, maxSteps, "steps before each turn that are not timed; the cache of lrpp is empty before them"),
		text("link", "", "BANDWIDTH,LATENCY such as 10Gb/s,50us", "simulated links between ranks. Default: none"),
		text("compute", "", "a duration up to 1m, such as 30ms", "time of the stand-in for the forward and backward pass. Default: none"),
		text("ideal", "", "a duration up to 1m, such as 30ms", "time of the ideal step, to which compute is fitted. It needs "+
			"clock=virtual. Default: compute is not fitted"),
		numbers("dense", "", 1, 1<<30, "dense parameters of the stand-in; the first ones are those of the step that ideal names. "+
			"Default: those of the model"),
		text("modes", "", "names of cache.mode and ideal, separated by commas", "modes that take turns. Default: ideal, "+strings.Join(lrpp.ModeNames(), ", ")),
		numbers("lookahead", "200", 1, 1<<20, "oracle.lookahead, which mode lrpp reads"),
		choice("law", "independent", []string{"independent", "bursts", "both"}, "data.law, when rows are used"),
		choice("delayed", "yes", []string{"yes", "no", "both"}, "cache.delayed_sync"),
	},
	measure: runIdeal,
}

// idealModes are compared, the ideal first.
var idealModes = append([]string{measure.Ideal}, lrpp.ModeNames()...)

// idealRun is one run of the benchmark.
type idealRun struct {
	out     io.Writer
	o       Options
	clock   string
	modes   []string
	link    *transport.EmulatedLink
	compute time.Duration
	ideal   time.Duration
	report  *Report
	fitted  map[[2]int]time.Duration // by batch and ranks
}

// idealCase is the settings in which its figures differ.
type idealCase struct {
	shape                   shape
	batch, ranks, lookahead int
	dense                   int // 0: those of the model
	delayed                 bool
	law                     string // data.law
}

func runIdeal(out io.Writer, o Options) (*Report, error) {
	r := &idealRun{out: out, o: o, clock: o.text("clock"), modes: idealModes, fitted: map[[2]int]time.Duration{}}
	if err := r.readSettings(); err != nil {
		return nil, err
	}
	cases, err := r.listCases()
	if err != nil {
		return nil, err
	}
	for i, c := range cases {
		o.setDone(i, len(cases), "cases")
		if err := r.measureCase(c); err != nil {
			return nil, err
		}
	}
	return r.report, nil
}

func (r *idealRun) readSettings() (err error) {
	o := r.o
	if r.link, r.compute, err = o.linkAndCompute(); err != nil {
		return err
	}
	if r.ideal, err = o.shortTime("ideal"); err != nil {
		return err
	}
	if s := o.text("modes"); s != "" {
		r.modes = strings.Split(s, ",")
		for _, m := range r.modes {
			if !slices.Contains(idealModes, m) {
				return settingError("modes=%s: %q is not a mode; want %s", s, m, oneOf(idealModes))
			}
		}
	}
	virtual := r.clock == virtualClock
	switch {
	case r.clock == bothClocks && (r.link == nil || r.compute == 0):
		return settingError("clock=both: needs link and compute, such as link=10Gb/s,50us compute=30ms")
	case r.ideal > 0 && !virtual:
		return settingError("ideal=%v: needs clock=virtual", r.ideal)
	case r.ideal > 0 && r.compute > 0:
		return settingError("ideal=%v: compute is fitted to it; leave compute out", r.ideal)
	case o.isSet("dense") && r.clock == realClock:
		return settingError("dense=%s: needs clock=virtual or clock=both", o.text("dense"))
	case virtual && r.compute == 0 && r.ideal == 0:
		r.compute = 30 * time.Millisecond
	}
	if virtual && r.link == nil {
		r.link = &transport.EmulatedLink{BytesPerS: 1.25e9, Latency: 50 * time.Microsecond}
	}
	return nil
}

// listCases lists the combinations of the settings that are lists.
func (r *idealRun) listCases() (cases []idealCase, err error) {
	o, sized := r.o, r.clock != realClock
	ranks, models := o.numbers("ranks"), o.models("dim48", "dim16")
	if ranks == nil {
		ranks = []int{4}
		if r.clock == virtualClock {
			ranks = []int{8}
		}
	}
	if r.compute > 0 || sized {
		if models = o.models("dim48"); models[0].name == "dim16" && !sized {
			return nil, settingError("model=dim16: compute needs model=dim48")
		}
	}
	dense := o.numbers("dense")
	if dense == nil {
		dense = []int{0}
	}
	laws := []string{o.text("law")}
	if laws[0] == "both" {
		laws = []string{"independent", "bursts"}
	}
	delayed := map[string][]bool{"yes": {true}, "no": {false}, "both": {true, false}}[o.text("delayed")]
	for _, m := range models {
		for _, n := range ranks {
			for _, batch := range r.batches(n) {
				if batch < n {
					return nil, settingError("batch=%d: want at least 1 sample for each of the %d ranks", batch, n)
				}
				for _, ahead := range o.numbers("lookahead") {
					for _, d := range delayed {
						for _, p := range dense {
							for _, law := range laws {
								cases = append(cases, idealCase{m, batch, n, ahead, p, d, law})
							}
						}
					}
				}
			}
		}
	}
	return cases, nil
}

func (r *idealRun) batches(ranks int) []int {
	switch {
	case r.o.isSet("batch"):
		return r.o.numbers("batch")
	case r.o.Tiny:
		return []int{64}
	case r.clock == virtualClock:
		return []int{2048 * ranks}
	case r.compute > 0:
		return []int{8192}
	}
	return []int{2048}
}

// linkAndCompute returns the settings link and compute, nil and 0 if they are not set.
func (o Options) linkAndCompute() (link *transport.EmulatedLink, compute time.Duration, err error) {
	if s := o.text("link"); s != "" {
		l, err := transport.ParseEmulatedLink(s)
		if err != nil {
			return nil, 0, settingError("%v", err)
		}
		link = &l
	}
	compute, err = o.shortTime("compute")
	return link, compute, err
}

// shortTime returns a setting that is a duration, 0 if it is not set.
func (o Options) shortTime(key string) (d time.Duration, err error) {
	if s := o.text(key); s != "" {
		if d, err = time.ParseDuration(s); err != nil || d <= 0 || d > time.Minute {
			return 0, settingError("%s=%s: want a duration up to 1m, such as 30ms", key, s)
		}
	}
	return d, nil
}

// jobOf is the job of a case.
func (r *idealRun) jobOf(c idealCase) emulatedJob {
	sized := r.clock != realClock
	return emulatedJob{shape: c.shape, ranks: c.ranks, batch: c.batch, threads: r.o.number("threads"), link: r.link, compute: r.compute,
		sets:     []string{fmt.Sprint("oracle.lookahead=", c.lookahead), fmt.Sprint("cache.delayed_sync=", c.delayed), "data.law=" + c.law},
		sizeOnly: sized, dense: c.dense, virtual: r.clock == virtualClock, seed: 1}
}

// options are those of a turn with some modes.
func (r *idealRun) options(c idealCase, repeats int, modes ...string) measure.Options {
	steps := max(4, 40960/c.batch)
	if r.clock != realClock {
		steps = 4
	}
	if r.o.Tiny {
		steps = 2
	}
	if r.o.isSet("steps") {
		steps = r.o.number("steps")
	}
	ahead := 1 // else the last step fetches nothing for the one after it
	if slices.Contains(modes, "lrpp") {
		ahead = c.lookahead
		if r.o.Tiny {
			ahead = 2
		}
	}
	return measure.Options{Warmup: r.o.number("warmup"), Steps: steps, Ahead: ahead, Repeats: repeats, Modes: modes, EndEarly: r.o.endsTurns}
}

func (r *idealRun) measureCase(c idealCase) (err error) {
	j := r.jobOf(c)
	if r.ideal > 0 {
		place := [2]int{c.batch, c.ranks}
		if r.fitted[place] == 0 {
			if r.fitted[place], err = r.fitCompute(j, c); err != nil {
				return err
			}
		}
		j.compute = r.fitted[place]
	}
	switch r.clock {
	case bothClocks:
		return r.compareClocks(j, c)
	case virtualClock:
		samples, info, err := r.measureSeeds(j, c, r.o.repeats())
		if err != nil {
			return err
		}
		r.beginReport(info)
		r.addFigures(c, j, Virtual, samples)
		return nil
	}
	samples, info, err := j.measure(r.options(c, r.o.repeats(), r.modes...))
	if err != nil {
		return err
	}
	r.beginReport(info)
	kind := Evidence("")
	if r.link != nil || r.compute > 0 {
		kind = Simulated
	}
	r.addFigures(c, j, kind, samples)
	return nil
}

// measureSeeds measures one turn of each of some seeds, in virtual time. A mode is planned by itself: rows that others leave in caches
// would change it.
func (r *idealRun) measureSeeds(j emulatedJob, c idealCase, seeds int) (samples [][]measure.Sample, info train.Info, err error) {
	samples = make([][]measure.Sample, len(r.modes))
	j.virtual = true
	for seed := range seeds {
		j.seed = uint64(seed + 1)
		for i, mode := range r.modes {
			r.o.mustRun()
			var got [][]measure.Sample
			if got, info, err = j.measure(r.options(c, 1, mode)); err != nil {
				return nil, info, err
			}
			samples[i] = append(samples[i], got[0]...)
		}
	}
	return samples, info, nil
}

// fitCompute returns the wait of the stand-in with which the ideal step takes a time. The step grows with the wait, by at most as much.
func (r *idealRun) fitCompute(j emulatedJob, c idealCase) (time.Duration, error) {
	j.compute = r.ideal
	for range 20 {
		o := r.options(c, 1, measure.Ideal)
		o.Warmup, o.Steps = min(1, o.Warmup), min(2, o.Steps) // in virtual time all ideal steps are alike
		got, _, err := j.measure(o)
		if err != nil {
			return 0, err
		}
		over := got[0][0].Step - r.ideal
		if over.Abs() < r.ideal/1000 {
			return j.compute, nil
		}
		if j.compute -= over; j.compute <= 0 {
			break
		}
	}
	return 0, settingError("ideal=%v: the exchange of %d dense parameters over the link takes longer", r.ideal, j.dense)
}

func (r *idealRun) beginReport(info train.Info) {
	if r.report == nil {
		r.report = r.o.newReport(info.Device)
		r.report.writeHeader(r.out)
	}
}
