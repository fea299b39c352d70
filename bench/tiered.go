package bench

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/shard"
	"github.com/ecrec/ecrec/train"
)

var tieredBench = Bench{
	Name: "tiered",
	Doc:  "step time of jobs with a share of the used rows in memory, and the others in the log",
	Detail: "Jobs with all rows in memory, without and with the logs of store.path, take turns with jobs of store.tier = \"file\". A job begins " +
		"without rows, and the second half of its steps is timed. Shares are of the distinct rows that it uses, and count rows that are " +
		"read ahead. Bytes read are those that the kernel has read from disks for this process; files bypass the page cache where the " +
		"file system allows it. After each job whose rows lie in a log, a probe reads random parts of its files, of a row's length, for a " +
		"second and without other work. The baselines are stronger than OpenEmbedding's: their device is the page cache, and a row in memory costs " +
		"no hash table and no lock.",
	Settings: []Setting{
		choice("model", "dim64", []string{"dim64", "dim64-bare", "dim48", "dim16", "dim16-bare", "dim48-bare"}, "model to train"),
		number("batch", "2048", 1, maxSamples, "samples of a step, over all ranks").orTiny("64"),
		number("ranks", "1", 1, 1024, "number of ranks"),
		threadsSetting,
		number("steps", "200", 4, maxSteps, "steps of a job").orTiny("8"),
		number("every", "10", 1, 1<<20, "steps between commits").orTiny("2"),
		text("share", "100,10,2", "percentages from 0 to 100, separated by commas", "used rows in memory, in per cent").orTiny("100,10"),
		modeSetting,
		choice("baselines", "no", []string{"yes", "no"}, "also run the row stores that OpenEmbedding is compared with").orTiny("yes"),
		dirSetting,
	},
	measure: runTiered,
}

// tieredRun is one run of the benchmark.
type tieredRun struct {
	o      Options
	shape  shape
	job    job
	dir    string
	used   int // rows that a job uses
	shares []float64
	info   train.Info
}

// tieredTimes are those of the second half of a job's steps.
type tieredTimes struct {
	ms, cpu, megabytes, read, spilled float64
	probe                             float64 // random reads per second of the files of its log, right after it; 0: it has none
}

func runTiered(out io.Writer, o Options) (*Report, error) {
	b := &tieredRun{o: o, shape: o.models(o.text("model"))[0]}
	b.job = job{batch: o.number("batch"), ranks: o.number("ranks"), threads: o.number("threads")}
	var err error
	if b.shares, err = o.tierShares(); err != nil {
		return nil, err
	}
	if b.dir, err = o.tempDir(); err != nil {
		return nil, err
	}
	defer os.RemoveAll(b.dir)
	if b.used, err = b.countUsed(); err != nil {
		return nil, err
	}
	names, times, err := runTurns(o, o.repeats(), b.runTurn)
	if err != nil {
		return nil, err
	}
	r := o.newReport(b.info.Device)
	r.writeHeader(out)
	fmt.Fprintf(out, "%s, batch %d, %d ranks, %d threads, cache.mode %s, a commit every %d steps: %d rows of %d bytes, ",
		b.shape.name, b.job.batch, b.job.ranks, b.info.Threads, o.text("mode"), o.number("every"), b.info.Rows, b.info.BytesPerRow)
	fmt.Fprintf(out, "of which %d steps use %d (%.3f GB)\n", o.number("steps"), b.used, float64(b.used)*float64(b.info.BytesPerRow)/1e9)
	return r, b.report(out, r, names, times)
}

// countUsed counts the distinct rows that the steps of a job use.
func (b *tieredRun) countUsed() (int, error) {
	cfg, err := b.shape.config(b.job)
	if err != nil {
		return 0, err
	}
	src, err := data.Open(cfg.DataOptions(false))
	if err != nil {
		return 0, err
	}
	defer src.Close()
	tables := cfg.Model.TableRows()
	base := make([]int64, len(tables)+1)
	for t, rows := range tables {
		base[t+1] = base[t] + rows
	}
	used, n := make([]uint64, base[len(tables)]/64+1), 0
	order := data.Order{Samples: src.Len(), Batch: b.job.batch}
	var idx []int64
	var batch data.Batch
	for step := range int64(b.o.number("steps")) {
		idx = order.Slice(step+1, 0, 1, idx)
		if err := src.Read(&batch, idx); err != nil {
			return 0, err
		}
		for i, id := range batch.IDs {
			row := base[i%len(tables)] + int64(id)
			if used[row/64]>>(row%64)&1 == 0 {
				used[row/64] |= 1 << (row % 64)
				n++
			}
		}
	}
	return n, nil
}

// runTurn runs each job once.
func (b *tieredRun) runTurn(run func(name string, job func() (tieredTimes, error))) {
	tiered := func(frames int, below rowsBelow, sets ...string) func() (tieredTimes, error) {
		return func() (tieredTimes, error) { return b.runJob(frames, below, sets...) }
	}
	framesOf := func(share float64) int { return int(math.Ceil(share / 100 * float64(b.used) / float64(b.job.ranks))) }
	store, file := "store.path="+filepath.Join(b.dir, "store"), []string{"store.tier=file", "store.dram_bytes=1GiB"}
	run("all in memory, no log", tiered(0, nil))
	run("all in memory", tiered(0, nil, store))
	for _, share := range b.shares {
		run(inMemory(share), tiered(framesOf(share), nil, append(slices.Clip(file), store)...))
	}
	if b.o.text("baselines") == "no" {
		return
	}
	// The baselines fetch the rows of a step when it begins.
	none := append(slices.Clip(file), "cache.mode=none")
	run("dram-ps: all in memory, none ahead", tiered(0, nil, "cache.mode=none"))
	for _, share := range b.shares {
		run("inline-lru: "+inMemory(share), tiered(framesOf(share), b.openStore, none...))
	}
	run("pmem-hash: none in memory", tiered(hashFrames, b.openStore, none...))
}

