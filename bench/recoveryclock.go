package bench

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/ecrec/ecrec/bench/measure"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/ec"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/env/virtual"
	"github.com/ecrec/ecrec/internal/probe"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/train"
	"github.com/ecrec/ecrec/transport"
)

// virtualRecovery measures the recovery from the loss of one rank on a virtual clock: the messages of the roll-back and of the rebuild
// take the time of links, layers take that of a stand-in, and the work of CPUs takes none. A loss is noticed at once, and the next world
// is there at once: detection, the agreement of supervisors and the start of processes are not simulated.
type virtualRecovery struct {
	out     io.Writer
	o       Options
	link    transport.EmulatedLink
	compute time.Duration
	report  *Report
}

func runVirtualRecovery(out io.Writer, o Options) (*Report, error) {
	b := &virtualRecovery{out: out, o: o}
	var err error
	if b.link, b.compute, err = o.clockedJob(); err != nil {
		return nil, err
	}
	c := overheadCase{o.codeFor(o.number("r")), o.number("k"), o.number("r"), o.number("every")}
	ranks := o.numbers("ranks")
	if ranks == nil {
		ranks = []int{c.k + c.r}
	}
	for i, n := range ranks {
		o.setDone(i, len(ranks), "cases")
		if err := b.measureRanks(c, n); err != nil {
			return nil, err
		}
	}
	return b.report, nil
}

// measureRanks measures a job of some ranks, once for each of some seeds.
func (b *virtualRecovery) measureRanks(c overheadCase, ranks int) error {
	if _, err := ec.NewLayout(ranks, c.k, c.r); err != nil {
		return settingError("ranks=%d: %v", ranks, err)
	}
	j := emulatedJob{shape: b.o.models("dim16")[0], ranks: ranks, batch: b.o.number("batch"), sizeOnly: true, virtual: true, link: &b.link,
		sets: []string{"optimizer.sparse.kind=adagrad", "ec.code=" + c.code, fmt.Sprint("ec.k=", c.k), fmt.Sprint("ec.r=", c.r),
			fmt.Sprint("ec.commit_every=", c.every), "ec.rebuild_rate=" + b.o.text("rate"), "cache.mode=" + b.o.text("mode"), "train.iterations=100000", "optimizer.dense.lr=1e-30", "optimizer.sparse.lr=1e-30"}} // values mean nothing, and must stay finite
	if !b.o.isSet("batch") && !b.o.Tiny {
		j.batch *= ranks
	}
	var found []train.Recovery
	for seed := range b.o.repeats() {
		b.o.mustRun()
		j.seed = uint64(seed + 1)
		x, err := b.measureLoss(j, c)
		if err != nil {
			return err
		}
		found = append(found, x)
	}
	if b.report == nil {
		b.report = b.o.newReport("of the simulated ranks")
		b.report.evidence = Virtual
		b.report.writeHeader(b.out)
	}
	fmt.Fprintf(b.out, "\n%s batch %d ranks %d %v: link %v, compute %v, ec.rebuild_rate %s\n", j.shape.name, j.batch, ranks, c, b.link, b.compute,
		b.o.text("rate"))
	first := len(b.report.Figures)
	b.addRecoveries(found)
	b.report.setCase(first, map[string]string{"model": j.shape.name, "batch": strconv.Itoa(j.batch), "ranks": strconv.Itoa(ranks), "code": c.code,
		"k": strconv.Itoa(c.k), "r": strconv.Itoa(c.r), "every": strconv.Itoa(c.every), "rate": b.o.text("rate"), "clock": virtualClock,
		"link": b.link.String(), "compute": b.compute.String()})
	return nil
}

