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
	"github.com/ecrec/ecrec/internal/config"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/transport"
)

// runAnyway is run of a job that may fail.
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

// told is a killer that hears warnings.
type told struct {
	*killer
	said []string
}

func (o *told) Warned(what string) { o.said = append(o.said, what) }

// goesBack checks that a run gives what it gives when nobody dies, and says each time that
// it went back to a checkpoint, and why.
func goesBack(t *testing.T, o Options, k *killer, ranks int, why string, times int, sets ...string) {
	t.Helper()
	want := run(t, Options{}, adagrad, sets...)
	left, hears := len(k.kills), &told{killer: k}
	o.World, o.Observer = lasting(ranks, k), hears
	got, err := runAnyway(t, o, adagrad, append(sets, "checkpoint.dir="+t.TempDir(), "checkpoint.every=5")...)
	if err != nil || got.Digest != want.Digest || !slices.Equal(got.TrainLoss, want.TrainLoss) || !slices.Equal(got.Eval, want.Eval) {
		t.Errorf("%v, digest %s, losses %v; want %s, %v", err, got.Digest, got.TrainLoss, want.Digest, want.TrainLoss)
	}
	if len(k.hit) != left {
		t.Errorf("%v died, but not at %v", k.hit, k.kills)
	}
	if len(hears.said) != times {
		t.Errorf("told %q, want %d lines", hears.said, times)
	}
	for _, line := range hears.said {
		if !strings.HasPrefix(line, why) || !strings.Contains(line, "the run goes on from the checkpoint of step 5") {
			t.Errorf("told %q, want %q first", line, why)
		}
	}
}

// meet is where the ranks of a world wait for each other the first time that they
// come there, before any of them dies.
type meet struct {
	generation uint64
	step       int64
	point      string
	left       sync.WaitGroup
	came       []bool // by rank; its own
}

func meeting(ranks int, generation uint64, step int64, point string) *meet {
	m := &meet{generation: generation, step: step, point: point, came: make([]bool, ranks)}
	m.left.Add(ranks)
	return m
}

// after is chaos, after meetings.
func (k *killer) after(meetings ...*meet) func(int, int64, string) error {
	return func(rank int, step int64, point string) error {
		for _, m := range meetings {
			if k.generation == m.generation && point == m.point && step >= m.step && !m.came[rank] {
				m.came[rank] = true
				m.left.Done()
				m.left.Wait()
			}
		}
		return k.chaos(rank, step, point)
	}
}

const (
	twoOfThree = "ranks [1 2] of group 0 have lost their rows, more than the ec.r = 1 that the others make good"
	allOfThree = "ranks [0 1 2] of group 0 have lost their rows, more than the ec.r = 1 that the others make good"
)

// threeRanks can spare one.
var threeRanks = []string{"job.ranks=3", "ec.code=xor", "ec.k=2", "train.iterations=12", "ec.commit_every=1"}

// More is lost than can be decoded, and again while the job goes back to its checkpoint:
// each time all know why, those too that are new.
func TestFallWhileFalling(t *testing.T) {
	k := &killer{spare: 9, dead: map[int]uint64{}, kills: []kill{{1, 9, "word"}, {2, 9, "word"}, {0, 0, "fallen"}}}
	goesBack(t, Options{Chaos: k.after(meeting(3, 1, 9, "word"), meeting(3, 2, 0, "fallen"))}, k, 3, twoOfThree, 2, threeRanks...)
}

// lostJoining has rank 0 die, and the others as soon as rank 0 is to be given a commit.
func lostJoining() (*killer, Options) {
	k := &killer{spare: 9, dead: map[int]uint64{}, kills: []kill{{0, 9, "word"}, {1, 0, "rollback"}, {2, 0, "rollback"}}}
	return k, Options{World: lasting(3, k), Observer: k, Chaos: k.after(meeting(3, 2, 0, "rollback"))}
}

