package bench

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ecrec/ecrec/ec"
)

// The systems of goodput.
const (
	sysClean      = "clean"     // no protection, no failures
	sysOurs       = "ours"      // a code over rows
	sysCalm       = "calm"      // the same, without failures
	sysReplica    = "replica"   // a copy of each row at a peer
	sysCheckpoint = "ckpt-full" // full checkpoints, the job is restarted
	sysRestart    = "restart"   // PyTorch with checkpoints
	sysTorchFT    = "torchft"   // PyTorch with torchft
)

var goodputSystems = []string{sysOurs, sysCalm, sysReplica, sysCheckpoint, sysRestart, sysTorchFT}

var goodputBench = Bench{
	Name: "goodput",
	Doc:  "time of jobs whose processes are killed at random, over the failure-free time",
	Detail: "Jobs of real processes train the same steps. Each is killed by SIGKILL, process by process, with exponential gaps between " +
		"the losses. A run without protection and failures precedes them, in the same turn. ours: ec.code. calm: the same job without " +
		"failures, so that the cost of protection is known beside that of failures. replica: ec.code " +
		"with k = 1, a copy of each " +
		"row at a peer. All three also save a checkpoint for losses beyond the code, at the interval that is best for their " +
		"rate. ckpt-full: no code, " +
		"a checkpoint at the best interval by Young and Daly; the job starts again from the newest. A save counts as losing at least 5 % " +
		"of the time that it takes. restart: the same idea " +
		"in PyTorch with gloo. " +
		"torchft: PyTorch with torchft and gloo. These two train a smaller model, and are compared with their own failure-free run. " +
		"ours, calm and replica take a lost process's place by one in reserve (elastic.standby). The others start new processes, and those of " +
		"PyTorch import it first. " +
		"The losses are the same for all, by the clock: a system that takes longer meets more of them. " +
		"A mean time between failures is divided by scale, so that a short run has several. So are the rows of all tables, and with them the " +
		"time of a rebuild. The start of a process and the limit of silence are not, and a save is hardly shorter: all systems look worse " +
		"at a larger scale, and ckpt-full most. The report has the time of a save as a share of the mean time.",
	Settings: []Setting{
		choice("model", "dim16", []string{"dim16", "dim48"}, "model to train"),
		text("system", strings.Join(goodputSystems, ","), oneOf(goodputSystems)+", separated by commas", "systems to measure"),
		numbers("mtbf", "60", 1, 1<<20, "seconds between failures of the job, on average"),
		number("scale", "1", 1, 10_000, "divides mtbf, and the rows of each table").orTiny("150"),
		number("seconds", "240", 1, 1<<20, "failure-free time of a run; the steps follow from the measured time of a step").orTiny("1"),
		number("k", "3", 1, mostColumns, "data rows in a stripe"),
		number("r", "1", 1, mostParity, "parity rows in a stripe"),
		choice("code", "", ec.Names(1), "erasure code. Default: xor for r = 1, else rs"),
		number("every", "10", 1, 1<<20, "steps between commits, of rows to parities and to copies").orTiny("5"),
		text("rate", "auto", "a rate", "ec.rebuild_rate of ours, calm and replica"),
		number("batch", "2048", 1, maxSamples, "samples of a step, over all ranks").orTiny("64"),
		number("ranks", "4", 2, 64, "number of ranks, one per process"),
		number("seed", "1", 0, maxSteps, "seed of the failures of the first turn; each turn has the next one"),
		pythonSetting("torch and torchft"),
		modeSetting,
		dirSetting,
	},
	Bars: []Bar{{[]string{"mtbf=60", "scale=1", "system=ours"},
		"with a failure a minute, at most 1.05 times the failure-free time, no sample lost, and the digest of a run without failures",
		oneWay(atMost(figTime, Upper, 1.05), atMost(figLost, Median, 0), atLeast(figDigest, Median, 1))}},
	measure: runGoodput,
}

// The figures of a system.
const (
	figTime     = "time / failure-free time"
	figLosses   = "time / time without failures, with the same protection"
	figDone     = "steps done"
	figFailures = "failures"
	figMissed   = "failures that found their process dead"
	figRestarts = "restarts of the job"
	figRedone   = "steps redone"
	figLost     = "samples lost"
	figDigest   = "digest as without failures"
	figDetect   = "recovery, detect"
	figRestart  = "recovery, restart"
	figRedo     = "recovery, redo"
	figRecovery = "recovery"
	figInterval = "steps between checkpoints"
	figSave     = "checkpoint / mean time between failures"
	figClean    = "failure-free time"
)

// goodputRun is one run of the benchmark.
type goodputRun struct {
	out     io.Writer
	o       Options
	program string
	shape   shape
	code    overheadCase
	rate    string // ec.rebuild_rate
	systems []string
	python  torchPeers
	steps   int
	step    float64 // seconds, without protection
	saved   saveTime
	rebuilt float64 // seconds from a loss to the last row rebuilt
	turn    int
	report  *Report
	clean   failingRun // the first run without failures
}

