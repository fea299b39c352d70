package bench

import (
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ecrec/ecrec/ec"
)

var lostWorkSystems = []string{sysOurs, sysReplica, sysCheckpoint}

var lostWorkBench = Bench{
	Name: "lostwork",
	Doc:  "overhead, lost work and memory of codes, replicas and checkpoints every n steps",
	Detail: "For each system and each n, a job of real processes trains the same steps twice: without a failure, beside " +
		"a job without protection in " +
		"the same turn, and with processes that are killed at random times. n is the steps between commits of ours and replica, and between " +
		"checkpoints of ckpt-full. Lost work is the steps that were done again, for each failure. Memory is that of parities or copies, " +
		"pre-images, deltas and snapshots of all ranks, over that of all rows with their optimizer state.",
	Settings: []Setting{
		choice("model", "dim16", []string{"dim16", "dim48"}, "model to train"),
		text("system", strings.Join(lostWorkSystems, ","), oneOf(lostWorkSystems)+", separated by commas", "systems to measure"),
		numbers("n", "1,10,100", 1, 1<<20, "steps between commits or checkpoints").orTiny("5,50"),
		number("steps", "400", 2, maxSteps, "steps of a run").orTiny("200"),
		number("kills", "3", 1, 1000, "losses in a run").orTiny("1"),
		number("k", "3", 1, mostColumns, "data rows in a stripe"),
		number("r", "1", 1, mostParity, "parity rows in a stripe"),
		choice("code", "", ec.Names(1), "erasure code. Default: xor for r = 1, else rs"),
		number("batch", "2048", 1, maxSamples, "samples of a step, over all ranks").orTiny("64"),
		number("ranks", "4", 2, 64, "number of ranks, one per process"),
		number("seed", "1", 0, maxSteps, "seed of the failures of the first turn; each turn has the next one"),
		modeSetting,
		dirSetting,
	},
	measure: runLostWork,
}

// The figures of a system that protects every n steps.
const (
	figOverhead = "time without a failure / without protection"
	figPerLoss  = "steps redone for each failure"
	figMemory   = "memory of the protection, of all rows"
	figDisk     = "a checkpoint on the disk, of all rows"
)

// lostWorkCase is a system with the steps between its commits or checkpoints.
type lostWorkCase struct {
	system string
	n      int
}

// lostWorkTimes is the result of a case in a turn.
type lostWorkTimes struct {
	seconds      float64
	perLoss      float64
	hits         int
	memory, disk float64 // bytes
	equal        bool
}

// lostWorkRun is one run of the benchmark.
type lostWorkRun struct {
	out io.Writer
	goodputRun
}

func runLostWork(out io.Writer, o Options) (*Report, error) {
	r := o.number("r")
	b := &lostWorkRun{out, goodputRun{out: out, o: o, shape: o.models("dim16")[0], steps: o.number("steps"),
		code: overheadCase{o.codeFor(r), o.number("k"), r, 0}, systems: strings.Split(o.text("system"), ",")}}
	if err := b.checkSystems(lostWorkSystems); err != nil {
		return nil, err
	}
	b.report = o.newReport("of the processes")
	b.report.writeHeader(out)
	var cases []lostWorkCase
	for _, system := range b.systems {
		for _, n := range o.numbers("n") {
			cases = append(cases, lostWorkCase{system, n})
		}
	}
	_, turns, err := runTurns(o, o.repeats(), func(turn func(string, func() (lostWorkTimes, error))) {
		turn(sysClean, func() (lostWorkTimes, error) {
			x, err := b.runClean()
			b.step = max(1e-5, x.seconds/float64(b.steps))
			return lostWorkTimes{seconds: x.seconds}, err
		})
		for _, c := range cases {
			turn(c.system, func() (lostWorkTimes, error) { return b.runCase(c) })
		}
		b.turn++
	})
	if err != nil {
		return nil, err
	}
	rows, err := b.rowsWithState()
	if err != nil {
		return nil, err
	}
	b.addCases(cases, turns, rows)
	return b.report, nil
}

// rowsWithState returns the bytes of all rows with adagrad's state.
func (b *lostWorkRun) rowsWithState() (bytes float64, err error) {
	cfg, err := b.shape.config(job{batch: b.o.number("batch"), ranks: b.o.number("ranks")})
	if err != nil {
		return 0, err
	}
	for _, n := range cfg.Model.TableRows() {
		bytes += float64(n) * float64(8*b.shape.dim)
	}
	return bytes, nil
}

// runCase runs the job of a case without failures, and with some.
func (b *lostWorkRun) runCase(c lostWorkCase) (x lostWorkTimes, err error) {
	sets := []string{fmt.Sprint("checkpoint.every=", c.n), "checkpoint.keep=1"}
	if b.code.every = c.n; c.system != sysCheckpoint {
		sets = b.codeSets(c.system)
	}
	j := b.newJob(b.steps, sets...)
	j.limit = b.limit()
	j.afterEnd = func(out string) (err error) {
		x.disk, err = sizeOfFolder(checkpointsOf(out))
		return err
	}
	quiet, err := j.run()
	if err != nil {
		return x, err
	}
	j.afterEnd, j.failures = nil, b.spreadFailures()
	hit, err := j.run()
	if err != nil {
		return x, err
	}
	x.seconds, x.hits = quiet.seconds, hit.hits
	if quiet.last < int64(b.steps) {
		return x, fmt.Errorf("bench: %s, n = %d, ended after step %d of %d without a failure, after %v", c.system, c.n, quiet.last, b.steps, j.limit)
	}
	if x.equal = hit.digest == b.clean.digest && quiet.digest == b.clean.digest; hit.hits > 0 {
		x.perLoss = float64(hit.redone) / float64(hit.hits)
	}
	if quiet.protection != nil {
		x.memory = float64(quiet.protection.total())
	}
	return x, nil
}

