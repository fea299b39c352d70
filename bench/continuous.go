package bench

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/train"
	"github.com/ecrec/ecrec/transport"
)

var continuousBench = Bench{
	Name: "continuous",
	Doc:  "continuous checkpoints to a topic, beside full ones for which training waits",
	Detail: "The jobs of Continuous Checkpointing (Buffalo, 2024), tables 4.4 and 6.1 to 6.12. Jobs without checkpoints, with full " +
		"checkpoints " +
		"for which training waits, with the same to a store of the thesis's speed, and with a stream of commits take turns; the time is " +
		"that of the job from start to end. The slow store is a wait after each save. If Python has PyTorch, its torch.save takes turns too: " +
		"it saves tensors of the model's sizes into the page cache, while training waits. No sample is used twice. Steps lost are " +
		"those between each step and the newest checkpoint, or commit in the topic, at that moment: the work that a loss of all processes " +
		"costs. Then the last full checkpoint is loaded into a job, and the topic of each step's rows is followed from its beginning. All " +
		"ranks are in " +
		"one process, which connects them by memory or TCP, with simulated links if link is set; the topic is a folder or a broker's. Times " +
		"of the optimizer are those " +
		"of the updates of rows and of the dense part, of all ranks; a capture is the time in which sets of rows and the dense part are taken " +
		"to a stream.",
	Settings: []Setting{
		choice("model", "thesis", []string{"thesis", "dim16"},
			"thesis: 8 tables of 80,000 rows of 64 floats, 100 ids each; or Criteo Kaggle's tables"),
		number("scale", "1", 1, 10_000, "divides the rows of each of Kaggle's tables"),
		number("batch", "2048", 1, maxSamples, "samples of a step, over all ranks").orTiny("64"),
		number("ranks", "1", 1, 1024, "number of ranks"),
		threadsSetting,
		number("samples", "10000", 1, maxSamples, "samples of an epoch").orTiny("128"),
		number("epochs", "10", 1, 1<<20, "epochs of a job").orTiny("3"),
		numbers("every", "1,2,3", 1, 1<<20, "epochs between checkpoints").orTiny("1"),
		number("slow", "22", 1, 1<<20, "speed of the slow store, in MB/s").orTiny("1000"),
		pythonSetting("torch"),
		text("to", "file", "file, or kafka://HOST:PORT/PREFIX with options as in stream.to", "the place of the topics: below dir, or a broker"),
		choice("transport", "mem", []string{"mem", "tcp"}, "connection of the ranks"),
		text("link", "", "BANDWIDTH,LATENCY such as 10Gb/s,50us", "simulated links between ranks. Default: none"),
		modeSetting,
		dirSetting,
	},
	measure: runContinuous,
}

// continuousRun is one run of the benchmark.
type continuousRun struct {
	o      Options
	shape  shape
	job    job
	link   *transport.EmulatedLink // nil: none
	topics topicNames
	dir    string
	epoch  int // steps
	last   int // step
	info   train.Info
	python string // empty: torch.save is not measured

	checkpoint string // a folder of the last turn, with the last full checkpoint
	topic      string // of the last turn, with a commit for each step
	rebuild    struct{ loaded, followed, torch []float64 }
}

// continuousTimes are those of a job.
type continuousTimes struct {
	seconds, cpu float64
	saving       float64 // seconds that training waited for saves
	megabytes    float64 // saved or streamed
	lost         float64 // mean, in steps
	optimizer    float64 // seconds of updates
	captured     float64 // seconds in which rows were taken to the stream
	dense        float64 // seconds of copies of the dense part
}

