package bench

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"time"

	"github.com/ecrec/ecrec/kernels"
)

const (
	wideRow  = 128 // floats, 512 bytes: the rows of a gather
	modelRow = 48  // weights of the rows that are updated
	// rowWidest is the floats of the widest row that is updated: adam's.
	rowWidest = 3 * modelRow

	lookups  = 1 << 16 // rows in one gather
	updates  = 1 << 13 // rows in one update
	sumOf    = 8       // rows in one sum
	lineSize = 64
	timeRows = 100 * time.Millisecond
)

// measureRows measures operations on rows at random places of a table. The ranks' rows are in small pages
// (kernels.Sparse); huge pages are for comparison.
func (b *kernelBench) measureRows() error {
	if err := checkMemory(b.table+b.table/8, "table"); err != nil {
		return err
	}
	for _, p := range []struct {
		use  kernels.Use
		name string
	}{{kernels.Working, "huge pages"}, {kernels.Sparse, "small pages"}} {
		if err := b.rowsIn(p.use, p.name); err != nil {
			return err
		}
	}
	return nil
}

// rowBench is one table with the operands of its operations.
type rowBench struct {
	*kernelBench
	pages   string
	table   kernels.Buffer
	dst     kernels.Buffer // lookups wide rows
	order   []int32        // every row once, shuffled: no row is used again before all have been used
	next    int
	lookups int
	updates int
}

func (b *kernelBench) rowsIn(use kernels.Use, pages string) error {
	r := &rowBench{kernelBench: b, pages: pages, lookups: lookups, updates: updates}
	count := b.table / (4 * rowWidest)
	r.lookups, r.updates = min(r.lookups, count), min(r.updates, count)
	var err error
	if r.table, err = b.allocBuffer(b.table/4, use); err != nil {
		return err
	}
	defer b.dev.Free(r.table)
	if r.dst, err = b.allocBuffer(r.lookups*wideRow, kernels.Working); err != nil {
		return err
	}
	defer b.dev.Free(r.dst)
	random := rand.New(rand.NewPCG(1, 2))
	r.order = make([]int32, min(count, math.MaxInt32))
	for i := range r.order {
		j := random.IntN(i + 1)
		r.order[i], r.order[j] = r.order[j], int32(i)
	}
	r.measureReads()
	return r.measureWrites()
}

// nextRows returns the next n rows.
func (r *rowBench) nextRows(n int) []int32 {
	if r.next+n > len(r.order) {
		r.next = 0
	}
	r.next += n
	return r.order[r.next-n : r.next]
}

// starts returns 0, size, 2*size ... for n segments.
func starts(n, size int) []int32 {
	v := make([]int32, n+1)
	for i := range v {
		v[i] = int32(i * size)
	}
	return v
}

// measureReads measures gathers, in turn with copies and random reads.
func (r *rowBench) measureReads() {
	bytes := float64(r.lookups) * wideRow * 4
	rows := kernels.Mat(r.table, r.table.Floats()/wideRow, wideRow)
	gathered := kernels.Mat(r.dst, r.lookups, wideRow)
	sums := kernels.Mat(r.dst, r.lookups/sumOf, wideRow)
	segments := kernels.HostBuffer(starts(sums.Rows, sumOf))
	fmt.Fprintf(r.out, "\nreading rows of %d bytes of a table of %.2f GB in %s, GB/s read: median (least-greatest)\n",
		4*wideRow, float64(r.table.Bytes())/1e9, r.pages)
	t := table(r.out)
	defer t.Flush()
	fmt.Fprint(t, "\tthreads\tGB/s\tof the random reads %\tof the copy %\t\n")
	for _, threads := range r.threads {
		s := r.dev.Stream(threads)
		copied := 0
		took := r.o.inTurn(0, timeRows,
			func() {
				if copied+r.dst.Bytes() > r.table.Bytes() {
					copied = 0
				}
				s.Copy(r.dst, r.table.Slice(copied, r.dst.Bytes()))
				copied += r.dst.Bytes()
			},
			func() { touchRows(kernels.HostView[uint64](r.table), r.nextRows(r.lookups), threads) },
			func() { s.GatherRows(gathered, rows, kernels.HostBuffer(r.nextRows(r.lookups))) },
			func() {
				s.SumRows(sums, rows, segments, kernels.HostBuffer(r.nextRows(sums.Rows*sumOf)))
			},
		)
		s.Close()
		r.readFigures(t, threads, bytes, took)
	}
}

