package forecast

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/model"
	"github.com/ecrec/ecrec/plan"
	"github.com/ecrec/ecrec/train"
)

// Repeats of a measurement: as many as take a while, within limits. The first call is not counted.
const (
	leastRepeats, mostRepeats = 3, 50
	measureFor                = 200 * time.Millisecond
	measureStepsFor           = time.Second // all operations of a step
)

// coarse is the least time of a core that the kernel counts well, for all threads of a process.
const coarse = 2 * time.Millisecond

const (
	// tableBytes is the memory of the tables whose rows are read and updated, for each core: far more than the caches hold.
	tableBytes = 128 << 20
	// copiesPerCore limits the copies that are measured at a time, and memoryShare what they take of the free memory.
	copiesPerCore = 8
	memoryShare   = 0.25
)

// bench measures the work of one rank.
type bench struct {
	outline *train.Outline
	dev     kernels.Device
	s       kernels.Stream
	threads int
	copies  int // that run at a time
	r       *plan.RankMean
	batch   *data.Batch // its slice
	work    plan.Work
	stages  []stage
	model   model.Model
	buffers []kernels.Buffer
	random  *rand.Rand
	err     error
	meeting *meeting // of all copies
}

// stage is an operation of a step, which has it times times, and where its seconds are stored.
type stage struct {
	seconds *float64
	times   float64
	run     func()
	meets   bool // then the ranks wait for each other
}

// meeting is a barrier of copies.
type meeting struct {
	mu      sync.Mutex
	met     sync.Cond
	copies  int // that take part
	waiting int
	round   int
	refused bool // in this round
	result  bool // of the last round
}

func newMeeting(copies int) *meeting {
	m := &meeting{copies: copies}
	m.met.L = &m.mu
	return m
}

// agree waits for all copies. It reports whether each of them has called it with true.
func (m *meeting) agree(yes bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waiting++
	m.refused = m.refused || !yes
	if round := m.round; !m.endRound() {
		for m.round == round {
			m.met.Wait()
		}
	}
	return m.result
}

// leave ends the part of a copy. The others end their rounds.
func (m *meeting) leave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.copies--
	m.refused = true
	m.endRound()
}

// endRound ends the round if all copies wait.
func (m *meeting) endRound() bool {
	if m.waiting < m.copies {
		return false
	}
	m.result, m.refused, m.waiting = !m.refused, false, 0
	m.round++
	m.met.Broadcast()
	return true
}

// measureWork measures the work of the rank that moves the most bytes. As many copies run at a time as processes do here: they
// share the caches, the memory and, if there are too few, the cores. Copies that share a core find less of their data in its caches.
func measureWork(outline *train.Outline, f *plan.Forecast, here int, free float64) (*plan.Work, error) {
	dev, err := kernels.NewCPU(kernels.CPUOptions{BLAS: outline.BLAS()})
	if err != nil {
		return nil, err
	}
	threads := outline.Threads()
	copies := min(here, copiesPerCore*runtime.NumCPU())
	if free > 0 {
		each := f.MostMemory[plan.Activations] + f.MostMemory[plan.DenseState] + f.MostMemory[plan.Buffers] + 1
		copies = max(1, min(copies, int(memoryShare*free/each)))
	}
	if threads > 1 { // copies that share cores are timed by the clock of their only thread
		copies = max(1, min(copies, runtime.NumCPU()/threads))
	}
	all, meet := make([]*bench, copies), newMeeting(copies)
	for i := range all {
		all[i] = &bench{outline: outline, dev: dev, threads: threads, copies: copies, r: &f.Largest, meeting: meet,
			random: rand.New(rand.NewPCG(1, uint64(i)))}
	}
	all[0].readSlice()
	for _, b := range all {
		b.batch, b.err = all[0].batch, all[0].err
	}
	var wait sync.WaitGroup
	for _, b := range all {
		wait.Go(b.measureAll)
	}
	wait.Wait()
	sum := &plan.Work{}
	for _, b := range all {
		if b.err != nil {
			return nil, fmt.Errorf("forecast: measure the work of a rank: %w", b.err)
		}
		sum.AddShare(&b.work, 1/float64(len(all)))
	}
	sum.Read = all[0].work.Read
	return sum, nil
}