func runContinuous(out io.Writer, o Options) (_ *Report, err error) {
	b := &continuousRun{o: o, shape: o.models(o.text("model"))[0]}
	if scale := o.number("scale"); scale > 1 {
		if o.text("model") == "thesis" {
			return nil, settingError("scale=%d: only the tables of dim16 can be divided", scale)
		}
		if !o.Tiny {
			b.shape = b.shape.scaleRows(int64(scale))
		}
	}
	b.job = job{batch: o.number("batch"), ranks: o.number("ranks"), threads: o.number("threads")}
	b.epoch = (o.number("samples") + b.job.batch - 1) / b.job.batch
	b.last = b.epoch * o.number("epochs")
	if b.dir, err = o.tempDir(); err != nil {
		return nil, err
	}
	defer os.RemoveAll(b.dir)
	if b.topics, err = newTopicNames(o.text("to"), b.dir); err != nil {
		return nil, err
	}
	if l := o.text("link"); l != "" {
		link, err := transport.ParseEmulatedLink(l)
		if err != nil {
			return nil, settingError("%v", err)
		}
		b.link = &link
	}
	python, err := o.findPython()
	if err != nil {
		return nil, err
	}
	version, why := o.findModule(python, "torch")
	if why == "" {
		b.python = python
	}
	names, times, err := runTurns(o, o.repeats(), b.runTurn)
	if err != nil {
		return nil, err
	}
	r := o.newReport(b.info.Device)
	if why != "" {
		r.addMissing(sysTorch, why)
	} else {
		r.Against = "torch " + version
	}
	r.writeHeader(out)
	fmt.Fprintf(out, "%s, batch %d, %d ranks, %d threads, cache.mode %s, %d epochs of %d steps, topics in %s: %d rows of %d bytes\n",
		b.shape.name,
		b.job.batch, b.job.ranks, b.info.Threads, o.text("mode"), o.number("epochs"), b.epoch, b.topics.place(), b.info.Rows, b.info.BytesPerRow)
	return r, b.writeTables(out, r, names, times)
}

// continuousJob is one kind of job.
type continuousJob struct {
	system string // none, full, torch, stream
	every  int    // epochs; 0: a commit each step
	slow   bool   // the store has the thesis's speed
}

// jobs lists the jobs, in the order of a turn.
func (b *continuousRun) jobs() []continuousJob {
	all := []continuousJob{{system: "none"}}
	for _, slow := range []bool{false, true} {
		for _, every := range b.o.numbers("every") {
			all = append(all, continuousJob{"full", every, slow})
		}
	}
	for _, system := range []string{sysTorch, "stream"} {
		for _, every := range b.o.numbers("every") {
			if system != sysTorch || b.python != "" {
				all = append(all, continuousJob{system: system, every: every})
			}
		}
	}
	return append(all, continuousJob{system: "stream"})
}

func (b *continuousRun) name(j continuousJob) string {
	switch {
	case j.system == "none":
		return "no checkpoints"
	case j.system == sysTorch:
		return fmt.Sprintf("torch.save, every %s", epochs(j.every))
	case j.system == "stream" && j.every == 0:
		return "stream, a commit each step"
	case j.system == "stream":
		return fmt.Sprintf("stream, a commit every %s", epochs(j.every))
	case j.slow:
		return fmt.Sprintf("full, every %s, at %d MB/s", epochs(j.every), b.o.number("slow"))
	}
	return fmt.Sprintf("full, every %s", epochs(j.every))
}

// settings returns the case of a job's figures.
func (b *continuousRun) settings(j continuousJob) map[string]string {
	c := map[string]string{"system": j.system, "samples": b.o.text("samples"), "ranks": b.o.text("ranks")}
	if j.system != "none" {
		c["every"] = strconv.Itoa(j.every) // epochs
	}
	if j.system == "full" {
		c["store"] = "disk"
		if j.slow {
			c["store"] = "slow"
		}
	}
	return c
}

// runTurn runs each job once.
func (b *continuousRun) runTurn(run func(name string, job func() (continuousTimes, error))) {
	for _, j := range b.jobs() {
		run(b.name(j), func() (continuousTimes, error) { return b.runSystem(j) })
	}
}

func (b *continuousRun) runSystem(j continuousJob) (continuousTimes, error) {
	switch {
	case j.system == "none":
		return b.runWhole(&wholeJob{})
	case j.system == sysTorch:
		return b.runTorch(j.every)
	case j.system == "full":
		speed := 0
		if j.slow {
			speed = b.o.number("slow")
		}
		b.checkpoint = filepath.Join(b.dir, "checkpoints")
		if err := os.RemoveAll(b.checkpoint); err != nil {
			return continuousTimes{}, err
		}
		return b.runWhole(&wholeJob{slow: speed}, fmt.Sprint("checkpoint.every=", j.every*b.epoch),
			"checkpoint.dir="+b.checkpoint, "checkpoint.keep=1")
	}
	topic, commits := b.topics.next(), j.every*b.epoch
	if j.every > 0 {
		return b.runWhole(&wholeJob{}, "stream.to="+topic, fmt.Sprint("ec.commit_every=", commits))
	}
	b.topic = topic
	x, err := b.runWhole(&wholeJob{}, "stream.to="+topic, "ec.commit_every=1")
	if err == nil {
		err = b.rebuildModels()
	}
	return x, err
}

