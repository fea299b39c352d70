package train

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ecrec/ecrec/commit"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/cuda/standin"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/probe"
	"github.com/ecrec/ecrec/kernels"
)

// TestOneDigestOnGPUs checks that a GPU computes the bits of a CPU, for any number of ranks that share it,
// in any cache mode, coded or not.
func TestOneDigestOnGPUs(t *testing.T) {
	standin.Use(t, kernels.CUDASource(), 1)
	r := seeded(t)
	paths := goldenCases(t)
	for _, path := range paths[r.IntN(len(paths)):][:1] {
		t.Run(filepath.Base(filepath.Dir(path)), func(t *testing.T) {
			for _, ranks := range []string{"job.ranks=1", "job.ranks=3"} {
				sets := []string{ranks, "train.iterations=6"}
				want := reference(t, path, sets...)
				ways := [][]string{{"cache.mode=none"}, {"cache.mode=planned"}, lrppSets(r), {"ec.code=xor", "ec.k=2", "ec.commit_every=2"},
					{"ec.code=rs", "ec.k=1", "ec.r=2", "ec.commit_every=2"}}
				if testing.Short() {
					ways = ways[r.IntN(len(ways)):][:1]
				}
				for _, more := range ways {
					coded := strings.HasPrefix(more[0], "ec.")
					if ranks == "job.ranks=1" && coded {
						continue // nobody holds parities
					}
					audits := &audits{t: t}
					got := run(t, Options{Audit: audits.add}, path, append(append(sets[:2:2], "job.device=cuda"), more...)...)
					if coded && audits.checked < 2 {
						t.Errorf("%s %v: parities were checked at %d steps", ranks, more, audits.checked)
					}
					if got.Digest != want.Digest {
						t.Errorf("%s %v: digest %s, on the CPU %s", ranks, more, got.Digest, want.Digest)
					}
					if fmt.Sprint(got.TrainLoss, got.Eval) != fmt.Sprint(want.TrainLoss, want.Eval) {
						t.Errorf("%s %v: losses %v, evaluation %v; on the CPU %v, %v", ranks, more, got.TrainLoss, got.Eval, want.TrainLoss, want.Eval)
					}
				}
			}
		})
	}
}

