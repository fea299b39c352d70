package commit

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/ec"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/placement"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/shard"
	"github.com/ecrec/ecrec/transport"
)

const (
	testWidth = 6
	testState = 1
)

// member is one rank of a test. It owns rows, and r draws its updates.
type member struct {
	c      *Committer
	p      *Parity
	h      *shard.Shard
	status *collectives.Comm
	deltas *collectives.Comm
	rounds *collectives.Comm
	r      *rand.Rand
	mirror *mirror
	// at holds all rows at the ends of epochs that may be rolled back to.
	at map[int64][]byte
}

type cluster struct {
	layout  ec.Layout
	place   placement.Map
	code    string
	width   int
	state   int
	members []*member
	done    int64 // steps
	eps     []transport.Endpoint
}

func newCluster(t *testing.T, code string, owners, k, r int, every int64, seed uint64) *cluster {
	c := newClusterOf(t, code, owners, k, r, every, placement.New([]int64{400, 17, 90}, owners), testWidth, testState)
	for id, m := range c.members {
		m.r, m.at = rand.New(rand.NewPCG(seed, uint64(id))), map[int64][]byte{}
		m.at[0] = m.allRows(t)
		m.mirror.rows = bytes.Clone(m.at[0])
	}
	return c
}

// newClusterOf makes a cluster whose rows have width weights and state floats of state.
func newClusterOf(t testing.TB, code string, owners, k, r int, every int64, place placement.Map, width, state int) *cluster {
	layout, err := ec.NewLayout(owners, k, r)
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{layout: layout, place: place, code: code, width: width, state: state}
	for id := range owners {
		c.members = append(c.members, c.newMember(t, id, every))
	}
	return c
}

func (c *cluster) newMember(t testing.TB, id int, every int64) *member {
	dev, err := kernels.NewCPU(kernels.CPUOptions{Poison: true})
	if err != nil {
		t.Fatal(err)
	}
	s := dev.Stream(1)
	h, err := shard.New(dev, s, shard.Options{Map: c.place, Owner: id, Seed: 3, Width: c.width, State: c.state, Packed: true})
	if err != nil {
		t.Fatal(err)
	}
	m := &member{h: h, mirror: &mirror{t: t, stride: h.RowBytes(), prepared: []int64{0}}}
	if m.p, err = NewParity(ParityOptions{Env: env.Real(), Device: dev, Shard: h, Layout: c.layout, Code: c.code,
		Slots: c.place.Slots(0), Owner: id, Deferred: every%2 == 0}); err != nil {
		t.Fatal(err)
	}
	sinks := []Sink{m.p, m.mirror}
	if _, benchmark := t.(*testing.B); benchmark {
		sinks = sinks[:1]
	}
	m.c = New(Options{Env: env.Real(), Shard: h, Every: every, Sinks: sinks})
	t.Cleanup(func() { m.c.Close(); h.Close(); s.Close() })
	return m
}

// join puts all members in a new world; leave ends it.
func (c *cluster) join() {
	c.eps = transport.NewMem(env.Real(), len(c.members), 1)
	for i, m := range c.members {
		dev, _ := kernels.NewCPU(kernels.CPUOptions{Poison: true})
		m.status = collectives.New(env.Real(), c.eps[i], 1, dev, dev.Stream(1))
		m.deltas = collectives.New(env.Real(), c.eps[i], 2, dev, dev.Stream(1))
		m.rounds = collectives.New(env.Real(), c.eps[i], 3, dev, dev.Stream(1))
		m.c.Join(m.deltas)
		m.p.Join(m.deltas, m.rounds, m.h)
	}
}

func (c *cluster) leave() {
	for _, ep := range c.eps {
		_ = ep.Close()
	}
	for _, m := range c.members {
		m.p.Leave()
		m.c.Leave()
		m.status.Close()
		m.deltas.Close()
		m.rounds.Close()
	}
}

// allRows is the bytes of all rows of a member, drawn or not, weights and state.
func (m *member) allRows(t *testing.T) []byte {
	n, stride := int(m.h.Slots()), m.h.RowBytes()
	all, draw := make([]byte, n*stride), make([]float32, testWidth)
	for slot := range n {
		row := all[slot*stride : (slot+1)*stride]
		if m.h.TouchedBits()[slot>>6]>>(slot&63)&1 != 0 {
			if err := m.h.ReadRows(kernels.Mat(kernels.HostBuffer(row), 1, stride/4), []int32{int32(slot)}); err != nil {
				t.Error(err)
			}
			continue
		}
		init := m.h.Init()
		init.Row(draw, int64(slot*init.Owners+init.Owner))
		copy(row, kernels.BytesOf(draw))
	}
	return all
}

