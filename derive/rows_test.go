package derive

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ecrec/ecrec/checkpoint"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/follow"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/stream"
	"github.com/ecrec/ecrec/train"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const runConfig = `
[job]
ranks = 2
[data]
format = "synthetic"
[model]
kind = "deepfm"
tables = [3000, 40]
embedding_dim = 4
top_mlp = [8, 1]
[train]
global_batch = 16
[ec]
commit_every = 5
[checkpoint]
every = 5
[stream]
to = "file:unused"
`

// silent observes nothing.
type silent struct{ train.Observer }

func (silent) Started(train.Info) error          { return nil }
func (silent) Step(train.StepInfo)               {}
func (silent) Evaluated(train.Eval)              {}
func (silent) Checkpointed(int64, string, error) {}
func (silent) Committed(int64, string)           {}
func (silent) Warned(string)                     {}
func (silent) SkippedCheckpoint(string, error)   {}

// trainTo trains a run up to a step. It sends its commits to a topic, and saves checkpoints to dir.
func trainTo(t *testing.T, topic stream.Topic, dir, steps string, sets ...string) {
	t.Helper()
	trainFrom(t, "auto", topic, dir, steps, sets...)
}

// trainFrom is trainTo from a checkpoint, of a run that may have another learning rate.
func trainFrom(t *testing.T, resume string, topic stream.Topic, dir, steps string, sets ...string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.toml")
	must(t, os.WriteFile(path, []byte(runConfig), 0o600))
	cfg, err := config.Load(path, append([]string{"checkpoint.dir=" + dir, "train.iterations=" + steps, "job.out=" + t.TempDir()}, sets...))
	must(t, err)
	o := train.Options{Stop: func() bool { return false }, Observer: silent{}, Resume: resume,
		Progress: func(data.Progress) error { return nil }, Topic: func(env.Env, string) (stream.Topic, error) { return topic, nil }}
	if resume != "auto" {
		o.Allow = []string{"optimizer.sparse.lr"}
	}
	_, err = train.Run(env.Real(), cfg, o)
	must(t, err)
}

// sending is a Rows with what it reported.
type sending struct {
	*Rows
	markers  []Marker
	warnings []string
}

func open(t *testing.T, to stream.Topic, as Encoding, backlog int64) *sending {
	t.Helper()
	s := &sending{}
	var err error
	s.Rows, err = New(Options{Env: env.Real(), Topic: to, As: as, Backlog: backlog,
		Report: func(m Marker) { s.markers = append(s.markers, m) }, Warn: func(text string) { s.warnings = append(s.warnings, text) }})
	must(t, err)
	t.Cleanup(s.Close)
	return s
}

// followTo follows a topic up to a step, and then waits until the rows are settled.
func (s *sending) followTo(t *testing.T, topic stream.Topic, dir string, at int64, each ...func(*follow.View)) {
	t.Helper()
	s.follow(t, topic, dir, at, true, each...)
}

func (s *sending) follow(t *testing.T, topic stream.Topic, dir string, at int64, settle bool, each ...func(*follow.View)) {
	t.Helper()
	began := time.Now()
	publish := func(v *follow.View) error {
		err := s.Publish(v)
		for _, f := range each {
			f(v)
		}
		return err
	}
	f, err := follow.Open(follow.Options{Env: env.Real(), Topic: topic, Dir: dir, At: at, Keep: 0, Full: true, Publish: publish, Idle: s.Idle,
		Stop: func() bool { return time.Since(began) > time.Minute }})
	must(t, err)
	defer f.Close()
	must(t, f.Run())
	for settle && !s.Settled() {
		if f.Offer(); time.Since(began) > time.Minute {
			t.Fatal("the rows do not settle")
		}
		time.Sleep(time.Millisecond)
	}
}

// waitSent waits until the sink is free: each published model is sent.
func (s *sending) waitSent(*follow.View) {
	for !s.Settled() {
		s.Idle()
		time.Sleep(time.Millisecond)
	}
}

// consumer reads a topic of rows.
type consumer struct {
	Map
	next int64
}