// goodputTimes is the result of a system in a turn.
type goodputTimes struct {
	seconds, clean float64 // clean is 0 if it is that of the turn
	done           float64 // share of the steps, %
	hits, missed   int
	restarts       int
	redone         int64
	lost           int64 // samples
	equal          bool  // the result is that of the run without failures
	splits         []split
	digest         string
}

func runGoodput(out io.Writer, o Options) (*Report, error) {
	b, err := newGoodputRun(out, o)
	if err != nil {
		return nil, err
	}
	b.report = o.newReport("of the processes")
	b.report.writeHeader(out)
	if err := b.python.findModules(b); err != nil {
		return nil, err
	}
	if err := b.calibrate(); err != nil {
		return nil, err
	}
	return b.report, b.measureAll()
}

func newGoodputRun(out io.Writer, o Options) (*goodputRun, error) {
	r := o.number("r")
	b := &goodputRun{out: out, o: o, shape: o.models("dim16")[0], code: overheadCase{o.codeFor(r), o.number("k"), r, o.number("every")},
		systems: strings.Split(o.text("system"), ","), rate: o.text("rate")}
	if scale := o.number("scale"); scale > 1 && !o.Tiny {
		b.shape = b.shape.scaleRows(int64(scale))
	}
	return b, b.checkSystems(goodputSystems)
}

func (b *goodputRun) measures(system string) bool { return slices.Contains(b.systems, system) }

// mtbf returns the mean time between failures of a run, in seconds.
func (b *goodputRun) mtbf(setting int) float64 {
	return float64(setting) / float64(b.o.number("scale"))
}

// newJob returns a job without protection and failures.
func (b *goodputRun) newJob(steps int, sets ...string) failingJob {
	return failingJob{o: b.o, program: b.program, shape: b.shape, batch: b.o.number("batch"), ranks: b.o.number("ranks"), steps: steps,
		sets: append([]string{"cache.mode=" + b.o.text("mode")}, sets...)}
}

// codeSets are the keys of a code.
func (b *goodputRun) codeSets(system string) []string {
	c := b.code
	if system == sysReplica {
		c = overheadCase{ec.XOR, 1, 1, c.every}
	}
	return []string{"ec.code=" + c.code, fmt.Sprint("ec.k=", c.k), fmt.Sprint("ec.r=", c.r), fmt.Sprint("ec.commit_every=", c.every),
		"ec.rebuild_rate=" + cmp.Or(b.rate, "auto")}
}

// calibrationSteps is the number of steps of the run that measures the time of a step.
func (b *goodputRun) calibrationSteps() int {
	if b.o.Tiny {
		return 150
	}
	return 100
}

// calibrate measures the time of a step, of a checkpoint and of a rebuild, and computes the number of steps.
func (b *goodputRun) calibrate() error {
	first, err := b.newJob(b.calibrationSteps()).run()
	if err != nil {
		return err
	}
	b.step = max(first.stepSeconds(), 1e-5)
	b.steps = max(10, int(float64(b.o.number("seconds"))/b.step))
	n := max(b.calibrationSteps(), b.steps/4)
	runs := saveRuns
	if b.o.Tiny {
		runs = 1
	}
	saves, err := measureSaves(b.newJob(n, fmt.Sprint("checkpoint.every=", max(1, n/2)), "checkpoint.keep=1"), n/2, runs)
	if err != nil {
		return err
	}
	b.saved = saves
	if b.measures(sysOurs) || b.measures(sysCalm) || b.measures(sysReplica) {
		j := b.newJob(n, b.codeSets(sysOurs)...)
		j.failures = []failure{{time.Duration(float64(n) * b.step / 3 * 1e9), 1}}
		x, err := j.run()
		if err != nil {
			return err
		}
		for i := range x.recoveries {
			b.rebuilt = max(b.rebuilt, x.recoveries[i].WholeMS/1e3)
		}
	}
	o := b.o
	fmt.Fprintf(b.out, "%s, batch %d, %d processes: %d steps of %.2f ms; a checkpoint takes %.2f s, of which training "+
		"loses %.3f s; %s, rebuilt after %.2f s\n",
		b.shape.name, o.number("batch"), o.number("ranks"), b.steps, 1e3*b.step, b.saved.duration, b.saved.lost, b.code, b.rebuilt)
	fmt.Fprintf(b.out, "scale %d: a mean time between failures of %s s is one of ", o.number("scale"), o.text("mtbf"))
	for i, m := range o.numbers("mtbf") {
		fmt.Fprintf(b.out, "%s%.3g s", []string{"", ", "}[min(i, 1)], b.mtbf(m))
	}
	fmt.Fprintf(b.out, "; seed %d\n", o.number("seed"))
	b.warnOfSaves()
	for _, m := range o.numbers("mtbf") {
		if share := b.rebuilt / b.mtbf(m); share > mostOfRebuild {
			fmt.Fprintf(b.out, "a rebuild takes %.0f %% of a mean time of %.3g s: many losses come before the last one is rebuilt, beyond the code; "+
				"a smaller scale has fewer\n", 100*share, b.mtbf(m))
		}
	}
	b.report.addAs(Counted, "steps", "steps", float64(b.steps))
	b.report.addAs(Measured, "checkpoint", "s", b.saved.duration)
	b.report.addAs(Measured, "lost by training to a checkpoint", "s", b.saved.lost)
	if b.rebuilt > 0 {
		b.report.addAs(Measured, "from a loss to the last row rebuilt", "s", b.rebuilt)
	}
	return nil
}

