package train

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ecrec/ecrec/commit"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/probe"
	"github.com/ecrec/ecrec/transport"
)

// runAnyway is run, for a job that may fail.
func runAnyway(t *testing.T, o Options, path string, sets ...string) (result *Result, err error) {
	t.Helper()
	cfg, err := config.Load(path, append([]string{"job.out=" + t.TempDir()}, sets...))
	if err != nil {
		t.Fatal(err)
	}
	o.Stop = func() bool { return false }
	within(t, 30*time.Second, func() { result, err = Run(env.Real(), cfg, o) })
	return result, err
}

// warnedKiller is a killer that records warnings.
type warnedKiller struct {
	*killer
	warnings []string
}

func (o *warnedKiller) Warned(what string) { o.warnings = append(o.warnings, what) }

// checkRestores checks that a run restores a checkpoint the given number of times, warns each
// time with the reason, and has the result of a run without deaths.
func checkRestores(t *testing.T, o Options, k *killer, ranks int, why string, times int, sets ...string) {
	t.Helper()
	want := run(t, Options{}, adagrad, sets...)
	left, seen := len(k.kills), &warnedKiller{killer: k}
	o.World, o.Observer, o.PauseSaves = lasting(ranks, k), seen, true
	got, err := runAnyway(t, o, adagrad, append(sets, "checkpoint.dir="+t.TempDir(), "checkpoint.every=5")...)
	if err != nil || got.Digest != want.Digest || !slices.Equal(got.TrainLoss, want.TrainLoss) || !slices.Equal(got.Eval, want.Eval) {
		t.Errorf("%v, digest %s, losses %v; want %s, %v", err, got.Digest, got.TrainLoss, want.Digest, want.TrainLoss)
	}
	if len(k.hit) != left {
		t.Errorf("%v died, but not at %v", k.hit, k.kills)
	}
	if len(seen.warnings) != times {
		t.Errorf("warned %q, want %d lines", seen.warnings, times)
	}
	for _, line := range seen.warnings {
		if !strings.HasPrefix(line, why) || !strings.Contains(line, ": resuming after step 5 from a checkpoint") {
			t.Errorf("warned %q, want %q first", line, why)
		}
	}
}

// meet is a point where the ranks of a world wait for each other the first time that they reach
// it, before any of them dies.
type meet struct {
	generation uint64
	step       int64
	point      probe.Point
	left       sync.WaitGroup
	came       []bool // by rank, each used by its rank alone
}

func meeting(ranks int, generation uint64, step int64, point probe.Point) *meet {
	m := &meet{generation: generation, step: step, point: point, came: make([]bool, ranks)}
	m.left.Add(ranks)
	return m
}

// after is inject, after meetings.
func (k *killer) after(meetings ...*meet) func(int, int64, probe.Point) error {
	return func(rank int, step int64, point probe.Point) error {
		for _, m := range meetings {
			if k.generation == m.generation && point == m.point && step >= m.step && !m.came[rank] {
				m.came[rank] = true
				m.left.Done()
				m.left.Wait()
			}
		}
		return k.inject(rank, step, point)
	}
}

const (
	twoOfThree = "ranks [1 2] of group 0 lost their rows, more than the ec.r = 1 that the code can rebuild"
	allOfThree = "ranks [0 1 2] of group 0 lost their rows, more than the ec.r = 1 that the code can rebuild"
)

// threeRanks tolerate the loss of one.
var threeRanks = []string{"job.ranks=3", "ec.code=xor", "ec.k=2", "train.iterations=12", "ec.commit_every=1"}

// TestLossDuringRestore: more ranks are lost than the code tolerates, and another one while the
// job restores its checkpoint. New ranks receive the reason too.
func TestLossDuringRestore(t *testing.T) {
	k := &killer{spare: 9, dead: map[int]uint64{}, kills: []kill{{1, 9, probe.Status}, {2, 9, probe.Status}, {0, 0, probe.Restored}}}
	checkRestores(t, Options{Inject: k.after(meeting(3, 1, 9, probe.Status), meeting(3, 2, 0, probe.Restored))}, k, 3,
		twoOfThree, 2, threeRanks...)
}

// lostJoining lets rank 0 die, and the others when they send the commit to its successor.
func lostJoining() (*killer, Options) {
	k := &killer{spare: 9, dead: map[int]uint64{}, kills: []kill{{0, 9, probe.Status}, {1, 0, probe.Rollback}, {2, 0, probe.Rollback}}}
	return k, Options{World: lasting(3, k), Observer: k, Inject: k.after(meeting(3, 2, 0, probe.Rollback))}
}