// read reads the records that are there, and calls each at every marker.
func (c *consumer) read(t *testing.T, topic stream.Topic, each func()) {
	t.Helper()
	p, err := stream.OpenKeyed(topic, 0)
	must(t, err)
	defer p.Close()
	_, end, err := p.Bounds()
	must(t, err)
	for c.next < end {
		list, err := p.Read(c.next, 1<<20, 0)
		must(t, err)
		for _, r := range list {
			c.next = r.Offset + 1
			if at, err := c.Take(r); err != nil {
				t.Fatal(err)
			} else if at && each != nil {
				each()
			}
		}
	}
}

// compare compares the rows at the marker with those of the run's checkpoint of its step: all rows that the run has written are there, and they
// are within the error that the marker states, or that of an earlier one.
func (c *consumer) compare(t *testing.T, saved string, errs float64) {
	t.Helper()
	path := filepath.Join(saved, fmt.Sprintf("step-%012d", c.Marker.Step))
	ck, err := checkpoint.Open(env.Real(), path)
	must(t, err)
	if digest, bad := ck.Verify(); len(bad) > 0 || digest.String() != c.Marker.Digest {
		t.Fatalf("%s has the digest %s, the marker %s: %v", path, digest, c.Marker.Digest, bad)
	}
	var all bytes.Buffer
	must(t, ck.WriteTensors(&all))
	tensors := map[string][]byte{}
	for _, s := range ck.Specs() {
		n, _ := s.Bytes()
		tensors[s.Name] = all.Next(int(n))
	}
	written := int64(0)
	for _, f := range ck.AllFiles() {
		written += f.Rows
	}
	if c.Marker.Total != int64(len(c.Rows)) || written != c.Marker.Total {
		t.Fatalf("step %d: %d rows, the marker has %d in all, the checkpoint %d", c.Marker.Step, len(c.Rows), c.Marker.Total, written)
	}
	for key, value := range c.Rows {
		table, id, err := parseKey([]byte(key))
		must(t, err)
		weights, err := c.Marker.As.Decode(nil, c.Marker.Parts, value)
		must(t, err)
		at := 0
		for k, width := range c.Marker.Parts {
			name := table
			if k > 0 {
				name = strings.Replace(table, "emb_l", "linear_l", 1)
			}
			for i := range width {
				bits := binary.LittleEndian.Uint32(tensors[name][4*(int(id)*width+i):])
				if d := math.Abs(float64(weights[at]) - float64(math.Float32frombits(bits))); !(d <= errs) {
					t.Fatalf("step %d: %s: weight %d is %v, in the checkpoint %v: %v apart, over %v", c.Marker.Step, key, at, weights[at],
						math.Float32frombits(bits), d, errs)
				}
				at++
			}
		}
	}
}

// TestRowsAtMarkers: at every marker the rows are those of the run's checkpoint, within the stated error, in each encoding and kind of model, with a
// backlog of any size.
func TestRowsAtMarkers(t *testing.T) {
	for _, kind := range []string{"deepfm", "dlrm"} {
		topic, saved := stream.NewMemory(env.Real()), t.TempDir()
		sets := []string{"model.kind=" + kind}
		if kind == "dlrm" {
			sets = append(sets, "model.bottom_mlp=[8,4]")
		}
		trainTo(t, topic, saved, "40", sets...)
		for _, as := range []Encoding{Float32, Float16, Int8} {
			for _, backlog := range []int64{0, 2_000} {
				to := stream.OpenFolder(env.Real(), filepath.Join(t.TempDir(), "rows"))
				s := open(t, to, as, backlog)
				s.followTo(t, topic, t.TempDir(), 40, s.waitSent)
				var c consumer
				markers, errs := 0, 0.0
				c.read(t, to, func() {
					errs = max(errs, c.Marker.MaxError)
					c.compare(t, saved, errs)
					markers++
				})
				if markers != 8 || c.Marker.Step != 40 || len(s.markers) < 7 || len(s.warnings) > 0 {
					t.Errorf("%s, %s: %d markers, the last at step %d; %d reported, warnings %v", kind, as, markers, c.Marker.Step, len(s.markers), s.warnings)
				}
				if (errs == 0) != (as == Float32) || errs > 0.1 {
					t.Errorf("%s, %s: the error is %v", kind, as, errs)
				}
				t.Logf("%s, %s: %d rows, error at most %.3g, mean %.3g", kind, as, len(c.Rows), errs, c.Marker.MeanError)
			}
		}
	}
}

