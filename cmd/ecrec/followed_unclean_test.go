package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// TestFollowedUncleanReplicas: a broker leads the topic that lacks records which were acknowledged and read. A follower that has read them
// ends with one line, or gets the right model. The run sends all of its rows, so that a new follower gets it too.
//
// A cluster of three brokers elects a leader as long as two of them live. So the topic has copies on two, and the third one lives on.
func TestFollowedUncleanReplicas(t *testing.T) {
	if !*kafka {
		t.Skip("make test-kafka runs it")
	}
	const topic, last = "unclean", 400
	b, dir := startBroker(t, "--brokers", "3"), t.TempDir()
	b.makeTopic(t, topic, 1, 2, map[string]string{"retention.ms": "-1", "min.insync.replicas": "1", "unclean.leader.election.enable": "true"})
	p := b.awaitPartition(t, topic, "two copies", func(p kadm.PartitionDetail) bool { return p.Leader > 0 && len(p.ISR) == 2 })
	leader, other := p.Leader, p.Replicas[0]
	if other == leader {
		other = p.Replicas[1]
	}
	to := "kafka://" + strings.Split(b.at, ",")[6-leader-other-1] + "/" + topic // brokers 1, 2 and 3: this is neither
	out, made, fresh := filepath.Join(dir, "run"), filepath.Join(dir, "made"), filepath.Join(dir, "fresh")
	trainTo := func(steps int) {
		t.Helper()
		expect(t, 0, nil, append(train(golden("dlrm-adagrad"), out, kafkaSets(to, "job.ranks=1", fmt.Sprint("train.iterations=", steps))...),
			"--resume", "auto")...)
	}
	trainTo(100)
	b.do(t, "kill", b.dir, fmt.Sprint(other))
	b.awaitPartition(t, topic, "one copy", func(p kadm.PartitionDetail) bool { return len(p.ISR) == 1 && p.ISR[0] == leader })
	trainTo(200)
	expect(t, 0, nil, "follow", to, "--to", made, "--at", "200")
	live := followLive(t, to, filepath.Join(dir, "live"), 200)

	b.do(t, "kill", b.dir, fmt.Sprint(leader))
	b.do(t, "restart", b.dir, fmt.Sprint(other))
	b.awaitPartition(t, topic, "an unclean election", func(p kadm.PartitionDetail) bool { return p.Leader == other })
	expectGap(t, expect(t, 1, nil, "follow", to, "--to", made, "--at", fmt.Sprint(last))) // the topic ends before its place
	trainTo(last)
	want := filepath.Join(out, "checkpoints", stepFolder(last))
	expect(t, 0, nil, "follow", to, "--to", fresh, "--at", fmt.Sprint(last))
	expectSame(t, filepath.Join(fresh, stepFolder(last)), want)
	for dir, got := range map[string]ended{made: run(t, ecrec(t), nil, "follow", to, "--to", made, "--at", fmt.Sprint(last)),
		filepath.Join(dir, "live"): live.stop(t)} {
		t.Logf("%s: exit code %d: %s", filepath.Base(dir), got.code, got.stderr)
		if got.code == 0 {
			expectSame(t, filepath.Join(dir, stepFolder(last)), want)
		} else {
			expectGap(t, got)
		}
	}
	published := map[int64]string{}
	notePublished(t, published, live.said.String())
	comparePublished(t, "live", published, out, last)
}

// awaitPartition waits until the first partition of a topic is as it should be.
func (b broker) awaitPartition(t *testing.T, topic, what string, is func(kadm.PartitionDetail) bool) (p kadm.PartitionDetail) {
	t.Helper()
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(200 * time.Millisecond) {
		b.admin(t, func(ctx context.Context, c *kadm.Client) error {
			if all, err := c.ListTopics(ctx, topic); err == nil { // else a broker is down
				p = all[topic].Partitions[0]
			}
			return nil
		})
		if is(p) {
			return p
		}
	}
	t.Fatalf("a minute without %s: %+v", what, p)
	return p
}

// expectGap checks that a follower ended with one line, of records that are lost.
func expectGap(t *testing.T, got ended) {
	t.Helper()
	isNamed := false
	for _, what := range []string{"records before offset ", "frames were lost or trimmed", "is not there any more"} {
		isNamed = isNamed || strings.Contains(got.stderr, what)
	}
	if got.code != 1 || strings.Count(got.stderr, "\n") != 1 || !isNamed {
		t.Errorf("exit code %d, not one line of lost records: %s\n%s", got.code, got.stderr, got.stdout)
	}
}

// liveFollower is a follower that runs.
type liveFollower struct {
	said  *timedOutput
	wrong *strings.Builder
	end   func(syscall.Signal)
	over  chan error
}

// followLive starts a follower, and waits until it has saved a step.
func followLive(t *testing.T, to, dir string, step int) *liveFollower {
	t.Helper()
	cmd, _, wrong := start(ecrec(t), nil, "follow", to, "--to", dir, "--every", "10ms", "--full")
	x := &liveFollower{said: &timedOutput{}, wrong: wrong, over: make(chan error, 1)}
	cmd.Stdout = x.said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	x.end = func(number syscall.Signal) { _ = cmd.Process.Signal(number) } // it may have ended
	t.Cleanup(func() { x.end(syscall.SIGKILL) })
	go func() { x.over <- cmd.Wait() }()
	until(t, fmt.Sprintf("step %d of %s", step, dir), func() bool { return strings.Contains(x.said.String(), stepFolder(step)+",") })
	return x
}

// stop waits for the follower to end by itself, and then ends it.
func (x *liveFollower) stop(t *testing.T) ended {
	t.Helper()
	var err error
	select {
	case err = <-x.over:
	case <-time.After(30 * time.Second):
		x.end(syscall.SIGTERM)
		err = <-x.over
	}
	return ended{exitCode(t, err), x.said.String(), x.wrong.String()}
}
