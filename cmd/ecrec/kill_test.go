package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var (
	kills     = flag.Int("kills", 4, "how many ranks TestKilledRanks kills")
	soak      = flag.Bool("soak", false, "do faults in all cases, not in a random few")
	killBuild = flag.String("build", "", "the build whose ranks are killed, one of those of TestOneDigest")
	killSeed  = flag.Uint64("seed", 0, "of the tests that kill; 0: another each time")
)

const (
	killGap   = 40 // steps between two losses of a run, in which all is rebuilt
	killSteps = 30 // that a run trains after its last loss
	// killLimit is how long a run may take before the test fails.
	killLimit = 2 * time.Minute
)

// killedJob is a job that loses ranks, each on a process of its own.
type killedJob struct {
	kind             string
	ranks, every     int
	steps, evalEvery int
	wide             bool // with rows so wide that a rebuild takes several steps
	slow             bool // a row is rebuilt in a step
	sets             []string
	faults, stops    []string // for --chaos: losses, each of which must happen, and pauses
	fallsBack        bool     // to a checkpoint: no recovery is reported
	streams          bool     // its commits, to a topic that is followed afterwards
	topic            string   // to which it streams; empty: a folder
}

var (
	killedKinds = []string{"dlrm-sgd", "dlrm-adagrad", "dlrm-adam", "dlrm-momentum", "dlrm-rowwise-adagrad"}
	killedModes = [][]string{{"cache.mode=none"}, {"cache.mode=planned"}, {"cache.mode=planned", "cache.delayed_sync=false"},
		{"cache.mode=lrpp", "oracle.lookahead=3"}, {"cache.mode=lrpp", "oracle.lookahead=auto"}}
)

// drawJob draws a job of 5 ranks that tolerates one loss at a time, or of 6 ranks that tolerates
// two.
func drawJob(r *rand.Rand, ranks int) *killedJob {
	return &killedJob{kind: pick(r, killedKinds), ranks: ranks, every: 1 + r.IntN(12), steps: killSteps, evalEvery: 50,
		sets: pick(r, killedModes), streams: r.IntN(3) == 0}
}

// kill makes a rank die at a point of a step. An empty point is the first one that --chaos lists.
func (j *killedJob) kill(rank, step int, point string) {
	spec := fmt.Sprintf("kill:%d@%d", rank, step)
	if point != "" {
		spec += ":" + point
	}
	j.faults = append(j.faults, spec)
	j.steps = max(j.steps, step+killSteps)
}

// killAgain makes a rank die at a point of the recovery from a loss at a step, and of no earlier
// recovery. Some points have the step of the commit that the recovery goes back to, which is at
// most two epochs older. It reports whether there is such a commit for certain.
func (j *killedJob) killAgain(rank, lost int, point string) bool {
	least := lost - 1 - 2*j.every
	if least >= 1 {
		j.kill(rank, least, point)
	}
	return least >= 1
}

func (j *killedJob) args(out string) []string {
	code := []string{"ec.code=xor", "ec.k=4"}
	if j.ranks == 6 {
		code = []string{"ec.code=rs", "ec.k=4", "ec.r=2"}
	}
	sets := append(j.common(), append(code, fmt.Sprintf("ec.commit_every=%d", j.every))...)
	if j.streams {
		sets = append(sets, "stream.to="+j.topicOf(out))
	}
	args := append(train(golden(j.kind), out, append(sets, j.sets...)...), "--np", fmt.Sprint(j.ranks))
	for _, f := range slices.Concat(j.stops, j.faults) {
		args = append(args, "--chaos", f)
	}
	return args
}

// common lists the settings that change bits.
func (j *killedJob) common() []string {
	sets := []string{fmt.Sprintf("job.ranks=%d", j.ranks), fmt.Sprintf("train.iterations=%d", j.steps),
		fmt.Sprintf("train.eval_every=%d", j.evalEvery)}
	if j.wide {
		sets = append(sets, "model.init_from=", "model.embedding_dim=256", "model.bottom_mlp=[16, 256]")
	}
	return sets
}

// vars lists the variables in the job's environment.
func (j *killedJob) vars() []string {
	if j.slow {
		return []string{"ECREC_REBUILD_ROWS=1"}
	}
	return nil
}

// String returns the command that repeats the job, run in the repository.
func (j *killedJob) String() string {
	args := j.args("build/killed")
	args[1] = filepath.Join("train", "testdata", "golden", j.kind, "config.toml")
	for i, a := range args {
		if strings.ContainsAny(a, "[]\" *") {
			args[i] = "'" + a + "'"
		}
	}
	return strings.Join(append(j.vars(), "./ecrec "+strings.Join(args, " ")), " ")
}

