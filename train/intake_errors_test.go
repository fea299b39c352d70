package train

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/probe"
	"github.com/ecrec/ecrec/stream"
)

// TestTopicErrors: each is one line with the place.
func TestTopicErrors(t *testing.T) {
	r := seeded(t)
	path, sets := topicCase(t, topicRows(r, 200))
	fail := func(topic *samplesTopic, o Options, want string, more ...string) {
		t.Helper()
		o.Samples, o.Observer = topic.open, &quiet{}
		_, err := runAnyway(t, o, path, slices.Concat(sets, []string{"job.ranks=2"}, more)...)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v; want %q", err, want)
		}
	}
	rows := [][]string{topicRows(r, 100), topicRows(r, 100)}
	bad := newSamples(t, rows)
	bad.add(t, 1, "7,1,1,c,d")
	fail(bad, Options{}, `file:`+filepath.Join(filepath.Dir(path), "topic")+`: partition 1: offset 100: field 1 (y) "7": the label must be 0 or 1`)
	bad = newSamples(t, rows)
	bad.add(t, 0, "1,1,1,c,d\n0,1,1,c,d")
	fail(bad, Options{}, "offset 100: more than one row; a message is one sample; or set data.on_error")
	bad = newSamples(t, rows)
	bad.add(t, 0, "1,1,1,c")
	fail(bad, Options{}, "4 fields")
	bad.add(t, 0, rows[0][0])
	skipped := run(t, Options{Samples: bad.open}, path, append(sets, "data.on_error=skip", "job.ranks=2")...)
	if skipped.Skipped != 1 {
		t.Errorf("%d skipped", skipped.Skipped)
	}
	fail(newSamples(t, [][]string{nil, nil}), Options{}, "there are no samples for a step")
	fail(newSamples(t, nil), Options{}, "does not exist")

	trimmed, dir := newSamples(t, rows), "checkpoint.dir="+t.TempDir()
	run(t, Options{Samples: trimmed.open}, path, append(sets, "job.ranks=2", dir, "train.epochs=0", "train.iterations=2")...)
	p, err := trimmed.Open(1)
	if err == nil {
		err = p.Trim(60)
	}
	if err != nil {
		t.Fatal(err)
	}
	fail(trimmed, Options{Resume: "auto"}, "step 3: ", dir)
	fail(trimmed, Options{Resume: "auto"}, "partition 1: offset 32 is not there any more: the topic has offsets 60 to 99; it was trimmed", dir)
	more := newSamples(t, slices.Concat(rows, rows))
	fail(more, Options{Resume: "auto"}, "topic of 2 partitions", dir)
}

// lostTopic is a topic that cannot be read.
type lostTopic struct {
	stream.Topic
	err error
}

func (x *lostTopic) Open(partition int) (stream.Partition, error) {
	p, err := x.Topic.Open(partition)
	return &lostPartition{p, x.err}, err
}

type lostPartition struct {
	stream.Partition
	err error
}

func (p *lostPartition) Read(int64, int, time.Duration) ([]stream.Record, error) { return nil, p.err }

// TestTopicLost: a run does not wait for a topic that has lost records, or was deleted.
func TestTopicLost(t *testing.T) {
	rows := topicRows(seeded(t), 100)
	path, sets := topicCase(t, rows)
	for want, err := range map[string]error{"records before offset 7 are lost": stream.Missing(0, 7, 0, 5),
		"was deleted, or made anew": &stream.Gone{Err: errors.New("no such topic")}} {
		o := Options{Observer: &quiet{}, Samples: func(env.Env, string) (stream.Topic, error) {
			return &lostTopic{newSamples(t, [][]string{rows}), err}, nil
		}}
		_, got := runAnyway(t, o, path, append(sets, "job.ranks=2")...)
		if got == nil || !strings.Contains(got.Error(), want) || !strings.Contains(got.Error(), "begin a new run") {
			t.Errorf("%v; want %q", got, want)
		}
	}
}

// TestTopicCompacted: a step that is trained again after a loss has other samples, which ends the run.
func TestTopicCompacted(t *testing.T) {
	r := seeded(t)
	rows := topicRows(r, 640)
	path, sets := topicCase(t, rows)
	topic := newSamples(t, [][]string{rows})
	k := &killer{spare: 1, dead: map[int]uint64{}, kills: []kill{{1, 12, probe.Forward}}}
	inject := func(rank int, step int64, point probe.Point) error {
		err := k.inject(rank, step, point)
		if err != nil {
			topic.remove(0, func(x stream.Record) bool { return x.Offset == 11*32-3 })
		}
		return err
	}
	_, err := runAnyway(t, Options{World: lasting(5, k), Inject: inject, Observer: k, Samples: topic.open}, path,
		append(sets, "job.ranks=5", "ec.code=xor", "ec.k=4", "ec.commit_every=8")...)
	if err == nil || !strings.Contains(err.Error(), "the samples of step 11 have changed") {
		t.Errorf("%v", err)
	}
}