func epochs(n int) string {
	if n == 1 {
		return "epoch"
	}
	return fmt.Sprintf("%d epochs", n)
}

// wholeJob observes a job, and waits after each of its checkpoints as a slow store would.
type wholeJob struct {
	silent
	info   train.Info
	slow   int                   // MB/s; 0: as fast as it is
	every  int64                 // steps between saves by save
	save   func() (int64, error) // returns the bytes that it has saved; nil: the job saves checkpoints, or nothing
	wait   time.Duration
	before time.Time // the end of the last step
	safe   int64     // the newest checkpoint
	lost   int64     // over all steps
	steps  int64
	err    error
	bytes  int64
}

func (w *wholeJob) Started(i train.Info) error { w.info = i; return nil }

func (w *wholeJob) Step(s train.StepInfo) {
	w.before, w.steps = time.Now(), w.steps+1
	w.lost += s.Step - max(w.safe, s.Streamed)
	if w.save == nil || s.Step%w.every != 0 && s.Step != s.Last || w.err != nil { // a job saves a checkpoint after its last step, too
		return
	}
	bytes, err := w.save()
	w.safe, w.err, w.bytes, w.wait = s.Step, err, w.bytes+bytes, w.wait+time.Since(w.before)
}

func (w *wholeJob) Checkpointed(step int64, path string, _ error) {
	w.safe = step
	bytes, err := bytesBelow(path)
	w.err, w.bytes = errors.Join(w.err, err), w.bytes+bytes
	if w.slow > 0 {
		time.Sleep(time.Duration(float64(bytes)/1e6/float64(w.slow)*1e9) - time.Since(w.before))
	}
	w.wait += time.Since(w.before)
}

// bytesBelow is the size of all files of a folder.
func bytesBelow(dir string) (n int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		i, err := d.Info()
		if err == nil {
			n += i.Size()
		}
		return err
	})
	return n, err
}

// runWhole runs a job from its start to its end, with an observer that is new.
func (b *continuousRun) runWhole(w *wholeJob, sets ...string) (x continuousTimes, err error) {
	cfg, err := b.config(b.last, sets...)
	if err != nil {
		return x, err
	}
	updates := &updateTime{}
	began, cpu := time.Now(), cpuTime()
	result, err := train.Run(env.Real(), cfg, train.Options{Observer: w, Stop: b.o.isStopped, PauseSaves: true, Topic: openTopic,
		Session: rand.Uint64(), Progress: func(data.Progress) error { return nil }, World: b.world(), WrapStream: updates.wrap})
	if err != nil {
		return x, err
	}
	b.info = w.info
	x = continuousTimes{seconds: time.Since(began).Seconds(), cpu: (cpuTime() - cpu).Seconds(), saving: w.wait.Seconds(),
		megabytes: float64(w.bytes) / 1e6,
		lost:      float64(w.lost) / float64(w.steps), optimizer: updates.seconds(), captured: result.Protection.Sealed.Seconds(),
		dense: result.Protection.Snapshots.Seconds()}
	if to := cfg.Stream.To; to != "" {
		bytes, err := topicBytes(to)
		x.megabytes = float64(bytes) / 1e6
		w.err = errors.Join(w.err, err)
	}
	return x, w.err
}

func (b *continuousRun) config(steps int, sets ...string) (*config.Config, error) {
	return b.shape.config(b.job, append([]string{"cache.mode=" + b.o.text("mode"), fmt.Sprint("train.iterations=", steps),
		"train.keep=last", "optimizer.dense.lr=0.001", "optimizer.sparse.lr=0.001"}, sets...)...) // with 0.1 sums of 100 rows diverge
}
