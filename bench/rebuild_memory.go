package bench

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/commit"
	"github.com/ecrec/ecrec/ec"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/placement"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/shard"
	"github.com/ecrec/ecrec/transport"
)

// memoryGroup is a group of owners in the memory of this process, one thread each.
type memoryGroup struct {
	layout  ec.Layout
	place   placement.Map
	code    string
	width   int
	members []*memoryMember
}

// memoryMember is an owner with its rows and parities.
type memoryMember struct {
	dev    kernels.Device
	stream kernels.Stream
	rows   *shard.Shard
	commit *commit.Committer
	parity *commit.Parity
}

// rebuildInMemory measures the greatest rate of a rebuild, in turns with the bare loop.
func (b *recoveryRun) rebuildInMemory(report *Report) error {
	layout, err := ec.NewLayout(b.ranks, b.k, b.r)
	if err != nil {
		return err
	}
	g := &memoryGroup{layout: layout, place: placement.New([]int64{int64(b.o.number("rows"))}, b.ranks), code: b.code, width: b.shape.dim}
	defer g.freeMembers()
	if err := g.fill(b.o.number("touched")); err != nil {
		return err
	}
	var times, bare, cpu, bareCPU []float64
	var mb, read float64
	for range b.o.repeats() {
		took, used, shards, bytes, err := g.loseMember(1 % b.ranks)
		if err != nil {
			return err
		}
		mb, read = float64(shards)*float64(g.rowBytes())/1e6, float64(bytes)/1e6
		times, cpu = append(times, took.Seconds()), append(cpu, used.Seconds())
		took, used, err = g.copyBare(int(shards), int(bytes)/g.rowBytes())
		if err != nil {
			return err
		}
		bare, bareCPU = append(bare, took.Seconds()), append(bareCPU, used.Seconds())
	}
	fmt.Fprintf(b.out, "\none of %d ranks rebuilt in memory, %v, rows of %d bytes: %.0f MB rebuilt from %.0f MB; one thread a rank\n",
		b.ranks, b.overheadCase, g.rowBytes(), mb, read)
	t := table(b.out)
	defer t.Flush()
	line := func(what, unit string, f func(i int) float64) {
		values := make([]float64, len(times))
		for i := range values {
			values[i] = f(i)
		}
		x := report.addFigure("in memory: "+what, unit, values...)
		fmt.Fprintf(t, "%s\t%.3g\t(%.3g-%.3g)\t%s\t\n", what, x.Median, x.Min, x.Max, unit)
	}
	line("rebuilt", "MB/s", func(i int) float64 { return mb / times[i] })
	line("sent by each other rank", "MB/s", func(i int) float64 { return read / times[i] / float64(b.ranks-1) })
	line("CPU time of all ranks for 1 MB rebuilt", "ms", func(i int) float64 { return 1e3 * cpu[i] / mb })
	line("rebuilt by the bare loop", "MB/s", func(i int) float64 { return mb / bare[i] })
	share := func(what string, bare, rebuild []float64) {
		x := report.addPaired("in memory: "+what, "%", percents(bare, rebuild)...)
		fmt.Fprintf(t, "%s\t%.3g\t(%s)\t%%\t\n", what, x.Median, x.between.Text(1, 100))
	}
	share(bareTime, bare, times)
	share("CPU time of the bare loop, of the rebuild's", bareCPU, cpu)
	return nil
}

// percents are the shares of some values in others.
func percents(part, all []float64) []float64 {
	shares := make([]float64, len(part))
	for i := range part {
		shares[i] = 100 * part[i] / max(all[i], 1e-9)
	}
	return shares
}

func (g *memoryGroup) rowBytes() int { return 8 * g.width } // with adagrad's state

// fill makes all members, with rows of which a share was written, and their parities.
func (g *memoryGroup) fill(percent int) error {
	lost := make([]commit.Loss, g.layout.Owners)
	for id := range g.layout.Owners {
		m, err := g.newMember(id)
		if err != nil {
			return err
		}
		g.members = append(g.members, m)
		if err := m.writeRows(percent, g.width); err != nil {
			return err
		}
		m.commit.Begin(0, false)
		lost[id].Parities = m.parity.Left().Parities
	}
	return g.rebuildLost(lost)
}

func (g *memoryGroup) newMember(id int) (*memoryMember, error) {
	dev, err := kernels.NewCPU(kernels.CPUOptions{})
	if err != nil {
		return nil, err
	}
	m := &memoryMember{dev: dev, stream: dev.Stream(1)}
	if m.rows, err = shard.New(dev, m.stream, shard.Options{Map: g.place, Owner: id, Seed: 3, Width: g.width, State: g.width, Packed: true}); err != nil {
		return nil, err
	}
	if m.parity, err = commit.NewParity(commit.ParityOptions{Env: env.Real(), Device: dev, Shard: m.rows, Layout: g.layout, Code: g.code,
		Slots: g.place.Slots(0), Owner: id}); err != nil {
		return nil, err
	}
	m.commit = commit.New(commit.Options{Env: env.Real(), Shard: m.rows, Every: 10, Sinks: []commit.Sink{m.parity}})
	return m, nil
}

func (m *memoryMember) freeMember() {
	m.commit.Close()
	m.rows.Close()
	m.stream.Close()
}

func (g *memoryGroup) freeMembers() {
	for _, m := range g.members {
		m.freeMember()
	}
}

