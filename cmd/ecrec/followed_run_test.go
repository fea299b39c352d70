package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// followedRun is a run that is followed while its processes, its follower and its broker are killed.
type followedRun struct {
	r          *rand.Rand
	name       string
	to         string
	killBroker func() // nil: the topic has no broker
	coded      bool   // single workers are killed too
	trims      bool   // the follower writes bases

	out, made  string   // the folders of the trainer and of the follower
	mark       string   // in the environment of the trainer's processes
	args       []string // of the trainer
	followArgs []string
	np, port   int // how many processes train, and the port of the figures of the first
	steps      int

	share, rounds int // how often each kind is killed at least, and all of them together
	kills         map[string]int
	began         int       // events that a trainer began, before this one was started
	lost          time.Time // when a worker of this trainer was killed; zero: none was
	recovered     int       // recoveries before that

	follower    *exec.Cmd // nil: there is none
	said, wrong *strings.Builder
	published   map[int64]string // digests of the follower's checkpoints, by step
	streamed    map[int64]int64  // steps that the trainer reported as acknowledged, and when, in milliseconds since 1970
}

// drawFollowed draws a run.
func drawFollowed(t *testing.T, topic topicOf, coded bool) *followedRun {
	t.Helper()
	r := drawing(t)
	x := &followedRun{r: r, coded: coded, out: filepath.Join(t.TempDir(), "out"), made: filepath.Join(t.TempDir(), "made"),
		kills: map[string]int{}, published: map[int64]string{}, streamed: map[int64]int64{}}
	x.mark = "ECREC_TEST_MARK=" + x.out
	x.to, x.killBroker = topic(t)
	x.setLength()
	kind, ranks := pick(r, killedKinds), 4
	if x.np = 1 + r.IntN(3); coded {
		x.np, ranks = 3, 3
	}
	sets := []string{fmt.Sprint("job.ranks=", ranks), fmt.Sprint("train.iterations=", x.steps), "train.eval_every=150",
		fmt.Sprint("ec.commit_every=", 1+r.IntN(8)), "job.digests=true", fmt.Sprint("checkpoint.every=", 20+r.IntN(60)),
		"stream.to=" + x.to, "stream.backlog=" + pick(r, []string{"10KiB", "1MiB", "256MiB"})}
	if r.IntN(2) == 0 {
		sets = append(sets, "store.path="+filepath.Join(x.out, "store"))
	}
	switch isDrawn := r.IntN(2) == 0; {
	case coded:
		sets = append(sets, "ec.code=xor", "ec.k=2")
	case isDrawn:
		sets = append(sets, "ec.code=xor", "ec.k=3")
	}
	x.followArgs = []string{"follow", x.to, "--to", x.made, "--every", "100ms"}
	if x.trims = r.IntN(2) == 0; x.trims {
		x.followArgs = append(x.followArgs, "--trim")
	}
	x.name = fmt.Sprintf("%s, %d processes, %v, %v", kind, x.np, sets, x.followArgs[5:])
	x.port = freePorts(x.np)
	sets = append(sets, fmt.Sprintf("metrics.listen=127.0.0.1:%d", x.port))
	x.args = append(train(golden(kind), x.out, sets...), "--np", strconv.Itoa(x.np), "--resume", "auto")
	t.Cleanup(x.killTrainer)
	return x
}

// setLength sets the number of kills, and enough steps for them.
func (x *followedRun) setLength() {
	perKill := 300
	x.share = 1
	switch {
	case *soak && x.coded:
		x.share, perKill = 25, 800
	case *soak:
		x.share, perKill = 50, 800
	case x.killBroker != nil: // its start takes seconds
		perKill = 600
	}
	x.rounds = max(4, x.share*len(x.kinds()))
	x.steps = perKill * x.rounds
}

// kinds lists the kinds that are killed.
func (x *followedRun) kinds() []string {
	all := []string{"follower", "trainer"}
	if x.killBroker != nil {
		all = append(all, "broker")
	}
	if x.coded {
		all = append(all, "worker")
	}
	return all
}

// lacking lists the kinds that were killed less often than their share.
func (x *followedRun) lacking() []string {
	return slices.DeleteFunc(x.kinds(), func(kind string) bool { return x.kills[kind] >= x.share })
}

// isKilling reports whether more is to be killed.
func (x *followedRun) isKilling() bool {
	total := 0
	for _, n := range x.kills {
		total += n
	}
	return total < x.rounds || len(x.lacking()) > 0
}

