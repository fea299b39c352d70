package train

import (
	"fmt"
	"math"
	"sync/atomic"
	"testing"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/plan"
	"github.com/ecrec/ecrec/transport"
)

// counted is an endpoint that counts the messages that it sends, by channel.
type counted struct {
	transport.Endpoint
	messages, bytes [chanSums + 1]atomic.Int64
}

func (c *counted) Send(to int, tag transport.Tag, p []byte) transport.Request {
	if len(p) > 0 {
		c.messages[tag>>48].Add(1)
		c.bytes[tag>>48].Add(int64(len(p)))
	}
	return c.Endpoint.Send(to, tag, p)
}

// inPlace is such an endpoint whose ranks read each other's memory.
type inPlace struct {
	transport.Viewer
	counted *counted
}

func (x inPlace) Send(to int, tag transport.Tag, p []byte) transport.Request {
	return x.counted.Send(to, tag, p)
}

// sentOn counts the messages of a rank on some channels.
func (c *counted) sentOn(channels ...uint16) (t plan.Traffic) {
	for _, ch := range channels {
		t.Add(plan.Traffic{Messages: c.messages[ch].Load(), Bytes: c.bytes[ch].Load()})
	}
	return t
}

// runCounted trains a config, and returns the endpoints of its ranks and its result.
func runCounted(t *testing.T, views bool, path string, sets ...string) ([]*counted, *Result) {
	t.Helper()
	cfg := load(t, path, sets...)
	e := env.Real()
	var all []*counted
	world := &World{Processes: 1, Neighbours: 1, Join: func([]int) (eps []transport.Endpoint, err error) {
		for _, ep := range transport.NewMem(e, cfg.Job.Ranks, 1) {
			all = append(all, &counted{Endpoint: ep})
			if v, ok := ep.(transport.Viewer); ok && views {
				eps = append(eps, inPlace{v, all[len(all)-1]})
			} else {
				eps = append(eps, all[len(all)-1])
			}
		}
		return eps, nil
	}}
	result, err := Run(e, cfg, Options{Observer: &quiet{}, Stop: func() bool { return false }, World: world})
	if err != nil {
		t.Fatal(err)
	}
	return all, result
}

