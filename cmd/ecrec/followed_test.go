package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
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
// equals, file for file, that of the run. Earlier checkpoints have the digests that the run noted. The topic has the steps that the
// trainer reported as acknowledged, and leads to the end of the run without a gap.
func TestFollowed(t *testing.T) { testFollowed(t, folderTopic, false) }

// TestFollowedKafka is the same with a real broker, which is killed too.
func TestFollowedKafka(t *testing.T) {
	if !*kafka {
		t.Skip("make test-kafka runs it")
	}
	testFollowed(t, kafkaTopic(1), false)
}

// TestFollowedReplicas is the same with three brokers, each of which has a copy of the topic.
func TestFollowedReplicas(t *testing.T) {
	if !*kafka {
		t.Skip("make test-kafka runs it")
	}
	testFollowed(t, kafkaTopic(3), false)
}

// TestFollowedCoded: the run has a code and three processes, and single workers are killed too. Their ranks are rebuilt.
func TestFollowedCoded(t *testing.T) { testFollowed(t, folderTopic, true) }

// TestFollowedCodedKafka is the same with a real broker, which is killed too.
func TestFollowedCodedKafka(t *testing.T) {
	if !*kafka {
		t.Skip("make test-kafka runs it")
	}
	testFollowed(t, kafkaTopic(1), true)
}

func testFollowed(t *testing.T, topic topicOf, coded bool) {
	x := drawFollowed(t, topic, coded)
	t.Log(x.name)
	defer x.stopFollower(t)
	for ended := false; !ended; {
		ended = x.trainOn(t)
	}
	x.stopFollower(t)
	t.Logf("killed %v", x.kills)
	if *soak && len(x.lacking()) > 0 {
		t.Errorf("%s: killed %v: want %d of each; the job ended too early", x.name, x.kills, x.share)
	}
	x.compareEnd(t)
	comparePublished(t, x.name, x.published, x.out, int64(x.steps))
	x.checkTopic(t)
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
