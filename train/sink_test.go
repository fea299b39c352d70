package train

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ecrec/ecrec/commit"
	"github.com/ecrec/ecrec/commit/sinktest"
	"github.com/ecrec/ecrec/internal/digest"
	"github.com/ecrec/ecrec/internal/probe"
	"github.com/ecrec/ecrec/internal/safetensors"
	"github.com/ecrec/ecrec/shard"
)

// recorder keeps the sets of all ranks, as files would: a rank that is lost and replaced
// continues with the same log.
type recorder struct {
	t         *testing.T
	preImages bool
	mu        sync.Mutex
	logs      map[int]*log // by rank
}

// log is a sink in memory, which survives its rank.
type log struct {
	sinktest.Memory
	preImages bool
	last      int64 // that is committed
	rows      shard.Options
	keeps     shard.Keep
	end       digest.Sum // of the rank's own rows when its sink was closed
}

// logger is the sink of one rank, from its start to its end.
type logger struct {
	*log
	t   *testing.T
	own *shard.Shard
}

func (c *recorder) open(o commit.SinkOptions) (commit.Sink, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.logs[o.Rank] == nil {
		c.logs[o.Rank] = &log{preImages: c.preImages, rows: o.Shard.Options()}
	}
	return &logger{log: c.logs[o.Rank], t: c.t, own: o.Shard}, nil
}

func (l *logger) NeedsPreImages() bool { return l.preImages }

// Begin continues with the log of a rank that was lost. The lost rank was prepared for the
// commit, since the other ranks have it.
func (l *logger) Begin(step int64, drawn bool) {
	if drawn {
		l.Memory.Begin(step, drawn)
	} else {
		l.Memory.Roll(step)
	}
	l.last = step
}

func (l *logger) Seal(s *commit.Set) error {
	l.keeps = l.own.Journal().Keeps()
	if (s.Deltas != nil) != l.preImages {
		l.t.Errorf("there are deltas: %v", s.Deltas != nil)
	}
	if s.Step <= l.last || l.Prepared() != l.last {
		l.t.Errorf("step %d is sealed after commit %d, with the set of step %d not committed", s.Step, l.last, l.Prepared())
	}
	return l.Memory.Seal(s)
}

func (l *logger) Commit(step int64) {
	l.Memory.Commit(step)
	l.last = step
}

func (l *logger) Roll(step int64) {
	l.Memory.Roll(step)
	l.last = step
}

// Close keeps the log, and the digest that it must have at the end of the job.
func (l *logger) Close() {
	var err error
	if l.end, err = l.own.Digest(); err != nil {
		l.t.Error(err)
	}
}

// check replays the logs from empty: they must give the rows and the dense part that the job
// ended with.
func (c *recorder) check(ranks int, last int64, saved string) {
	c.t.Helper()
	if len(c.logs) != ranks {
		c.t.Fatalf("%d ranks have sinks, want %d", len(c.logs), ranks)
	}
	for rank, l := range c.logs {
		replayed := shard.NewDigester(l.rows)
		for slot, row := range l.Rows() {
			replayed.Add(l.rows.Map.Global(l.rows.Owner, int64(slot)), row)
		}
		if replayed.Sum != l.end || l.last != last {
			c.t.Errorf("rank %d, commit %d of %d: the log gives digest %v, the rows of the rank %v", rank, l.last, last, replayed.Sum, l.end)
		}
	}
	f, err := safetensors.Open(saved)
	if err != nil {
		c.t.Fatal(err)
	}
	defer f.Close()
	var dense []byte
	for _, x := range f.Tensors() {
		if strings.HasPrefix(x.Name, "emb_l.") {
			continue
		}
		b := make([]byte, x.Size())
		if _, err := x.ReadAt(b, 0); err != nil {
			c.t.Fatal(err)
		}
		dense = append(dense, b...)
	}
	if got := c.logs[0].Dense(); len(dense) == 0 || !bytes.HasPrefix(got, dense) {
		c.t.Errorf("the log has %d bytes of the dense part, which are not the %d of the model", len(got), len(dense))
	}
}

func newRecorder(t *testing.T, preImages bool) *recorder {
	return &recorder{t: t, preImages: preImages, logs: map[int]*log{}}
}

