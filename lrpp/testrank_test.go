package lrpp

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/internal/digest"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/oracle"
	"github.com/ecrec/ecrec/shard"
	"github.com/ecrec/ecrec/transport"
)

// testRank is a rank without a model.
type testRank struct {
	ep       transport.Endpoint
	s        kernels.Stream
	streams  []kernels.Stream
	comms    []*collectives.Comm
	shard    *shard.Shard
	planner  *Planner
	threads  *kernels.Threads // of the planner
	base     *Exchange
	cache    *Cache // nil except in mode Cached
	exchange exchange
	// spoil and spoilCache break plans. Nil leaves them correct.
	spoil      func(steps []Step, i int) (prev, next *Step)
	spoilCache func(*cachePlan)
	dev        kernels.Device
	settled    []digest.Sum // of the shard, after each Settle
	steps      []Step
}

type exchange interface {
	Begin(st, next *Step) (kernels.Matrix, kernels.Buffer, error)
	End(st *Step, rule kernels.RowRule, lookups kernels.Matrix) error
	Settle() error
	Moved(st *Step) Moved
}

func newTestRank(t *testing.T, e env.Env, dev kernels.Device, ep transport.Endpoint, j task, o PlanOptions) *testRank {
	r := &testRank{ep: ep, dev: dev, s: dev.Stream(1)}
	comm := func(channel uint16) *collectives.Comm {
		s := dev.Stream(1)
		c := collectives.New(e, ep, channel, dev, s)
		r.comms, r.streams = append(r.comms, c), append(r.streams, s)
		return c
	}
	var err error
	owner := max(ep.Rank()-j.first, -1)
	if r.shard, err = shard.New(dev, r.s, shard.Options{Map: j.place, Owner: owner, Seed: 3, Width: j.width,
		State: j.opt.Kind.RowState(j.width)}); err != nil {
		t.Error(err)
	}
	r.threads = kernels.NewThreads(1 + ep.Rank()%3) // ranks plan alike with any number
	o.Threads = r.threads
	r.planner = NewPlanner(comm(1), j.place, o)
	r.planner.splitter.most = 1 + ep.Rank()%4
	background := dev.Stream(1)
	r.streams = append(r.streams, background)
	r.base = New(Options{Env: e, Device: dev, Shard: r.shard, Critical: Channel{comm(2), r.s},
		Delayed: Channel{comm(3), background}, Check: o.Check})
	r.exchange = r.base
	if o.Mode == Cached {
		if r.cache, err = NewCache(r.base, CacheOptions{Trainers: j.trainers, FirstOwner: j.first,
			Rows: CacheRows(j.place.Slots, j.place.Owners, o.CapacityRows)}); err != nil {
			t.Error(err)
		}
		r.exchange = r.cache
	}
	return r
}

func (r *testRank) closeAll() {
	r.base.Close()
	r.threads.Close()
	for i := range r.steps {
		r.steps[i].FreeLists(r.dev)
	}
	if r.cache != nil {
		r.cache.Close()
	}
	for _, c := range r.comms {
		c.Close()
	}
	for _, s := range r.streams {
		s.Close()
	}
	r.ep.Close()
	r.shard.Close()
	r.s.Close()
}

// trainSteps returns the weights of each lookup at each step.
func (r *testRank) trainSteps(t *testing.T, j task) (seen [][]float32, err error) {
	tables, me := j.place.Tables(), r.ep.Rank()
	steps, err := r.planSteps(j)
	if err != nil {
		return nil, err
	}
	for i := range steps {
		st, ids := &steps[i], j.ids[i][me]
		var next *Step
		if i+1 < len(steps) {
			next = &steps[i+1]
		}
		rows, index, err := r.exchange.Begin(st, next)
		if err != nil {
			return seen, err
		}
		read := make([]float32, len(ids)*j.width)
		if len(ids) > 0 {
			r.s.GatherRows(kernels.Mat(kernels.HostBuffer(read), len(ids)/tables, tables*j.width), rows, index)
		}
		seen = append(seen, read)
		grads := kernels.Mat(kernels.HostBuffer(j.grads[i][me]), len(ids)/tables, tables*j.width)
		if err := r.exchange.End(st, kernels.WholeRow(j.opt), grads); err != nil {
			return seen, err
		}
		if m := r.exchange.Moved(st); j.ranks == 1 && m != (Moved{}) {
			t.Errorf("one rank alone moved %+v", m)
		}
		if x := r.base; j.ranks == 1 && r.cache == nil && x.critical.served.Bytes()+x.critical.grads.Bytes()+x.delayed.channel.grads.Bytes() > 0 {
			t.Error("one rank alone copies rows or gradients")
		}
		if i%3 == 1 || next == nil { // as for a checkpoint
			if err := r.exchange.Settle(); err != nil {
				return seen, err
			}
			d, err := r.shard.Digest()
			if err != nil {
				return seen, err
			}
			r.settled = append(r.settled, d)
		}
	}
	if r.cache != nil && r.spoilCache == nil && slices.ContainsFunc(r.cache.at, func(k rowKey) bool { return k != 0 }) {
		t.Error("rows are cached after the last step")
	}
	return seen, nil
}

// uploadLists copies the long lists of every second step ahead, and spoils the lists themselves.
func (r *testRank) uploadLists(st *Step) error {
	if st.number%2 == 0 {
		return nil
	}
	if err := st.uploadLists(r.dev, r.streams[0], 2); err != nil {
		return err
	}
	lists := st.copiedLists()
	for i, copied := range st.device.all() {
		if len(lists[i]) >= 2 && copied.n == 0 && st.cache == nil {
			return fmt.Errorf("list %d of step %d is not copied", i, st.number)
		}
		for k := range lists[i][:copied.n] {
			lists[i][k] = -1
		}
	}
	return nil
}

// planSteps plans all steps.
func (r *testRank) planSteps(j task) ([]Step, error) {
	steps := make([]Step, len(j.ids))
	r.steps = steps
	at := func(i int) *Step {
		if i < 0 || i >= len(steps) {
			return nil
		}
		return &steps[i]
	}
	for i, planned := 0, 0; planned < len(steps); i++ {
		if i < len(steps) {
			if err := r.planner.Fill(&steps[i], oracle.Lookups{IDs: j.ids[i][r.ep.Rank()]}); err != nil {
				return nil, err
			}
		} else {
			r.planner.End()
		}
		for ; planned+r.planner.Ahead() <= i && planned < len(steps); planned++ {
			prev, next := at(planned-1), at(planned+1)
			if r.spoil != nil {
				prev, next = r.spoil(steps, planned)
			}
			if err := r.planner.Plan(prev, &steps[planned], next); err != nil {
				return nil, err
			}
			if err := r.uploadLists(&steps[planned]); err != nil {
				return nil, err
			}
			if r.spoilCache != nil {
				r.spoilCache(steps[planned].cache)
			}
		}
	}
	return steps, nil
}
