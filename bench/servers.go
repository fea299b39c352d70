package bench

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ecrec/ecrec/train"
	"github.com/ecrec/ecrec/transport"
)

var serversBench = Bench{
	Name: "servers",
	Doc:  "time of an epoch with one server and some trainers, by the server's store of rows",
	Detail: "The jobs of OpenEmbedding (ICDE 2023): one rank holds all rows, and others train, each with its own slice of samples. Each " +
		"store is " +
		"run with each number of trainers and, where a part of the rows is in memory, each size of the cache. An epoch is the same samples " +
		"for all, and " +
		"the second half of its steps is timed. Saves are the checkpoints in it, or the commits of tier. Trainers wait in place of " +
		"most of the forward and backward pass, and links are " +
		"simulated. All ranks share the cores of this machine, so a CPU that is too slow shows as a longer epoch. " +
		"dram-ps has all rows in memory. inline-lru and pmem-hash have a hash table, a lock for each row and a file in the page cache; " +
		"pmem-hash has no cache. These three fetch the rows of a step when it begins. tier is store.tier = \"file\" with rows planned " +
		"ahead, no-pipeline is tier without that, no-cache is tier with the memory of the rows of one step, and neither is both.",
	Settings: []Setting{
		choice("model", "dim64-bare", []string{"dim64-bare", "dim16-bare", "dim48-bare", "dim64", "dim16", "dim48"}, "model to train"),
		number("rows", "10500000", 26, 1<<31-1, "rows of the model, in 26 tables").orTiny("2600"),
		text("skew", "synthetic", "synthetic, or shares of the top 0.05, 0.1 and 1 % of rows, such as 85.7/89.5/95.7; several separated by "+
			"commas",
			"popularity of ids"),
		number("batch", "1024", 1, maxSamples, "samples of a step of each trainer").orTiny("32"),
		number("steps", "64", 4, maxSteps, "steps of an epoch with one trainer; n trainers take an n-th").orTiny("16"),
		numbers("trainers", "1,2,4", 1, 64, "numbers of trainers").orTiny("1,2"),
		numbers("cache", "10240", 1, 1<<30, "memory for rows of the server, in KiB").orTiny("40"),
		text("stores", "dram-ps,tier,inline-lru,pmem-hash", "some of "+oneOf(storeNames)+", separated by commas", "the stores to measure"),
		number("saves", "0", 0, 1000, "checkpoints in an epoch: increments for which training waits; tier has as many commits in "+
			"place of them, and more if its memory is small").orTiny("4"),
		number("every", "10", 1, 1<<20, "steps between commits of tier without saves").orTiny("2"),
		text("link", "30Gb/s,50us", "BANDWIDTH,LATENCY such as 30Gb/s,50us", "simulated links between ranks"),
		text("compute", "20ms", "a duration up to 1m, such as 30ms", "time that a trainer waits in place of the forward and backward "+
			"pass").orTiny("1ms"),
		dirSetting,
	},
	Evidence: Simulated,
	measure:  runServers,
}

// storeNames are the values of the setting stores.
var storeNames = []string{"dram-ps", "tier", "inline-lru", "pmem-hash", "no-pipeline", "no-cache", "neither"}

// serversRun is one run of the benchmark.
type serversRun struct {
	o       Options
	shape   shape
	stores  []string
	link    transport.EmulatedLink
	compute time.Duration
	dir     string
	laws    []storeLaw
	info    train.Info
}

// storeJob is one job.
type storeJob struct {
	store    string
	trainers int
	cache    int // KiB; 0: all rows are in memory, or none
	law      storeLaw
}

// storeTimes are those of the second half of a job's steps.
type storeTimes struct {
	epoch, step, cpu float64 // s, ms, ms
	misses           float64 // % of the requested rows
	spilled          float64
	saves            float64 // checkpoints or commits
	needed           int     // rows: the memory is not enough for a step
}

