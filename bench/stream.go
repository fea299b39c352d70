package bench

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/follow"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/stream"
	"github.com/ecrec/ecrec/train"
)

var streamBench = Bench{
	Name: "stream",
	Doc:  "cost of a stream of commits to the trainer, and the age of the rows that a follower has",
	Detail: "Jobs take turns: without commits, with commits and their digests, with these and a stream, and with a follower of the stream in the " +
		"same process. A job begins without rows, and the second half of its steps is timed. Freshness is the time from a commit of all ranks " +
		"to the moment when the follower has applied it and compared the digest, for each commit of the second half. The follower saves " +
		"checkpoints meanwhile. Each job has a topic of its own; those of a broker stay there.",
	Settings: []Setting{
		choice("model", "dim16", []string{"dim16", "dim48", "dim64", "dim16-bare", "dim48-bare", "dim64-bare"}, "model to train"),
		number("batch", "2048", 1, maxSamples, "samples of a step, over all ranks").orTiny("64"),
		number("ranks", "1", 1, 1024, "number of ranks"),
		threadsSetting,
		number("steps", "200", 4, maxSteps, "steps of a job").orTiny("12"),
		number("every", "10", 1, 1<<20, "steps between commits").orTiny("2"),
		text("to", "file", "file, or kafka://HOST:PORT/PREFIX with options as in stream.to", "the place of the topics: below dir, or a broker"),
		text("save", "10s", "a duration", "least time between two checkpoints of the follower").orTiny("1ms"),
		modeSetting,
		dirSetting,
	},
	Bars: []Bar{
		{nil, "a follower has a commit within 1 s (median) and 3 s (99 %)", oneWay(
			atMost("freshness p50", Itself, 1000), atMost("freshness p99", Itself, 3000))},
	},
	measure: runStream,
}

// streamRun is one run of the benchmark.
type streamRun struct {
	o      Options
	shape  shape
	job    job
	dir    string
	save   time.Duration
	topics topicNames
	info   train.Info
}

// streamTimes are those of the second half of a job's steps.
type streamTimes struct {
	ms, cpu, longest float64
	rows             float64   // applied by the follower, per second
	ages             []float64 // ms, of each commit that the follower applied
}

func runStream(out io.Writer, o Options) (*Report, error) {
	b := &streamRun{o: o, shape: o.models(o.text("model"))[0]}
	b.job = job{batch: o.number("batch"), ranks: o.number("ranks"), threads: o.number("threads")}
	var err error
	if b.save, err = time.ParseDuration(o.text("save")); err != nil {
		return nil, settingError("save=%s: want a duration such as 10s", o.text("save"))
	}
	if b.dir, err = o.tempDir(); err != nil {
		return nil, err
	}
	defer os.RemoveAll(b.dir)
	if b.topics, err = newTopicNames(o.text("to"), b.dir); err != nil {
		return nil, err
	}
	names, times, err := runTurns(o, o.repeats(), b.runTurn)
	if err != nil {
		return nil, err
	}
	r := o.newReport(b.info.Device)
	r.writeHeader(out)
	fmt.Fprintf(out, "%s, batch %d, %d ranks, %d threads, cache.mode %s, a commit every %d steps, topics in %s: %d rows of %d bytes\n", b.shape.name,
		b.job.batch, b.job.ranks, b.info.Threads, o.text("mode"), o.number("every"), b.topics.place(), b.info.Rows, b.info.BytesPerRow)
	return r, b.writeTables(out, r, names, times)
}

// runTurn runs each job once.
func (b *streamRun) runTurn(run func(name string, job func() (streamTimes, error))) {
	every := fmt.Sprint("ec.commit_every=", b.o.number("every"))
	run("no commits", func() (streamTimes, error) { return b.runStreaming("", false) })
	run("commits with digests", func() (streamTimes, error) { return b.runStreaming("", false, every, "job.digests=true") })
	run("streamed", func() (streamTimes, error) { return b.runStreaming(b.topics.next(), false, every) })
	run("streamed and followed", func() (streamTimes, error) { return b.runStreaming(b.topics.next(), true, every) })
}

// runStreaming runs one job, with a follower of its topic if followed is set.
func (b *streamRun) runStreaming(to string, followed bool, sets ...string) (x streamTimes, err error) {
	steps := b.o.number("steps")
	sets = append([]string{"cache.mode=" + b.o.text("mode"), fmt.Sprint("train.iterations=", steps), "train.keep=last"}, sets...)
	if to != "" {
		sets = append(sets, "stream.to="+to)
	}
	cfg, err := b.shape.config(b.job, sets...)
	if err != nil {
		return x, err
	}
	t := &commitTimer{stepTimer: stepTimer{halfTimer: halfTimer{half: int64(steps) / 2, meter: &train.Meter{}}},
		commits: map[int64]time.Time{}}
	var f *following
	if followed {
		if f, err = b.startFollower(to, int64(steps)); err != nil {
			return x, err
		}
	}
	_, err = train.Run(env.Real(), cfg, train.Options{Observer: t, Stop: b.o.isStopped, Meter: t.meter, Topic: openTopic,
		Session: rand.Uint64(), Progress: func(data.Progress) error { return nil }})
	if err == nil && t.steps == 0 {
		err = errors.New("bench: the job trained too few steps")
	}
	if f != nil {
		err = errors.Join(err, f.end(err != nil))
	}
	if err != nil {
		return x, err
	}
	b.info = t.info
	slices.Sort(t.ms)
	n := float64(t.steps)
	x = streamTimes{ms: 1e3 * t.last.sub(t.first.time) / n, cpu: 1e3 * (t.last.cpu - t.first.cpu).Seconds() / n,
		longest: t.ms[len(t.ms)-1] / t.ms[len(t.ms)/2]}
	if f != nil {
		x.addAges(f, t)
	}
	return x, t.err
}