// update writes some rows as a step does.
func (m *member) update() error {
	var slots []int32
	for _, x := range m.r.Perm(int(m.h.Slots()))[:m.r.IntN(12)] {
		slots = append(slots, int32(x))
	}
	grads := make([]float32, len(slots)*testWidth+1)
	start, pos := make([]int32, len(slots)+1), make([]int32, len(slots))
	for i := range slots {
		start[i+1], pos[i] = int32(i+1), int32(i)
	}
	for i := range grads {
		grads[i] = m.r.Float32() - 0.5
	}
	if len(slots) == 0 {
		return nil
	}
	return m.h.Apply(kernels.WholeRow(kernels.Optimizer{Kind: kernels.RowwiseAdagrad, LR: 0.1, Eps: 1e-8}), slots,
		kernels.Mat(kernels.HostBuffer(grads), len(slots), testWidth), kernels.HostBuffer(start), kernels.HostBuffer(pos))
}

// train does one step as the training loop does: the status of all ranks is exchanged before
// the epoch that has ended is sealed.
func (m *member) train(t *testing.T, step int64) error {
	n := m.status.Size()
	mine, all := []uint64{uint64(m.c.Prepared())}, make([]uint64, n)
	if err := m.status.AllGather(kernels.HostBuffer(all), kernels.HostBuffer(mine)).Wait(); err != nil {
		return err
	}
	prepared := make([]int64, n)
	for r, w := range all {
		prepared[r] = int64(w)
	}
	if _, err := m.c.Decide(prepared); err != nil {
		return err
	}
	if m.c.Due(step - 1) {
		m.at[step-1] = m.allRows(t)
		if err := m.c.Seal(step - 1); err != nil {
			return err
		}
	}
	if step%3 > 0 { // at all ranks
		m.p.Start()
	}
	if m.r.IntN(3) == 0 {
		time.Sleep(time.Duration(m.r.IntN(300)) * time.Microsecond)
	}
	return m.update()
}

// each runs f on all members at once.
func (c *cluster) each(t testing.TB, f func(m *member) error) {
	t.Helper()
	var wg sync.WaitGroup
	for _, m := range c.members {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if err := f(m); err != nil {
				t.Error(err)
			}
		}()
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// checkParities compares every parity row with the encoding of the data rows as of the last
// commit.
func (c *cluster) checkParities(t *testing.T) {
	t.Helper()
	stride := 4 * (testWidth + testState)
	init := make([][]byte, len(c.members))
	for i, m := range c.members {
		fresh, err := shard.New(m.p.o.Device, m.h.Stream(), shard.Options{Map: c.place, Owner: i, Seed: 3, Width: testWidth, State: testState, Packed: true})
		if err != nil {
			t.Fatal(err)
		}
		init[i] = (&member{h: fresh}).allRows(t)
		fresh.Close()
	}
	checked := 0
	for g := range c.layout.Groups() {
		group := c.layout.Group(g)
		code, err := ec.NewCode(c.code, group.Data(), group.Parity)
		if err != nil {
			t.Fatal(err)
		}
		for stripe := range group.Stripes(c.place.Slots(0)) {
			data, want := make([][]byte, group.Data()), make([][]byte, group.Parity)
			for col := range data {
				owner, slot := group.Holder(stripe, col)
				if slot >= c.members[owner].h.Slots() {
					continue
				}
				m := c.members[owner]
				data[col] = bytes.Clone(m.at[m.c.Committed()][slot*int64(stride):][:stride])
				for i := range data[col] {
					data[col][i] ^= init[owner][slot*int64(stride)+int64(i)]
				}
			}
			for j := range want {
				want[j] = make([]byte, stride)
			}
			code.Encode(want, data)
			for j := range want {
				holder, at := group.Holder(stripe, group.Data()+j)
				p, got := c.members[holder].p, make([]byte, stride)
				if !p.isZero(at) {
					got = p.rows.RowRange(int(p.placeOf(at)), 1).Buf.Host()
				}
				if !bytes.Equal(got, want[j]) {
					t.Fatalf("stripe %d of group %d: parity %d at owner %d is not the encoding as of step %d", stripe, g, j, holder,
						c.members[0].c.Committed())
				}
				checked++
			}
		}
	}
	if checked == 0 {
		t.Fatal("nothing was checked")
	}
	for _, m := range c.members {
		checkPlaces(t, m.p.parityRows)
	}
}

// TestParityIsTheEncodingOfACommit trains at random, ends the world at any step, rolls back to
// a commit, and continues.
func TestParityIsTheEncodingOfACommit(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 99))
	for _, x := range []struct {
		code         string
		owners, k, r int
	}{{ec.XOR, 2, 1, 1}, {ec.XOR, 5, 4, 1}, {ec.RS, 6, 4, 2}, {ec.RS, 9, 4, 2}, {ec.XOR, 8, 2, 1}, {ec.RS, 4, 1, 3}} {
		for _, every := range []int64{1, 2, 5} {
			t.Run(fmt.Sprintf("%s/%d owners/k=%d,r=%d/every=%d", x.code, x.owners, x.k, x.r, every), func(t *testing.T) {
				c := newCluster(t, x.code, x.owners, x.k, x.r, every, seed)
				for range 5 {
					c.join()
					last := c.done + int64(r.IntN(12))
					c.each(t, func(m *member) error {
						for step := c.done + 1; step <= last; step++ {
							if err := m.train(t, step); err != nil {
								return err
							}
						}
						return nil
					})
					c.done = last
					if r.IntN(3) == 0 {
						c.each(t, func(m *member) error { m.at[last] = m.allRows(t); return m.c.Settle(last) })
						if got := c.members[0].c.Committed(); got != last {
							t.Fatalf("step %d is committed, not %d", got, last)
						}
					}
					c.each(t, func(m *member) error { return m.status.Barrier().Wait() })
					c.leave()
					c.roll(t, r)
					c.checkParities(t)
					c.lose(t, r, every)
				}
			})
		}
	}
}