func runServers(out io.Writer, o Options) (_ *Report, err error) {
	b := &serversRun{o: o, stores: strings.Split(o.text("stores"), ",")}
	for _, s := range b.stores {
		if !slices.Contains(storeNames, s) {
			return nil, settingError("stores=%s: want some of %s, separated by commas", o.text("stores"), oneOf(storeNames))
		}
	}
	if b.link, err = transport.ParseEmulatedLink(o.text("link")); err != nil {
		return nil, settingError("%v", err)
	}
	if b.compute, err = time.ParseDuration(o.text("compute")); err != nil || b.compute < 0 || b.compute > time.Minute {
		return nil, settingError("compute=%s: want a duration up to 1m, such as 30ms", o.text("compute"))
	}
	for _, t := range o.numbers("trainers") {
		if o.number("steps")/t < 4 {
			return nil, settingError("steps=%d: want at least 4 for each of %d trainers", o.number("steps"), t)
		}
	}
	if b.laws, err = o.storeLaws(); err != nil {
		return nil, err
	}
	b.shape = o.models(o.text("model"))[0]
	b.shape.tables = strings.ReplaceAll(fmt.Sprint(slices.Repeat([]int{o.number("rows") / 26}, 26)), " ", ", ")
	if b.dir, err = o.tempDir(); err != nil {
		return nil, err
	}
	defer os.RemoveAll(b.dir)
	for i := range b.laws {
		if err := b.writeSamples(&b.laws[i]); err != nil {
			return nil, err
		}
	}
	jobs := b.jobs()
	_, times, err := runTurns(o, o.repeats(), func(run func(string, func() (storeTimes, error))) {
		for _, j := range jobs {
			run(j.store, func() (storeTimes, error) { return b.runStore(j) })
		}
	})
	if err != nil {
		return nil, err
	}
	r := o.newReport(b.info.Device)
	r.writeHeader(out)
	fmt.Fprintf(out, "%s, batch %d of each trainer, links %v, a wait of %v: %d rows of %d bytes\n", b.shape.name, o.number("batch"), b.link,
		b.compute, b.info.Rows, b.info.BytesPerRow)
	return r, b.report(out, r, jobs, times)
}

// jobs lists the jobs, in the order of a turn.
func (b *serversRun) jobs() (all []storeJob) {
	for _, law := range b.laws {
		for _, trainers := range b.o.numbers("trainers") {
			for _, store := range b.stores {
				caches := b.o.numbers("cache")
				if store == "dram-ps" || store == "pmem-hash" || store == "no-cache" || store == "neither" {
					caches = []int{0}
				}
				for _, cache := range caches {
					all = append(all, storeJob{store, trainers, cache, law})
				}
			}
		}
	}
	return all
}

// report reports the jobs, and the ratio of each to the one with all rows in memory in the same turn.
func (b *serversRun) report(out io.Writer, r *Report, jobs []storeJob, times [][]storeTimes) error {
	t := table(out)
	fmt.Fprintln(t, "store\ttrainers\tKiB\tskew\tepoch, s\tleast\tgreatest\tof dram-ps\tinterval\tms per step\tCPU ms\tmisses, %\tspilled "+
		"per step\tsaves\t")
	for i, j := range jobs {
		of := slices.IndexFunc(jobs, func(d storeJob) bool {
			return d.store == "dram-ps" && d.trainers == j.trainers && d.law.name == j.law.name
		})
		var epoch, step, cpu, misses, spilled, saves, dram []float64
		needed := 0
		for _, turn := range times {
			x := turn[i]
			needed = max(needed, x.needed)
			epoch, step, cpu = append(epoch, x.epoch), append(step, x.step), append(cpu, x.cpu)
			misses, spilled, saves = append(misses, x.misses), append(spilled, x.spilled), append(saves, x.saves)
			if of >= 0 {
				dram = append(dram, turn[of].epoch)
			}
		}
		first := len(r.Figures)
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\t", j.store, j.trainers, j.cache, j.law.name)
		if needed > 0 {
			r.addAs(Counted, "rows needed", "rows", float64(needed))
			fmt.Fprintf(t, "a step needs %d rows\t\t\t\t\t\t\t\t\t\t\n", needed)
		} else {
			e := r.addFigure("epoch", "s", epoch...)
			fmt.Fprintf(t, "%.3f\t%.3f\t%.3f\t", e.Median, e.Min, e.Max)
			ratio, verdict := 1.0, ""
			if of >= 0 {
				f := r.addRatio("of dram-ps", epoch, dram)
				ratio, verdict = f.Median, f.betweenText(3)
			}
			fmt.Fprintf(t, "%.3f\t%s\t%.2f\t%.2f\t%.2f\t%.0f\t%.0f\t\n", ratio, verdict, r.addFigure("step", "ms", step...).Median,
				r.addFigure("CPU", "ms/step", cpu...).Median, r.addAs(Counted, "misses", "%", misses...).Median,
				r.addAs(Counted, "spilled", "rows/step", spilled...).Median, r.addAs(Counted, "saves", "saves", saves...).Median)
		}
		r.setCase(first, map[string]string{"store": j.store, "trainers": strconv.Itoa(j.trainers), "cache_kib": strconv.Itoa(j.cache),
			"skew": j.law.name, "saves": b.o.text("saves")})
	}
	return t.Flush()
}
