package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/stream"
	kafkatopic "github.com/ecrec/ecrec/stream/kafka"
)

// The runs of TestOnlineLatency have 100 steps a second.
const (
	onlineSteps = 300
	onlineBatch = 60   // samples of a step
	onlineRate  = 6000 // samples a second
	onlineEvery = 2    // steps of a commit
)

// rowPoll is the pause between two requests for a row.
const rowPoll = 2 * time.Millisecond

// TestOnlineLatency measures the time from a sample that is written to a topic to the reply with a row, over HTTP, of a model that the
// sample has changed: a producer, a trainer and a follower that serves, on this machine, through folders, or a broker.
func TestOnlineLatency(t *testing.T) { testOnlineLatency(t, folderTopic) }

// TestOnlineLatencyKafka is the same through a real broker.
func TestOnlineLatencyKafka(t *testing.T) {
	if !*kafka {
		t.Skip("make test-kafka runs it")
	}
	testOnlineLatency(t, kafkaTopic(1))
}

func testOnlineLatency(t *testing.T, topic topicOf) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	dir := writeTopicRun(t, drawing(t), onlineSteps)
	samples, _ := topic(t)
	rows, at := samples+"-rows", fmt.Sprint("127.0.0.1:", freePorts(1))
	must(t, "data", "produce", filepath.Join(dir, "first.csv"), "--to", samples)
	trainer, _, wrong := start(ecrec(t), nil, train(filepath.Join(dir, "run.toml"), filepath.Join(dir, "out"), "job.ranks=2",
		"data.format=kafka", `data.train=["`+samples+`"]`, "data.kafka.at_end=wait", "stream.to="+rows,
		fmt.Sprint("ec.commit_every=", onlineEvery))...)
	if err := trainer.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = trainer.Process.Kill() }() // it may have ended
	made := openNamed(t, rows)
	until(t, "the topic of rows", func() bool {
		n, err := made.Partitions()
		return err == nil && n > 0
	})
	follower, _, lost := start(ecrec(t), nil, "follow", rows, "--to", filepath.Join(dir, "made"), "--every", "1h", "--serve", at)
	follower.Stdout = nil
	said, err := follower.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := follower.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = follower.Process.Kill() // it may have ended
		_ = follower.Wait()
	}()
	until(t, "the server", func() bool { return request(t, "http://"+at+"/healthz", "") == "ok" })
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var text strings.Builder // of the follower
	followed, served := make(chan []arrival, 1), make(chan []arrival, 1)
	go func() { followed <- readDigests(said, &text) }()
	go func() { served <- pollRows(ctx, at, onlineSteps) }()
	must(t, "data", "produce", filepath.Join(dir, "rest.csv"), "--to", samples, "--rate", strconv.Itoa(onlineRate))
	if code := exitCode(t, trainer.Wait()); code != 0 {
		t.Fatalf("the trainer: %s", wrong)
	}
	replies := <-served
	_ = follower.Process.Signal(syscall.SIGTERM) // Wait reports its end
	models := <-followed
	if code := exitCode(t, follower.Wait()); code != 0 {
		t.Fatalf("the follower: exit code %d: %s\n%s", code, lost, &text)
	}
	reportLatency(t, samples, replies, models, &text)
}

// reportLatency prints and checks the times from the samples of a topic to replies, and to the models of the follower.
func reportLatency(t *testing.T, samples string, replies, models []arrival, text *strings.Builder) {
	t.Helper()
	if n := len(replies); n < onlineSteps/onlineEvery/4 || replies[n-1].step < onlineSteps {
		t.Fatalf("%d steps were served, %v; the follower:\n%s", n, replies, text)
	}
	written := readTimes(t, samples)
	if n := len(written); n != onlineSteps*onlineBatch {
		t.Fatalf("%s has %d samples, not %d", samples, n, onlineSteps*onlineBatch)
	}
	toReply, toModel := timesToReplies(written, replies), timesToModels(written, models)
	if n := len(toModel); n < onlineSteps/onlineEvery/4 {
		t.Fatalf("the follower had %d commits:\n%s", n, text)
	}
	t.Logf("%s: %d samples a second, batch %d, a commit each %d steps, without the first and the last tenth of the steps", samples,
		onlineRate, onlineBatch, onlineEvery)
	t.Logf("from a sample to the first reply of GET /v1/rows with its step or a later one, requested each %v: p50 %.0f ms, p99 %.0f ms, of "+
		"%d samples and %d markers", rowPoll, quantile(toReply, 50), quantile(toReply, 99), len(toReply), len(replies))
	t.Logf("from the last sample of a commit to the follower's model with it: p50 %.0f ms, p90 %.0f ms, p99 %.0f ms, of %d commits",
		quantile(toModel, 50), quantile(toModel, 90), quantile(toModel, 99), len(toModel))
	if p50 := quantile(toReply, 50); p50 > 5000 {
		t.Errorf("the median is %.0f ms", p50)
	}
}

