package derive

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
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

// sending is a Rows with its reports.
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

// compare compares the rows at the marker with those of the run's checkpoint of its step: all rows that the run has written are there,
// and they are within the error that the marker states, or that of an earlier one.
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

// TestRowsAtMarkers: at every marker the rows are those of the run's checkpoint, within the stated error, in each encoding and kind of
// model, with a backlog of any size.
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
					t.Errorf("%s, %s: %d markers, the last at step %d; %d reported, warnings %v", kind, as, markers, c.Marker.Step,
						len(s.markers), s.warnings)
				}
				if (errs == 0) != (as == Float32) || errs > 0.1 {
					t.Errorf("%s, %s: the error is %v", kind, as, errs)
				}
				t.Logf("%s, %s: %d rows, error at most %.3g, mean %.3g", kind, as, len(c.Rows), errs, c.Marker.MeanError)
			}
		}
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
