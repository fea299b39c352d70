package bench

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"

	"github.com/ecrec/ecrec/bench/measure"
	"github.com/ecrec/ecrec/bench/paired"
	"github.com/ecrec/ecrec/commit"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/train"
)

var streamCostBench = Bench{
	Name: "streamcost",
	Doc:  "cost of a stream of commits to a training step, in blocks of one run",
	Detail: "Blocks of steps without commits, with commits and their digests, and with a stream of these take turns in one run. Each block " +
		"begins with an epoch that is not timed. Nothing follows the topic, so CPU time is the trainer's alone. After each turn a bare " +
		"loop copies the rows of as many epochs to frames and writes these to a file: the floor. Samples of the stacks in blocks with the " +
		"stream have the share of its functions, which other work on the machine changes less than it changes times.",
	Settings: []Setting{
		choice("model", "dim16", []string{"dim16", "dim48", "dim16-bare", "dim48-bare"}, "model to train"),
		number("batch", "16384", 1, maxSamples, "samples of a step, over all ranks").orTiny("64"),
		number("ranks", "1", 1, 1024, "number of ranks"),
		threadsSetting,
		number("steps", "", 1, maxSteps, "steps of a block, a multiple of every. Default: every"),
		number("every", "10", 1, 1<<20, "steps between commits").orTiny("2"),
		text("to", "file", "file, or kafka://HOST:PORT/PREFIX with options as in stream.to", "the place of the topic: below dir, or a broker"),
		modeSetting,
		dirSetting,
	},
	Bars: []Bar{
		{nil, "a stream adds at most 1 % to the trainer's CPU time of a step", oneWay(
			atMost(streamedCPU, Median, 1.01), atMost(streamedCPU, Upper, 1.03))},
		{nil, "a stream slows training by at most 1 %", oneWay(
			atMost(streamedWall, Median, 1.01), atMost(streamedWall, Upper, 1.03))},
	},
	measure: runStreamCost,
}

const (
	streamedWall = "with the stream / with commits, time of a step"
	streamedCPU  = "with the stream / with commits, CPU time"
)

func runStreamCost(out io.Writer, o Options) (r *Report, err error) {
	every := o.number("every")
	steps := every
	if o.isSet("steps") {
		steps = o.number("steps")
	}
	if steps%every != 0 {
		return nil, settingError("steps=%d: want a multiple of every=%d", steps, every)
	}
	dir, err := o.tempDir()
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	topics, err := newTopicNames(o.text("to"), dir)
	if err != nil {
		return nil, err
	}
	s := o.models(o.text("model"))[0]
	cfg, err := s.config(job{batch: o.number("batch"), ranks: o.number("ranks"), threads: o.number("threads")}, "cache.mode="+o.text("mode"),
		fmt.Sprint("ec.commit_every=", every), "stream.to="+topics.next())
	if err != nil {
		return nil, err
	}
	modes := []string{measure.Unprotected, measure.Unstreamed, cfg.Cache.Mode}
	cpu, began, block := make([][]float64, len(modes)), time.Duration(0), 0
	floor := newStreamFloor(dir, every)
	defer func() { err = errors.Join(err, floor.freeAll()) }()
	share := cpuShare{packages: []string{"github.com/ecrec/ecrec/store", "github.com/ecrec/ecrec/stream", "github.com/ecrec/ecrec/stream/kafka",
		"github.com/twmb/franz-go/pkg/kgo"}}
	var failed error
	samples, info, err := measure.Run(env.Real(), cfg, measure.Options{
		Warmup: max(2, every), Steps: steps, Repeats: 1 + o.repeats(), Modes: modes, EndEarly: o.endsTurns,
		Block: func(begins bool) {
			if begins {
				share.beginBlock() // in all blocks: it takes time too
				began = cpuTime()
				return
			}
			cpu[block%len(modes)] = append(cpu[block%len(modes)], 1e3*(cpuTime()-began).Seconds()/float64(steps))
			failed = cmp.Or(failed, share.endBlock(block%len(modes) == 2 && block >= len(modes)))
			if block++; block%len(modes) == 0 {
				failed = cmp.Or(failed, floor.runBlock(steps))
			}
		},
		Options: train.Options{Sinks: []commit.SinkFactory{floor.written.openSink}, Observer: silent{}, Stop: neverStop, Topic: openTopic, Session: rand.Uint64(),
			Progress: func(data.Progress) error { return nil }}})
	if err = cmp.Or(err, failed); err != nil {
		return nil, err
	}
	ms := make([][]float64, len(modes))
	for i := range modes {
		for _, x := range samples[i][1:] { // memory was taken in the first turn
			ms[i] = append(ms[i], 1e3*x.Step.Seconds())
		}
		cpu[i] = cpu[i][1:]
	}
	r = o.newReport(info.Device)
	r.writeHeader(out)
	fmt.Fprintf(out, "%s, batch %d, %d ranks, %d threads, blocks of %d steps, cache.mode %s, a commit every %d steps, topic in %s: %d rows of %d bytes\n",
		s.name, o.number("batch"), o.number("ranks"), info.Threads, steps, o.text("mode"), every, topics.place(), info.Rows, info.BytesPerRow)
	return r, writeStreamCost(out, r, ms, cpu, share.shares, floor)
}

// shares returns a as a percentage of b, pair by pair.
func shares(a, b []float64) []float64 { return scale(paired.Ratios(a, b), 100) }

// writeStreamCost writes the times of blocks without commits, with commits, and with a stream.
func writeStreamCost(out io.Writer, r *Report, ms, cpu [][]float64, share []float64, floor *streamFloor) error {
	t := table(out)
	fmt.Fprintln(t, "\tmedian\tleast\tgreatest\t\tinterval\t")
	for i, name := range []string{"without commits", "with commits", "with the stream"} {
		r.addFigure("step "+name, "ms", ms[i]...).writeLine(t, 2)
		r.addFigure("CPU "+name, "ms/step", cpu[i]...).writeLine(t, 2)
	}
	r.addRatio("with commits / without, time of a step", ms[1], ms[0]).writeLine(t, 4)
	r.addRatio("with commits / without, CPU time", cpu[1], cpu[0]).writeLine(t, 4)
	r.addRatio(streamedWall, ms[2], ms[1]).writeLine(t, 4)
	r.addRatio(streamedCPU, cpu[2], cpu[1]).writeLine(t, 4)
	if len(share) > 0 {
		r.addPaired("share of the stream's own functions in CPU time, by samples", "%", share...).writeLine(t, 4)
	}
	if len(floor.used) == len(cpu[1])+1 { // without recorded rows there is none
		r.addPaired("floor, of the CPU time with commits", "%", shares(scale(floor.used[1:], 1e3), cpu[1])...).writeLine(t, 4)
		r.addPaired("floor, of a step with commits", "%", shares(scale(floor.wall[1:], 1e3), ms[1])...).writeLine(t, 4)
	}
	return t.Flush()
}