// TestRestarts: followers and their Rows are ended at any moment, also within a batch, with checkpoints that are behind the topic. At every marker the rows
// are right, and no more is sent again than what a follower cannot know.
func TestRestarts(t *testing.T) {
	topic, saved := stream.NewMemory(env.Real()), t.TempDir()
	trainTo(t, topic, saved, "60")
	seeds := uint64(4)
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 5))
		to, dir := stream.NewMemory(env.Real()), t.TempDir()
		for at := int64(5); at <= 60; at += 5 * int64(r.IntN(3)) {
			from := dir
			if r.IntN(3) == 0 {
				from = t.TempDir() // from the beginning
			}
			broken := false
			to.Fault = func(int) error {
				if broken = broken || r.IntN(200) == 0; broken {
					return errors.New("broken")
				}
				return nil
			}
			s := open(t, to, Float32, []int64{0, 3000}[r.IntN(2)])
			if f := newestOf(t, from); f < at {
				s.follow(t, topic, from, at, false, func(*follow.View) { time.Sleep(time.Duration(r.IntN(3)) * time.Millisecond) })
			}
			s.Close()
			to.Fault = nil
			var c consumer
			c.read(t, to, func() { c.compare(t, saved, 0) })
		}
		s := open(t, to, Float32, 0)
		s.followTo(t, topic, t.TempDir(), 60)
		s.Close()
		var c consumer
		c.read(t, to, func() { c.compare(t, saved, 0) })
		if c.Marker == nil || c.Marker.Step != 60 {
			t.Fatalf("seed %d: the last marker is %+v", seed, c.Marker)
		}
		_, end := bounds(t, to)
		s = open(t, to, Float32, 0)
		s.followTo(t, topic, t.TempDir(), 60)
		s.Close()
		if _, again := bounds(t, to); again != end {
			t.Errorf("seed %d: %d records were sent again", seed, again-end)
		}
	}
}

func newestOf(t *testing.T, dir string) (step int64) {
	t.Helper()
	if name := checkpoint.Newest(dir); name != "" {
		c, err := checkpoint.Open(env.Real(), filepath.Join(dir, filepath.Base(name)))
		must(t, err)
		return c.Step
	}
	return -1
}

func bounds(t *testing.T, topic stream.Topic) (first, next int64) {
	t.Helper()
	p, err := topic.Open(0)
	must(t, err)
	defer p.Close()
	first, next, err = p.Bounds()
	must(t, err)
	return first, next
}

// TestSlowTopic: a topic that takes nothing for some time does not delay the follower. Rows are merged, and markers skipped; a row that changed often is sent
// once.
func TestSlowTopic(t *testing.T) {
	topic, saved := stream.NewMemory(env.Real()), t.TempDir()
	trainTo(t, topic, saved, "100")
	to := stream.NewMemory(env.Real())
	var dead atomic.Bool
	to.Fault = func(int) error {
		if dead.Load() {
			return errors.New("no broker")
		}
		return nil
	}
	s, last := open(t, to, Float32, 0), int64(0)
	dead.Store(true)
	began := time.Now()
	s.followTo(t, topic, t.TempDir(), 100, func(v *follow.View) {
		if last = v.Step; v.Step == 100 {
			if d := time.Since(began); d > 20*time.Second {
				t.Errorf("the follower took %v", d)
			}
			dead.Store(false)
		}
	})
	var c consumer
	markers := 0
	c.read(t, to, func() {
		c.compare(t, saved, 0)
		markers++
	})
	// The first batch has begun before the topic was dead, or waits for it.
	if _, n := bounds(t, to); c.Marker.Step != last || markers > 2 || n > 2*c.Marker.Total+4 {
		t.Errorf("%d markers, the last at step %d of %d; %d records, the model has %d rows", markers, c.Marker.Step, last, n, c.Marker.Total)
	}
}

