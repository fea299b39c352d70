package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

var kafka = flag.Bool("kafka", false, "stream to a real Kafka, whose broker is also killed: make test-kafka")

// topicOf returns a topic of a test, and a function that kills its broker and starts it again; nil: it has none.
type topicOf func(t *testing.T) (name string, killBroker func())

func folderTopic(t *testing.T) (string, func()) {
	return "file:" + filepath.Join(t.TempDir(), "topic"), nil
}

// kafkaTopic makes topics of this number of brokers. One at random is killed, so that the others lead its partitions.
func kafkaTopic(brokers int) topicOf {
	return func(t *testing.T) (string, func()) {
		b := startBroker(t, "--brokers", strconv.Itoa(brokers))
		name := fmt.Sprintf("kafka://%s/%s", b.at, strings.ToLower(t.Name()))
		if brokers > 1 {
			name += fmt.Sprint("?replicas=", brokers)
		}
		return name, func() {
			number := strconv.Itoa(1 + rand.IntN(brokers))
			b.do(t, "kill", b.dir, number)
			time.Sleep(time.Duration(rand.IntN(500)) * time.Millisecond)
			b.do(t, "restart", b.dir, number)
		}
	}
}

// TestFollowed: trainer and follower are killed at random moments. The checkpoint that the follower makes of the end of the run
// equals, file for file, that of the run.
func TestFollowed(t *testing.T) { testFollowed(t, folderTopic) }

// TestFollowedKafka is the same with a real broker, which is killed too.
func TestFollowedKafka(t *testing.T) {
	if !*kafka {
		t.Skip("make test-kafka runs it")
	}
	testFollowed(t, kafkaTopic(1))
}

// TestFollowedReplicas is the same with three brokers, each of which has a copy of the topic.
func TestFollowedReplicas(t *testing.T) {
	if !*kafka {
		t.Skip("make test-kafka runs it")
	}
	testFollowed(t, kafkaTopic(3))
}

// drawKind draws the process to kill next: one that was killed less often than its share, or any.
func drawKind(r *rand.Rand, kills map[string]int, share int, broker bool) string {
	all := []string{"follower", "trainer"}
	if broker {
		all = append(all, "broker")
	}
	if short := slices.DeleteFunc(slices.Clone(all), func(kind string) bool { return kills[kind] >= share }); len(short) > 0 {
		all = short
	}
	return pick(r, all)
}

