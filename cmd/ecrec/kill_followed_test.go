package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// topicOfRun is the folder of the topic of a job that streams.
func topicOfRun(out string) string { return out + "-topic" }

// topicOf is the topic of a job, by the folder of its run.
func (j *killedJob) topicOf(out string) string {
	if j.topic != "" {
		return j.topic
	}
	return "file:" + topicOfRun(out)
}

// compareFollowed checks that a follower of the job's topic gets the job's last model.
func (j *killedJob) compareFollowed(t *testing.T, out, digest string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "followed")
	if r := run(t, ecrec(t), nil, "follow", j.topicOf(out), "--to", dir, "--at", fmt.Sprint(j.steps)); r.code != 0 {
		t.Fatalf("%s: a follower of its topic: exit code %d: %s\n%s", j, r.code, r.stderr, r.stdout)
	}
	if r := run(t, ecrec(t), nil, "inspect", filepath.Join(dir, stepFolder(j.steps))); r.code != 0 || !strings.Contains(r.stdout, digest) {
		t.Errorf("%s: the followed model has another digest than %s: %s%s", j, digest, r.stdout, r.stderr)
	}
}

// checkFollowed is check beside a follower of the job's topic, which is killed once. Its checkpoints have the digests of the job's commits.
func (j *killedJob) checkFollowed(t *testing.T) {
	t.Helper()
	j.streams = true
	x := j.begin(t)
	dir := filepath.Join(t.TempDir(), "live")
	f := &followedRun{name: j.String(), followArgs: []string{"follow", j.topicOf(x.out), "--to", dir, "--every", "50ms"}, published: map[int64]string{}}
	until(t, "a commit", func() bool { return len(x.over) > 0 || countEvents(t, x.out, "commit") > 0 })
	f.followOn(t)
	defer f.stopFollower(t)
	for began := time.Now(); len(x.over) == 0 && time.Since(began) < 700*time.Millisecond; {
		time.Sleep(10 * time.Millisecond)
	}
	f.stopFollower(t)
	f.followOn(t)
	j.checkEnd(t, x)
	f.stopFollower(t)
	end := run(t, ecrec(t), nil, "follow", j.topicOf(x.out), "--to", dir, "--at", fmt.Sprint(j.steps))
	if end.code != 0 {
		t.Fatalf("%s: its follower: exit code %d: %s\n%s", j, end.code, end.stderr, end.stdout)
	}
	notePublished(t, f.published, end.stdout)
	comparePublished(t, j.String(), f.published, x.out, int64(j.steps)+1)
}
