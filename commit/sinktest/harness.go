package sinktest

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/commit"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/placement"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/shard"
	"github.com/ecrec/ecrec/transport"
)

const (
	width = 3 // weights of a row
	state = 2 // floats of optimizer state
	every = 3 // steps of an epoch
)

// job is some ranks that train, each with one sink under test.
type job struct {
	t       *testing.T
	c       *Config
	members []*member
	done    int64 // the last step
	eps     []transport.Endpoint
}

// member is one rank of a job.
type member struct {
	rank     int
	rollBack bool // pre-images are kept
	dev      kernels.Device
	rows     *shard.Shard
	sink     commit.Sink
	watch    *watcher
	commits  *commit.Committer
	comm     *collectives.Comm // nil between worlds
	leave    func()            // of Config.Join
	dense    kernels.Buffer
	r        *rand.Rand
	began    int64          // the step of the last Begin
	at       map[int64]ends // by the last step of an epoch
}

// ends is the state of a rank at the end of an epoch.
type ends struct {
	rows  []byte // of all slots
	dense []byte
}

// newJob starts a job at commit 0, in its first world. rollBack adds a sink that needs
// pre-images.
func newJob(t *testing.T, c *Config, rollBack bool) *job {
	j := &job{t: t, c: c}
	place := placement.New([]int64{40, 3, 17}, max(1, c.Ranks))
	for rank := range place.Owners {
		j.members = append(j.members, j.newMember(rank, place, rank, rollBack))
	}
	j.enterWorld()
	return j
}

// newMember makes a rank that owns the rows of an owner, -1 for none.
func (j *job) newMember(rank int, place placement.Map, owner int, rollBack bool) *member {
	j.t.Helper()
	dev, err := kernels.NewCPU(kernels.CPUOptions{Poison: true})
	must(j.t, err)
	s := dev.Stream(1)
	h, err := shard.New(dev, s, shard.Options{Map: place, Owner: owner, Seed: 5, Width: width, State: state})
	must(j.t, err)
	must(j.t, h.TouchAll()) // copies of all rows are compared
	m := &member{rank: rank, rollBack: rollBack, dev: dev, rows: h, r: rand.New(rand.NewPCG(7, uint64(rank))), at: map[int64]ends{}}
	m.dense, err = dev.Alloc(16, kernels.Working)
	must(j.t, err)
	m.openSink(j, j.c.Open)
	m.commits.Begin(0, true)
	m.record(0)
	j.t.Cleanup(func() {
		j.leaveWorld()
		m.commits.Close()
		m.commits.Close()
		dev.Free(m.dense)
		h.Close()
		s.Close()
	})
	return m
}

// openSink makes the sink of a rank, and its commits.
func (m *member) openSink(j *job, open commit.SinkFactory) {
	j.t.Helper()
	var err error
	m.sink, err = open(commit.SinkOptions{Env: env.Real(), Device: m.dev, Rank: m.rank, Shard: m.rows})
	must(j.t, err)
	m.watch = &watcher{Sink: m.sink, t: j.t, rollBack: m.rollBack}
	m.commits = commit.New(commit.Options{Env: env.Real(), Shard: m.rows, Every: every, Sinks: []commit.Sink{m.watch}})
}

// enterWorld puts all members in a new world.
func (j *job) enterWorld() {
	j.eps = transport.NewMem(env.Real(), len(j.members), 1)
	for i, m := range j.members {
		m.comm = collectives.New(env.Real(), j.eps[i], 1, m.dev, m.rows.Stream())
		m.commits.Join(m.comm)
		m.leave = func() {}
		if j.c.Join != nil {
			m.leave = j.c.Join(m.sink, World{Comm: m.comm, Endpoint: j.eps[i], Device: m.dev, Rows: m.rows})
		}
	}
}

// leaveWorld ends it, if there is one.
func (j *job) leaveWorld() {
	for _, ep := range j.eps {
		_ = ep.Close()
	}
	for _, m := range j.members {
		if m.comm != nil {
			m.leave()
			m.commits.Leave()
			m.comm.Close()
			m.comm = nil
		}
	}
	j.eps = nil
}

// each calls f for all members at once.
func (j *job) each(f func(m *member) error) {
	j.t.Helper()
	errs := make([]error, len(j.members))
	var wg sync.WaitGroup
	for i, m := range j.members {
		wg.Go(func() { errs[i] = f(m) })
	}
	wg.Wait()
	for _, err := range errs {
		must(j.t, err)
	}
}

// train trains n steps. Epochs that end are sealed after the status of the next step.
func (j *job) train(n int64) {
	j.t.Helper()
	for range n {
		var prepared []int64
		for _, m := range j.members {
			prepared = append(prepared, m.commits.Prepared())
		}
		j.each(func(m *member) error {
			if _, err := m.commits.Decide(prepared); err != nil {
				return err
			}
			if m.commits.Due(j.done) {
				m.record(j.done)
				if err := m.commits.Seal(j.done, m.dense); err != nil {
					return err
				}
			}
			return m.update()
		})
		j.done++
	}
}

