package follow

import (
	"encoding/binary"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/stream"
)

const forkRate = "optimizer.sparse.lr=0.5"

// followToEnd follows a topic to its end. It returns the path of the last checkpoint, and the step of each.
func followToEnd(t *testing.T, topic stream.Topic, dir string) (path string, steps []int64) {
	t.Helper()
	must(t, follow(t, topic, dir, Newest, func(o *Options) {
		o.Report = func(p Progress) {
			if p.Path != "" {
				path, steps = p.Path, append(steps, p.Step)
			}
		}
	}))
	return path, slices.Compact(steps) // the last one may be an increment at first
}

// TestForkToTheSameStep: a fork from an earlier step is saved at each commit, and at its end, where the run before was saved too. So it is
// by a follower that finds a base of it alone.
func TestForkToTheSameStep(t *testing.T) {
	topic, saved, forked, dir, late := stream.NewMemory(env.Real()), t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
	trainTo(t, topic, saved, "20")
	followToEnd(t, topic, dir)
	followToEnd(t, topic, late)
	warns := t.TempDir()
	followToEnd(t, topic, warns)
	trainFrom(t, filepath.Join(saved, "step-000000000010"), topic, forked, "20", forkRate)
	warned := ""
	must(t, follow(t, topic, warns, Newest, func(o *Options) { o.Warn = func(text string) { warned += text } }))
	if !strings.Contains(warned, "the run forked: lineage ") || !strings.Contains(warned, "replaces that of step 20") {
		t.Errorf("the fork is reported as %q", warned)
	}
	path, steps := followToEnd(t, topic, dir)
	if !slices.Equal(steps, []int64{10, 15, 20}) {
		t.Errorf("the fork was saved at steps %v", steps)
	}
	sameFolder(t, path, filepath.Join(forked, "step-000000000020"))
	f, err := Open(Options{Env: env.Real(), Topic: topic, Dir: dir, At: Newest})
	must(t, err)
	defer f.Close()
	if f.Path() != path {
		t.Errorf("a follower begins with %s, not with %s", f.Path(), path)
	}
	must(t, follow(t, topic, t.TempDir(), Newest, func(o *Options) { o.Trim = true }))
	path, _ = followToEnd(t, topic, late)
	sameFolder(t, path, filepath.Join(forked, "step-000000000020"))
}

// TestLeftRunWritesOn: a run continues after another one has forked from it. Followers that restart in between, or begin with a base, have
// the model of the fork.
func TestLeftRunWritesOn(t *testing.T) {
	topic, apart, saved, forked, dir := stream.NewMemory(env.Real()), stream.NewMemory(env.Real()), t.TempDir(), t.TempDir(), t.TempDir()
	trainTo(t, topic, saved, "20")
	trainTo(t, apart, t.TempDir(), "30")
	trainFrom(t, filepath.Join(saved, "step-000000000010"), topic, forked, "20", forkRate)
	must(t, follow(t, topic, dir, Newest, func(o *Options) { o.Trim = true }))
	for i := range 2 {
		p, err := topic.Open(i)
		must(t, err)
		from, err := apart.Open(i)
		must(t, err)
		list, err := from.Read(0, 1<<30, 0)
		must(t, err)
		for _, r := range list {
			if binary.LittleEndian.Uint64(r.Bytes[48:]) >= 20 { // From
				must(t, p.Append([][]byte{r.Bytes}))
			}
		}
		must(t, p.Sync())
	}
	trainFrom(t, "auto", topic, forked, "30", forkRate)
	for _, d := range []string{dir, t.TempDir()} {
		path, _ := followToEnd(t, topic, d)
		sameFolder(t, path, filepath.Join(forked, "step-000000000030"))
	}
}