func (r *rowBench) readFigures(t io.Writer, threads int, bytes float64, took [][]float64) {
	units := []float64{float64(r.dst.Bytes()), bytes, bytes, float64(r.lookups/sumOf*sumOf) * wideRow * 4}
	var rate [][]float64
	for i, seconds := range took {
		rate = append(rate, per(units[i]/1e9, seconds))
	}
	for i, name := range []string{"copy in order", "read rows at random", "GatherRows", fmt.Sprintf("SumRows by %d", sumOf)} {
		full := fmt.Sprintf("%s, %s, threads %d", name, r.pages, threads)
		fmt.Fprintf(t, "%s\t%d\t%s\t", name, threads, spread(r.report.addFigure(full, "GB/s", rate[i]...)))
		if i < 2 {
			fmt.Fprint(t, "\t\t\n")
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t\n", spread(r.report.addFigure(full+", of the random reads", "%", percent(rate[i], rate[1])...)),
			spread(r.report.addFigure(full+", of the copy", "%", percent(rate[i], rate[0])...)))
	}
}

// touchRows only loads one word of every cache line of rows: the machine's limit for a program that
// reads many rows at once.
func touchRows(words []uint64, rows []int32, threads int) {
	parts := make([]uint64, threads) // sums, so that no read can be left out
	together(threads, func(p int) {
		parts[p] = touchPart(words, rows[p*len(rows)/threads:(p+1)*len(rows)/threads])
	})
}

func touchPart(words []uint64, rows []int32) (sum uint64) {
	const n = 4 * wideRow / 8
	for _, r := range rows {
		w := (*[n]uint64)(words[int(r)*n:])
		sum += w[0] + w[8] + w[16] + w[24] + w[32] + w[40] + w[48] + w[56]
	}
	return sum
}

// measureWrites measures updates of rows, each with one gradient.
func (r *rowBench) measureWrites() error {
	fmt.Fprintf(r.out, "\nchanging rows of %d weights of that table, ns/row: median (least-greatest)\n", modelRow)
	grads, err := r.allocBuffer(r.updates*modelRow, kernels.Working)
	if err != nil {
		return err
	}
	defer r.dev.Free(grads)
	index := starts(r.updates, 1)
	start, pos := kernels.HostBuffer(index), kernels.HostBuffer(index[:r.updates])
	t := table(r.out)
	defer t.Flush()
	fmt.Fprint(t, "\tthreads\tns/row\t\n")
	for _, threads := range r.threads {
		s := r.dev.Stream(threads)
		line := func(name string, call func()) {
			took := r.o.inTurn(0, timeRows, call)
			f := r.report.addFigure(fmt.Sprintf("%s, %s, threads %d", name, r.pages, threads), "ns/row", scale(took[0], 1e9/float64(r.updates))...)
			fmt.Fprintf(t, "%s\t%d\t%s\t\n", name, threads, spread(f))
		}
		for i, rule := range kernels.Rules {
			kind := kernels.OptimizerKind(i)
			width := modelRow + kind.RowState(modelRow)
			rows := kernels.Mat(r.table, r.table.Floats()/width, width)
			line("UpdateRows "+rule.Name, func() {
				s.UpdateRows(kernels.WholeRow(optimizer(kind)), rows, kernels.HostBuffer(r.nextRows(r.updates)), kernels.Mat(grads, r.updates, modelRow), start, pos)
			})
		}
		rows := kernels.Mat(r.table, r.table.Floats()/modelRow, modelRow)
		init := kernels.RowInit{Seed: 1, Owners: 1, Base: []int64{0, int64(rows.Rows)}, Scale: []float32{0.01}, Width: modelRow}
		line("InitRows", func() { s.InitRows(rows, kernels.HostBuffer(r.nextRows(r.updates)), init) })
		s.Close()
	}
	return nil
}