// writeRows updates a share of the rows, spread evenly and in random order, without a journal.
func (m *memoryMember) writeRows(percent, width int) error {
	const most = 1 << 16 // rows of an update
	m.rows.Journal().Pause(true)
	defer m.rows.Journal().Pause(false)
	grads, start, pos := make([]float32, most*width), make([]int32, most+1), make([]int32, most)
	for i := range pos {
		start[i+1], pos[i] = int32(i+1), int32(i)
	}
	for i := range grads {
		grads[i] = 1
	}
	var slots []int32
	for slot := range m.rows.Slots() {
		if slot*int64(percent)%100 < int64(percent) {
			slots = append(slots, int32(slot))
		}
	}
	order := rand.New(rand.NewPCG(1, 0)) // in which training uses them first
	order.Shuffle(len(slots), func(i, k int) { slots[i], slots[k] = slots[k], slots[i] })
	for some := range slices.Chunk(slots, most) {
		n := len(some)
		if err := m.rows.Apply(kernels.WholeRow(kernels.Optimizer{Kind: kernels.Adagrad, LR: 0.1, Eps: 1e-8}), some,
			kernels.Mat(kernels.HostBuffer(grads[:n*width]), n, width), kernels.HostBuffer(start[:n+1]), kernels.HostBuffer(pos[:n])); err != nil {
			return err
		}
	}
	return nil
}

// rebuildLost rebuilds the losses of all members.
func (g *memoryGroup) rebuildLost(lost []commit.Loss) error {
	eps, errs := transport.NewMem(env.Real(), len(g.members), 1), make([]error, len(g.members))
	var comms []*collectives.Comm
	for i, m := range g.members {
		deltas, rounds := collectives.New(env.Real(), eps[i], 2, m.dev, m.stream), collectives.New(env.Real(), eps[i], 3, m.dev, m.stream)
		m.commit.Join(deltas)
		m.parity.Join(deltas, rounds, m.rows)
		comms = append(comms, deltas, rounds)
	}
	together(len(g.members), func(i int) {
		if errs[i] = g.members[i].parity.Survey(lost); errs[i] == nil {
			errs[i] = g.members[i].parity.RebuildAll()
		}
	})
	for i, m := range g.members {
		_ = eps[i].Close()
		m.parity.Leave()
		m.commit.Leave()
	}
	for _, c := range comms {
		c.Close()
	}
	return errors.Join(errs...)
}

// loseMember replaces a member by one that has lost everything, and rebuilds that. It returns the time and the CPU time of that, and
// how many shards were rebuilt from how many bytes.
func (g *memoryGroup) loseMember(id int) (took, cpu time.Duration, shards, read int64, err error) {
	g.members[id].freeMember()
	m, err := g.newMember(id)
	if err != nil {
		return 0, 0, 0, 0, err
	}
	g.members[id] = m
	m.commit.Begin(0, false)
	m.parity.Lose()
	lost := make([]commit.Loss, len(g.members))
	lost[id] = m.parity.Left()
	began, used := time.Now(), cpuTime()
	if err := g.rebuildLost(lost); err != nil {
		return 0, 0, 0, 0, err
	}
	took, cpu = time.Since(began), cpuTime()-used
	shards, _, read = m.parity.Rebuilt()
	return took, cpu, shards, read, nil
}

// barePiece is how many bytes of shards the bare loop does at a time.
const barePiece = 1 << 20

// copyBare does the accesses of a rebuild to memory, and nothing else: the other members copy rows of theirs to a buffer; the lost one
// copies that, adds it up, and writes the sums to memory that was never touched. Rows follow each other, no member waits, and all cores
// share each operation.
func (g *memoryGroup) copyBare(shards, read int) (took, cpu time.Duration, err error) {
	stride := g.rowBytes()
	n := max(1, min(barePiece/stride, shards))
	dev := g.members[0].dev
	s := dev.Stream(runtime.GOMAXPROCS(0))
	defer s.Close()
	var bufs []kernels.Buffer
	alloc := func(rows int, use kernels.Use) kernels.Matrix {
		b, e := dev.Alloc(rows*stride, use)
		if e != nil {
			err = e
			return kernels.Matrix{}
		}
		bufs = append(bufs, b)
		return kernels.Mat(b, rows, stride/4)
	}
	defer func() {
		for _, b := range bufs {
			dev.Free(b)
		}
	}()
	found, sent, received := alloc(shards, kernels.Rows), alloc(n, kernels.Working), alloc(n, kernels.Working)
	sum := alloc(n, kernels.Working)
	source := alloc(min(read, shards), kernels.Rows)
	if err != nil {
		return 0, 0, err
	}
	kernels.Populate(source.Buf)
	order := rand.New(rand.NewPCG(1, 0)).Perm(source.Rows) // of the rows in memory
	places, at := make([]int32, n), make([]int32, n)
	for i := range at {
		at[i] = int32(i)
	}
	list := func(l []int32, n int) kernels.Buffer { return kernels.HostBuffer(l[:n]) }
	began, used := time.Now(), cpuTime()
	next := 0
	for done := 0; done < shards; done += n {
		rows := min(n, shards-done)
		s.Zero(sum.Buf)
		for range (read + shards - 1) / shards { // members that send to the lost one
			for i := range rows {
				places[i] = int32(order[(next+i)%source.Rows])
			}
			next += rows
			s.GatherRows(sent.RowRange(0, rows), source, list(places, rows))
			s.Copy(received.Buf.Slice(0, rows*stride), sent.Buf.Slice(0, rows*stride))
			s.FoldRows(sum, list(at, rows), received, list(at, rows), nil)
		}
		for i := range rows {
			places[i] = int32(done + i)
		}
		s.ScatterRows(found, sum.RowRange(0, rows), list(places, rows))
	}
	err = s.Sync()
	return time.Since(began), cpuTime() - used, err
}
