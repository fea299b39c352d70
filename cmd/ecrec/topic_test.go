package main

import (
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