// TestLostWhileAnotherJoins: all ranks that have trained are lost while a new rank joins. The job
// must not start from the beginning.
func TestLostWhileAnotherJoins(t *testing.T) {
	k, o := lostJoining()
	_, err := runAnyway(t, o, adagrad, threeRanks...)
	if !errors.As(err, new(*commit.Unrecoverable)) || !strings.HasPrefix(err.Error(),
		allOfThree+"; there is no checkpoint to restore") || len(k.kills) > 0 {
		t.Errorf("%v, %d are yet to die", err, len(k.kills))
	}
	k, o = lostJoining()
	checkRestores(t, o, k, 3, allOfThree, 1, threeRanks...)
}

// TestAllLostAtOnce: all ranks are lost at once, and no rank of the next world has trained. The
// world reports that there was a commit, and the job must not start from the beginning.
func TestAllLostAtOnce(t *testing.T) {
	all := func() (*killer, Options) {
		k := &killer{spare: 9, dead: map[int]uint64{}, kills: []kill{{0, 9, probe.Step}, {1, 9, probe.Step}, {2, 9, probe.Step}}}
		return k, Options{World: lasting(3, k), Observer: k, Inject: k.after(meeting(3, 1, 9, probe.Step))}
	}
	k, o := all()
	_, err := runAnyway(t, o, adagrad, threeRanks...)
	if !errors.As(err, new(*commit.Unrecoverable)) || !strings.HasPrefix(err.Error(),
		allOfThree+"; there is no checkpoint to restore") || len(k.kills) > 0 {
		t.Errorf("%v, %d are yet to die", err, len(k.kills))
	}
	k, o = all()
	checkRestores(t, o, k, 3, allOfThree, 1, threeRanks...)
}

// TestSlowCommitsAreReported: the world is also notified of commits that a seal had to wait for,
// since the deltas of each epoch take longer than a step.
func TestSlowCommitsAreReported(t *testing.T) {
	var told atomic.Int64
	w := alone(env.Real(), 3)
	w.Committed = func(bool) { told.Add(1) }
	slow := func(rank int, _ int64, point probe.Point) error {
		if rank == 0 && point == probe.Send {
			time.Sleep(30 * time.Millisecond)
		}
		return nil
	}
	run(t, Options{World: w, Inject: slow}, adagrad, threeRanks...)
	if n := told.Load(); n < 3*8 {
		t.Errorf("3 ranks that commit after each of 12 steps told of %d commits", n)
	}
}

// TestLostBeforeAllHaveBegun: a rank is lost before all ranks have begun, and another one while it
// is replaced. Nothing was trained, and the job starts from the beginning.
func TestLostBeforeAllHaveBegun(t *testing.T) {
	sets := []string{"job.ranks=4", "ec.code=rs", "ec.k=2", "ec.r=2", "train.iterations=6", "ec.commit_every=1"}
	want := run(t, Options{}, adagrad, sets...)
	k := &killer{spare: 2, dead: map[int]uint64{}, kills: []kill{{3, 0, probe.Ready}, {0, 0, probe.Rollback}}}
	after := k.after(meeting(4, 1, 0, probe.Ready), meeting(4, 2, 0, probe.Rollback))
	got, err := runAnyway(t, Options{World: lasting(4, k), Observer: k, Inject: func(rank int, step int64, point probe.Point) error {
		err := after(rank, step, point)
		if k.generation == 1 && point == probe.Ready && (rank == 1 || rank == 2) {
			return &transport.PeerLost{Rank: 3, Generation: 1, Cause: errDevice}
		}
		return err
	}}, adagrad, sets...)
	if err != nil || got.Digest != want.Digest || len(k.kills) > 0 {
		t.Errorf("%v, digest %s, want %s; %v are yet to die", err, got.Digest, want.Digest, k.kills)
	}
}

// TestLostAfterAnotherWasGivenACommit: a new rank has received a commit with no rows to decode, and
// another rank is lost before all have resumed. The new one can send what it received.
func TestLostAfterAnotherWasGivenACommit(t *testing.T) {
	k := &killer{spare: 2, dead: map[int]uint64{}, kills: []kill{{0, 1, probe.Step}, {1, 0, probe.Survey}}}
	sets := append(slices.Clone(threeRanks), "model.init_from=")
	want := run(t, Options{}, adagrad, sets...)
	got, err := runAnyway(t, Options{World: lasting(3, k), Observer: k, Inject: k.after(meeting(3, 2, 0, probe.Survey))}, adagrad, sets...)
	if err != nil || got.Digest != want.Digest || len(k.kills) > 0 {
		t.Errorf("%v, digest %s, want %s; %v are yet to die", err, got.Digest, want.Digest, k.kills)
	}
}

