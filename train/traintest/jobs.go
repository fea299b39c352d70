package traintest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/train"
	"github.com/ecrec/ecrec/transport"
)

// iterations is the length of a job.
const iterations = 12

// toml is the config of the jobs, without what the sets of a suite give.
const toml = `[job]
threads = 1
[data]
format = "csv"
train = ["train.csv"]
eval = ["eval.csv"]
[data.csv]
label = "label"
dense = ["d0", "d1", "d2"]
categorical = ["c0", "c1", "c2"]
[model]
tables = [40, 7, 300]
[train]
global_batch = 32
iterations = %d
eval_every = 5
`

// jobs trains one config on small files.
type jobs struct {
	path    string
	sets    []string
	modes   []string // of the cache; nil: all
	uncoded bool     // no erasure code is possible
}

// newJobs returns the jobs of sets. They share a conversion of the files.
func newJobs(t *testing.T, sets []string) *jobs {
	t.Helper()
	return &jobs{path: WriteJob(t), sets: append([]string{"data.cache=" + t.TempDir()}, sets...)}
}

// WriteJob writes a config and its data, and returns the path of the config. It trains a form with the sets of that form.
func WriteJob(t *testing.T) string {
	t.Helper()
	dir, r := t.TempDir(), rand.New(rand.NewPCG(1, 2))
	for _, f := range []struct{ name, text string }{
		{"run.toml", fmt.Sprintf(toml, iterations)}, {"train.csv", samples(r, 200, false)}, {"eval.csv", samples(r, 50, false)},
		{"train-bags.csv", samples(r, 200, true)}, {"eval-bags.csv", samples(r, 50, true)},
	} {
		if err := os.WriteFile(filepath.Join(dir, f.name), []byte(f.text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "run.toml")
}

// samples is n random samples as CSV. With bags, c1 has up to three ids, some of them equal, empty or with a weight.
func samples(r *rand.Rand, n int, bags bool) string {
	var b strings.Builder
	fmt.Fprintln(&b, "label,d0,d1,d2,c0,c1,c2")
	for i := range n {
		label, numbers := r.IntN(2), fmt.Sprintf("%d,%d,%d", r.IntN(9), r.IntN(90), r.IntN(3))
		c0, c1, c2 := r.IntN(50), fmt.Sprint(r.IntN(5)), r.IntN(1+r.IntN(500))
		if bags {
			c1 = strings.Join([]string{c1, fmt.Sprintf("%d:%v", r.IntN(60), float64(i%7)/4-0.5), c1 + ":2"}[:i%4], "|")
		}
		fmt.Fprintf(&b, "%d,%s,%d,%s,%d\n", label, numbers, c0, c1, c2)
	}
	return b.String()
}

// train runs a job on ranks that are spread over processes of one memory, and
// returns the result of rank 0.
func (j *jobs) train(t *testing.T, processes, ranks int, o train.Options, sets ...string) *train.Result {
	t.Helper()
	e := env.Real()
	eps := transport.NewMem(e, ranks, 1)
	results, errs := make([]*train.Result, processes), make([]error, processes)
	var wait sync.WaitGroup
	for p := range processes {
		cfg, own := j.load(t, ranks, sets...), o
		own.Observer, own.Stop = observer{}, func() bool { return false }
		own.World = &train.World{Process: p, Processes: processes, Neighbours: processes,
			Join: func(hosted []int) (mine []transport.Endpoint, err error) {
				for _, id := range hosted {
					mine = append(mine, eps[id])
				}
				return mine, nil
			}}
		wait.Add(1)
		go func() {
			defer wait.Done()
			results[p], errs[p] = train.Run(e, cfg, own)
		}()
	}
	wait.Wait()
	for p, err := range errs {
		if err != nil {
			t.Fatalf("process %d of %d, %d ranks, %v: %v", p, processes, ranks, sets, err)
		}
	}
	return results[0]
}

// observer ignores everything.
type observer struct{}

func (observer) Started(train.Info) error          { return nil }
func (observer) Step(train.StepInfo)               {}
func (observer) Checkpointed(int64, string, error) {}
func (observer) SkippedCheckpoint(string, error)   {}
func (observer) Warned(string)                     {}
func (observer) Recovered(train.Recovery)          {}
func (observer) Evaluated(train.Eval)              {}
func (observer) Committed(int64, string)           {}