// commitTimer also records the time of each commit.
type commitTimer struct {
	stepTimer
	commits map[int64]time.Time
}

func (t *commitTimer) Committed(step int64, _ string) { t.commits[step] = time.Now() }

// following is a follower that runs beside a job.
type following struct {
	follower *follow.Follower
	topic    stream.Topic
	stop     atomic.Bool
	over     chan error

	mutex sync.Mutex
	cuts  []appliedCut
}

// appliedCut is a cut that was applied.
type appliedCut struct {
	step int64
	rows int
	when time.Time
}

// startFollower starts a follower of a topic, which ends at a step.
func (b *streamRun) startFollower(to string, last int64) (*following, error) {
	e := env.Real()
	topic, err := openTopic(e, to)
	if err != nil {
		return nil, err
	}
	if err := topic.Create(b.job.ranks); err != nil { // before the job, so that the follower finds it
		topic.Close()
		return nil, err
	}
	f := &following{topic: topic, over: make(chan error, 1)}
	dir := filepath.Join(b.dir, fmt.Sprintf("follower-%d", b.topics.made))
	f.follower, err = follow.Open(follow.Options{Env: e, Topic: topic, Dir: dir, At: last, Every: b.save, Keep: 1, Stop: f.stop.Load,
		Report: f.record})
	if err != nil {
		topic.Close()
		return nil, err
	}
	go func() { f.over <- errors.Join(f.follower.Run(), os.RemoveAll(dir)) }()
	return f, nil
}

func (f *following) record(p follow.Progress) {
	if p.Path != "" {
		return
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.cuts = append(f.cuts, appliedCut{p.Step, p.Rows, time.Now()})
}

// end waits for the follower, or stops it.
func (f *following) end(stop bool) error {
	f.stop.Store(stop)
	err := <-f.over
	f.follower.Close()
	f.topic.Close()
	return err
}

// addAges adds the age of each cut of the second half at the moment when it was applied, and their rows per second.
func (x *streamTimes) addAges(f *following, t *commitTimer) {
	rows, first, last := 0, time.Time{}, time.Time{}
	for _, c := range f.cuts {
		committed, ok := t.commits[c.step]
		if !ok || c.step <= t.half {
			continue
		}
		x.ages = append(x.ages, max(0, float64(c.when.Sub(committed).Microseconds())/1e3))
		if first.IsZero() {
			first = committed
		} else {
			rows += c.rows
		}
		last = committed
	}
	if d := last.Sub(first).Seconds(); d > 0 {
		x.rows = float64(rows) / d
	}
}

// writeTables compares each job with that of the same turn which commits and does not stream.
func (b *streamRun) writeTables(out io.Writer, r *Report, names []string, times [][]streamTimes) error {
	const committed = 1 // the job with commits and digests
	t := table(out)
	fmt.Fprintln(t, "\tms per step\tof that with commits\tinterval\tCPU ms\tof that with commits\tinterval\tlongest step / median\t")
	for i, name := range names {
		var ms, msOf, cpu, cpuOf, longest []float64
		for _, turn := range times {
			x, of := turn[i], turn[committed]
			ms, cpu, longest = append(ms, x.ms), append(cpu, x.cpu), append(longest, x.longest)
			msOf, cpuOf = append(msOf, of.ms), append(cpuOf, of.cpu)
		}
		step, used := r.addFigure(name+": step", "ms", ms...), r.addFigure(name+": CPU", "ms/step", cpu...)
		ratio, cpuRatio := r.addRatio(name+": of that with commits", ms, msOf), r.addRatio(name+": CPU of that with commits", cpu, cpuOf)
		verdicts := [2]string{}
		if i != committed {
			verdicts = [2]string{ratio.betweenText(3), cpuRatio.betweenText(3)}
		}
		fmt.Fprintf(t, "%s\t%.2f\t%.3f\t%s\t%.2f\t%.3f\t%s\t%.2f\t\n", name, step.Median, ratio.Median, verdicts[0], used.Median, cpuRatio.Median, verdicts[1],
			r.addFigure(name+": longest step of the median", ratioUnit, longest...).Median)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	var ages, rates []float64
	for _, turn := range times {
		x := turn[len(turn)-1]
		ages, rates = append(ages, x.ages...), append(rates, x.rows)
	}
	if len(ages) == 0 {
		return errors.New("bench: the follower applied no commit of the second half; use more steps")
	}
	slices.Sort(ages)
	fmt.Fprintf(out, "\nfrom a commit to the follower's model with an equal digest: p50 %.0f ms, p95 %.0f ms, p99 %.0f ms, longest %.0f ms, of %d commits\n",
		r.addQuantile("freshness p50", "ms", 0.5, ages).Median, r.addQuantile("freshness p95", "ms", 0.95, ages).Median,
		r.addQuantile("freshness p99", "ms", 0.99, ages).Median, ages[len(ages)-1], len(ages))
	_, err := fmt.Fprintf(out, "rows offered and applied: %.0f per second\n", r.addFigure("rows", "rows/s", rates...).Median)
	return err
}

// stepTimer also records the time of each step.
type stepTimer struct {
	halfTimer
	before time.Time
	ms     []float64 // of the steps after half
}

func (t *stepTimer) Step(s train.StepInfo) {
	now := time.Now()
	if s.Step > t.half {
		t.ms = append(t.ms, 1e3*now.Sub(t.before).Seconds())
	}
	t.before = now
	t.halfTimer.Step(s)
}
