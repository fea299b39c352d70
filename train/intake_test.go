package train

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/probe"
	"github.com/ecrec/ecrec/stream"
)

// topicConfig trains on rows of topicRows.
const topicConfig = `
[job]
seed = 7
[data]
format = "csv"
train = ["train.csv"]
shuffle = "none"
[data.csv]
label = "y"
dense = ["a", "b"]
categorical = ["c", "d"]
[model]
embedding_dim = 4
tables = [50, 7]
bottom_mlp = [8, 4]
top_mlp = [8, 1]
[train]
global_batch = 32
epochs = 1
[optimizer.dense]
kind = "adagrad"
lr = 0.02
`

// topicRows draws rows, without a header.
func topicRows(r *rand.Rand, n int) (rows []string) {
	for range n {
		rows = append(rows, fmt.Sprintf("%d,%d,%d.5,c%d,\"d,%d\"", r.IntN(2), r.IntN(9), r.IntN(5), r.IntN(90), r.IntN(9)))
	}
	return rows
}

// inTurn is the order in which the samples of partitions are trained: one of each in turn, as long as it has any.
func inTurn(parts [][]string) (order []string) {
	for i := 0; ; i++ {
		none := true
		for _, p := range parts {
			if i < len(p) {
				order, none = append(order, p[i]), false
			}
		}
		if none {
			return order
		}
	}
}

// dealt deals rows to partitions at random, so that some are much longer than others.
func dealt(r *rand.Rand, rows []string, n int) [][]string {
	parts := make([][]string, n)
	for _, row := range rows {
		i := min(r.IntN(n), r.IntN(n))
		parts[i] = append(parts[i], row)
	}
	return parts
}

// samplesTopic is a topic in memory, of which Options.Samples opens views.
type samplesTopic struct{ *stream.Memory }

func newSamples(t *testing.T, parts [][]string) *samplesTopic {
	t.Helper()
	x := &samplesTopic{stream.NewMemory(env.Real())}
	if err := x.Create(len(parts)); err != nil {
		t.Fatal(err)
	}
	for i, rows := range parts {
		x.add(t, i, rows...)
	}
	return x
}