// settle commits all steps.
func (j *job) settle() {
	j.t.Helper()
	j.each(func(m *member) error {
		m.record(j.done)
		return m.commits.Settle(j.done, m.dense)
	})
}

// record copies the rows and the dense part at the end of a step.
func (m *member) record(step int64) {
	m.at[step] = ends{m.allRows(), bytes.Clone(m.dense.Host())}
}

// allRows is the bytes of all rows.
func (m *member) allRows() []byte {
	all := make([]byte, m.rows.Slots()*int64(m.rows.RowBytes()))
	slots := make([]int32, m.rows.Slots())
	for i := range slots {
		slots[i] = int32(i)
	}
	if err := m.rows.ReadBytes(all, slots); err != nil {
		panic(err)
	}
	return all
}

// update writes some rows, as a step does. One of them keeps its bytes.
func (m *member) update() error {
	n := int(m.rows.Slots())
	slots := []int32{}
	for _, x := range m.r.Perm(n)[:min(n, 1+m.r.IntN(6))] {
		slots = append(slots, int32(x))
	}
	for i := range m.dense.Host() {
		m.dense.Host()[i] = byte(m.r.Uint32())
	}
	if n == 0 {
		return nil
	}
	stride := m.rows.RowBytes()
	now := make([]byte, len(slots)*stride)
	if err := m.rows.ReadBytes(now, slots); err != nil {
		return err
	}
	for i := stride; i < len(now); i++ {
		now[i] = byte(m.r.Uint32())
	}
	return m.rows.StoreRows(slots, kernels.Mat(kernels.HostBuffer(now), len(slots), stride/4))
}

// replaceRows sets all rows, as a checkpoint or a rebuild does. The journal does not record it.
func (m *member) replaceRows(rows []byte) error {
	slots := make([]int32, m.rows.Slots())
	for i := range slots {
		slots[i] = int32(i)
	}
	return m.rows.StoreRaw(slots, rows)
}

// check compares the contents of each sink with the state of its rank at the last commit.
func (j *job) check() {
	j.t.Helper()
	for _, m := range j.members {
		step := m.commits.Committed()
		if want := m.at[step].dense; j.c.Dense != nil && step > m.began && !bytes.Equal(j.c.Dense(j.t, m.sink), want) {
			j.t.Fatalf("the sink of rank %d does not hold the dense part of commit %d", m.rank, step)
		}
		if j.c.Rows == nil {
			continue
		}
		got, want, stride := bytes.Clone(m.at[0].rows), m.at[step].rows, m.rows.RowBytes()
		for slot, row := range j.c.Rows(j.t, m.sink) {
			copy(got[int(slot)*stride:], row)
		}
		if !bytes.Equal(got, want) {
			j.t.Fatalf("the sink of rank %d does not hold the rows of commit %d", m.rank, step)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// watcher is the sink under test. It checks the results of each call, and makes the set
// invalid after Seal.
type watcher struct {
	commit.Sink
	t        *testing.T
	rollBack bool
	sealed   int64 // the newest set, or Begin
	prepared int64
}

func (w *watcher) NeedsPreImages() bool { return w.rollBack || w.Sink.NeedsPreImages() }

func (w *watcher) WillTake() bool {
	t, ok := w.Sink.(commit.Taker)
	return ok && t.WillTake()
}

func (w *watcher) Begin(step int64, drawn bool) {
	w.Sink.Begin(step, drawn)
	w.restart(step)
}

func (w *watcher) Seal(s *commit.Set) error {
	if !w.Sink.NeedsPreImages() {
		s.Deltas = nil
	}
	listed := slices.Clone(s.Slots)
	err := w.Sink.Seal(s)
	if !slices.Equal(listed, s.Slots) {
		w.t.Errorf("Seal of step %d changed the set's slots", s.Step)
	}
	for i := range s.Slots {
		s.Slots[i] = -1 // a sink that reads them later fails
	}
	w.sealed = s.Step
	return err
}

func (w *watcher) Wait() error {
	err := w.Sink.Wait()
	if got := w.Prepared(); err == nil && got != w.sealed {
		w.t.Errorf("Prepared() = %d after Wait, want %d, the newest set", got, w.sealed)
	}
	return err
}

func (w *watcher) Prepared() int64 {
	step := w.Sink.Prepared()
	if step < w.prepared || step > w.sealed {
		w.t.Errorf("Prepared() = %d, want %d at least and %d, the newest set, at most", step, w.prepared, w.sealed)
	}
	w.prepared = step
	return step
}

func (w *watcher) Roll(step int64) {
	w.Sink.Roll(step)
	w.restart(step)
}

// restart checks that nothing but the commit of a step is left.
func (w *watcher) restart(step int64) {
	w.sealed, w.prepared = step, step
	if got := w.Sink.Prepared(); got != step {
		w.t.Errorf("Prepared() = %d after Begin or Roll, want %d", got, step)
	}
}