// killedProgram is the program whose ranks are killed.
func killedProgram(t *testing.T) string {
	t.Helper()
	if *killBuild == "" {
		return ecrec(t)
	}
	buildOnce.Lock()
	defer buildOnce.Unlock()
	for _, v := range variants() {
		if v.name != *killBuild {
			continue
		}
		if v.lacks != "" {
			t.Skip(v.lacks)
		}
		if path := filepath.Join(builds, v.name); exists(path) {
			return path
		}
		return build(t, v.name, ".", v.vars, v.flags...)
	}
	t.Fatalf("-build %s: there is no such build", *killBuild)
	return ""
}

// unharmed holds the results of runs without faults, by the settings that decide them.
var unharmed struct {
	sync.Mutex
	of map[string]summary
}

// want returns the result of the job without a loss: in one process, without a code.
func (j *killedJob) want(t *testing.T) summary {
	t.Helper()
	unharmed.Lock()
	defer unharmed.Unlock()
	key := j.kind + " " + strings.Join(j.common(), " ")
	s, known := unharmed.of[key]
	if known {
		return s
	}
	out := filepath.Join(t.TempDir(), "unharmed")
	if r := run(t, ecrec(t), nil, train(golden(j.kind), out, j.common()...)...); r.code != 0 {
		t.Fatalf("without faults: %s: %s", j, r.stderr)
	}
	if unharmed.of == nil {
		unharmed.of = map[string]summary{}
	}
	s = readSummary(t, out)
	unharmed.of[key] = s
	return s
}

// started is a running killedJob.
type started struct {
	runningJob
	out, temp string
	output    *timedOutput
	over      chan ended
}

// timedOutput is the output of a process, and when it began.
type timedOutput struct {
	mu    sync.Mutex
	text  strings.Builder
	first time.Time
}

func (x *timedOutput) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.first.IsZero() {
		x.first = time.Now()
	}
	return x.text.Write(p)
}

func (x *timedOutput) String() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.text.String()
}

