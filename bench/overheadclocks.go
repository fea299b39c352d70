package bench

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/ecrec/ecrec/bench/measure"
	"github.com/ecrec/ecrec/bench/paired"
	"github.com/ecrec/ecrec/ec"
	"github.com/ecrec/ecrec/train"
	"github.com/ecrec/ecrec/transport"
)

// overheadClocks measures what the messages of a code cost: links and a stand-in for the layers take their time, and on a virtual clock
// the work of this machine's CPU takes none.
type overheadClocks struct {
	out     io.Writer
	o       Options
	clock   string
	link    transport.EmulatedLink
	compute time.Duration
	report  *Report
}

// runOverheadClocks measures overhead with clock=virtual or clock=both.
func runOverheadClocks(out io.Writer, o Options) (*Report, error) {
	b := &overheadClocks{out: out, o: o, clock: o.text("clock")}
	var err error
	if b.link, b.compute, err = o.clockedJob(); err != nil {
		return nil, err
	}
	models, cases, ranks := o.models("dim48"), overheadCases(o), o.numbers("ranks")
	if ranks == nil {
		ranks = []int{5}
	}
	done, all := 0, len(models)*len(cases)*len(ranks)
	for _, s := range models {
		for _, n := range ranks {
			for _, c := range cases {
				o.setDone(done, all, "cases")
				if err := b.measureCase(s, c, n); err != nil {
					return nil, err
				}
				done++
			}
		}
	}
	return b.report, nil
}

// clockedJob returns the settings link and compute of a job on another clock than real: 10 Gb/s, 50 us and 30 ms if they are not set.
func (o Options) clockedJob() (link transport.EmulatedLink, compute time.Duration, err error) {
	link, compute = transport.EmulatedLink{BytesPerS: 1.25e9, Latency: 50 * time.Microsecond}, 30*time.Millisecond
	l, c, err := o.linkAndCompute()
	if l != nil {
		link = *l
	}
	if c > 0 {
		compute = c
	}
	return link, compute, err
}

// jobOf is the job of a case, on this machine's clock.
func (b *overheadClocks) jobOf(s shape, c overheadCase, ranks int) emulatedJob {
	batch := b.o.number("batch")
	if !b.o.isSet("batch") && !b.o.Tiny {
		batch *= ranks
	}
	return emulatedJob{shape: s, ranks: ranks, batch: batch, threads: b.o.number("threads"), link: &b.link, compute: b.compute, sizeOnly: true, seed: 1,
		sets: []string{"optimizer.sparse.kind=adagrad", "ec.code=" + c.code, fmt.Sprint("ec.k=", c.k),
			fmt.Sprint("ec.r=", c.r), fmt.Sprint("ec.commit_every=", c.every), "cache.mode=" + b.o.text("mode")}}
}

// measureCase measures a case on the clock of the settings.
func (b *overheadClocks) measureCase(s shape, c overheadCase, ranks int) error {
	if _, err := ec.NewLayout(ranks, c.k, c.r); err != nil {
		return settingError("ranks=%d: %v", ranks, err)
	}
	steps, err := blockSteps(b.o, c)
	if err != nil {
		return err
	}
	j := b.jobOf(s, c, ranks)
	// The deltas of the last commit of a block move after it, and those of the last one before it during its first steps.
	o := measure.Options{Warmup: max(2, c.every), Steps: steps, Ahead: 1, Modes: []string{measure.Unprotected, b.o.text("mode")}, EndEarly: b.o.endsTurns}
	wall, info, err := b.measureReal(j, o)
	if err != nil {
		return err
	}
	ticked, info2, err := b.measureVirtual(j, o)
	if err != nil {
		return err
	}
	if b.clock == virtualClock {
		info = info2
	}
	if b.report == nil {
		b.report = b.o.newReport(info.Device)
		b.report.writeHeader(b.out)
	}
	fmt.Fprintf(b.out, "\n%s batch %d ranks %d %v: link %v, compute %v, blocks of %d steps, cache.mode %s\n", s.name, j.batch, ranks, c, b.link,
		b.compute, steps, b.o.text("mode"))
	first := len(b.report.Figures)
	b.addClocks(wall, ticked)
	b.report.setCase(first, map[string]string{"model": s.name, "batch": strconv.Itoa(j.batch), "ranks": strconv.Itoa(ranks), "code": c.code,
		"k": strconv.Itoa(c.k), "r": strconv.Itoa(c.r), "every": strconv.Itoa(c.every), "clock": b.clock, "link": b.link.String(),
		"compute": b.compute.String()})
	return nil
}