// TestSnapshotsAreDroppedByARestore: a job that restores a checkpoint drops its snapshots.
func TestSnapshotsAreDroppedByARestore(t *testing.T) {
	const most = 3 // of the commit, of the epoch that is sealed, and room for the next
	var mu sync.Mutex
	kept := 0
	k := &killer{spare: 9, dead: map[int]uint64{}, kills: []kill{{1, 9, probe.Status}, {2, 9, probe.Status}}}
	checkRestores(t, Options{Inject: k.after(meeting(3, 1, 9, probe.Status)), Audit: func(_ int64, a *commit.Audit) {
		mu.Lock()
		defer mu.Unlock()
		kept = max(kept, a.Snapshots)
	}}, k, 3, twoOfThree, 1, threeRanks...)
	if kept > most || kept == 0 {
		t.Errorf("a rank kept %d snapshots, at most %d are needed", kept, most)
	}
}

// closing reports when its endpoint is closed.
type closing struct {
	transport.Endpoint
	once   sync.Once
	closed chan struct{}
}

func (c *closing) Close() error {
	defer c.once.Do(func() { close(c.closed) })
	return c.Endpoint.Close()
}

// TestWorldEndsDuringARebuild: a world ends while rows are rebuilt beside a step. The rebuild's
// communicators are closed after the rebuild has ended.
func TestWorldEndsDuringARebuild(t *testing.T) {
	for _, mode := range []string{"planned", "lrpp"} {
		sets := []string{"job.ranks=3", "ec.code=xor", "ec.k=2", "train.iterations=9", "cache.mode=" + mode}
		want := run(t, Options{}, adagrad, sets...)
		k := &killer{spare: 1, dead: map[int]uint64{}, kills: []kill{{2, 5, probe.Status}}}
		w := lasting(3, k)
		join, rank0, rebuilds, broken := w.Join, (*closing)(nil), 0, make(chan struct{})
		w.Join = func(hosted []int) ([]transport.Endpoint, error) {
			eps, err := join(hosted)
			for i := range eps {
				eps[i] = &closing{Endpoint: eps[i], closed: make(chan struct{})}
			}
			rank0 = eps[0].(*closing)
			return eps, err
		}
		got, err := runAnyway(t, Options{World: w, Observer: k, Inject: func(rank int, step int64, point probe.Point) error {
			if rank == 1 && point == probe.Forward && k.generation == 2 {
				<-broken // the step ends later
			}
			if rank == 0 && point == probe.Rebuild {
				// The first round is before a step, the second while the step computes.
				if rebuilds++; rebuilds == 2 {
					k.eps[1].Abort(&transport.PeerLost{Rank: 1, Generation: k.generation, Cause: errDevice})
					close(broken)
					<-rank0.closed
					time.Sleep(20 * time.Millisecond) // so that an early close can do harm
				}
			}
			return k.inject(rank, step, point)
		}}, adagrad, sets...)
		if err != nil || got.Digest != want.Digest || rebuilds < 2 {
			t.Errorf("%s: %v, digest %s, want %s; %d rebuilds", mode, err, got.Digest, want.Digest, rebuilds)
		}
	}
}

// TestPanicEndsTheProcess: a panic ends the process, though other ranks wait for the one that
// panics. Its supervisor reports the loss.
func TestPanicEndsTheProcess(t *testing.T) {
	const variable = "ECREC_TEST_PANICS"
	if os.Getenv(variable) != "" {
		run(t, Options{Inject: func(rank int, step int64, point probe.Point) error {
			if rank == 1 && step == 3 && point == probe.Fetch {
				panic("a bug")
			}
			return nil
		}}, adagrad, "job.ranks=3", "train.iterations=100")
		return
	}
	within(t, 20*time.Second, func() {
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		c := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestPanicEndsTheProcess$")
		c.Env = append(os.Environ(), variable+"=1")
		out, err := c.CombinedOutput()
		if err == nil || ctx.Err() != nil || !strings.Contains(string(out), "panic: a bug") {
			t.Errorf("%v, %v: %s", err, ctx.Err(), out)
		}
	})
}