// begin starts the job. Its processes end with the test.
func (j *killedJob) begin(t *testing.T) *started {
	t.Helper()
	x := &started{out: filepath.Join(t.TempDir(), "out"), temp: t.TempDir(), output: &timedOutput{}, over: make(chan ended, 1)}
	x.mark = "ECREC_TEST_MARK=" + x.out
	cmd, stdout, _ := start(killedProgram(t), append(j.vars(), x.mark, "TMPDIR="+x.temp, "GORACE=atexit_sleep_ms=0"), j.args(x.out)...)
	cmd.Stderr = x.output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	x.pid = cmd.Process.Pid
	t.Cleanup(func() {
		for _, p := range x.processes() {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
	})
	go func() {
		_ = cmd.Wait()
		x.over <- ended{cmd.ProcessState.ExitCode(), stdout.String(), x.output.String()}
	}()
	return x
}

// ends waits for the job and checks that it leaves nothing behind.
func (x *started) ends(t *testing.T, j *killedJob) (r ended) {
	t.Helper()
	select {
	case r = <-x.over:
	case <-time.After(killLimit):
		t.Fatalf("it hangs: %s\n%s\n%s", j, x.output, x.logs())
	}
	x.nothingLeft(t)
	for _, dir := range []string{x.temp, "/dev/shm"} {
		left, _ := filepath.Glob(filepath.Join(dir, "*"))
		for _, path := range left {
			if dir == x.temp || strings.Contains(path, "ecrec") {
				t.Errorf("%s was left by %s", path, j)
			}
		}
	}
	return r
}

// logs returns the last lines of all processes.
func (x *started) logs() string {
	var all strings.Builder
	paths, _ := filepath.Glob(filepath.Join(x.out, "process-*.log"))
	for _, path := range paths {
		text, _ := os.ReadFile(path)
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		fmt.Fprintf(&all, "%s:\n  %s\n", filepath.Base(path), strings.Join(lines[max(0, len(lines)-5):], "\n  "))
	}
	return all.String()
}

// losses counts the lines about lost processes. A line about workers that only reconnect is not
// one.
func losses(stderr string) int {
	return strings.Count(stderr, "(generation ") - strings.Count(stderr, "all processes reconnect (generation ")
}

// check runs the job. Every fault must fire, and the result must be that of a run without faults.
func (j *killedJob) check(t *testing.T) {
	t.Helper()
	x := j.begin(t)
	j.checkEnd(t, x)
}

// checkEnd waits for the job, and checks its faults and its result.
func (j *killedJob) checkEnd(t *testing.T, x *started) {
	t.Helper()
	r := x.ends(t, j)
	if got := losses(r.stderr); r.code == 0 && got < len(j.faults) {
		t.Errorf("%d of %d faults happened: %s\n%s", got, len(j.faults), j, r.stderr)
	}
	j.compare(t, x, r)
}

// compare checks the output of the job.
func (j *killedJob) compare(t *testing.T, x *started, r ended) {
	t.Helper()
	if r.code != 0 {
		t.Fatalf("exit code %d: %s\n%s\n%s", r.code, j, r.stderr, x.logs())
	}
	if n := strings.Count(r.stdout, "\ndigest "); n != 1 {
		t.Errorf("%s: the digest is printed %d times", j, n)
	}
	got := readSummary(t, x.out)
	equal(t, j.String(), got, j.want(t))
	for i, v := range got.Recoveries {
		if v.StepsRedone > 2*j.every {
			t.Errorf("%s: %d steps were redone", j, v.StepsRedone)
		}
		last := i == len(got.Recoveries)-1 // others may have been broken off by the next loss
		if len(v.Ranks) == 0 || last && (v.ResumeMS <= 0 || v.WholeMS <= 0) {
			t.Errorf("%s: a recovery of ranks %v that took %g and %g ms", j, v.Ranks, v.ResumeMS, v.WholeMS)
		}
	}
	if len(got.Recoveries) == 0 && !j.fallsBack && losses(r.stderr) > 0 {
		t.Errorf("%s: no recovery is reported", j)
	}
	if j.streams {
		j.compareFollowed(t, x.out, got.Digest)
	}
	t.Logf("%d faults, %d recoveries: %s", losses(r.stderr), len(got.Recoveries), j)
}

// TestKilledRanks kills ranks of real processes by SIGKILL at random steps and points. The results
// must be those of a run without a loss.
func TestKilledRanks(t *testing.T) {
	r := drawing(t)
	for done := 0; done < *kills && !t.Failed(); {
		j := drawKills(r)
		done += len(j.faults)
		j.check(t)
	}
}

// Points that every run reaches: in each step or epoch, at its end, and in recoveries. In
// recoveries with one parity only the rank that died before dies again. "plan" is not among them:
// planning is steps ahead of training.
var (
	alwaysMet = strings.Fields("step planned fetch forward backward status push reduce update done decide snapshot delivered deltas seal send counts slots staged prepared")
	endMet    = strings.Fields("evaluate scored settle barrier settled digest count")
	lostMet   = strings.Fields("agree rollback root dense surveyed survey rebuild ask answer install installed rebuilt")
)

func drawKills(r *rand.Rand) *killedJob {
	j := drawJob(r, 5+r.IntN(3)/2)
	step := 1 + r.IntN(killGap)
	for range 1 + r.IntN(4) {
		rank, other := r.IntN(j.ranks), r.IntN(j.ranks)
		j.kill(rank, step, pick(r, alwaysMet))
		switch {
		case r.IntN(3) > 0:
		case j.ranks == 6:
			j.kill(other, step, pick(r, alwaysMet))
		default:
			j.killAgain(rank, step, pick(r, lostMet))
		}
		step += killGap + r.IntN(killGap)
	}
	switch r.IntN(4) {
	case 0:
		j.kill(r.IntN(j.ranks), step, pick(r, endMet))
	case 1:
		j.faults = append(j.faults, fmt.Sprintf("node:%d@%d", r.IntN(j.ranks), step))
	}
	j.steps = step + killSteps
	return j
}

// The points above exist in the program.
func TestKilledPointsExist(t *testing.T) {
	points := chaosPoints(t)
	for _, name := range slices.Concat(alwaysMet, endMet, lostMet) {
		if !slices.Contains(points, name) {
			t.Errorf("no point %q", name)
		}
	}
}

// chaosPoints returns the points of the program.
func chaosPoints(t *testing.T) []string {
	t.Helper()
	var points []string
	for line := range strings.Lines(run(t, ecrec(t), nil, "train", golden("dlrm-sgd"), "--chaos", "list").stdout) {
		point, _, _ := strings.Cut(line, " ")
		points = append(points, point)
	}
	if len(points) < 40 {
		t.Fatalf("%d points", len(points))
	}
	return points
}