// TestTopicBegunAnew: a run that begins anew at other offsets is another run, which does not write to the stream of the first one.
func TestTopicBegunAnew(t *testing.T) {
	r := seeded(t)
	path, sets := topicCase(t, topicRows(r, 10))
	samples, to := newSamples(t, [][]string{topicRows(r, 300), topicRows(r, 300)}), stream.NewMemory(env.Real())
	p, err := samples.Open(1)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	sets = append(sets, "job.ranks=2", "ec.commit_every=2", "stream.to=file:unused", "train.epochs=0", "train.iterations=4")
	for i, x := range []struct {
		first   int64 // offset in the topic of samples
		isFresh bool  // the stream is
		refused bool
	}{{0, true, false}, {0, false, false}, {7, false, true}, {7, true, false}, {7, false, false}, {8, false, true}} {
		if x.isFresh {
			to = stream.NewMemory(env.Real())
		}
		o := Options{Samples: samples.open, Observer: &quiet{}, Topic: func(env.Env, string) (stream.Topic, error) { return to, nil }}
		err := p.Trim(x.first)
		if err == nil {
			_, err = runAnyway(t, o, path, sets...)
		}
		if x.refused != (err != nil) || err != nil && !strings.Contains(err.Error(), "/unused: the topic has another run") {
			t.Errorf("run %d: %v", i, err)
		}
	}
}

// TestTopicWaitIsReported names the partition that has no message, and those that have.
func TestTopicWaitIsReported(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for ten seconds")
	}
	r := seeded(t)
	path, sets := topicCase(t, topicRows(r, 100))
	topic := newSamples(t, [][]string{topicRows(r, 50), topicRows(r, 90), topicRows(r, 90)})
	for _, more := range [][]string{{"job.ranks=1"}, {"job.ranks=3", "ranks.readers=1"}} {
		t.Run(strings.Join(more, " "), func(t *testing.T) {
			t.Parallel() // it only waits
			seen := &noticed{}
			var stop atomic.Bool
			time.AfterFunc(11500*time.Millisecond, func() { stop.Store(true) })
			run(t, Options{Samples: topic.open, Observer: seen, Stop: stop.Load}, path, slices.Concat(sets, more,
				[]string{"data.kafka.at_end=wait"})...)
			want := "training waits for a message in partition 0, from offset 50 on; the order takes one sample of each partition in turn, and partitions [1 2] have more"
			if len(seen.text) != 1 || !strings.Contains(seen.text[0], want) {
				t.Errorf("warned %q", seen.text)
			}
		})
	}
}

// A topic is refused where it cannot be read.
func TestTopicConfig(t *testing.T) {
	path, sets := topicCase(t, nil)
	for set, want := range map[string]string{
		"data.shuffle=block":            "data.shuffle",
		"model.tables=auto":             "rows are counted in files",
		`data.transform={a="standard"}`: "data.transform",
		"train.epochs=2":                "a topic is read once",
		`data.eval="10%"`:               "cannot be split",
		"data.kafka.idle=1s":            "data.kafka.at_end",
		"data.kafka.at_end=never":       "is not one of stop, wait",
		`data.kafka.columns=["y", "a"]`: `column "b"`,
		`data.train=["ads"]`:            "neither kafka://HOST:PORT/TOPIC nor file:DIR",
		"stream.to=file:" + filepath.Join(filepath.Dir(path), "topic"): "use another one",
	} {
		if _, err := config.Load(path, append(slices.Clone(sets), set)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", set, err, want)
		}
	}
	if _, err := config.Load(path, []string{`data.train=["kafka://h:9092/t"]`}); err == nil || !strings.Contains(err.Error(), `set data.format = "kafka"`) {
		t.Errorf("%v", err)
	}
	cfg, err := config.Load(path, sets)
	if err != nil {
		t.Fatal(err)
	}
	src, err := data.Open(cfg.DataOptions(false))
	if err == nil {
		err = src.Read(new(data.Batch), []int64{0})
	}
	if err == nil || !strings.Contains(err.Error(), "by ecrec train only") {
		t.Errorf("%v", err)
	}
}
