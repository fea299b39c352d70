package bench

import (
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/ecrec/ecrec/bench/measure"
	"github.com/ecrec/ecrec/kernels"
)

// floor measures the memory traffic that protection cannot avoid, on the rows that the job changes. For each row of an epoch it
// copies the row to a list of pre-images, writes row XOR pre-image to a list of deltas, copies that list, and XORs each delta into
// a parity row. A loop over all rows does each of these, with prefetches, from lists of indexes that were made before. Nothing else
// is done: no bit is tested, nothing is sorted or sent, and no rank waits for another one. Its rows have memory of their own, in which
// they are at random places (placedRows), and so have its parities.
type floor struct {
	c          overheadCase
	written    *writtenRows
	owners     []*floorOwner // nil until prepared
	wall, used []float64     // seconds of each block
}

// floorOwner is the memory of one owner, and its epochs.
type floorOwner struct {
	dev                     kernels.Device
	stream                  kernels.Stream
	rows, parity            kernels.Matrix
	before, deltas, arrived kernels.Buffer
	epochs                  []floorEpoch
}

// floorEpoch is lists of indexes.
type floorEpoch struct {
	first         [][]int32 // by step: the rows that it writes first
	slots, places []int32   // by holder and parity: rows, and their places among those of first
	parity        [][]int32 // the same, a list each: parity rows
	from          []int32   // 0, 1, 2, ...
}

// floorBytes is the memory that the rows of an owner are spread over: far more than the caches of a core.
const floorBytes = 256 << 20

// newFloor returns a floor of a case, in blocks of some steps.
func newFloor(c overheadCase, steps int) *floor {
	f := &floor{c: c, written: newWrittenRows(c.every, steps)}
	f.written.spread = floorBytes
	return f
}

// prepare takes memory and makes the lists of indexes.
func (f *floor) prepare() error {
	f.written.mu.Lock()
	defer f.written.mu.Unlock()
	for rank, epochs := range f.written.epochs {
		dev, err := kernels.NewCPU(kernels.CPUOptions{})
		if err != nil {
			return err
		}
		o := &floorOwner{dev: dev, stream: dev.Stream(1)}
		f.owners = append(f.owners, o)
		if err := o.prepare(f.c, f.written.sizes[rank], epochs); err != nil {
			return fmt.Errorf("memory of the floor of rank %d: %w", rank, err)
		}
	}
	f.runEpochs(f.written.keep) // takes memory
	return nil
}

func (o *floorOwner) prepare(c overheadCase, size placedRows, epochs [][]int32) (err error) {
	most := 0
	for _, slots := range epochs {
		o.epochs = append(o.epochs, listFloor(c, slots))
		most = max(most, len(slots))
	}
	alloc := func(rows int, use kernels.Use) (b kernels.Buffer) {
		if err == nil {
			b, err = o.dev.Alloc(4*max(1, rows)*size.stride, use)
		}
		return b
	}
	parities := (size.rows()/c.k + 1) * c.r
	o.rows = kernels.Mat(alloc(size.rows(), kernels.Rows), size.rows(), size.stride)
	o.parity = kernels.Mat(alloc(parities, kernels.Rows), parities, size.stride)
	if err == nil { // as a job does, for rows that are packed and for parities
		kernels.HugePages(o.rows.Buf.Host())
		kernels.HugePages(o.parity.Buf.Host())
	}
	kernels.Populate(o.rows.Buf) // else all of them are the same page of zeros
	o.before, o.deltas = alloc(most, kernels.Staging), alloc(most*c.r, kernels.Sent)
	o.arrived = alloc(most*c.r, kernels.Staging)
	return err
}

