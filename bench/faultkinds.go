package bench

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/ecrec/ecrec/ec"
)

// faultKind is a kind of fault that a job of processes meets.
type faultKind struct {
	name, doc string
	// sets are further keys of the job.
	sets []string
	// inject does the fault to the worker of a process. It is nil if the job meets the fault by itself.
	inject func(worker int) error
	// loses reports whether ranks are lost.
	loses bool
}

// stallTime is shorter than the five heartbeats after which a process is lost.
const stallTime = 500 * time.Millisecond

var faultKinds = []faultKind{
	{"kill", "SIGKILL of a worker", nil, killProcess, true},
	{"stop", "SIGSTOP of a worker for good: its connections stay open", nil, stopProcess, true},
	{"stall", "SIGSTOP of a worker for 0.5 s, less than five heartbeats", nil, stallProcess, false},
	{"node", "SIGKILL of a worker and its supervisor; a spare replaces them", spareSets, killNode, true},
	{"silent-node", "SIGSTOP of a worker and its supervisor: half-open connections to a machine that does not reply",
		spareSets, stopNode, true},
	{"silent-supervisor", "SIGSTOP of a supervisor, whose worker trains on: a half-open connection to the controller",
		spareSets, stopSupervisor, true},
	{"full-disk", "no space on the disk of a checkpoint", nil, nil, false},
}

var spareSets = []string{"elastic.spares=1"}

func faultKindNames() (names []string) {
	for _, k := range faultKinds {
		names = append(names, k.name)
	}
	return names
}

var faultKindsBench = Bench{
	Name: "faultkinds",
	Doc:  "time from a fault to the next step, and its parts, by kind of fault",
	Detail: "Each job of real processes meets one fault after a third of its steps. The digest must be that of a run " +
		"without faults. Times are from " +
		"the fault itself, by the clock of this program. Faults: " + faultKindDocs() + ".",
	Settings: []Setting{
		choice("model", "dim16", []string{"dim16", "dim48"}, "model to train"),
		text("kinds", strings.Join(faultKindNames(), ","), oneOf(faultKindNames())+", separated by commas", "faults").
			orTiny("kill,stall,silent-node,full-disk"),
		number("steps", "300", 10, maxSteps, "steps of a job; the fault is after a third of them").orTiny("900"),
		number("k", "3", 1, mostColumns, "data rows in a stripe"),
		number("r", "1", 1, mostParity, "parity rows in a stripe"),
		choice("code", "", ec.Names(1), "erasure code. Default: xor for r = 1, else rs"),
		number("every", "10", 1, 1<<20, "steps between commits").orTiny("5"),
		number("batch", "2048", 1, maxSamples, "samples of a step, over all ranks").orTiny("64"),
		number("ranks", "", 3, 64, "number of ranks, one per process. Default: k + r, at least 3"),
		modeSetting,
		dirSetting,
	},
	measure: runFaultKinds,
}

func faultKindDocs() string {
	var docs []string
	for _, k := range faultKinds {
		docs = append(docs, k.name+", "+k.doc)
	}
	return strings.Join(docs, "; ")
}

// The parts of a recovery, each from the end of the one before.
var faultParts = []string{"detect", "start", "join", "agree", "roll back", "first step", "redo"}

const (
	figFirstStep = "fault to first step"
	figRebuilt   = "fault to last row decoded"
	figAsBefore  = "fault to the step before it, again"
)

// faultTimes is the result of a job with a fault, in seconds since the fault.
type faultTimes struct {
	first, regained, rebuilt float64
	parts                    []float64 // of faultParts, if ranks were lost
	redone                   int64
	equal                    bool
}

// faultRun is one run of the benchmark.
type faultRun struct {
	goodputRun
	kinds  []faultKind
	prefix []string // runs a command with a small disk
}

func runFaultKinds(out io.Writer, o Options) (*Report, error) {
	r := o.number("r")
	b := &faultRun{goodputRun: goodputRun{out: out, o: o, shape: o.models("dim16")[0], steps: o.number("steps"),
		code: overheadCase{o.codeFor(r), o.number("k"), r, o.number("every")}}}
	for _, name := range strings.Split(o.text("kinds"), ",") {
		i := slices.Index(faultKindNames(), name)
		if i < 0 {
			return nil, settingError("kinds=%s: %q is not one of %s", o.text("kinds"), name, oneOf(faultKindNames()))
		}
		b.kinds = append(b.kinds, faultKinds[i])
	}
	if _, err := ec.NewLayout(b.ranks(), b.code.k, b.code.r); err != nil {
		return nil, settingError("ranks=%d: %v", b.ranks(), err)
	}
	var err error
	if b.program, err = o.programPath(); err != nil {
		return nil, err
	}
	b.report = o.newReport("of the processes")
	b.report.writeHeader(out)
	if err := b.findSmallDisk(); err != nil {
		return nil, err
	}
	names, turns, err := runTurns(o, o.repeats(), func(turn func(string, func() (faultTimes, error))) {
		turn(sysClean, func() (faultTimes, error) { return faultTimes{}, b.runWithout() })
		for _, k := range b.kinds {
			turn(k.name, func() (faultTimes, error) { return b.runFault(k) })
		}
		b.turn++
	})
	if err != nil {
		return nil, err
	}
	b.addKinds(names[1:], turns)
	return b.report, nil
}