// inMemory names a job by its share of rows.
func inMemory(share float64) string { return fmt.Sprintf("%g %% in memory", share) }

// rowsBelow makes the place of a rank's rows that are not in memory; nil: it is the log.
type rowsBelow func(rank int, h *shard.Shard) shard.Below

// runJob runs one job.
func (b *tieredRun) runJob(frames int, below rowsBelow, sets ...string) (x tieredTimes, err error) {
	if err := os.RemoveAll(filepath.Join(b.dir, "store")); err != nil {
		return x, err
	}
	steps := b.o.number("steps")
	cfg, err := b.shape.config(b.job, append([]string{"cache.mode=" + b.o.text("mode"), fmt.Sprint("train.iterations=", steps),
		fmt.Sprint("ec.commit_every=", b.o.number("every")), "train.keep=last"}, sets...)...)
	if err != nil {
		return x, err
	}
	t := &halfTimer{half: int64(steps) / 2, meter: &train.Meter{}}
	_, err = train.Run(env.Real(), cfg, train.Options{Observer: t, Stop: b.o.isStopped, Frames: frames, Below: below,
		Meter:    t.meter,
		Progress: func(data.Progress) error { return nil }})
	if err == nil && t.steps == 0 {
		err = errors.New("bench: the job trained too few steps")
	}
	if err != nil {
		return x, err
	}
	b.info = t.info
	n := float64(t.steps)
	x = tieredTimes{ms: 1e3 * t.last.sub(t.first.time) / n, cpu: 1e3 * (t.last.cpu - t.first.cpu).Seconds() / n,
		megabytes: float64(t.last.bytes-t.first.bytes) / 1e6 / n, read: float64(t.last.read-t.first.read) / n,
		spilled: float64(t.last.spilled-t.first.spilled) / n}
	if t.err == nil && frames > 0 && below == nil {
		x.probe, t.err = b.probeReads()
	}
	return x, t.err
}

// halfTimer measures the steps after the first half.
type halfTimer struct {
	silent
	half        int64
	info        train.Info
	meter       *train.Meter
	first, last tieredMoment
	steps       int
	err         error
}

// tieredMoment is the state of counters at the end of a step.
type tieredMoment struct {
	time                 time.Time
	cpu                  time.Duration
	bytes, read, spilled int64
}

func (m tieredMoment) sub(from time.Time) float64 { return m.time.Sub(from).Seconds() }

func (t *halfTimer) Started(i train.Info) error { t.info = i; return nil }

func (t *halfTimer) Step(s train.StepInfo) {
	if s.Step != t.half && s.Step != s.Last {
		return
	}
	m := tieredMoment{time: time.Now(), cpu: cpuTime(), read: t.meter.Rows[train.ClassRead].Load(),
		spilled: t.meter.Rows[train.ClassSpill].Load()}
	var err error
	if m.bytes, err = bytesRead(); err != nil {
		t.err = err
	}
	if t.last = m; s.Step == t.half {
		t.first = m
	}
	t.steps = int(s.Step - t.half)
}

// bytesRead returns how many bytes the kernel has read from disks for this process.
func bytesRead() (int64, error) {
	f, err := os.Open("/proc/self/io")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if n, found := strings.CutPrefix(s.Text(), "read_bytes: "); found {
			return strconv.ParseInt(n, 10, 64)
		}
	}
	return 0, errors.New("/proc/self/io has no line read_bytes")
}

// report compares each job with the one of the same turn that has all rows in memory, and a log.
func (b *tieredRun) report(out io.Writer, r *Report, names []string, times [][]tieredTimes) error {
	t := table(out)
	fmt.Fprintln(t, "\tms per step\tof that with a log\tinterval\tCPU ms\tMB read per step\trows read\tspilled\trows read per s\tof the probe's\t")
	for i, name := range names {
		var ms, logged, cpu, read, rows, spilled, rate, probe, probed []float64
		for _, turn := range times {
			ms, cpu, read = append(ms, turn[i].ms), append(cpu, turn[i].cpu), append(read, turn[i].megabytes)
			logged, rows, spilled = append(logged, turn[1].ms), append(rows, turn[i].read), append(spilled, turn[i].spilled)
			rate = append(rate, 1e3*turn[i].read/turn[i].ms)
			if turn[i].probe > 0 {
				probe, probed = append(probe, turn[i].probe), append(probed, 1e3*turn[i].read/turn[i].ms)
			}
		}
		ratio, verdict := r.addRatio(name+": of that with a log", ms, logged), ""
		if i != 1 {
			verdict = ratio.betweenText(3)
		}
		part := ""
		if len(probe) > 0 {
			part = fmt.Sprintf("%.2f of %.0f", r.addRatio(name+": read rate of the probe's", probed, probe).Median,
				r.addFigure(name+": probe", "reads/s", probe...).Median)
		}
		fmt.Fprintf(t, "%s\t%.2f\t%.3f\t%s\t%.2f\t%.3f\t%.0f\t%.0f\t%.0f\t%s\t\n", name, r.addFigure(name+": step", "ms", ms...).Median,
			ratio.Median, verdict, r.addFigure(name+": CPU", "ms/step", cpu...).Median,
			r.addAs(Counted, name+": read", "MB/step", read...).Median, r.addAs(Counted, name+": rows read", "rows/step", rows...).Median,
			r.addAs(Counted, name+": rows spilled", "rows/step", spilled...).Median, r.addFigure(name+": read rate", "rows/s", rate...).Median, part)
	}
	return t.Flush()
}
