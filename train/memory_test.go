package train

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/placement"
	"github.com/ecrec/ecrec/shard"
)

// The memory of a machine's processes is counted, and that of commits is warned of once.
func TestMemoryThatProcessesAndCommitsTake(t *testing.T) {
	cfg, err := config.LoadFor(3, adagrad, []string{"job.out=" + t.TempDir(), "ec.code=xor", "ec.k=2",
		"checkpoint.dir=" + t.TempDir(), "checkpoint.every=5"})
	if err != nil {
		t.Fatal(err)
	}
	w := &warned{}
	j := newJob(env.Real(), cfg, Options{Observer: w, World: &World{Processes: 3, Neighbours: 3}})
	if err := j.open(); err != nil {
		t.Fatal(err)
	}
	defer j.close()
	const rows, rest = 100 << 20, 10 << 20
	const need = 3*(rows+rest+workerBytes+standbyBytes) + 3*linkBytes
	held := 3 * (j.journalBytes() + asideBytes(j))
	if j.journalBytes() == 0 || asideBytes(j) == 0 {
		t.Fatal("commits or saves take nothing")
	}
	err = j.fitsMemory(rows, rest, need-1)
	if err == nil || !strings.Contains(err.Error(),
		"the job needs 350 MiB (rows and optimizer state 300 MiB, activations and buffers 30 MiB, processes 19.5 MiB), this machine has 349 MiB available") {
		t.Error(err)
	}
	for _, c := range []struct {
		available float64
		warnings  int
	}{{need + held, 0}, {need + held - 1, 1}, {need, 1}} {
		if err := j.fitsMemory(rows, rest, c.available); err != nil || len(w.said) != c.warnings {
			t.Errorf("%.0f bytes available: %v, %q", c.available, err, w.said)
		}
	}
	if len(w.said) == 1 && !strings.Contains(w.said[0], "the job needs 350 MiB, and commits and saves hold up to ") {
		t.Error(w.said)
	}
	cfg.Collectives.Transport = "tcp" // without rings
	if got := j.processBytes(); got != 3*(workerBytes+standbyBytes) {
		t.Errorf("processes take %v over TCP", got)
	}
	cfg.Elastic.Standby = false
	if got := j.processBytes(); got != 3*workerBytes {
		t.Errorf("processes take %v without standbys", got)
	}
}

// A small job allocates little memory: its buffers are as large as its batches and tables need.
func TestSmallJobAllocatesLittle(t *testing.T) {
	saved := filepath.Join(t.TempDir(), "model.safetensors")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	run(t, Options{SaveTo: saved}, adagrad, "job.ranks=4", "job.threads=2", "train.iterations=2")
	runtime.ReadMemStats(&after)
	if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 20<<20 {
		t.Errorf("%d MB; want at most 20", bytes>>20)
	}
}

// TestShareMemory: frames and rows that are read ahead take the memory that they share, and no more.
func TestShareMemory(t *testing.T) {
	r := seeded(t)
	for range 1000 {
		o := shard.Options{Width: 1 + r.IntN(200), State: r.IntN(3), Frames: 1}
		row, each := shard.RowBytes(o), shard.FrameBytes(o)
		bytes, lookups := leastFrames*(each+row)+r.Int64N(1<<30), r.Int64N(1<<20)
		frames, ahead := shareMemory(o, bytes, each, lookups)
		used := int64(frames)*each + int64(ahead)*row
		if used > bytes || used < bytes-each || int64(ahead) > lookups || ahead > frames/aheadShare+1 {
			t.Fatalf("%d bytes for rows of %d, a step of %d: %d frames and %d rows ahead take %d bytes", bytes, row, lookups, frames, ahead, used)
		}
	}
}

// Thousands of ranks in one process take memory of their own.
func TestMemoryOfManyRanks(t *testing.T) {
	need := func(ranks, hosted int) float64 {
		cfg, err := config.Load(adagrad, []string{"job.out=" + t.TempDir(), fmt.Sprint("job.ranks=", ranks), "train.global_batch=4096"})
		if err != nil {
			t.Fatal(err)
		}
		j := &job{topology: topology{cfg: cfg, ranks: ranks, width: 1, place: placement.New([]int64{1}, ranks), roles: roles{rows: ranks, trainers: ranks}}}
		for rank := range hosted {
			j.hosted = append(j.hosted, rank)
		}
		rows, rest := j.bytesNeeded()
		return rows + rest
	}
	if many := need(4096, 4096); many < 30<<30 {
		t.Errorf("4096 ranks: %v bytes", many)
	}
	if few := need(4, 4); few > 100<<20 {
		t.Errorf("4 ranks: %v bytes", few)
	}
	if one := need(4096, 1); one > 100<<20 {
		t.Errorf("a process with one of 4096 ranks: %v bytes", one)
	}
}

// A process computes with its share of the cores.
func TestThreadsAreTheShareOfCores(t *testing.T) {
	cfg := config.Default()
	for _, c := range []struct {
		cores float64
		want  int
	}{{4, 4}, {2.5, 2}, {0.25, 1}, {0, max(1, runtime.GOMAXPROCS(0)/8)}} {
		j := newJob(env.Real(), cfg, Options{Observer: &quiet{}, World: &World{Processes: 8, Neighbours: 8, Cores: c.cores}})
		if got := j.threadCount(); got != c.want {
			t.Errorf("a share of %v cores: %d threads, want %d", c.cores, got, c.want)
		}
	}
}