// arrival is the moment when a step was seen first.
type arrival struct {
	step int
	at   time.Time
}

// readDigests returns the steps whose digest a follower prints, until its output ends. It appends the output to text.
func readDigests(said io.Reader, text *strings.Builder) (list []arrival) {
	for lines := bufio.NewScanner(said); lines.Scan(); {
		at := time.Now()
		fmt.Fprintln(text, lines.Text())
		var clock, step string
		if _, err := fmt.Sscanf(lines.Text(), "%s step %s", &clock, &step); err == nil && strings.Contains(lines.Text(), "digest equal") {
			n, _ := strconv.Atoi(strings.TrimSuffix(step, ":"))
			list = append(list, arrival{n, at})
		}
	}
	return list
}

// pollRows requests a row of a server until the marker of the reply is of the last step. It returns the first reply of each marker.
func pollRows(ctx context.Context, at string, last int) (list []arrival) {
	client := &http.Client{Timeout: 10 * time.Second}
	for step := 0; step < last && ctx.Err() == nil; time.Sleep(rowPoll) {
		if n := servedStep(client, at); n > step {
			step = n
			list = append(list, arrival{n, time.Now()})
		}
	}
	return list
}

// servedStep returns the step of a reply with a row, 0 if there is none.
func servedStep(client *http.Client, at string) int {
	reply, err := client.Get("http://" + at + "/v1/rows?table=0&id=1")
	if err != nil {
		return 0
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		return 0
	}
	var model struct {
		Step int
		Rows []struct{ Weights []float32 }
	}
	if err := json.Unmarshal(text, &model); err != nil || len(model.Rows) != 1 || len(model.Rows[0].Weights) == 0 {
		return 0
	}
	return model.Step
}

// openNamed opens a topic until the end of the test.
func openNamed(t *testing.T, name string) stream.Topic {
	t.Helper()
	topic := stream.OpenFolder(env.Real(), strings.TrimPrefix(name, "file:"))
	if strings.HasPrefix(name, kafkatopic.Scheme) {
		var err error
		if topic, err = kafkatopic.Open(env.Real(), name); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(topic.Close)
	return topic
}

// readTimes returns when each sample of a topic of one partition was written.
func readTimes(t *testing.T, name string) (times []time.Time) {
	t.Helper()
	p, err := openNamed(t, name).Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	_, end, err := p.Bounds()
	if err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); int64(len(times)) < end && time.Since(began) < time.Minute; {
		list, err := p.Read(int64(len(times)), 1<<20, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range list {
			times = append(times, time.UnixMilli(x.Time))
		}
	}
	return times
}

// timesToReplies returns, in ascending order, the ms from the writing of each sample to the first reply of its step or of a later one.
func timesToReplies(written []time.Time, replies []arrival) (ms []float64) {
	next := 0
	for i, at := range written {
		step := i/onlineBatch + 1
		for next < len(replies) && replies[next].step < step {
			next++
		}
		if isMiddle(step) && next < len(replies) {
			ms = append(ms, float64(replies[next].at.Sub(at))/1e6)
		}
	}
	slices.Sort(ms)
	return ms
}

// timesToModels returns, in ascending order, the ms from the writing of the last sample of each step to its model.
func timesToModels(written []time.Time, models []arrival) (ms []float64) {
	for _, x := range models {
		if isMiddle(x.step) {
			ms = append(ms, float64(x.at.Sub(written[x.step*onlineBatch-1]))/1e6)
		}
	}
	slices.Sort(ms)
	return ms
}

// isMiddle reports whether a step is neither in the first nor in the last tenth of the steps.
func isMiddle(step int) bool { return step > onlineSteps/10 && step <= onlineSteps*9/10 }

// quantile returns the value that some percent of sorted values do not exceed.
func quantile(sorted []float64, percent int) float64 { return sorted[(len(sorted)-1)*percent/100] }
