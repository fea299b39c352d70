package forecast_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/forecast"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/transport"
)

const small = `
[data]
format = "synthetic"
[model]
embedding_dim = 4
tables = [1000, 2000, 3000]
bottom_mlp = [8, 4]
top_mlp = [8, 1]
[train]
global_batch = 96
iterations = 40
`

// A forecast has counts and times; a slower link gives no faster step.
func TestForecast(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.toml")
	if err := os.WriteFile(path, []byte(small), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, sets := range [][]string{{"job.ranks=1"}, {"job.ranks=4"}, {"job.ranks=6", "ec.code=xor", "ec.k=2", "job.threads=1"},
		{"job.ranks=4", "data.hots=[2, 1, 3]"}, {"ranks.trainers=2", "ranks.servers=2"}} {
		cfg, err := config.Load(path, append([]string{"job.out=" + t.TempDir()}, sets...))
		if err != nil {
			t.Fatal(err)
		}
		o := forecast.Options{PerHost: 2, Link: &transport.EmulatedLink{BytesPerS: 1e9, Latency: 1e4}, Progress: func(data.Progress) error { return nil }}
		f, _, err := forecast.Run(env.Real(), cfg, o)
		if err != nil {
			t.Fatalf("%v: %v", sets, err)
		}
		x := f.Times
		if f.Counted < 8 || f.Memory.Sum() <= 0 || x.Compute <= 0 || x.Step < x.Compute || (f.Rebuild != nil) != (cfg.EC.Code == "xor") {
			t.Errorf("%v: %d steps, memory %v, times %+v, rebuild %+v", sets, f.Counted, f.Memory.Sum(), *x, f.Rebuild)
		}
		o.MaxLookups, o.Untimed = 100, true
		sampled, _, err := forecast.Run(env.Real(), cfg, o)
		if err != nil || cfg.Job.Ranks == 4 && cfg.Ranks.Servers == 0 && sampled.Sample != 4 || sampled.Times != nil {
			t.Errorf("%v: one of %d ranks was read, %v", sets, sampled.Sample, err)
		}
	}
}