// TestFinal: after an error that ends the use of the topic it is opened again, and all rows are sent. So they are if another program writes to it.
func TestFinal(t *testing.T) {
	topic, saved := stream.NewMemory(env.Real()), t.TempDir()
	trainTo(t, topic, saved, "30")
	to := stream.NewMemory(env.Real())
	s := open(t, to, Float16, 0)
	failing := atomic.Bool{}
	to.Fault = func(int) error {
		if failing.CompareAndSwap(true, false) {
			return &stream.Final{Err: errors.New("gone")}
		}
		return nil
	}
	other, err := stream.OpenKeyed(to, 0)
	must(t, err)
	defer other.Close()
	s.followTo(t, topic, t.TempDir(), 30, s.waitSent, func(v *follow.View) {
		switch v.Step {
		case 10:
			failing.Store(true)
		case 20:
			_, err := other.AppendKeyed([]stream.Keyed{{Key: []byte("emb_l.1.weight/3"), Value: make([]byte, 10)}})
			must(t, errors.Join(err, other.Sync()))
		}
	})
	var c consumer
	headers := 0
	to.Change(0, func(list []stream.Record) []stream.Record {
		for _, r := range list {
			if k, err := unpacked(r); err == nil && k == keyBegin {
				headers++
			}
		}
		return list
	})
	errs := 0.0
	c.read(t, to, func() { errs = max(errs, c.Marker.MaxError) })
	c.compare(t, saved, errs)
	if headers != 3 || c.Marker.Step != 30 || len(s.warnings) != 1 || !strings.Contains(s.warnings[0], "another program") {
		t.Errorf("%d headers, the last marker is of step %d, warnings %v", headers, c.Marker.Step, s.warnings)
	}
}

// unpacked is the key of a record of a topic that has none.
func unpacked(r stream.Record) (string, error) {
	n := int(binary.LittleEndian.Uint32(r.Bytes[4:]))
	return string(r.Bytes[8 : 8+n]), nil
}

// TestFork: a run that continues with other settings begins the rows again, and so does another encoding.
func TestFork(t *testing.T) {
	topic, saved, dir := stream.NewMemory(env.Real()), t.TempDir(), t.TempDir()
	to := stream.NewMemory(env.Real())
	trainTo(t, topic, saved, "20")
	s := open(t, to, Float32, 0)
	s.followTo(t, topic, dir, 20)
	s.Close()
	trainFrom(t, filepath.Join(saved, "step-000000000020"), topic, saved, "30", "optimizer.sparse.lr=0.5")
	s = open(t, to, Float32, 0)
	s.followTo(t, topic, dir, 30)
	s.Close()
	var c consumer
	c.read(t, to, nil)
	c.compare(t, saved, 0)
	s = open(t, to, Int8, 0)
	s.followTo(t, topic, dir, 30)
	s.Close()
	c.read(t, to, nil)
	c.compare(t, saved, c.Marker.MaxError)
	if c.Marker.As != Int8 || c.Marker.Step != 30 {
		t.Errorf("the last marker is %+v", c.Marker)
	}
}

// TestOtherTopics: a topic with other records, or with several partitions, is refused.
func TestOtherTopics(t *testing.T) {
	topic := stream.NewMemory(env.Real())
	trainTo(t, topic, t.TempDir(), "10")
	if _, err := New(Options{Env: env.Real(), Topic: topic, As: Float32}); err == nil || !strings.Contains(err.Error(), "2 partitions") {
		t.Errorf("the topic of a run: %v", err)
	}
	topic = stream.NewMemory(env.Real())
	trainTo(t, topic, t.TempDir(), "10", "job.ranks=1")
	if _, err := New(Options{Env: env.Real(), Topic: topic, As: Float32}); err == nil || !strings.Contains(err.Error(), "none of rows") {
		t.Errorf("the topic of a run with one rank: %v", err)
	}
}
