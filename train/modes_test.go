package train

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/invariant"
	"github.com/ecrec/ecrec/oracle"
	"github.com/ecrec/ecrec/transport"
)

// seeded is a source of random cases that prints its seed.
func seeded(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// fewerInRaces is the number of cases to run of n: a third of them in short tests with the race detector, which need ten times as long.
func fewerInRaces(n int) int {
	if invariant.Enabled && testing.Short() {
		return (n + 2) / 3
	}
	return n
}

// someCases are the golden cases; one of them in short tests.
func someCases(t *testing.T, r *rand.Rand) []string {
	all := goldenCases(t)
	if !testing.Short() {
		return all
	}
	i := r.IntN(len(all))
	return all[i : i+1]
}

// lrppSets is settings of cache mode lrpp.
func lrppSets(r *rand.Rand) []string {
	lookahead := []string{"1", "2", "7", "50", "auto"}[r.IntN(5)]
	return []string{"cache.mode=lrpp", "oracle.lookahead=" + lookahead, fmt.Sprintf("cache.delayed_sync=%v", r.IntN(3) > 0)}
}

// anySets is settings of any cache mode but none.
func anySets(r *rand.Rand) []string {
	switch r.IntN(5) {
	case 0:
		return []string{"cache.mode=auto"}
	case 1:
		return []string{"cache.mode=planned", fmt.Sprintf("cache.delayed_sync=%v", r.IntN(2) == 0)}
	}
	return lrppSets(r)
}

// The cache mode changes no bit: any mode and lookahead has the result of mode "none", for
// every optimizer, with evaluations in between.
func TestCacheModesAgree(t *testing.T) {
	r := seeded(t)
	for _, path := range someCases(t, r) {
		t.Run(filepath.Base(filepath.Dir(path)), func(t *testing.T) {
			common := []string{fmt.Sprintf("job.ranks=%d", 1+r.IntN(5)), "train.iterations=9", "train.eval_every=4"}
			want := run(t, Options{}, path, append(common, "cache.mode=none")...)
			for _, sets := range [][]string{lrppSets(r), anySets(r), anySets(r)} {
				got := run(t, Options{}, path, append(common, sets...)...)
				if got.Digest != want.Digest || !slices.Equal(got.Eval, want.Eval) {
					t.Errorf("%v, %v: digest %s, %+v; want %s, %+v", common, sets, got.Digest, got.Eval, want.Digest, want.Eval)
				}
			}
		})
	}
}

// A cache that is too small for the rows of a step ends the job, with the room that it needs.
// With exactly that room the run has the same result.
func TestCacheJustLargeEnough(t *testing.T) {
	r := seeded(t)
	paths := goldenCases(t)
	path := paths[r.IntN(len(paths))]
	sets := []string{fmt.Sprintf("job.ranks=%d", 1+r.IntN(4)), "train.iterations=8", "train.eval_every=3"}
	want := run(t, Options{}, path, append(sets, "cache.mode=none")...)
	sets = append(sets, lrppSets(r)...)
	for room := "1KiB"; ; {
		w := &warned{}
		cfg, err := config.Load(path, append(sets, "job.out="+t.TempDir(), "cache.max_bytes="+room))
		if err != nil {
			t.Fatal(err)
		}
		got, err := Run(env.Real(), cfg, Options{Observer: w, Stop: func() bool { return false }})
		if err == nil {
			if room == "1KiB" || got.Digest != want.Digest {
				t.Errorf("%s, %v, max_bytes %s: digest %s, want %s", path, sets, room, got.Digest, want.Digest)
			}
			ofCache := func(said string) bool { return strings.HasPrefix(said, "cache.max_bytes: ") }
			ofData := func(said string) bool { return strings.HasPrefix(said, "in the first ") }
			if said := slices.DeleteFunc(w.said, ofData); len(said) > 1 || len(said) == 1 && !ofCache(said[0]) {
				t.Errorf("%v, max_bytes %s: warned %q", sets, room, said)
			}
			return
		}
		_, after, said := strings.Cut(err.Error(), "set cache.max_bytes to ")
		if more, _, _ := strings.Cut(after, " "); !said || len(more) <= 3 || more == room {
			t.Fatalf("max_bytes %s: %v", room, err)
		} else {
			room = more
		}
	}
}

// Slow messages change no bit in any cache mode.
func TestCacheModesWithDelays(t *testing.T) {
	r := seeded(t)
	paths := goldenCases(t)
	rounds := 6
	if testing.Short() {
		rounds = 2
	}
	for range rounds {
		path, ranks := paths[r.IntN(len(paths))], 2+r.IntN(4)
		sets := []string{fmt.Sprintf("train.iterations=%d", 1+r.IntN(8)), fmt.Sprintf("train.global_batch=%d", 5+r.IntN(100))}
		mode := anySets(r)
		want := run(t, Options{}, path, append(sets, fmt.Sprintf("job.ranks=%d", ranks), "cache.mode=none")...)
		e := env.Real()
		var wrapped []transport.Endpoint
		for _, ep := range transport.NewMem(e, ranks, 1) {
			f, err := transport.ParseFaults(r.Uint64(), "delay(300us, p=0.1)")
			if err != nil {
				t.Fatal(err)
			}
			wrapped = append(wrapped, transport.Wrap(e, ep, f))
		}
		world := &World{Processes: 1, Neighbours: 1, Join: func([]int) ([]transport.Endpoint, error) { return wrapped, nil }}
		got := run(t, Options{World: world}, path, append(append(sets, fmt.Sprintf("job.ranks=%d", ranks)), mode...)...)
		if got.Digest != want.Digest {
			t.Fatalf("%s, %d ranks, %v, %v: digest %s, want %s", path, ranks, sets, mode, got.Digest, want.Digest)
		}
	}
}

// Which ranks hold rows and which read data changes no bit: only the number of
// trainers does. A run resumes from a checkpoint of other servers and readers.
func TestRolesAgree(t *testing.T) {
	r := seeded(t)
	parts := []roles{{rows: 1}, {rows: 2, readers: 1}, {rows: 3, readers: 2}, {readers: 1}, {readers: 2}}
	for _, path := range someCases(t, r) {
		trainers := 1 + r.IntN(3)
		common := []string{"train.iterations=7", "train.eval_every=3", "job.threads=2"}
		want := run(t, Options{}, path, append(common, fmt.Sprintf("job.ranks=%d", trainers), "cache.mode=none")...)
		dir := t.TempDir()
		common = append(common, "checkpoint.dir="+dir)
		other := anySets(r)
		if r.IntN(2) == 0 {
			other = []string{"cache.mode=none"}
		}
		for _, mode := range [][]string{other, lrppSets(r)} {
			p := parts[r.IntN(len(parts))]
			sets := append(common, fmt.Sprintf("ranks.readers=%d", p.readers), fmt.Sprintf("ranks.servers=%d", p.rows))
			if p.rows > 0 {
				sets = append(sets, fmt.Sprintf("ranks.trainers=%d", trainers))
			}
			sets = append(append(sets, fmt.Sprintf("job.ranks=%d", p.rows+p.readers+trainers)), mode...)
			run(t, Options{Resume: "auto"}, path, append(sets, "train.iterations=4")...)
			got := run(t, Options{Resume: "auto"}, path, sets...)
			if got.Digest != want.Digest || !slices.Equal(got.TrainLoss, want.TrainLoss) ||
				got.Eval[len(got.Eval)-1] != want.Eval[len(want.Eval)-1] {
				t.Errorf("%s, %d trainers, %v: digest %s, eval %v; want %s, %v", path, trainers, sets, got.Digest, got.Eval, want.Digest, want.Eval)
			}
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A run in cache mode lrpp that is stopped writes its cached rows back, and resumes to the same
// end, on one process or several.
func TestStoppedWithRowsCached(t *testing.T) {
	r := seeded(t)
	common := []string{"train.iterations=9", "cache.mode=lrpp"}
	want := run(t, Options{}, adagrad, append(common, "job.ranks=3", "cache.mode=none")...)
	dir := "checkpoint.dir=" + t.TempDir()
	last := 1 + r.Int64N(8)
	var asked atomic.Int64
	stop := func() bool { return asked.Add(1) > 3*(last-1) }
	if got := run(t, Options{Stop: stop}, adagrad, append(common, "job.ranks=3", dir)...); !got.Stopped || got.Steps != last {
		t.Fatalf("stopped %v after %d steps, want %d", got.Stopped, got.Steps, last)
	}
	got := spread(t, 2, 3, Options{Resume: "auto"}, adagrad, append(common, dir)...)
	if got[0].Digest != want.Digest {
		t.Errorf("stopped after step %d: digest %s, want %s", last, got[0].Digest, want.Digest)
	}
}

// A lookahead that does not fit into memory is reduced on all ranks, with one warning. With
// fewer steps than fit there is no warning.
func TestLookaheadThatDoesNotFit(t *testing.T) {
	for steps, warnings := range map[int64]int{3: 0, 1 << 40: 1} {
		w := &warned{}
		cfg, err := config.Load(adagrad, []string{"job.out=" + t.TempDir(), "job.ranks=3", "cache.mode=lrpp", "oracle.lookahead=2000000000"})
		if err != nil {
			t.Fatal(err)
		}
		j := newJob(env.Real(), cfg, Options{Observer: w})
		if err := j.open(); err != nil {
			t.Fatal(err)
		}
		ahead := make([]int, 3)
		if err := j.eachRank(func(r *rank) error {
			err := r.openCache(steps)
			ahead[r.id] = r.conns.ahead
			return err
		}); err != nil {
			t.Fatal(err)
		}
		j.close()
		if len(w.said) != warnings || ahead[0] != ahead[1] || ahead[0] != ahead[2] || ahead[0] < 1 || ahead[0] > oracle.MaxLookahead {
			t.Errorf("training of %d steps: lookaheads %d; warned %q", steps, ahead, w.said)
		}
		if warnings > 0 && !strings.Contains(w.said[0], "oracle.lookahead: 2000000000 steps ahead do not fit") {
			t.Errorf("warned %q", w.said)
		}
	}
}

// warned records warnings.
type warned struct {
	quiet
	said []string
}

// Warned ignores evaluations worse than the label rate, which are normal after a few steps.
func (w *warned) Warned(what string) {
	if !strings.HasPrefix(what, "evaluation ") {
		w.said = append(w.said, what)
	}
}