// measureReal returns samples of steps without and with the code on this machine's clock, if the settings name it. The first pair, which
// takes memory, is left out.
func (b *overheadClocks) measureReal(j emulatedJob, o measure.Options) (samples [][]measure.Sample, info train.Info, err error) {
	if b.clock == virtualClock {
		return nil, info, nil
	}
	o.Repeats = 1 + b.o.repeats()
	if samples, info, err = j.measure(o); err != nil {
		return nil, info, err
	}
	for i := range samples {
		samples[i] = samples[i][1:]
	}
	return samples, info, nil
}

// measureVirtual returns samples in virtual time, one of each of some seeds. Beside another clock one is enough.
func (b *overheadClocks) measureVirtual(j emulatedJob, o measure.Options) (samples [][]measure.Sample, info train.Info, err error) {
	seeds := b.o.repeats()
	if b.clock == bothClocks {
		seeds = 1
	}
	o.Repeats, j.virtual = 1, true
	samples = make([][]measure.Sample, len(o.Modes))
	for seed := range seeds {
		b.o.mustRun()
		j.seed = uint64(seed + 1)
		got, at, err := j.measure(o)
		if err != nil {
			return nil, info, err
		}
		info = at
		for i := range samples {
			samples[i] = append(samples[i], got[i]...)
		}
	}
	return samples, info, nil
}

// addClocks adds the figures of a case: steps without and with the code, the ratio of the two, and the ratios of the clocks.
func (b *overheadClocks) addClocks(wall, ticked [][]measure.Sample) {
	t := table(b.out)
	fmt.Fprintln(t, "\tms without\tms with\twith / without\tinterval\t")
	add := func(suffix string, kind Evidence, samples [][]measure.Sample) {
		was := b.report.evidence
		b.report.evidence = kind
		without, with := stepTimes(samples[0]), stepTimes(samples[1])
		x, y := b.report.addFigure("step without the code"+suffix, "ms", without...), b.report.addFigure("step"+suffix, "ms", with...)
		f := b.report.addRatio(overheadWall+suffix, with, without)
		fmt.Fprintf(t, "%s\t%.3f\t%.3f\t%.4f\t%s\t\n", kind, x.Median, y.Median, f.Median, f.betweenText(4))
		b.report.evidence = was
	}
	var sent []float64
	for _, s := range ticked[1] {
		sent = append(sent, float64(s.Cost.SentBytes))
	}
	if wall == nil {
		add("", Virtual, ticked)
	} else {
		add("", Simulated, wall)
		add(", virtual", Virtual, ticked)
	}
	t.Flush()
	if wall != nil {
		was := b.report.evidence
		b.report.evidence = Simulated
		for i, name := range []string{"virtual over real, without the code", "virtual over real"} {
			real, virtual := stepTimes(wall[i]), stepTimes(ticked[i])
			for len(virtual) < len(real) {
				virtual = append(virtual, virtual[0])
			}
			f := b.report.addPaired(name, ratioUnit, paired.Ratios(virtual, real)...)
			fmt.Fprintf(b.out, "%s: %.3f %s\n", name, f.Median, f.betweenText(3))
		}
		b.report.evidence = was
	}
	fmt.Fprintf(b.out, "deltas sent by rank 0: %.0f bytes per step\n", b.report.addAs(Counted, "deltas sent by rank 0", "B/step", sent...).Median)
}