// trainOn starts the trainer, and kills one thing after another until that was the trainer. It reports whether the run has ended before.
func (x *followedRun) trainOn(t *testing.T) (ended bool) {
	t.Helper()
	x.began, x.lost = countEvents(t, x.out, "start", "resume"), time.Time{}
	cmd, stdout, stderr := start(ecrec(t), []string{x.mark}, x.args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	over := make(chan error, 1)
	go func() { over <- cmd.Wait() }()
	for {
		life := 200 * time.Millisecond // the end of a run waits until its figures are read
		if x.isKilling() {
			life = time.Duration(50+x.r.IntN(700)) * time.Millisecond
		}
		select {
		case err := <-over:
			code := exitCode(t, err)
			if code == 2 && x.kills["broker"] > 0 && strings.Contains(stderr.String(), "stream.to: kafka://") {
				return false // the broker was down when the job began
			}
			if code != 0 {
				t.Fatalf("%s: exit code %d after %v: %s\n%s", x.name, code, x.kills, stderr, stdout)
			}
			return true
		case <-time.After(life):
		}
		x.noteStreamed(t)
		if x.isKilling() && x.killOne(t) == "trainer" {
			<-over
			return false
		}
	}
}

// killOne kills something, and returns its kind, empty if nothing can be killed at present.
func (x *followedRun) killOne(t *testing.T) (kind string) {
	t.Helper()
	if x.follower == nil && countEvents(t, x.out, "commit") > 0 { // the topic is there
		x.followOn(t)
	}
	switch kind = x.drawKind(t); kind {
	case "":
		return ""
	case "follower":
		x.stopFollower(t)
		x.followOn(t)
	case "broker":
		x.killBroker()
	case "worker":
		if !x.killWorker(t) {
			return ""
		}
	default:
		x.killTrainer()
	}
	x.kills[kind]++
	return kind
}

// drawKind draws the kind to kill next: one that was killed less often than its share, or any. It is empty if such a kind cannot be killed
// at present.
func (x *followedRun) drawKind(t *testing.T) string {
	t.Helper()
	lacking := x.lacking()
	all := slices.DeleteFunc(x.kinds(), func(kind string) bool {
		return len(lacking) > 0 && !slices.Contains(lacking, kind) || kind == "follower" && x.follower == nil ||
			kind == "worker" && !x.canLoseWorker(t)
	})
	if len(all) == 0 {
		return ""
	}
	return pick(x.r, all)
}

// canLoseWorker reports whether the code can rebuild another rank: the job trains, and a rank that was lost before is rebuilt. A kill that
// leads to no recovery is not waited for without an end.
func (x *followedRun) canLoseWorker(t *testing.T) bool {
	t.Helper()
	isWhole := x.lost.IsZero() || countEvents(t, x.out, "recovered") > x.recovered || time.Since(x.lost) > 20*time.Second
	return isWhole && countEvents(t, x.out, "start", "resume") > x.began
}

// killWorker kills one worker. It reports whether there was any.
func (x *followedRun) killWorker(t *testing.T) bool {
	t.Helper()
	var all []int
	job := runningJob{mark: x.mark}
	for _, p := range job.processes() {
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", p.pid)) // it may have ended
		isStandby := strings.HasSuffix(strings.TrimSpace(string(name)), "-standby")
		if variable(p.pid, "ECREC_WORKER") != "" && !isStandby {
			all = append(all, p.pid)
		}
	}
	if len(all) == 0 {
		return false
	}
	x.lost, x.recovered = time.Now(), countEvents(t, x.out, "recovered")
	_ = syscall.Kill(pick(x.r, all), syscall.SIGKILL) // it may have ended
	return true
}

// killTrainer kills all processes of the trainer.
func (x *followedRun) killTrainer() {
	job := runningJob{mark: x.mark}
	for all := job.processes(); len(all) > 0; all = job.processes() {
		for _, p := range all {
			_ = syscall.Kill(p.pid, syscall.SIGKILL) // it may have ended
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// followOn starts the follower.
func (x *followedRun) followOn(t *testing.T) {
	t.Helper()
	x.follower, x.said, x.wrong = start(ecrec(t), nil, x.followArgs...)
	if err := x.follower.Start(); err != nil {
		t.Fatal(err)
	}
}

// stopFollower kills the follower, if there is one, and notes its checkpoints.
func (x *followedRun) stopFollower(t *testing.T) {
	t.Helper()
	if x.follower == nil {
		return
	}
	_ = x.follower.Process.Kill() // it may have ended
	_ = x.follower.Wait()         // it was killed
	x.follower = nil
	if text := x.wrong.String(); text != "" && !strings.Contains(text, "does not exist") && !strings.Contains(text, "does not answer") {
		t.Fatalf("%s: the follower: %s\n%s", x.name, text, x.said)
	}
	notePublished(t, x.published, x.said.String())
}

var (
	scraper      = http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	streamedStep = regexp.MustCompile(`(?m)^ecrec_streamed_step\{[^}]*\} (\S+)$`)
)

// noteStreamed notes the step that the trainer reports as acknowledged. It does not after the loss of a worker: a rank that is rebuilt
// reports the step from which it was, at which no epoch of the topic need end.
func (x *followedRun) noteStreamed(t *testing.T) {
	t.Helper()
	for p := range x.np {
		reply, err := scraper.Get(fmt.Sprintf("http://127.0.0.1:%d/metrics", x.port+p))
		if err != nil {
			continue // it does not listen yet, or has ended
		}
		text, err := io.ReadAll(reply.Body)
		reply.Body.Close()
		m := streamedStep.FindSubmatch(text)
		if err != nil || m == nil || !x.lost.IsZero() {
			continue
		}
		step, err := strconv.ParseFloat(string(m[1]), 64) // it may be 1.2e+06
		if err != nil {
			t.Fatal(err)
		}
		if _, noted := x.streamed[int64(step)]; !noted {
			x.streamed[int64(step)] = time.Now().UnixMilli()
		}
	}
}
