package main

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const topicRun = `
[data]
format = "csv"
train = ["train.csv"]
shuffle = "none"
[data.csv]
label = "y"
dense = ["a", "b"]
categorical = ["c", "d"]
[model]
embedding_dim = 8
tables = [3000, 70]
bottom_mlp = [16, 8]
top_mlp = [16, 1]
[train]
global_batch = 60
iterations = %d
[optimizer.dense]
kind = "adagrad"
lr = 0.02
`

// writeTopicRun writes a config of some steps, and rows for them: those of the first step in first.csv, and the others in rest.csv.
func writeTopicRun(t *testing.T, r *rand.Rand, steps int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	head, rows := "y,a,b,c,d\n", strings.Builder{}
	split := 0
	for i := range 60 * steps {
		fmt.Fprintf(&rows, "%d,%d,%d.25,user%d,%d\n", r.IntN(2), r.IntN(50), r.IntN(9), r.IntN(4000), r.IntN(80))
		if i == 59 {
			split = rows.Len()
		}
	}
	all := rows.String()
	for name, text := range map[string]string{"run.toml": fmt.Sprintf(topicRun, steps), "train.csv": head + all,
		"first.csv": head + all[:split],
		"rest.csv":  head + all[split:]} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// must runs ecrec to a success.
func must(t *testing.T, args ...string) ended {
	t.Helper()
	got := run(t, ecrec(t), nil, args...)
	if got.code != 0 {
		t.Fatalf("%v: exit code %d: %s\n%s", args, got.code, got.stderr, got.stdout)
	}
	return got
}

// TestTrainedFromTopic: all processes of a run are killed at random moments while samples arrive. Its result is that of a run on a file.
func TestTrainedFromTopic(t *testing.T) { testTrainedFromTopic(t, folderTopic) }

// TestTrainedFromTopicKafka is the same with a real broker, which is killed too.
func TestTrainedFromTopicKafka(t *testing.T) {
	if !*kafka {
		t.Skip("make test-kafka runs it")
	}
	testTrainedFromTopic(t, kafkaTopic(1))
}

func testTrainedFromTopic(t *testing.T, topic topicOf) {
	r := drawing(t)
	rounds := 3
	if *soak {
		rounds = 40
	}
	steps := 250 * rounds
	dir := writeTopicRun(t, r, steps)
	config, out := filepath.Join(dir, "run.toml"), filepath.Join(dir, "out")
	to, killBroker := topic(t)
	sets := []string{"job.ranks=3", "train.eval_every=0"}
	must(t, train(config, filepath.Join(dir, "file"), sets...)...)
	want := readSummary(t, filepath.Join(dir, "file"))
	must(t, "data", "produce", filepath.Join(dir, "first.csv"), "--to", to, "--partitions", "4")
	producer, produced, lost := start(ecrec(t), nil, "data", "produce", filepath.Join(dir, "rest.csv"), "--to", to, "--rate", "15000")
	if err := producer.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = producer.Process.Kill() }()
	sets = append(sets, "data.format=kafka", `data.train=["`+to+`"]`, "data.kafka.at_end=wait", "checkpoint.dir="+filepath.Join(dir, "checkpoints"),
		"checkpoint.every="+strconv.Itoa(20+r.IntN(60)))
	if r.IntN(2) == 0 {
		sets = append(sets, "ec.code=xor", "ec.k=2", fmt.Sprint("ec.commit_every=", 1+r.IntN(8)))
	}
	mark, np := "ECREC_TEST_MARK="+out, 1+r.IntN(3)
	t.Log(to, np, sets)
	killed := map[string]int{}
	for ended := false; !ended; {
		cmd, stdout, stderr := start(ecrec(t), []string{mark}, append(train(config, out, sets...), "--np", strconv.Itoa(np), "--resume",
			"auto")...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		over := make(chan error, 1)
		go func() { over <- cmd.Wait() }()
		for gone := false; !gone; {
			life := 3 * time.Minute
			if killed["trainer"]+killed["broker"]+killed["process"] < rounds {
				life = time.Duration(100+r.IntN(900)) * time.Millisecond
			}
			select {
			case err := <-over:
				gone = true
				if code := exitCode(t, err); code == 2 && killed["broker"] > 0 && strings.Contains(stderr.String(), "data.train: kafka://") {
					continue // it was down when the job began
				} else if code != 0 {
					t.Fatalf("exit code %d after %v: %s\n%s", code, killed, stderr, stdout)
				}
				ended = true
				continue
			case <-time.After(life):
			}
			x := runningJob{mark: mark}
			switch what := r.IntN(3); {
			case killed["trainer"]+killed["broker"]+killed["process"] >= rounds:
				t.Fatalf("the run does not end: %s\n%s\nproducer: %s\n%s", stderr, stdout, produced, lost)
			case what == 0 && killBroker != nil:
				killBroker()
				killed["broker"]++
			case what == 1 && np == 3 && slices.Contains(sets, "ec.code=xor"): // a process has one rank, which the code rebuilds
				if all := x.processes(); len(all) > 2 {
					_ = syscall.Kill(all[len(all)-1].pid, syscall.SIGKILL) // it may have ended
					killed["process"]++
				}
			default:
				for all := x.processes(); len(all) > 0; all = x.processes() {
					for _, p := range all {
						_ = syscall.Kill(p.pid, syscall.SIGKILL) // it may have ended
					}
					time.Sleep(5 * time.Millisecond)
				}
				<-over
				killed["trainer"]++
				gone = true
			}
		}
	}
	if code := exitCode(t, producer.Wait()); code != 0 {
		t.Fatalf("the producer: %s\n%s", lost, produced)
	}
	t.Logf("killed %v", killed)
	got := readSummary(t, out)
	want.Eval, got.Eval = nil, nil
	equal(t, fmt.Sprint(to, np, sets), got, want)
}

// TestOnlineLatency measures the time from a sample that is written to a topic to a follower that has the rows it changed: a
// producer, a trainer and a follower on this machine, through folders, or a broker.
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
	const steps, rate, every = 300, 6000, 2 // 100 steps a second
	dir := writeTopicRun(t, drawing(t), steps)
	samples, _ := topic(t)
	rows := samples + "-rows"
	must(t, "data", "produce", filepath.Join(dir, "first.csv"), "--to", samples)
	trainer, _, wrong := start(ecrec(t), nil, train(filepath.Join(dir, "run.toml"), filepath.Join(dir, "out"), "job.ranks=2",
		"data.format=kafka",
		`data.train=["`+samples+`"]`, "data.kafka.at_end=wait", "stream.to="+rows, fmt.Sprint("ec.commit_every=", every))...)
	if err := trainer.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = trainer.Process.Kill() }()
	time.Sleep(time.Second) // until it has made the topic of rows
	follower, _, _ := start(ecrec(t), nil, "follow", rows, "--to", filepath.Join(dir, "made"), "--every", "1h")
	follower.Stdout = nil
	said, err := follower.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := follower.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = follower.Process.Kill()
		_ = follower.Wait()
	}()
	arrived := make(chan struct {
		step int
		at   time.Time
	}, steps)
	go func() {
		defer close(arrived)
		for lines := bufio.NewScanner(said); lines.Scan(); {
			at := time.Now()
			var clock, step string
			if _, err := fmt.Sscanf(lines.Text(), "%s step %s", &clock, &step); err == nil && strings.Contains(lines.Text(), "digest equal") {
				n, _ := strconv.Atoi(strings.TrimSuffix(step, ":"))
				arrived <- struct {
					step int
					at   time.Time
				}{n, at}
				if n == steps {
					return
				}
			}
		}
	}()
	producer, _, _ := start(ecrec(t), nil, "data", "produce", filepath.Join(dir, "rest.csv"), "--to", samples, "--rate", strconv.Itoa(rate))
	began := time.Now()
	if err := producer.Start(); err != nil {
		t.Fatal(err)
	}
	if code := exitCode(t, producer.Wait()); code != 0 {
		t.Fatalf("the producer: exit code %d", code)
	}
	took := time.Since(began)
	if code := exitCode(t, trainer.Wait()); code != 0 {
		t.Fatalf("the trainer: %s", wrong)
	}
	// The producer keeps its rate, so the last row of step k was written when about (k-1)/(steps-1) of its time had passed.
	var ms []float64
	for x := range arrived {
		if x.step > steps/10 && x.step < steps*9/10 {
			written := began.Add(took * time.Duration(x.step-1) / (steps - 1))
			ms = append(ms, float64(x.at.Sub(written))/1e6)
		}
	}
	slices.Sort(ms)
	if len(ms) < steps/every/4 {
		t.Fatalf("the follower had %d commits", len(ms))
	}
	t.Logf("%s: from the last sample of a commit to the follower's model with it: median %.0f ms, 90 %% under %.0f ms, of %d commits at %d samples a second, batch 60, a commit each %d steps",
		samples, ms[len(ms)/2], ms[len(ms)*9/10], len(ms), rate, every)
	if ms[len(ms)/2] > 5000 {
		t.Errorf("the median is %.0f ms", ms[len(ms)/2])
	}
}