// ranks is the number of ranks: with fewer than three processes no majority is left after a loss.
func (b *faultRun) ranks() int { return max(cmp.Or(b.o.number("ranks"), b.code.k+b.code.r), 3) }

// newFaultJob returns the job with a code.
func (b *faultRun) newFaultJob(sets ...string) failingJob {
	return failingJob{o: b.o, program: b.program, shape: b.shape, batch: b.o.number("batch"), ranks: b.ranks(), steps: b.steps,
		sets:  append(append([]string{"cache.mode=" + b.o.text("mode")}, b.codeSets(sysOurs)...), sets...),
		limit: time.Duration(8*float64(b.steps)*b.step*1e9) + 30*time.Second}
}

// runWithout runs the job without a fault.
func (b *faultRun) runWithout() error {
	r, err := b.newFaultJob().run()
	if err != nil {
		return err
	}
	b.step, b.clean = r.stepSeconds(), r
	return nil
}

// findSmallDisk finds a way to give a job a disk that is soon full: a file system in memory, in a name space of its own.
func (b *faultRun) findSmallDisk() error {
	b.kinds = slices.Clone(b.kinds)
	i := slices.IndexFunc(b.kinds, func(k faultKind) bool { return k.name == "full-disk" })
	if i < 0 {
		return nil
	}
	dir, err := b.o.tempDir()
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var errs strings.Builder
	for _, way := range [][]string{{"unshare", "--mount"}, {"unshare", "--map-root-user", "--mount"}} {
		prefix := append(way, "sh", "-c", smallDisk)
		cmd := exec.Command(prefix[0], append(prefix[1:], dir, "true")...)
		cmd.Stderr = &errs
		if b.o.runCommand(cmd) == nil {
			b.prefix = prefix
			return nil
		}
		b.o.mustRun()
	}
	b.kinds = slices.Delete(b.kinds, i, i+1)
	b.report.addMissing("full-disk", "no small file system can be mounted here: "+strings.Join(strings.Fields(errs.String()), " "))
	return nil
}

// runFault runs the job with a fault. Turn by turn another process is hit.
func (b *faultRun) runFault(k faultKind) (x faultTimes, err error) {
	j := b.newFaultJob(k.sets...)
	victim, step := 1+b.turn%(b.ranks()-1), int64(b.steps/3)
	w := &faultWatch{program: b.program, step: step, process: victim, inject: k.inject}
	if k.inject == nil {
		j.sets, j.smallDisk = append(j.sets, fmt.Sprint("checkpoint.every=", step)), b.prefix
		w.then = func(out string) bool { return growDisk(out, step) }
	}
	j.watch = w.start
	r, err := j.run()
	switch {
	case err != nil:
		return x, fmt.Errorf("%s: %w", k.name, err)
	case w.err != nil:
		return x, fmt.Errorf("bench: %s of process %d: %w", k.name, victim, w.err)
	case !w.done:
		return x, fmt.Errorf("bench: the run ended before the fault %s had its effect", k.name)
	case k.loses != (len(r.recoveries) > 0):
		return x, fmt.Errorf("bench: after the fault %s the run has %d recoveries", k.name, len(r.recoveries))
	}
	x.equal, x.redone = r.digest == b.clean.digest, r.redone
	x.addTimes(&r, w.at)
	return x, nil
}

// addTimes computes the times since a fault.
func (x *faultTimes) addTimes(r *failingRun, fault int64) {
	if len(r.recoveries) == 0 {
		for _, l := range r.lines {
			if l.UnixMS > fault {
				x.first = float64(l.UnixMS-fault) / 1e3
				break
			}
		}
		x.regained = x.first
		return
	}
	l := &r.recoveries[0]
	run := jobRun{steps: r.lines}
	x.first = float64(r.lines[run.lossOf(l)].UnixMS-fault) / 1e3
	detect := x.first - (l.ResumeMS-l.DetectMS)/1e3 // the job counts from the moment at which it dates the loss
	x.regained, x.rebuilt = x.first+(l.RegainMS-l.ResumeMS)/1e3, x.first+(l.WholeMS-l.ResumeMS)/1e3
	ends := []float64{l.DetectMS, l.StartMS, l.JoinMS, l.AgreeMS, l.ReadyMS, l.ResumeMS, l.RegainMS}
	x.parts = append(x.parts, max(0, detect))
	for i := range ends[1:] {
		x.parts = append(x.parts, max(0, ends[i+1]-ends[i])/1e3)
	}
}