// mostOfSave is the share of the mean time between failures that a save may take without a warning.
const mostOfSave = 0.25

// warnOfSaves warns of mean times in which a restart from checkpoints makes little progress: its interval is at least the time of a save.
func (b *goodputRun) warnOfSaves() {
	for _, m := range b.o.numbers("mtbf") {
		if share := b.saveShare(m); b.measures(sysCheckpoint) && share > mostOfSave {
			fmt.Fprintf(b.out, "a checkpoint takes %.0f %% of a mean time of %.3g s: %s loses more than it would at that rate without a scale\n",
				100*share, b.mtbf(m), sysCheckpoint)
		}
	}
}

// saveShare is the time of a save as a share of a mean time between failures.
func (b *goodputRun) saveShare(mtbf int) float64 { return b.saved.duration / b.mtbf(mtbf) }

// mostOfRebuild is the share of the mean time between failures that a rebuild may take without a warning. About as many of the failures
// come before the one before is rebuilt.
const mostOfRebuild = 0.05

// interval returns the steps between checkpoints of a system. Those of a code are for losses that the code does not tolerate: a second
// one in the group before the first is rebuilt.
func (b *goodputRun) interval(system string, mtbf float64) int {
	if system != sysCheckpoint {
		group := b.code.k + b.code.r
		if system == sysReplica {
			group = 2
		}
		others := float64(group-1) / float64(b.o.number("ranks"))
		mtbf *= mtbf / max(1e-3, b.rebuilt*others)
	}
	return max(1, int(math.Round(b.saved.bestInterval(mtbf)/b.step)))
}

// setsOf are the keys of a system.
func (b *goodputRun) setsOf(system string, mtbf float64) (sets []string) {
	if system != sysCheckpoint {
		sets = b.codeSets(system)
	}
	if every := b.interval(system, mtbf); every < b.steps {
		sets = append(sets, fmt.Sprint("checkpoint.every=", every), "checkpoint.keep=1")
	}
	return sets
}

// limit is the time after which a run is stopped that makes no progress.
func (b *goodputRun) limit() time.Duration {
	return time.Duration(4*float64(b.steps)*b.step*1e9) + 20*time.Second
}

// measureAll runs the systems by turns, each turn with other failures.
func (b *goodputRun) measureAll() error {
	names, turns, err := runTurns(b.o, b.o.repeats(), func(turn func(string, func() (goodputTimes, error))) {
		turn(sysClean, b.runClean)
		for _, m := range b.o.numbers("mtbf") {
			for _, system := range b.systems {
				if b.python.isFor(system) {
					if b.python.missing(system) == "" {
						turn(goodputName(system, m), func() (goodputTimes, error) { return b.python.run(b, system, b.mtbf(m)) })
					}
					continue
				}
				turn(goodputName(system, m), func() (goodputTimes, error) { return b.runSystem(system, b.mtbf(m)) })
			}
		}
		b.turn++
	})
	if err != nil {
		return err
	}
	b.addSystems(names, turns)
	return nil
}

func goodputName(system string, mtbf int) string { return system + " " + strconv.Itoa(mtbf) }

// runClean runs the job without protection and failures.
func (b *goodputRun) runClean() (x goodputTimes, err error) {
	r, err := b.newJob(b.steps).run()
	if err != nil {
		return x, err
	}
	if b.clean.digest != "" && b.clean.digest != r.digest {
		return x, fmt.Errorf("bench: two runs without failures have the digests %s and %s", b.clean.digest, r.digest)
	}
	b.clean = r
	return goodputTimes{seconds: r.seconds, digest: r.digest}, nil
}

// runSystem runs the job of a system with the failures of the turn.
func (b *goodputRun) runSystem(system string, mtbf float64) (x goodputTimes, err error) {
	j := b.newJob(b.steps, b.setsOf(system, mtbf)...)
	j.limit = b.limit()
	if system != sysCalm {
		j.failures = b.failures(mtbf)
	}
	r, err := j.run()
	if err != nil {
		return x, err
	}
	if r.last < int64(b.steps) { // it was stopped
		r.seconds = max(r.seconds, j.limit.Seconds())
	}
	return goodputTimes{seconds: r.seconds, done: 100 * float64(r.last) / float64(b.steps), hits: r.hits, missed: r.missed,
		restarts: len(r.restarts), redone: r.redone, lost: int64(b.o.number("batch")) * r.stepsUnlike(&b.clean),
		equal: r.digest == b.clean.digest, splits: r.splits(), digest: cmp.Or(r.digest, "none")}, nil
}

// failures are those of a turn, the same for all systems.
func (b *goodputRun) failures(mtbf float64) []failure {
	return drawFailures(uint64(b.o.number("seed")+b.turn), time.Duration(mtbf*1e9), b.limit(), b.o.number("ranks"))
}