// TestSinksWithoutCode: with ec.code = "none" and a sink, the job commits, in all cache modes and
// on any processes, and the log of each rank leads to its rows.
func TestSinksWithoutCode(t *testing.T) {
	const steps, ranks = 13, 3
	r := seeded(t)
	for _, mode := range []string{"none", "planned", "lrpp"} {
		for processes := range 3 {
			sets := []string{fmt.Sprint("train.iterations=", steps), "model.init_from=", "cache.mode=" + mode,
				fmt.Sprint("ec.commit_every=", 1+r.IntN(6)), "train.eval_every=5"}
			want := run(t, Options{}, adagrad, append(sets, fmt.Sprint("job.ranks=", ranks))...)
			c, saved := newRecorder(t, r.IntN(2) == 0), filepath.Join(t.TempDir(), "model.safetensors")
			got := spread(t, processes+1, ranks, Options{Sinks: []commit.SinkFactory{c.open}, SaveTo: saved}, adagrad, sets...)
			if got[0].Digest != want.Digest || !slices.Equal(got[0].TrainLoss, want.TrainLoss) || !slices.Equal(got[0].Eval, want.Eval) {
				t.Errorf("%v, %d processes: digest %s, want %s", sets, processes+1, got[0].Digest, want.Digest)
			}
			c.check(ranks, steps, saved)
			if p := got[0].Protection; p.JournalBytes == 0 || p.ParityBytes != 0 || p.SentBytes != 0 {
				t.Errorf("%+v without a code", p)
			}
		}
	}
}

// TestSinksBesideParity: a rank dies at any point, and the logs still lead to the rows.
func TestSinksBesideParity(t *testing.T) {
	const steps, ranks = 24, 4
	r := seeded(t)
	for _, mode := range []string{"none", "planned", "lrpp"} {
		sets := []string{fmt.Sprint("job.ranks=", ranks), "ec.code=xor", "ec.k=3", fmt.Sprint("train.iterations=", steps), "model.init_from=",
			"cache.mode=" + mode, fmt.Sprint("ec.commit_every=", 1+r.IntN(5))}
		want := run(t, Options{}, adagrad, sets...)
		k := &killer{spare: 1, dead: map[int]uint64{}}
		for range 3 {
			k.kills = append(k.kills, kill{r.IntN(ranks), int64(1 + r.IntN(steps-1)), probe.All()[r.IntN(len(probe.All()))]})
		}
		name := fmt.Sprintf("%v, %+v", sets, k.kills)
		c, saved := newRecorder(t, r.IntN(2) == 0), filepath.Join(t.TempDir(), "model.safetensors")
		got, err := runAnyway(t, Options{World: lasting(ranks, k), Inject: k.inject, Observer: k,
			Sinks: []commit.SinkFactory{c.open}, SaveTo: saved}, adagrad, sets...)
		if err != nil || got.Digest != want.Digest {
			t.Errorf("%s: %v, digest %s, want %s", name, err, got.Digest, want.Digest)
		}
		c.check(ranks, steps, saved)
		if t.Failed() {
			t.Fatal(name)
		}
	}
}

// TestHashesAreKeptWithoutRollBack: a rank keeps pre-images only if one of its sinks needs
// them.
func TestHashesAreKeptWithoutRollBack(t *testing.T) {
	for preImages, want := range map[bool]shard.Keep{false: shard.KeepHashes, true: shard.KeepRows} {
		c := newRecorder(t, preImages)
		run(t, Options{Sinks: []commit.SinkFactory{c.open}}, adagrad, "job.ranks=2", "train.iterations=6", "model.init_from=",
			"ec.commit_every=2")
		for rank, l := range c.logs {
			if l.keeps != want {
				t.Errorf("rank %d: the sink needs pre-images: %v, and the journal keeps %d, want %d", rank, preImages, l.keeps, want)
			}
		}
	}
}

// fullDisk is a sink whose third set cannot be written. It counts calls of Close.
type fullDisk struct {
	sinktest.Memory
	sets   int
	closed *atomic.Int64
}

func (f *fullDisk) Seal(s *commit.Set) error {
	if f.sets++; f.sets > 2 {
		return errDevice
	}
	return f.Memory.Seal(s)
}

func (f *fullDisk) Close() { f.closed.Add(1) }

// TestSinkErrors: an error of a sink ends the job with this error, and so does a sink that cannot
// be opened. All sinks are closed.
func TestSinkErrors(t *testing.T) {
	const ranks = 2
	var closed atomic.Int64
	opens := func(commit.SinkOptions) (commit.Sink, error) { return &fullDisk{closed: &closed}, nil }
	cannot := func(o commit.SinkOptions) (commit.Sink, error) {
		if o.Rank == 1 {
			return nil, errDevice
		}
		return &fullDisk{closed: &closed}, nil
	}
	for _, c := range []struct {
		sinks  []commit.SinkFactory
		closed int64
	}{{[]commit.SinkFactory{opens}, ranks}, {[]commit.SinkFactory{opens, cannot}, 3}} {
		for _, code := range []string{"none", "xor"} {
			closed.Store(0)
			result, err := runAnyway(t, Options{Sinks: c.sinks, Observer: &quiet{}}, adagrad, fmt.Sprint("job.ranks=", ranks),
				"ec.k=1", "ec.code="+code, "train.iterations=9", "ec.commit_every=2")
			if !errors.Is(err, errDevice) || result.Digest != "" || closed.Load() != c.closed {
				t.Errorf("%d sinks, code %s: %v, digest %q; %d sinks closed, want %d", len(c.sinks), code, err, result.Digest, closed.Load(), c.closed)
			}
		}
	}
}