// All are lost that have trained, while a new rank joins them: the job does not begin
// anew as if nobody had.
func TestLostWhileAnotherJoins(t *testing.T) {
	k, o := lostJoining()
	_, err := runAnyway(t, o, adagrad, threeRanks...)
	if !errors.As(err, new(*commit.Beyond)) || !strings.HasPrefix(err.Error(), allOfThree+"; there is no checkpoint to fall back to") || len(k.kills) > 0 {
		t.Errorf("%v, %d are yet to die", err, len(k.kills))
	}
	k, o = lostJoining()
	goesBack(t, o, k, 3, allOfThree, 1, threeRanks...)
}

// All are lost at once, and nobody is left who has trained: the job knows that there was a
// commit, and does not begin anew.
func TestAllLostAtOnce(t *testing.T) {
	all := func() (*killer, Options) {
		k := &killer{spare: 9, dead: map[int]uint64{}, kills: []kill{{0, 9, "step"}, {1, 9, "step"}, {2, 9, "step"}}}
		return k, Options{World: lasting(3, k), Observer: k, Chaos: k.after(meeting(3, 1, 9, "step"))}
	}
	k, o := all()
	_, err := runAnyway(t, o, adagrad, threeRanks...)
	if !errors.As(err, new(*commit.Beyond)) || !strings.HasPrefix(err.Error(), allOfThree+"; there is no checkpoint to fall back to") || len(k.kills) > 0 {
		t.Errorf("%v, %d are yet to die", err, len(k.kills))
	}
	k, o = all()
	goesBack(t, o, k, 3, allOfThree, 1, threeRanks...)
}

// The world is told of commits that a seal had to wait for, too: deltas that travel longer than a
// step, every time.
func TestSlowCommitsAreTold(t *testing.T) {
	var told atomic.Int64
	w := alone(env.Real(), 3)
	w.Committed = func(bool) { told.Add(1) }
	slow := func(rank int, _ int64, point string) error {
		if rank == 0 && point == "send" {
			time.Sleep(30 * time.Millisecond)
		}
		return nil
	}
	run(t, Options{World: w, Chaos: slow}, adagrad, threeRanks...)
	if n := told.Load(); n < 3*8 {
		t.Errorf("3 ranks that commit after each of 12 steps told of %d commits", n)
	}
}

// A rank is lost before some know that all have begun, and another while it is replaced:
// nothing was trained, and the job begins anew.
func TestLostBeforeAllHaveBegun(t *testing.T) {
	sets := []string{"job.ranks=4", "ec.code=rs", "ec.k=2", "ec.r=2", "train.iterations=6", "ec.commit_every=1"}
	want := run(t, Options{}, adagrad, sets...)
	k := &killer{spare: 2, dead: map[int]uint64{}, kills: []kill{{3, 0, "ready"}, {0, 0, "rollback"}}}
	after := k.after(meeting(4, 1, 0, "ready"), meeting(4, 2, 0, "rollback"))
	got, err := runAnyway(t, Options{World: lasting(4, k), Observer: k, Chaos: func(rank int, step int64, point string) error {
		err := after(rank, step, point)
		if k.generation == 1 && point == "ready" && (rank == 1 || rank == 2) {
			return &transport.PeerLost{Rank: 3, Generation: 1, Cause: errDevice}
		}
		return err
	}}, adagrad, sets...)
	if err != nil || got.Digest != want.Digest || len(k.kills) > 0 {
		t.Errorf("%v, digest %s, want %s; %v are yet to die", err, got.Digest, want.Digest, k.kills)
	}
}