// addKinds adds the figures of all kinds.
func (b *faultRun) addKinds(names []string, turns [][]faultTimes) {
	fmt.Fprintf(b.out, "%s, batch %d, %d processes, %d steps of %.2f ms, %s; times in ms\n", b.shape.name, b.o.number("batch"),
		b.ranks(), b.steps,
		1e3*b.step, b.code)
	t := table(b.out)
	defer t.Flush()
	fmt.Fprintf(t, "fault\tto first step\t%s\tto last row decoded\tsteps redone\tdigest\t\n", strings.Join(faultParts, "\t"))
	for n, name := range names {
		r, first := b.report, len(b.report.Figures)
		of := func(value func(faultTimes) float64) (values []float64) {
			for _, turn := range turns {
				values = append(values, value(turn[n+1]))
			}
			return values
		}
		fmt.Fprintf(t, "%s\t%.1f\t", name, r.addAs(Measured, figFirstStep, "ms",
			of(func(x faultTimes) float64 { return 1e3 * x.first })...).Median)
		r.addAs(Measured, figAsBefore, "ms", of(func(x faultTimes) float64 { return 1e3 * x.regained })...)
		lost := turns[0][n+1].parts != nil
		for i, part := range faultParts {
			if !lost {
				fmt.Fprint(t, "-\t")
				continue
			}
			fmt.Fprintf(t, "%.1f\t", r.addAs(Measured, part, "ms", of(func(x faultTimes) float64 { return 1e3 * x.parts[i] })...).Median)
		}
		rebuilt := "-"
		if lost {
			rebuilt = fmt.Sprintf("%.1f", r.addAs(Measured, figRebuilt, "ms", of(func(x faultTimes) float64 { return 1e3 * x.rebuilt })...).Median)
		}
		redone := r.addAs(Counted, figRedone, "steps", of(func(x faultTimes) float64 { return float64(x.redone) })...)
		equal := r.addAs(Counted, figDigest, "1 if equal", of(func(x faultTimes) float64 { return map[bool]float64{true: 1}[x.equal] })...)
		fmt.Fprintf(t, "%s\t%.0f\t%s\t\n", rebuilt, redone.Median, equalText(equal))
		r.setCase(first, map[string]string{"fault": name})
	}
	for part, why := range b.report.Missing {
		fmt.Fprintf(t, "%s\tnot run: %s\t\n", part, why)
	}
}

// noSpace is the text of the error of a full disk.
const noSpace = "no space left on device"

// growName is a file beside the checkpoints that makes their small disk grow.
const growName = "grow"

// smallDisk runs a command with a small file system at a folder. It grows once the file growName is beside that, for the checkpoint at
// the end of the run. The loop ends with the command, which has the number $$.
const smallDisk = `mount -t tmpfs -o size=16k ecrec "$0" || exit 1
(n=0; while [ -d "$0" ] && kill -0 $$ && [ $n -lt 6000 ]; do
	if [ -e "$0/../` + growName + `" ]; then exec mount -o remount,size=4g "$0"; fi
	n=$((n + 1)); sleep 0.1
done) >/dev/null 2>&1 &
exec "$@"`

// growDisk lets the disk grow once the checkpoint of a step has failed for want of space. It reports whether it has.
func growDisk(out string, step int64) bool {
	events, err := readEvents(out)
	return err == nil && slices.ContainsFunc(events, func(e jobEvent) bool {
		return e.Event == "checkpoint_failed" && e.Step == step && strings.Contains(e.Error, noSpace)
	}) && os.WriteFile(filepath.Join(out, growName), nil, 0o600) == nil
}

func stopProcess(pid int) error { return syscall.Kill(pid, syscall.SIGSTOP) }

func stallProcess(pid int) error {
	err := stopProcess(pid)
	time.Sleep(stallTime)
	_ = syscall.Kill(pid, syscall.SIGCONT) // fails if it has ended
	return err
}

// withSupervisor does something to the supervisor of a worker, and then to the worker.
func withSupervisor(worker int, supervisor, then func(pid int) error) error {
	parent, err := parentOf(worker)
	if err != nil {
		return err
	}
	if err := supervisor(parent); err != nil {
		return err
	}
	_ = then(worker) // the end of its supervisor may have ended it
	return nil
}

func killNode(worker int) error { return withSupervisor(worker, killProcess, killProcess) }
func stopNode(worker int) error { return withSupervisor(worker, stopProcess, stopProcess) }
func stopSupervisor(worker int) error {
	return withSupervisor(worker, stopProcess, func(int) error { return nil })
}

// checkpointsOf is the folder of the checkpoints of a run.
func checkpointsOf(out string) string { return filepath.Join(out, "checkpoints") }