// TestRowsBesideGPUs checks that rows for which the GPU has no room are in the host's memory,
// with the same bits in any cache mode, coded or not. A job that does not fit is refused.
func TestRowsBesideGPUs(t *testing.T) {
	standin.Use(t, kernels.CUDASource(), 1)
	r := seeded(t)
	sets := []string{"train.iterations=6", "model.init_from=",
		"model.tables=[500000, 500000, 1000, 3, 300, 24, 125, 63, 3, 900, 56, 800, 31, 27, 149, 500, 10, 56, 21, 4, 700, 18, 15, 286, 105, 142]"}
	want := func(ranks string) string {
		return reference(t, adagrad, append(sets[:len(sets):len(sets)], ranks)...).Digest
	}
	const little = 64 << 20 // and rows of 128 MB
	t.Setenv("ECREC_STANDIN_BYTES", fmt.Sprint(little))
	ways := [][]string{{"cache.mode=none"}, {"cache.mode=planned"}, lrppSets(r), {},
		{"ec.code=xor", "ec.k=2", "ec.commit_every=2"},
		{"ec.code=rs", "ec.k=1", "ec.r=2", "ec.commit_every=2", "cache.mode=lrpp"},
		{"ec.commit_every=2", "store.path=" + filepath.Join(t.TempDir(), "store")}} // it takes the rows of each commit
	only := r.IntN(len(ways)) // in short tests
	for i, more := range ways {
		ranks := "job.ranks=3"
		if len(more) == 0 {
			ranks = "job.ranks=1"
		}
		if testing.Short() && i != only {
			continue
		}
		audits, told := &audits{t: t}, &warned{}
		got := run(t, Options{Audit: audits.add, Observer: told}, adagrad,
			append(append(sets[:len(sets):len(sets)], "job.device=cuda", ranks), more...)...)
		if got.Digest != want(ranks) {
			t.Errorf("%s %v: digest %s, on the CPU %s", ranks, more, got.Digest, want(ranks))
		}
		if len(told.said) == 0 || !strings.Contains(told.said[0], "lie in the host's memory") {
			t.Errorf("%v: told %q", more, told.said)
		}
	}
	t.Setenv("ECREC_STANDIN_BYTES", fmt.Sprint(3*little)) // and caches that would take 128 MB for each of three ranks
	told := &warned{}
	if got := run(t, Options{Observer: told}, adagrad, append(sets[:len(sets):len(sets)], "job.device=cuda", "job.ranks=3",
		"cache.mode=lrpp")...); got.Digest != want("job.ranks=3") || len(told.said) > 0 {
		t.Errorf("a cache in what is left: digest %s, on the CPU %s; told %q", got.Digest, want("job.ranks=3"), told.said)
	}
	t.Setenv("ECREC_STANDIN_BYTES", fmt.Sprint(little))
	k := &killer{spare: 1, dead: map[int]uint64{}, kills: []kill{{1, 4, probe.Backward},
		{0, int64(r.IntN(6)), probe.All()[r.IntN(len(probe.All()))]}}}
	checkDeaths(t, adagrad, append(sets, "job.ranks=3", "job.device=cuda", "ec.code=xor", "ec.k=2", "ec.commit_every=2"), k, 3)

	cfg, err := config.Load(adagrad, append(sets, "job.ranks=3", "job.out="+t.TempDir(), "job.device=cuda",
		"model.embedding_dim=128", "model.bottom_mlp=[32, 128]"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(env.Real(), cfg, Options{Observer: &quiet{}, Stop: func() bool { return false }}); err == nil ||
		!strings.Contains(err.Error(), "memory: activations and buffers take") {
		t.Errorf("activations that do not fit: %v", err)
	}
}

// audits checks parities against rows, at each step that all owners show theirs at.
type audits struct {
	t       *testing.T
	mu      sync.Mutex
	shown   map[int64][]*commit.Audit
	checked int
}

func (a *audits) add(step int64, x *commit.Audit) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.shown == nil {
		a.shown = map[int64][]*commit.Audit{}
	}
	all := append(a.shown[step], x)
	a.shown[step] = all
	if len(all) < x.Owners() {
		return
	}
	slices.SortFunc(all, func(x, y *commit.Audit) int { return x.Owner - y.Owner })
	if err := commit.CheckAudits(all); err != nil {
		a.t.Errorf("step %d: %v", step, err)
	}
	a.checked++
}

// TestDeathsOnGPUs checks that rows on the GPU of a lost rank are decoded from other ranks.
func TestDeathsOnGPUs(t *testing.T) {
	standin.Use(t, kernels.CUDASource(), 1)
	r := seeded(t)
	for ranks, code := range map[int][]string{3: {"ec.code=xor", "ec.k=2"}, 4: {"ec.code=rs", "ec.k=2", "ec.r=2"}} {
		sets := append([]string{fmt.Sprintf("job.ranks=%d", ranks), "train.iterations=20", "ec.commit_every=3", "job.device=cuda"}, code...)
		k := &killer{spare: 1, dead: map[int]uint64{}, kills: []kill{{1, 7, probe.Backward}, {2, 13, probe.Push},
			{0, int64(r.IntN(20)), probe.All()[r.IntN(len(probe.All()))]}}}
		checkDeaths(t, adagrad, sets, k, ranks)
	}
}

// TestNoGPU checks that a job that requires a GPU fails with a line if there is none. Other jobs
// use the CPU.
func TestNoGPU(t *testing.T) {
	if _, err := kernels.NewCUDA(kernels.CUDAConfig{}); err == nil {
		t.Skip("skipped: there is a GPU")
	}
	err := fails(t, adagrad, "job.device=cuda")
	if text := err.Error(); !strings.Contains(text, "job.device = \"cuda\"") ||
		!strings.Contains(text, "no NVIDIA driver") || strings.Contains(text, "\n") {
		t.Errorf("%v", err)
	}
	run(t, Options{}, adagrad, "job.device=auto", "train.iterations=2")
}