func load(t *testing.T, path string, sets ...string) *config.Config {
	t.Helper()
	cfg, err := config.Load(path, append([]string{"job.out=" + t.TempDir()}, sets...))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// outline counts all steps of a job, without a run.
func outline(t *testing.T, views bool, path string, sets ...string) (*Outline, *plan.Counter) {
	t.Helper()
	neighbours := 1
	if views {
		neighbours = mostNeighbours
	}
	o, err := OpenOutline(env.Real(), load(t, path, sets...), nil, neighbours, func(data.Progress) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.Close)
	c, err := plan.NewCounter(o.Job, true)
	if err != nil {
		t.Fatal(err)
	}
	var rows []int64
	for step := int64(1); step <= o.Steps(); step++ {
		for trainer := range o.Job.Trainers {
			if _, rows, err = o.Slice(step, trainer, rows[:0]); err != nil {
				t.Fatal(err)
			}
			c.AddSlice(trainer, rows)
		}
		c.EndStep()
	}
	c.Finish()
	return o, c
}

// mostNeighbours is more than the ranks of a test.
const mostNeighbours = 100

// TestOutlineCountsTheTraffic: the messages and bytes that each rank of a run sends are as
// predicted without the run.
func TestOutlineCountsTheTraffic(t *testing.T) {
	for name, sets := range map[string][]string{
		"planned":   {"job.ranks=4"},
		"none":      {"job.ranks=3", "cache.mode=none"},
		"immediate": {"job.ranks=4", "cache.delayed_sync=false"},
		"xor":       {"job.ranks=6", "ec.code=xor", "ec.k=2", "ec.commit_every=3", "data.shuffle=block"},
		"rs":        {"job.ranks=7", "ec.code=rs", "ec.k=2", "ec.r=2", "ec.commit_every=4", "job.digests=true"},
		"digests":   {"job.ranks=2", "job.digests=true", "ec.commit_every=2"},
		"roles":     {"ranks.trainers=2", "ranks.servers=3"},
		"deep":      {"job.ranks=3", "model.top_mlp=[600,700,1]"},
		"in place":  {"job.ranks=4", "model.top_mlp=[600,700,1]"},
		"one rank":  {"job.ranks=1"},
		"many":      {"job.ranks=11", "ec.code=xor", "ec.k=10", "ec.commit_every=3", "job.digests=true"},
		"all rows":  {"job.ranks=2", "optimizer.sparse.dense=true", "optimizer.sparse.kind=adam"},
		"clipped":   {"job.ranks=3", "train.clip_dense=1"},
	} {
		t.Run(name, func(t *testing.T) {
			const few, more = 6, 12
			run := func(steps int) ([]*counted, *plan.Counter) {
				sets := append([]string{fmt.Sprintf("train.iterations=%d", steps), "data.eval=[]", "model.init_from="}, sets...)
				eps, result := runCounted(t, name == "in place", adagrad, sets...)
				_, c := outline(t, name == "in place", adagrad, sets...)
				if c.Steps != steps || result.Steps != int64(steps) {
					t.Fatalf("%d steps were counted, and %d trained", c.Steps, result.Steps)
				}
				return eps, c
			}
			fewSent, fewCounts := run(few)
			sent, counts := run(more)
			for id, ep := range sent {
				r := &counts.Ranks[id]
				for _, k := range []struct {
					channels []uint16
					classes  []plan.Class
				}{{[]uint16{chanPlan}, []plan.Class{plan.Lists}}, {[]uint16{chanRows}, []plan.Class{plan.LateRows, plan.Gradients}},
					{[]uint16{chanDelayed}, []plan.Class{plan.EarlyRows, plan.LaterGrads}}, {[]uint16{chanDense}, []plan.Class{plan.Dense}},
					{[]uint16{chanCommit}, []plan.Class{plan.Deltas}}} {
					var want plan.Traffic
					for _, class := range k.classes {
						want.Add(r.Sent[class])
					}
					if got := ep.sentOn(k.channels...); got != want {
						t.Errorf("rank %d sent %+v of %v, predicted %+v", id, got, k.classes, want)
					}
				}
				// Statuses share a channel with the messages of the begin and the end.
				before, after := fewSent[id].sentOn(chanControl), ep.sentOn(chanControl)
				predicted, all := fewCounts.Ranks[id].Sent[plan.Status], r.Sent[plan.Status]
				if got, want := (plan.Traffic{Messages: after.Messages - before.Messages, Bytes: after.Bytes - before.Bytes}),
					(plan.Traffic{Messages: all.Messages - predicted.Messages, Bytes: all.Bytes - predicted.Bytes}); got != want {
					t.Errorf("rank %d sent %+v of step status in %d steps, predicted %+v", id, got, more-few, want)
				}
			}
		})
	}
}

// TestMemoryOfSettings: the plan counts the steps that are planned ahead with cache.mode lrpp by oracle.lookahead, and the share of a
// process of stream.backlog.
func TestMemoryOfSettings(t *testing.T) {
	memory := func(sets ...string) plan.Memory {
		o, c := outline(t, false, adagrad, append([]string{"job.ranks=4", "cache.mode=lrpp"}, sets...)...)
		return o.Memory(0, &c.Means()[0])
	}
	ahead := func(lookahead string) float64 { return memory("oracle.lookahead=" + lookahead)[plan.Prepared] }
	few, more, all := ahead("4"), ahead("8"), ahead("30")
	if each := (more - few) / 4; each <= 0 || math.Abs(all-few-26*each) > 1 {
		t.Errorf("batches and plans take %v bytes with a lookahead of 4, %v with 8, %v with 30", few, more, all)
	}
	if ends, auto := ahead("200"), ahead("auto"); ends != all || auto != all { // the run has 30 steps
		t.Errorf("batches and plans take %v bytes with a lookahead of 200, %v with auto, want %v", ends, auto, all)
	}
	waiting := func(backlog string) float64 {
		return memory("stream.to=file:"+t.TempDir(), "stream.backlog="+backlog)[plan.LogCopies]
	}
	if got := waiting("48MiB") - waiting("8MiB"); got != 10<<20 {
		t.Errorf("40 MiB more of a backlog take %v bytes of one of 4 processes", got)
	}
}