// roll rolls back to the last commit, as after a loss.
func (c *cluster) roll(t *testing.T, r *rand.Rand) {
	t.Helper()
	to := int64(0)
	for _, m := range c.members {
		to = max(to, m.c.Committed())
	}
	c.done = to
	for i, m := range c.members {
		if err := m.c.Roll(to); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(m.allRows(t), m.at[to]) {
			t.Fatalf("the rows of owner %d are not those of step %d", i, to)
		}
		if !bytes.Equal(m.mirror.rows, m.at[to]) {
			t.Fatalf("the sets of owner %d do not lead its sink to step %d", i, to)
		}
	}
}

// lose replaces members of each group by new ones, as many as the code tolerates. The new ones
// must rebuild all rows.
func (c *cluster) lose(t *testing.T, r *rand.Rand, every int64) {
	t.Helper()
	lost := make([]Loss, len(c.members))
	for g := range c.layout.Groups() {
		group := c.layout.Group(g)
		for _, i := range r.Perm(group.Size)[:r.IntN(group.Parity+1)] {
			id := group.First + i
			fresh := c.newMember(t, id, every)
			fresh.r, fresh.at = c.members[id].r, c.members[id].at
			fresh.mirror.rows = bytes.Clone(fresh.at[c.done])
			fresh.c.Begin(c.done, false)
			fresh.p.Lose()
			c.members[id], lost[id] = fresh, fresh.p.Left()
		}
	}
	c.checkSurvey(t, r, lost)
	c.rebuild(t, lost)
	for i, m := range c.members {
		if !bytes.Equal(m.allRows(t), m.at[c.done]) {
			t.Fatalf("owner %d has not rebuilt its rows of step %d", i, c.done)
		}
	}
	c.checkParities(t)
}

// rebuild rebuilds all lost rows, in a world of its own.
func (c *cluster) rebuild(t testing.TB, lost []Loss) {
	c.join()
	c.each(t, func(m *member) error {
		if err := m.p.Survey(lost); err != nil {
			return err
		}
		return m.p.RebuildAll()
	})
	c.leave()
}

// losses are those of nine ranks, of which some lost all.
func losses(ranks ...int) []Loss {
	lost := make([]Loss, 9)
	for _, r := range ranks {
		lost[r] = Loss{1, 1}
	}
	return lost
}

// TestUnrecoverable checks which losses exceed the code.
func TestUnrecoverable(t *testing.T) {
	c := newCluster(t, ec.RS, 9, 4, 2, 1, 1)
	all := losses()
	for i := range all {
		all[i].Parities = 1
	}
	if err := c.members[0].p.CheckLoss(all); err != nil {
		t.Errorf("all parities: %v", err)
	}
	if err := c.members[0].p.CheckLoss(losses(0, 1, 6, 7)); err != nil {
		t.Errorf("two of each group: %v", err)
	}
	if x := c.members[0].p.CheckLoss(losses(2, 6, 7, 8)); x == nil || x.Group != 1 || !slices.Equal(x.Ranks, []int{6, 7, 8}) {
		t.Errorf("three of a group of two data columns and one: %v", x)
	}
}