// spreadFailures draws one failure in each of equal parts of the run, but not in its first tenth and its last fifth.
func (b *lostWorkRun) spreadFailures() (all []failure) {
	kills := b.o.number("kills")
	part := 0.7 * float64(b.steps) * b.step / float64(kills)
	for i, f := range drawFailures(uint64(b.o.number("seed")+b.turn), time.Second, time.Duration(kills)*100*time.Second, b.o.number("ranks")) {
		if i == kills {
			break
		}
		inPart := float64(f.At%time.Second) / 1e9
		all = append(all, failure{time.Duration(1e9 * (0.1*float64(b.steps)*b.step + part*(float64(i)+0.8*inPart))), f.Process})
	}
	return all
}

// addCases adds the figures of all cases.
func (b *lostWorkRun) addCases(cases []lostWorkCase, turns [][]lostWorkTimes, rows float64) {
	t := table(b.out)
	defer t.Flush()
	fmt.Fprintf(b.out, "%s, batch %d, %d processes, %d steps, %s; digest without protection: %s\n", b.shape.name, b.o.number("batch"),
		b.o.number("ranks"), b.steps, strings.TrimSuffix(b.code.String(), fmt.Sprint(" every ", b.code.every)), b.clean.digest)
	fmt.Fprintln(t, "system\tn\ttime / without protection\tsteps redone a failure\tfailures\tmemory %\tdisk %\tdigest\t")
	clean := make([]float64, len(turns))
	for i, turn := range turns {
		clean[i] = turn[0].seconds
	}
	for n, c := range cases {
		r, first := b.report, len(b.report.Figures)
		of := func(value func(lostWorkTimes) float64) (values []float64) {
			for _, turn := range turns {
				values = append(values, value(turn[n+1]))
			}
			return values
		}
		perLoss := "-"
		if values := perLossOf(turns, n+1); len(values) > 0 {
			perLoss = fmt.Sprintf("%.1f", r.addAs(Counted, figPerLoss, "steps", values...).Median)
		}
		f := []Figure{r.addRatio(figOverhead, of(func(x lostWorkTimes) float64 { return x.seconds }), clean),
			r.addAs(Counted, figFailures, "failures", of(func(x lostWorkTimes) float64 { return float64(x.hits) })...),
			r.addAs(Counted, figMemory, "%", of(func(x lostWorkTimes) float64 { return 100 * x.memory / rows })...),
			r.addAs(Counted, figDisk, "%", of(func(x lostWorkTimes) float64 { return 100 * x.disk / rows })...),
			r.addAs(Counted, figDigest, "1 if equal", of(func(x lostWorkTimes) float64 { return map[bool]float64{true: 1}[x.equal] })...)}
		fmt.Fprintf(t, "%s\t%d\t%.3f\t%s\t%.0f\t%.1f\t%.1f\t%s\t\n", c.system, c.n, f[0].Median, perLoss, f[1].Median,
			f[2].Median, f[3].Median, equalText(f[4]))
		r.setCase(first, map[string]string{"system": c.system, "n": strconv.Itoa(c.n)})
	}
}

// perLossOf returns the steps redone for each failure, of the turns of a case in which one hit a process: another turn has no such ratio.
func perLossOf(turns [][]lostWorkTimes, i int) (values []float64) {
	for _, turn := range turns {
		if turn[i].hits > 0 {
			values = append(values, turn[i].perLoss)
		}
	}
	return values
}

// equalText is the verdict of digests in all turns.
func equalText(f Figure) string { return map[bool]string{true: "equal", false: "DIFFERS"}[f.Min == 1] }

// sizeOfFolder returns the bytes of the files below a folder, 0 if it does not exist.
func sizeOfFolder(dir string) (bytes float64, err error) {
	found, err := filepath.Glob(dir)
	if err != nil || len(found) == 0 {
		return 0, err
	}
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			bytes += float64(info.Size())
		}
		return err
	})
	return bytes, err
}

// checkSystems checks the systems, and that the ranks fit their codes.
func (b *goodputRun) checkSystems(known []string) (err error) {
	ranks := b.o.number("ranks")
	for _, s := range b.systems {
		if !slices.Contains(known, s) {
			return settingError("system=%s: %q is not one of %s", b.o.text("system"), s, oneOf(known))
		}
	}
	for _, c := range []struct {
		system string
		k, r   int
	}{{sysOurs, b.code.k, b.code.r}, {sysCalm, b.code.k, b.code.r}, {sysReplica, 1, 1}} {
		if _, err := ec.NewLayout(ranks, c.k, c.r); err != nil && b.measures(c.system) {
			return settingError("ranks=%d: %s: %v", ranks, c.system, err)
		}
	}
	b.program, err = b.o.programPath()
	return err
}