func (x *samplesTopic) add(t *testing.T, partition int, rows ...string) {
	t.Helper()
	p, err := x.Open(partition)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if err := p.Append([][]byte{[]byte(row)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Sync(); err != nil {
		t.Fatal(err)
	}
}

// remove leaves holes where drop returns true.
func (x *samplesTopic) remove(partition int, drop func(stream.Record) bool) {
	x.Change(partition, func(list []stream.Record) []stream.Record { return slices.DeleteFunc(list, drop) })
}

func (x *samplesTopic) open(env.Env, string) (stream.Topic, error) { return x, nil }

// topicCase writes the config and the rows as a file. It returns the config's path, and the settings that read the topic instead.
func topicCase(t *testing.T, rows []string) (path string, sets []string) {
	t.Helper()
	dir := t.TempDir()
	path = filepath.Join(dir, "run.toml")
	for name, text := range map[string]string{"run.toml": topicConfig, "train.csv": "y,a,b,c,d\n" + strings.Join(rows, "\n") + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return path, []string{"data.format=kafka", `data.train=["file:topic"]`}
}

// sameRun fails if two results differ.
func sameResult(t *testing.T, what string, got, want *Result) {
	t.Helper()
	if got.Digest != want.Digest || got.Steps != want.Steps || !slices.Equal(got.TrainLoss, want.TrainLoss) {
		t.Errorf("%s: digest %s, %d steps, losses %v; want %s, %d steps, %v", what, got.Digest, got.Steps, got.TrainLoss, want.Digest,
			want.Steps, want.TrainLoss)
	}
}

// TestTopicEqualsFile: a topic is trained as a file of the same rows in the order of the topic, for any ranks, roles, cache modes
// and processes, with uneven partitions, holes and messages without a row.
func TestTopicEqualsFile(t *testing.T) {
	r := seeded(t)
	for _, ranks := range []int{1, 2, 4} {
		parts := dealt(r, topicRows(r, 400+r.IntN(100)), 1+r.IntN(5))
		path, sets := topicCase(t, inTurn(parts))
		topic := newSamples(t, parts)
		for i := range parts {
			for range 5 {
				topic.add(t, i, "", "0,1,2,removed,x")
			}
		}
		for i := range parts {
			topic.remove(i, func(r stream.Record) bool { return strings.Contains(string(r.Bytes), "removed") })
			topic.add(t, i, "") // the last message of a topic is not removed
		}
		job := []string{fmt.Sprint("job.ranks=", ranks)}
		want := run(t, Options{}, path, job...)
		for _, mode := range []string{"cache.mode=none", "cache.mode=planned", "cache.mode=lrpp"} {
			got := run(t, Options{Samples: topic.open}, path, slices.Concat(job, sets, []string{mode, fmt.Sprint("oracle.lookahead=",
				1+r.IntN(9))})...)
			sameResult(t, fmt.Sprint(job, mode), got, want)
			if !got.InputEnded {
				t.Error("the end of the topic is not reported")
			}
		}
		for _, roles := range [][]string{{"ranks.readers=1", fmt.Sprint("job.ranks=", ranks+1)},
			{"ranks.readers=1", "ranks.servers=2", fmt.Sprint("ranks.trainers=", ranks), fmt.Sprint("job.ranks=", ranks+3)}} {
			got := run(t, Options{Samples: topic.open}, path, slices.Concat(sets, roles)...)
			sameResult(t, fmt.Sprint(roles), got, want)
		}
		if ranks > 1 {
			for i, got := range spread(t, 2, ranks, Options{Samples: topic.open}, path, slices.Concat(job, sets)...) {
				if i == 0 {
					sameResult(t, "two processes", got, want)
				}
			}
		}
	}
}

// TestTopicHoles: offsets between rows are missing, as after compaction.
func TestTopicHoles(t *testing.T) {
	r := seeded(t)
	all := dealt(r, topicRows(r, 500), 3)
	kept := make([][]string, len(all))
	topic := newSamples(t, all)
	for i := range all {
		drop := map[int64]bool{}
		for k, row := range all[i] {
			if drop[int64(k)] = r.IntN(3) == 0 && k < len(all[i])-1; !drop[int64(k)] {
				kept[i] = append(kept[i], row)
			}
		}
		topic.remove(i, func(x stream.Record) bool { return drop[x.Offset] })
	}
	path, sets := topicCase(t, inTurn(kept))
	want := run(t, Options{}, path, "job.ranks=3")
	sameResult(t, "holes", run(t, Options{Samples: topic.open}, path, append(sets, "job.ranks=3")...), want)
}

// TestTopicStopAndResume: a run is stopped, and continues at its place. With at_end "stop" it ends where the topic ended when it began.
func TestTopicStopAndResume(t *testing.T) {
	r := seeded(t)
	parts := dealt(r, topicRows(r, 450), 3)
	path, sets := topicCase(t, inTurn(parts))
	want := run(t, Options{}, path, "job.ranks=2")
	topic := newSamples(t, parts)
	dir := t.TempDir()
	sets = append(sets, "job.ranks=2", "checkpoint.dir="+dir)
	last := int64(1 + r.IntN(9))
	var asked atomic.Int64
	stopped := run(t, Options{Samples: topic.open, Stop: func() bool { return asked.Add(1) > 2*(last-1) }}, path, sets...)
	if !stopped.Stopped || stopped.Steps != last {
		t.Fatalf("stopped %v after %d, want %d", stopped.Stopped, stopped.Steps, last)
	}
	for i := range parts {
		topic.add(t, i, topicRows(r, 50)...)
	}
	got := run(t, Options{Samples: topic.open, Resume: "auto"}, path, sets...)
	sameResult(t, "resumed", got, want)
	if got.Began != last {
		t.Errorf("began after %d, want %d", got.Began, last)
	}
	again := run(t, Options{Samples: topic.open, Resume: "auto"}, path, sets...)
	sameResult(t, "resumed at its end", again, want)
	other := run(t, Options{Samples: topic.open, Resume: dir, Allow: []string{"job.ranks"}}, path, append(sets, "job.ranks=3",
		"data.kafka.at_end=wait", "data.kafka.idle=300ms")...)
	if other.Steps <= want.Steps || other.Began != want.Steps {
		t.Errorf("on 3 ranks it went from step %d to %d", other.Began, other.Steps)
	}
}

// TestTopicDeaths: ranks die at any point, and the steps that are trained again have the same samples, while messages arrive.
func TestTopicDeaths(t *testing.T) {
	r, rounds := seeded(t), 4
	if testing.Short() {
		rounds = 1
	}
	for range rounds {
		parts := dealt(r, topicRows(r, 800), 2)
		short := min(len(parts[0]), len(parts[1]))
		parts = [][]string{parts[0][:short], parts[1][:short]}
		path, sets := topicCase(t, inTurn(parts)[:2*short/32*32])
		want := run(t, Options{}, path, "job.ranks=5")
		topic := newSamples(t, [][]string{nil, nil})
		sets = append(sets, "job.ranks=5", "ec.code=xor", "ec.k=4", fmt.Sprint("ec.commit_every=", 1+r.IntN(6)),
			"data.kafka.at_end=wait", "data.kafka.idle=1s")
		if r.IntN(2) == 0 {
			sets = append(sets, "cache.mode=lrpp", "oracle.lookahead=4")
		}
		k := &killer{spare: 1, dead: map[int]uint64{}}
		for range 1 + r.IntN(3) {
			k.kills = append(k.kills, kill{r.IntN(5), int64(r.IntN(int(want.Steps))), probe.All()[r.IntN(len(probe.All()))]})
		}
		planned := slices.Clone(k.kills)
		var writer sync.WaitGroup
		writer.Go(func() {
			for at := 0; at < short; {
				n := min(1+at/4, short-at)
				for i := range parts {
					topic.add(t, i, parts[i][at:at+n]...)
				}
				at += n
				time.Sleep(3 * time.Millisecond)
			}
		})
		within(t, 60*time.Second, func() {
			got := run(t, Options{World: lasting(5, k), Inject: k.inject, Observer: k, Samples: topic.open}, path, sets...)
			sameResult(t, fmt.Sprint(sets, planned), got, want)
		})
		writer.Wait()
	}
}

// noticed records warnings.
type noticed struct {
	quiet
	mu   sync.Mutex
	text []string
}

func (o *noticed) Warned(what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, what)
}

// TestTopicEnds: a run that waits ends when it is stopped, also before its first step, and after data.kafka.idle. The samples of a
// step that is not complete are left to a run that resumes.
func TestTopicEnds(t *testing.T) {
	r := seeded(t)
	parts := [][]string{topicRows(r, 100)}
	path, sets := topicCase(t, parts[0][:96])
	want := run(t, Options{}, path)
	topic := newSamples(t, parts)
	sets = append(sets, "data.kafka.at_end=wait")
	idle := run(t, Options{Samples: topic.open}, path, append(sets, "data.kafka.idle=200ms")...)
	sameResult(t, "idle", idle, want)

	var stop atomic.Bool
	time.AfterFunc(300*time.Millisecond, func() { stop.Store(true) })
	stopped := run(t, Options{Samples: topic.open, Stop: stop.Load}, path, sets...)
	if sameResult(t, "stopped", stopped, want); !stopped.Stopped || stopped.InputEnded {
		t.Errorf("stopped %v, ended %v", stopped.Stopped, stopped.InputEnded)
	}
	stop.Store(false)
	time.AfterFunc(300*time.Millisecond, func() { stop.Store(true) })
	begun := run(t, Options{Samples: topic.open, Stop: stop.Load}, path, append(sets, "data.kafka.begin=last", "job.ranks=2")...)
	if !begun.Stopped || begun.Steps != 0 {
		t.Errorf("stopped %v after %d steps", begun.Stopped, begun.Steps)
	}
	some := run(t, Options{Samples: topic.open}, path, append(sets, "train.epochs=0", "train.iterations=2")...)
	if some.Steps != 2 || some.Stopped || some.InputEnded {
		t.Errorf("%d steps, stopped %v, ended %v", some.Steps, some.Stopped, some.InputEnded)
	}
	// The run ends while its planners wait for samples.
	for _, more := range [][]string{{"job.ranks=3"}, {"job.ranks=3", "ranks.readers=1"}, {"job.ranks=3", "cache.mode=lrpp",
		"oracle.lookahead=1"}} {
		within(t, 20*time.Second, func() {
			early := run(t, Options{Samples: topic.open, Until: 1}, path, slices.Concat(sets, more)...)
			if early.Steps != 1 {
				t.Errorf("%v: %d steps", more, early.Steps)
			}
		})
	}
}