// listFloor makes the lists of an epoch that wrote the rows slots. Which step wrote a row first is drawn.
func listFloor(c overheadCase, slots []int32) (e floorEpoch) {
	e.first = make([][]int32, c.every)
	steps, draw := make([]int, len(slots)), rand.New(rand.NewPCG(1, uint64(len(slots))))
	for i, slot := range slots {
		steps[i] = draw.IntN(c.every)
		e.first[steps[i]] = append(e.first[steps[i]], slot)
	}
	next, at := make([]int32, c.every), int32(0)
	for step, list := range e.first {
		next[step] = at
		at += int32(len(list))
	}
	places := make([]int32, len(slots))
	for i, step := range steps {
		places[i] = next[step]
		next[step]++
	}
	for holder := range int32(c.k) {
		for j := range int32(c.r) {
			var parity []int32
			for i, slot := range slots {
				if slot%int32(c.k) == holder {
					e.slots, e.places = append(e.slots, slot), append(e.places, places[i])
					parity = append(parity, slot/int32(c.k)*int32(c.r)+j)
				}
			}
			e.parity = append(e.parity, parity)
		}
	}
	for i := range e.slots {
		e.from = append(e.from, int32(i))
	}
	return e
}

// runBlock measures a block of steps. Without recorded rows it does nothing.
func (f *floor) runBlock(steps int) error {
	if f.owners == nil {
		if err := f.prepare(); err != nil || len(f.owners) == 0 {
			return err
		}
	}
	began, used := time.Now(), cpuTime()
	f.runEpochs(steps / f.c.every)
	f.wall, f.used = append(f.wall, time.Since(began).Seconds()/float64(steps)), append(f.used, (cpuTime()-used).Seconds())
	return nil
}

// runEpochs runs epochs of all owners, each on a goroutine like a rank.
func (f *floor) runEpochs(n int) {
	var wait sync.WaitGroup
	for _, o := range f.owners {
		wait.Go(func() {
			for i := range n {
				o.runEpoch(&o.epochs[i%len(o.epochs)])
			}
		})
	}
	wait.Wait()
}

func (o *floorOwner) runEpoch(e *floorEpoch) {
	s, stride, at := o.stream, o.rows.Stride, 0
	matrix := func(b kernels.Buffer, first, rows int) kernels.Matrix {
		return kernels.Mat(b.SliceFloats(first*stride, rows*stride), rows, stride)
	}
	for _, slots := range e.first {
		if len(slots) > 0 {
			s.GatherRows(matrix(o.before, at, len(slots)), o.rows, kernels.HostBuffer(slots))
		}
		at += len(slots)
	}
	n := len(e.slots)
	s.XorRows(matrix(o.deltas, 0, n), matrix(o.before, 0, at), kernels.HostBuffer(e.places), o.rows, kernels.HostBuffer(e.slots))
	s.Copy(o.arrived.SliceFloats(0, n*stride), o.deltas.SliceFloats(0, n*stride))
	at = 0
	for _, parity := range e.parity {
		if len(parity) > 0 {
			s.FoldRows(o.parity, kernels.HostBuffer(parity), matrix(o.arrived, at, len(parity)), kernels.HostBuffer(e.from[:len(parity)]), nil)
		}
		at += len(parity)
	}
}

// free frees all memory.
func (f *floor) free() {
	for _, o := range f.owners {
		for _, b := range []kernels.Buffer{o.rows.Buf, o.parity.Buf, o.before, o.deltas, o.arrived} {
			if b.Bytes() > 0 {
				o.dev.Free(b)
			}
		}
		o.stream.Close()
	}
	f.owners = nil
}

// reportFloor reports the blocks of the floor after the first, beside those of steps without the code.
func (f overheadFigures) reportFloor(out io.Writer, floor *floor, without []measure.Sample, used []float64) {
	if len(floor.wall) != len(without)+1 {
		return // no row was recorded
	}
	var ms, share, cpu []float64
	for i, s := range without {
		ms = append(ms, 1e3*floor.wall[i+1])
		share = append(share, 100*floor.wall[i+1]/s.Step.Seconds())
		cpu = append(cpu, 100*floor.used[i+1]/used[i])
	}
	m, sh := f.addFigure("floor", "ms", ms), f.addFigure("floor, of the step without", "%", share)
	c := f.addFigure("floor, of the step without, CPU time", "%", cpu)
	fmt.Fprintf(out, "floor, the memory traffic of protection alone: %.3f ms per step (%.3f-%.3f), %.2f %% of the step without the code, %.2f %% of its CPU time\n",
		m.Median, m.Min, m.Max, sh.Median, c.Median)
}