// measureAll measures all but the reading of the slice.
func (b *bench) measureAll() {
	runtime.LockOSThread() // usedTime is that of a thread
	defer runtime.UnlockOSThread()
	b.s = b.dev.Stream(b.threads)
	defer func() {
		if b.model != nil {
			b.model.Close()
		}
		b.s.Close()
		for _, x := range b.buffers {
			b.dev.Free(x)
		}
	}()
	if b.err != nil {
		b.meeting.leave()
		return
	}
	b.prepareSlice(&b.work)
	b.prepareOwner(&b.work)
	b.prepareDense(&b.work)
	b.runStages()
}

// readSlice reads the slice of the last trainer, which is among the largest, in some steps.
func (b *bench) readSlice() {
	step, last := int64(0), max(1, min(8, b.outline.Steps()))
	b.work.Read = b.median(1, func() {
		step = step%last + 1
		b.batch, b.err = b.outline.Batch(step, b.outline.Job.Trainers-1)
	})
}

// alloc returns zeroed memory of some floats.
func (b *bench) alloc(floats int, use kernels.Use) kernels.Buffer {
	if b.err != nil || floats <= 0 {
		return kernels.Buffer{}
	}
	x, err := b.dev.Alloc(4*floats, use)
	if err != nil {
		b.err = err
		return kernels.Buffer{}
	}
	b.buffers = append(b.buffers, x)
	return x
}

// addStage appends an operation to those of a step.
func (b *bench) addStage(seconds *float64, times float64, run func()) {
	if b.err == nil {
		b.stages = append(b.stages, stage{seconds, times, run, false})
	}
}

// endStage ends the operations between two exchanges: all copies meet after the last one.
func (b *bench) endStage() {
	if n := len(b.stages); n > 0 {
		b.stages[n-1].meets = true
	}
}

// runStages runs the operations of a step one after another, as a step does: each finds the caches as the one before has left them.
func (b *bench) runStages() {
	all := make([][]float64, len(b.stages))
	began := time.Now()
	for n := -1; b.meeting.agree(b.err == nil && (n < leastRepeats || time.Since(began) < measureStepsFor && n < mostRepeats)); n++ {
		if n == 0 { // all copies have run once
			began = time.Now()
		}
		for i, x := range b.stages {
			if took := b.timeOnce(b.threads, x.run); n >= 0 {
				all[i] = append(all[i], took)
			}
			if b.err != nil {
				b.meeting.leave()
				return
			}
			if x.meets {
				b.meeting.agree(true)
			}
		}
	}
	for i, x := range b.stages {
		if b.err == nil && len(all[i]) > 0 {
			*x.seconds = x.times * b.typical(all[i])
		}
	}
}

// typical is the median of times. If copies share cores it is the mean: some of the operations are interrupted, and then find
// the caches with the data of others. The median has none of them. Times of the clock would have the turns of the others in their mean.
func (b *bench) typical(times []float64) (seconds float64) {
	if b.copies <= runtime.NumCPU() || usedTime(false) == 0 {
		slices.Sort(times)
		return times[len(times)/2]
	}
	for _, t := range times {
		seconds += t / float64(len(times))
	}
	return seconds
}

// seconds is the median time of operations on the stream.
func (b *bench) seconds(f func()) float64 { return b.median(b.threads, f) }

// median is the median time of f, whose work a number of threads share.
func (b *bench) median(threads int, f func()) float64 {
	if b.err != nil {
		return 0
	}
	f()
	var all []float64
	for began := time.Now(); len(all) < leastRepeats || time.Since(began) < measureFor && len(all) < mostRepeats; {
		if all = append(all, b.timeOnce(threads, f)); b.err != nil {
			return 0
		}
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// timeOnce is the time that the cores work for f, over the threads that share its work. The clock would also count the time of others,
// on a machine with other work.
func (b *bench) timeOnce(threads int, f func()) float64 {
	start, used := time.Now(), usedTime(threads > 1)
	f()
	if b.s != nil {
		b.err = b.s.Sync()
	}
	took := time.Since(start)
	if cpu := usedTime(threads > 1) - used; threads == 1 && cpu > 0 || cpu > coarse && b.copies == 1 {
		took = min(took, cpu/time.Duration(threads))
	}
	return took.Seconds()
}
