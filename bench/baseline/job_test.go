package baseline_test

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/ecrec/ecrec/bench/baseline"
	"github.com/ecrec/ecrec/bench/measure"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/digest"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/placement"
	"github.com/ecrec/ecrec/lrpp"
	"github.com/ecrec/ecrec/train"
)

// samples are the data of a small job.
type samples struct {
	tables       []int64
	ids          []uint32
	batch, ranks int
	order        []int32 // the sample at each position; nil: they are in order
}

// drawSamples draws samples. Some ids are popular.
func drawSamples(seed uint64, tables []int64, batch, ranks, steps int) *samples {
	s := &samples{tables: tables, batch: batch, ranks: ranks}
	state := seed
	draw := func(below int64) uint32 {
		state = state*6364136223846793005 + 1442695040888963407
		u := float64(state>>40) / (1 << 24)
		return uint32(u * u * u * float64(below))
	}
	for range batch * steps {
		for _, rows := range tables {
			s.ids = append(s.ids, draw(rows))
		}
	}
	return s
}

func (s *samples) at(position int64) int64 {
	if s.order != nil {
		return int64(s.order[position])
	}
	return position
}

// stream is the samples from the view of the planners.
func (s *samples) stream() *baseline.Stream {
	f := len(s.tables)
	return &baseline.Stream{Place: placement.New(s.tables, s.ranks), Features: f, Steps: len(s.ids) / f / s.batch,
		IDs: func(step, rank int) (ids []uint32) {
			for _, p := range (data.Order{Samples: int64(len(s.ids) / f), Batch: s.batch}).Slice(int64(step)+1, rank, s.ranks, nil) {
				i := s.at(p)
				ids = append(ids, s.ids[int(i)*f:int(i+1)*f]...)
			}
			return ids
		}}
}

// Source of the samples. Labels and numbers follow from the sample.
func (s *samples) Schema() data.Schema { return data.Schema{Dense: 13, Tables: s.tables} }
func (s *samples) Len() int64          { return int64(len(s.ids) / len(s.tables)) }
func (s *samples) Skipped() int64      { return 0 }
func (s *samples) Close() error        { return nil }
func (s *samples) Read(b *data.Batch, idx []int64) error {
	f := len(s.tables)
	b.N, b.Labels, b.Dense, b.IDs = len(idx), b.Labels[:0], b.Dense[:0], b.IDs[:0]
	for _, p := range idx {
		i := s.at(p)
		b.Labels = append(b.Labels, float32(i%2))
		for k := range 13 {
			b.Dense = append(b.Dense, float32((int(i)*7+k*3)%11)/11)
		}
		b.IDs = append(b.IDs, s.ids[int(i)*f:int(i+1)*f]...)
	}
	return nil
}

const dim = 4

func (s *samples) config(t *testing.T, mode string) *config.Config {
	t.Helper()
	dir := t.TempDir()
	text := fmt.Sprintf(`[job]
ranks = %d
threads = 1
out = %q
[data]
format = "synthetic"
[model]
embedding_dim = %d
tables = [%s]
bottom_mlp = [8, %d]
top_mlp = [8, 1]
[train]
global_batch = %d
iterations = 1
[cache]
mode = %q
[optimizer.dense]
kind = "sgd"
lr = 0.5
[optimizer.sparse]
kind = "sgd"
lr = 0.5
`, s.ranks, dir, dim, strings.Trim(strings.ReplaceAll(fmt.Sprint(s.tables), " ", ", "), "[]"), dim, s.batch, mode)
	if err := os.WriteFile(dir+"/t.toml", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(dir+"/t.toml", nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// train trains some steps and returns the digest of all rows, and the traffic of all ranks. open makes the exchange of a rank; nil
// trains in a mode of cache.mode.
func (s *samples) train(t *testing.T, steps int, mode string, open func(*train.Trial) (exchange, error)) (digest.Sum, lrpp.Moved) {
	t.Helper()
	var mutex sync.Mutex
	var sum digest.Sum
	var moved lrpp.Moved
	o := train.Options{Observer: measure.Silent{}, Stop: func() bool { return false }, Source: s, Check: true}
	_, err := train.Try(env.Real(), s.config(t, mode), o, int64(steps), func(r *train.Trial) (err error) {
		planned := lrpp.Direct
		if err := r.TouchAll(); err != nil {
			return err
		}
		if open != nil {
			x, err := open(r)
			if err != nil {
				return err
			}
			defer x.Close()
			r.SetExchange(x)
		} else {
			if planned = r.Mode(mode); planned == lrpp.Cached {
				if err := r.OpenCache(int64(steps)); err != nil {
					return err
				}
			}
			r.SetMode(planned)
		}
		p := r.Start(planned, steps)
		defer func() { p.Close(err) }()
		for range steps {
			if err := p.Train(); err != nil {
				return err
			}
		}
		if _, err := r.Settle(); err != nil {
			return err
		}
		mine, err := r.Shard().Digest()
		mutex.Lock()
		defer mutex.Unlock()
		sum.Add(mine)
		moved.Add(r.Moved())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sum, moved
}

// exchange is one of a baseline.
type exchange interface {
	train.Exchange
	Close()
}

// opener makes the exchanges of a program.
func opener(p *baseline.Program, features int) func(r *train.Trial) (exchange, error) {
	return func(r *train.Trial) (exchange, error) {
		return baseline.New(optionsOf(r, p, features))
	}
}

func optionsOf(r *train.Trial, p *baseline.Program, features int) baseline.Options {
	dev, s := r.Device()
	return baseline.Options{Env: env.Real(), Device: dev, Stream: s, Shard: r.Shard(), Base: r.BaseExchange(), Program: p,
		Critical: r.OpenComm(0), Background: r.OpenComm(1), Features: features}
}
