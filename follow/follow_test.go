package follow

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zeebo/xxh3"
	"go.uber.org/goleak"

	"github.com/ecrec/ecrec/checkpoint"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/data"
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
kind = "dlrm"
tables = [3000, 40]
embedding_dim = 4
bottom_mlp = [8, 4]
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
func trainTo(t *testing.T, topic stream.Topic, dir, steps string) {
	t.Helper()
	trainFrom(t, "auto", topic, dir, steps)
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

// follow follows a topic up to a step, with a checkpoint for each commit.
func follow(t *testing.T, topic stream.Topic, dir string, at int64, set ...func(*Options)) error {
	t.Helper()
	o := Options{Env: env.Real(), Topic: topic, Dir: dir, At: at, Keep: 2}
	began := time.Now()
	o.Stop = func() bool { return time.Since(began) > time.Minute } // a test that waits for ever fails
	for _, f := range set {
		f(&o)
	}
	f, err := Open(o)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Run(); err != nil {
		return err
	}
	if at >= 0 && f.Step() != at {
		t.Fatalf("the follower ends at step %d, not at %d", f.Step(), at)
	}
	return nil
}

func sameFolder(t *testing.T, a, b string) {
	t.Helper()
	if out, err := exec.Command("diff", "-r", a, b).CombinedOutput(); err != nil {
		t.Errorf("%s and %s differ: %s", a, b, out)
	}
}

// TestIncrements: a follower that saves at each commit makes increments, which export as the checkpoints of the run.
func TestIncrements(t *testing.T) {
	topic, saved, dir := stream.NewMemory(env.Real()), t.TempDir(), t.TempDir()
	trainTo(t, topic, saved, "30")
	last, increments := int64(0), 0
	stop := false
	must(t, follow(t, topic, dir, Latest, func(o *Options) {
		o.Keep, o.Stop = 0, func() bool { return stop }
		o.Report = func(p Progress) {
			if p.Path == "" {
				return
			}
			if last = p.Step; last == 30 {
				stop = true
			}
			text, err := os.ReadFile(filepath.Join(p.Path, "manifest.json"))
			must(t, err)
			if strings.Contains(string(text), `"parent"`) {
				increments++
			}
		}
	}))
	if last != 30 || increments == 0 {
		t.Errorf("the last checkpoint is of step %d, %d are increments", last, increments)
	}
	half := filepath.Join(dir, ".follow.json.tmp-12") // of a follower that was killed
	must(t, os.WriteFile(half, []byte("{"), 0o600))
	must(t, follow(t, topic, dir, 30)) // the last one was an increment
	if _, err := os.Stat(half); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left: %v", half, err)
	}
	sameFolder(t, filepath.Join(dir, "step-000000000030"), filepath.Join(saved, "step-000000000030"))
	part := filepath.Join(dir, "step-000000000025.tmp-12345678-saving")
	must(t, os.Mkdir(part, 0o755))
	must(t, follow(t, topic, dir, 30)) // it has nothing to save
	if _, err := os.Stat(part); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left: %v", part, err)
	}
	must(t, follow(t, topic, t.TempDir(), 25))
}

// TestIncrementWithoutParents: the checkpoints are removed while a follower runs. The next one is full.
func TestIncrementWithoutParents(t *testing.T) {
	topic, dir := stream.NewMemory(env.Real()), t.TempDir()
	trainTo(t, topic, t.TempDir(), "30")
	stop := false
	must(t, follow(t, topic, dir, Latest, func(o *Options) {
		o.Stop = func() bool { return stop }
		o.Report = func(p Progress) {
			if p.Path != "" && p.Step == 15 {
				all, err := filepath.Glob(filepath.Join(dir, "step-*"))
				must(t, err)
				for _, path := range all {
					must(t, os.RemoveAll(path))
				}
			}
			stop = stop || p.Path != "" && p.Step == 30
		}
	}))
	c, problems, err := checkpoint.Find(env.Real(), dir, 0)
	if err != nil || len(problems) > 0 || c == nil || c.Step != 30 {
		t.Errorf("%+v, %v, %v", c, problems, err)
	}
}

// TestWrongRow: a row that differs in one bit, in a frame whose sum is right, is found by the digest, and nothing is saved.
func TestWrongRow(t *testing.T) {
	topic, dir := stream.NewMemory(env.Real()), t.TempDir()
	trainTo(t, topic, t.TempDir(), "20")
	changed := 0
	topic.Change(1, func(list []stream.Record) []stream.Record {
		for _, r := range list {
			if b := r.Bytes; b[6] == 1 && binary.LittleEndian.Uint64(b[56:]) == 15 { // rows of the epoch up to step 15
				changeRow(b)
				changed++
			}
		}
		return list
	})
	var wrong *Mismatch
	if err := follow(t, topic, dir, 20); !errors.As(err, &wrong) || wrong.Step != 15 || changed != 1 {
		t.Errorf("%d rows changed: %v", changed, err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "step-*"))
	must(t, err)
	for _, x := range left {
		if filepath.Base(x) > "step-000000000010" {
			t.Errorf("%s was saved", x)
		}
	}
}

// changeRow changes a bit of the last row of a frame, and its sum.
func changeRow(b []byte) {
	b[len(b)-1] ^= 4
	binary.LittleEndian.PutUint64(b[72:], xxh3.HashSeed(b[80:], xxh3.Hash(b[:72])))
}

// TestOtherOwners: a commit whose rows are on other ranks than before is refused. Its slots would be taken for those of other rows.
func TestOtherOwners(t *testing.T) {
	topic, dir := stream.NewMemory(env.Real()), t.TempDir()
	trainTo(t, topic, t.TempDir(), "10")
	must(t, follow(t, topic, dir, 10))
	f, err := Open(Options{Env: env.Real(), Topic: topic, Dir: dir, At: Newest})
	must(t, err)
	defer f.Close()
	about := f.model.About
	about.Owners = []int{1, 0}
	text, err := json.Marshal(about)
	must(t, err)
	err = f.model.apply(&stream.Cut{Step: 15, Epochs: []*stream.Epoch{{About: text}, {Rank: 1}}})
	if err == nil || !strings.Contains(err.Error(), "other ranks own the rows") {
		t.Errorf("the commit is applied: %v", err)
	}
}
