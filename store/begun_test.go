package store

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ecrec/ecrec/commit"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/rowlog"
)

// A log that begins at step 0 has a note, until a step is durable on all ranks and the log knows.
func TestNoteOfTheBeginning(t *testing.T) {
	for name, dir := range map[string]func(string) (Dir, error){"memory": nil, "disk": func(path string) (Dir, error) {
		return rowlog.OpenDir(env.Real(), path, rowlog.Access{})
	}} {
		t.Run(name, func(t *testing.T) {
			m, path := newModel(t, rand.New(rand.NewPCG(5, 6))), t.TempDir()
			open := func() *Store {
				if dir == nil {
					return m.open()
				}
				s, err := Open(Options{Env: env.Real(), Ranks: 1, Path: path, Shard: m.shard, Digest: func(int64) string { return "" }, Dir: dir,
					Past: func(int64) (Past, error) { return Past{}, nil }, Dense: func() ([]byte, error) { return m.dense.Host(), nil }})
				must(t, err)
				return s
			}
			life := func(what string, want bool, step int64, f func(s *Store, c *commit.Committer, seal func())) {
				t.Helper()
				s := open()
				c := commit.New(commit.Options{Env: env.Real(), Shard: m.shard, Every: 1, Sinks: []commit.Sink{s}})
				f(s, c, func() {
					m.train()
					step++
					must(t, c.Seal(step, m.dense))
					_, err := c.Decide([]int64{c.Prepared()})
					must(t, err)
					s.Drain(time.Minute)
				})
				s.Close()
				s = open()
				if s.HasBegun() != want {
					t.Errorf("%s: the note is there: %v", what, !want)
				}
				s.Close()
			}
			life("a log that was only opened", false, 0, func(*Store, *commit.Committer, func()) {})
			life("begun", true, 0, func(_ *Store, c *commit.Committer, _ func()) { c.Begin(0, true) })
			life("begun by a rank that replaces a lost one", true, 0, func(s *Store, c *commit.Committer, _ func()) { s.Lose(); c.Begin(0, false) })
			life("durable on this rank only", true, 0, func(_ *Store, c *commit.Committer, seal func()) { c.Begin(0, true); seal(); seal() })
			life("durable on all ranks, which the log knows at the next epoch", false, 0, func(s *Store, c *commit.Committer, seal func()) {
				c.Begin(0, true)
				seal()
				s.Settle(1)
				seal()
			})
			life("begun again", true, 0, func(_ *Store, c *commit.Committer, seal func()) { c.Begin(0, true); seal() })
			life("begun with the rows of another model", true, 0, func(_ *Store, c *commit.Committer, seal func()) { c.Begin(0, false); seal() })
			life("begun with rows of a checkpoint", false, 9, func(_ *Store, c *commit.Committer, _ func()) { c.Begin(9, false) })
			life("a rank that replaces a lost one, elsewhere", false, 0, func(s *Store, c *commit.Committer, _ func()) { s.Lose(); c.Begin(0, false) })
		})
	}
}

// noNotes is a folder in which no note can be made or removed.
type noNotes struct{ Dir }

func (noNotes) SetBegun(bool) error { return rowlog.ErrDisk }

// A note that cannot be made does not end the log: a full disk may have room later.
func TestNoteThatFails(t *testing.T) {
	m := newModel(t, rand.New(rand.NewPCG(7, 8)))
	s, err := Open(Options{Env: env.Real(), Ranks: 1, Shard: m.shard, Digest: func(int64) string { return "" },
		Past: func(int64) (Past, error) { return Past{}, nil }, Dense: func() ([]byte, error) { return m.dense.Host(), nil },
		Dir: func(string) (Dir, error) { return noNotes{m.dir}, nil }})
	must(t, err)
	defer s.Close()
	c := commit.New(commit.Options{Env: env.Real(), Shard: m.shard, Every: 1, Sinks: []commit.Sink{s}})
	c.Begin(0, true)
	m.train()
	must(t, c.Seal(1, m.dense))
	_, err = c.Decide([]int64{c.Prepared()})
	must(t, err)
	s.Drain(time.Minute)
	if s.Durable() != 1 || s.Problem() != nil || s.HasBegun() {
		t.Errorf("durable up to step %d, %v, note %v", s.Durable(), s.Problem(), s.HasBegun())
	}
}
