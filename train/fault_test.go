package train

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/probe"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/transport"
)

// failingAt is a stream whose nth Sync fails, and all later ones.
type failingAt struct {
	kernels.Stream
	left *atomic.Int64
}

func (s failingAt) Sync() error {
	if s.left.Add(-1) < 0 {
		return errDevice
	}
	return s.Stream.Sync()
}

// TestAFailureAnywhereEndsAllRanks lets one rank fail at many moments of a short
// job in turn: while it loads, trains, evaluates, sums up and saves. Every time
// the job ends, with that failure and not with a consequence of it.
func TestAFailureAnywhereEndsAllRanks(t *testing.T) {
	const ranks = 2
	mode := anySets(seeded(t))
	sets := append(mode, "job.out="+t.TempDir(), fmt.Sprint("job.ranks=", ranks), "train.iterations=2", "train.eval_every=1")
	ended, denser := 0, int64(4)
	if testing.Short() {
		denser = 1
	}
	for n := int64(0); ended < ranks; n += 1 + n/denser {
		for bad := range ranks {
			cfg, err := config.Load(adagrad, sets)
			if err != nil {
				t.Fatal(err)
			}
			var left atomic.Int64
			left.Store(n)
			o := Options{Observer: &quiet{}, Stop: func() bool { return false }, SaveTo: filepath.Join(t.TempDir(), "m"),
				WrapStream: func(rank int, s kernels.Stream) kernels.Stream {
					if rank == bad {
						return failingAt{s, &left}
					}
					return s
				}}
			within(t, 20*time.Second, func() { _, err = Run(env.Real(), cfg, o) })
			switch {
			case err == nil:
				ended++ // it needs no more Syncs
			case !errors.Is(err, errDevice) || errors.As(err, new(*transport.PeerLost)):
				t.Fatalf("rank %d at its Sync %d: %v", bad, n, err)
			}
		}
		if n > 1000 {
			t.Fatal("a job of 2 steps needs more than 1000 Syncs")
		}
		if ended < ranks {
			ended = 0
		}
	}
}

// TestMemoryOfWhoComesLater refuses a job that does not fit into memory, but not the substitute
// of a lost process: free memory is no measure then.
func TestMemoryOfWhoComesLater(t *testing.T) {
	cfg, err := config.Load(adagrad, []string{"job.out=" + t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	j := newJob(env.Real(), cfg, Options{Observer: &quiet{}})
	if err := j.open(); err != nil {
		t.Fatal(err)
	}
	defer j.close()
	j.width = 1 << 40
	if err := j.checkMemory(); err == nil {
		t.Error("rows of 4 TiB were not refused")
	}
	j.world.LostAgo = time.Second
	if err := j.checkMemory(); err != nil {
		t.Error(err)
	}
}

// TestRowBytes checks that RowBytes is the need that a job counts, on the process with the most
// ranks.
func TestRowBytes(t *testing.T) {
	cfg, err := config.Load(adagrad, []string{"job.out=" + t.TempDir(), "job.ranks=5", "ec.code=xor", "ec.k=4"})
	if err != nil {
		t.Fatal(err)
	}
	for _, processes := range []int{1, 2, 5} {
		most := 0.
		for p := range processes {
			j := newJob(env.Real(), cfg, Options{Observer: &quiet{}, World: &World{Process: p, Processes: processes, Neighbours: 1}})
			if err := j.open(); err != nil {
				t.Fatal(err)
			}
			rows, _ := j.bytesNeeded()
			most = max(most, rows)
			j.close()
		}
		if got := RowBytes(cfg, processes); got != int64(most) || got == 0 {
			t.Errorf("%d processes: %d bytes, the job counts %v", processes, got, most)
		}
	}
	if got := RowBytes(cfg, 0); got != 0 {
		t.Errorf("no processes: %d bytes", got)
	}
}

// tardy is an Env whose delayed lanes are slow to begin a job.
type tardy struct{ env.Env }

func (e tardy) Monitor(name string) env.Monitor {
	m := e.Env.Monitor(name)
	if name != "delayed rows" {
		return m
	}
	return late{m, e}
}

type late struct {
	env.Monitor
	env env.Env
}

func (m late) Wait() {
	m.Monitor.Wait()
	m.env.Sleep(20 * time.Millisecond)
}

// TestPlansOutliveAFailure fails a step while rows of the one before still wait to
// be sent: the planner must not reuse their plans.
func TestPlansOutliveAFailure(t *testing.T) {
	for step := int64(3); step < 9; step++ {
		cfg, err := config.Load(adagrad, []string{"job.out=" + t.TempDir(), "job.ranks=2", "train.iterations=12",
			"cache.mode=lrpp", "oracle.lookahead=1"})
		if err != nil {
			t.Fatal(err)
		}
		o := Options{Observer: &quiet{}, Stop: func() bool { return false },
			Inject: func(rank int, s int64, point probe.Point) error {
				if s == step && point == probe.Fetch {
					return errDevice
				}
				return nil
			}}
		within(t, 20*time.Second, func() { _, err = Run(tardy{env.Real()}, cfg, o) })
		if !errors.Is(err, errDevice) {
			t.Fatalf("step %d: %v", step, err)
		}
	}
}