// addRecoveries adds the figures of a case.
func (b *virtualRecovery) addRecoveries(found []train.Recovery) {
	t := table(b.out)
	fmt.Fprintln(t, "from the loss until\tms\tleast\tgreatest\t")
	valuesOf := func(of func(*train.Recovery) float64) (values []float64) {
		for i := range found {
			values = append(values, of(&found[i]))
		}
		return values
	}
	for _, x := range recoveryTimes[2:] { // all after the next world was formed
		f := b.report.addFigure(x.name, "ms", valuesOf(x.of)...)
		fmt.Fprintf(t, "%s\t%.3f\t%.3f\t%.3f\t\n", x.name, f.Median, f.Min, f.Max)
	}
	t.Flush()
	for _, x := range []struct {
		name, unit string
		of         func(*train.Recovery) float64
	}{
		{"steps redone", "steps", func(x *train.Recovery) float64 { return float64(x.StepsRedone) }},
		{"rows decoded", "rows", func(x *train.Recovery) float64 { return float64(x.RowsDecoded) }},
		{"bytes read", "B", func(x *train.Recovery) float64 { return float64(x.BytesRead) }},
	} {
		fmt.Fprintf(b.out, "%s: %.0f\n", x.name, b.report.addAs(Counted, x.name, x.unit, valuesOf(x.of)...).Median)
	}
}

// measureLoss runs a job until all that it lost is rebuilt.
func (b *virtualRecovery) measureLoss(j emulatedJob, c overheadCase) (x train.Recovery, err error) {
	cfg, err := j.config()
	if err != nil {
		return x, err
	}
	memory, err := newSizes()
	if err != nil {
		return x, err
	}
	defer memory.freeMemory()
	err = virtual.Run(j.seed, func(e env.Env) error {
		l := &losing{env: e, ranks: j.ranks, link: b.link, compute: b.compute, at: int64(2*c.every + c.every/2)}
		_, err := train.Run(e, cfg, l.options(memory))
		if len(l.found) == 0 {
			return errors.Join(err, fmt.Errorf("bench: no recovery of %d ranks", j.ranks))
		}
		x = l.found[0]
		if errors.Is(err, errRebuilt) {
			return nil
		}
		return err
	})
	return x, err
}

// errRebuilt ends a job that has been measured.
var errRebuilt = errors.New("bench: everything is rebuilt")

// losing is a job of ranks in one process that loses one of them. It is used by one goroutine at a time, as all are on a virtual clock.
type losing struct {
	measure.Silent
	env        env.Env
	ranks      int
	link       transport.EmulatedLink
	compute    time.Duration
	at         int64 // the step after which the rank is lost
	generation uint64
	eps        []transport.Endpoint
	lost       bool
	lostAt     time.Duration
	found      []train.Recovery
}

func (l *losing) options(memory sizes) train.Options {
	return train.Options{Observer: l, Stop: neverStop, Progress: func(data.Progress) error { return nil }, World: l.world(), Inject: l.inject,
		WrapDevice: func(dev kernels.Device) kernels.Device { return memory.wrapDevice(dev, true) }}
}

// world is all ranks in this process. The next one, after the loss, has them all again.
func (l *losing) world() *train.World {
	w := &train.World{Processes: 1, Neighbours: 1, Trained: l.lost}
	w.Join = func([]int) ([]transport.Endpoint, error) {
		l.generation++
		l.eps = transport.NewNetwork(l.env, l.ranks, l.generation, l.link)
		return l.eps, nil
	}
	w.Renew = func(err error) *train.World {
		if !errors.As(err, new(*train.Died)) && !train.IsConsequence(err) {
			return nil
		}
		next := l.world()
		next.LostAgo = l.env.Now() - l.lostAt
		return next
	}
	return w
}

// lostRank is the rank that is lost. Rank 0 reports.
const lostRank = 1

// inject takes the time of the layers, a third of it forward, and loses the rank.
func (l *losing) inject(rank int, step int64, at probe.Point) error {
	switch {
	case len(l.found) > 0 && at == probe.Step:
		return errRebuilt
	case at == probe.Forward:
		l.env.Sleep(l.compute / 3)
	case at == probe.Backward:
		l.env.Sleep(l.compute - l.compute/3)
	case at == probe.Push && rank == lostRank && step >= l.at && !l.lost:
		l.lost, l.lostAt = true, l.env.Now()
		died := &train.Died{Rank: rank, Step: step}
		l.eps[rank].Abort(died)
		return died
	}
	return nil
}

// Recovered implements train.Observer.
func (l *losing) Recovered(x train.Recovery) { l.found = append(l.found, x) }

var _ train.Observer = (*losing)(nil)