func testFollowed(t *testing.T, topic topicOf) {
	r := drawing(t)
	rounds := 4
	if *soak {
		rounds = 150 // a third of them each of the trainer, the follower and the broker
	}
	to, killBroker := topic(t)
	kind, np, ranks := pick(r, killedKinds), 1+r.IntN(3), 4
	out, made := filepath.Join(t.TempDir(), "out"), filepath.Join(t.TempDir(), "made")
	steps := strconv.Itoa(300 * rounds)
	if *soak {
		steps = strconv.Itoa(800 * rounds) // enough for all kills
	}
	sets := []string{fmt.Sprint("job.ranks=", ranks), "train.iterations=" + steps, "train.eval_every=150",
		fmt.Sprint("ec.commit_every=", 1+r.IntN(8)),
		"job.digests=true", "checkpoint.every=" + strconv.Itoa(20+r.IntN(60)), "stream.to=" + to, "stream.backlog=" + pick(r,
			[]string{"10KiB", "1MiB", "256MiB"})}
	if r.IntN(2) == 0 {
		sets = append(sets, "store.path="+filepath.Join(out, "store"))
	}
	if r.IntN(2) == 0 {
		sets = append(sets, "ec.code=xor", "ec.k=3")
	}
	followArgs := []string{"follow", to, "--to", made, "--every", "100ms"}
	if r.IntN(2) == 0 {
		followArgs = append(followArgs, "--trim")
	}
	name := fmt.Sprintf("%s, %d processes, %v, %v", kind, np, sets, followArgs[5:])
	t.Log(name)

	mark := "ECREC_TEST_MARK=" + out
	kills := map[string]int{}
	var follower *exec.Cmd
	var said, wrong *strings.Builder
	followOn := func() {
		follower, said, wrong = start(ecrec(t), nil, followArgs...)
		if err := follower.Start(); err != nil {
			t.Fatal(err)
		}
	}
	stopFollower := func() {
		if follower == nil {
			return
		}
		_ = follower.Process.Kill() // it may have ended
		_ = follower.Wait()
		if text := wrong.String(); text != "" && !strings.Contains(text, "does not exist") && !strings.Contains(text, "does not answer") {
			t.Fatalf("%s: the follower: %s\n%s", name, text, said)
		}
		follower = nil
	}
	defer stopFollower()
	for ended := false; !ended; {
		cmd, stdout, stderr := start(ecrec(t), []string{mark}, append(train(golden(kind), out, sets...), "--np", strconv.Itoa(np),
			"--resume", "auto")...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		over := make(chan error, 1)
		go func() { over <- cmd.Wait() }()
		for killed := false; !killed && !ended; {
			life := time.Hour
			if kills["trainer"]+kills["follower"]+kills["broker"] < rounds {
				life = time.Duration(50+r.IntN(700)) * time.Millisecond
			}
			select {
			case err := <-over:
				code := exitCode(t, err)
				if code == 2 && kills["broker"] > 0 && strings.Contains(stderr.String(), "stream.to: kafka://") { // it was down when the job began
					killed = true
					continue
				}
				if code != 0 {
					t.Fatalf("%s: exit code %d after %v: %s\n%s", name, code, kills, stderr, stdout)
				}
				ended = true
				continue
			case <-time.After(life):
			}
			switch kind := drawKind(r, kills, rounds/3, killBroker != nil); kind {
			case "follower":
				stopFollower()
				followOn()
				kills[kind]++
			case "broker":
				killBroker()
				kills[kind]++
			default:
				x := runningJob{mark: mark}
				for all := x.processes(); len(all) > 0; all = x.processes() {
					for _, p := range all {
						_ = syscall.Kill(p.pid, syscall.SIGKILL) // it may have ended
					}
					time.Sleep(5 * time.Millisecond)
				}
				<-over
				kills["trainer"]++
				killed = true
			}
		}
	}
	stopFollower()
	t.Logf("killed %v", kills)
	if most := rounds / 3; *soak && (kills["trainer"] < most || kills["follower"] < most || killBroker != nil && kills["broker"] < most) {
		t.Errorf("%s: killed %v: want %d of each; the job ended too early", name, kills, most)
	}
	last := fmt.Sprintf("step-%012s", steps)
	for _, dir := range []string{made, filepath.Join(t.TempDir(), "fresh")} {
		if got := run(t, ecrec(t), nil, "follow", to, "--to", dir, "--at", steps); got.code != 0 {
			t.Fatalf("%s: %s\n%s", name, got.stderr, got.stdout)
		}
		if diff, err := exec.Command("diff", "-r", filepath.Join(dir, last), filepath.Join(out, "checkpoints",
			last)).CombinedOutput(); err != nil {
			t.Errorf("%s: the checkpoints differ: %s", name, diff)
		}
	}
}

// topicOfRun is the folder of the topic of a job that streams.
func topicOfRun(out string) string { return out + "-topic" }

// compareFollowed checks that a follower of the job's topic gets the job's last model.
func (j *killedJob) compareFollowed(t *testing.T, out, digest string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "followed")
	if r := run(t, ecrec(t), nil, "follow", "file:"+topicOfRun(out), "--to", dir, "--at", fmt.Sprint(j.steps)); r.code != 0 {
		t.Fatalf("%s: a follower of its topic: exit code %d: %s\n%s", j, r.code, r.stderr, r.stdout)
	}
	if r := run(t, ecrec(t), nil, "inspect", filepath.Join(dir, stepFolder(j.steps))); r.code != 0 || !strings.Contains(r.stdout, digest) {
		t.Errorf("%s: the followed model has another digest than %s: %s%s", j, digest, r.stdout, r.stderr)
	}
}

// A job that is resumed at its last step, and sends its model only then, sends its digest too: the follower's checkpoint is that of
// the run.
func TestFollowedFromItsEnd(t *testing.T) {
	out, topic, made := filepath.Join(t.TempDir(), "out"), "file:"+filepath.Join(t.TempDir(), "topic"), filepath.Join(t.TempDir(), "made")
	sets := []string{"job.ranks=3", "train.iterations=40", "job.digests=true", "checkpoint.every=40"}
	for _, more := range [][]string{nil, {"stream.to=" + topic}} {
		args := append(train(golden("dlrm-rowwise-adagrad"), out, append(sets, more...)...), "--resume", "auto", "--overwrite")
		if r := run(t, ecrec(t), nil, args...); r.code != 0 {
			t.Fatalf("%v: %s\n%s", more, r.stderr, r.stdout)
		}
	}
	if r := run(t, ecrec(t), nil, "follow", topic, "--to", made, "--at", "40"); r.code != 0 {
		t.Fatalf("%s\n%s", r.stderr, r.stdout)
	}
	last := filepath.Join(out, "checkpoints", stepFolder(40))
	if diff, err := exec.Command("diff", "-r", filepath.Join(made, stepFolder(40)), last).CombinedOutput(); err != nil {
		t.Errorf("the checkpoints differ: %s", diff)
	}
}