// A new rank has been given a commit of which there was nothing to decode, and another is
// lost before all have begun again: the new one can make that good.
func TestLostAfterAnotherWasGivenACommit(t *testing.T) {
	k := &killer{spare: 2, dead: map[int]uint64{}, kills: []kill{{0, 1, "step"}, {1, 0, "survey"}}}
	sets := append(slices.Clone(threeRanks), "model.init_from=")
	want := run(t, Options{}, adagrad, sets...)
	got, err := runAnyway(t, Options{World: lasting(3, k), Observer: k, Chaos: k.after(meeting(3, 2, 0, "survey"))}, adagrad, sets...)
	if err != nil || got.Digest != want.Digest || len(k.kills) > 0 {
		t.Errorf("%v, digest %s, want %s; %v are yet to die", err, got.Digest, want.Digest, k.kills)
	}
}

// Snapshots of what a job gave up when it went back to a checkpoint are not kept.
func TestSnapshotsOfAFall(t *testing.T) {
	const most = 3 // of the commit, of the epoch that is sealed, and room for the next
	var mu sync.Mutex
	kept := 0
	k := &killer{spare: 9, dead: map[int]uint64{}, kills: []kill{{1, 9, "word"}, {2, 9, "word"}}}
	goesBack(t, Options{Chaos: k.after(meeting(3, 1, 9, "word")), Audit: func(_ int64, a *commit.Audit) {
		mu.Lock()
		defer mu.Unlock()
		kept = max(kept, a.Snapshots)
	}}, k, 3, twoOfThree, 1, threeRanks...)
	if kept > most || kept == 0 {
		t.Errorf("a rank kept %d snapshots, at most %d are needed", kept, most)
	}
}

// closing tells when an endpoint is closed.
type closing struct {
	transport.Endpoint
	once   sync.Once
	closed chan struct{}
}

func (c *closing) Close() error {
	defer c.once.Do(func() { close(c.closed) })
	return c.Endpoint.Close()
}

// What repairs rows beside a step that its world leaves is not gone before it has ended.
func TestRepairThatAWorldLeaves(t *testing.T) {
	for _, mode := range []string{"planned", "lrpp"} {
		sets := []string{"job.ranks=3", "ec.code=xor", "ec.k=2", "train.iterations=9", "cache.mode=" + mode}
		want := run(t, Options{}, adagrad, sets...)
		k := &killer{spare: 1, dead: map[int]uint64{}, kills: []kill{{2, 5, "word"}}}
		w := lasting(3, k)
		join, rank0, repairs, broken := w.Join, (*closing)(nil), 0, make(chan struct{})
		w.Join = func(hosted []int) ([]transport.Endpoint, error) {
			eps, err := join(hosted)
			for i := range eps {
				eps[i] = &closing{Endpoint: eps[i], closed: make(chan struct{})}
			}
			rank0 = eps[0].(*closing)
			return eps, err
		}
		got, err := runAnyway(t, Options{World: w, Observer: k, Chaos: func(rank int, step int64, point string) error {
			if rank == 1 && point == "forward" && k.generation == 2 {
				<-broken // the step does not end before
			}
			if rank == 0 && point == "rebuild" {
				// The first is before a step, the second while that computes.
				if repairs++; repairs == 2 {
					k.eps[1].Abort(&transport.PeerLost{Rank: 1, Generation: k.generation, Cause: errDevice})
					close(broken)
					<-rank0.closed
					time.Sleep(20 * time.Millisecond) // for what would be wrong to happen
				}
			}
			return k.chaos(rank, step, point)
		}}, adagrad, sets...)
		if err != nil || got.Digest != want.Digest || repairs < 2 {
			t.Errorf("%s: %v, digest %s, want %s; %d repairs", mode, err, got.Digest, want.Digest, repairs)
		}
	}
}

// A panic ends the process, though other ranks wait for the one that panics: its
// supervisor tells the job.
func TestPanicEndsTheProcess(t *testing.T) {
	const variable = "ECREC_TEST_PANICS"
	if os.Getenv(variable) != "" {
		run(t, Options{Chaos: func(rank int, step int64, point string) error {
			if rank == 1 && step == 3 && point == "fetch" {
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
