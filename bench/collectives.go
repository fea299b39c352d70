package bench

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/transport"
)

var collectivesBench = Bench{
	Name: "collectives",
	Doc: "all-reduce and exchanges between processes, with nccl-tests' columns; through shared memory beside Open MPI, where that is installed; " +
		"processes that have a core each are bound to it, as Open MPI's are " +
		"(--np P; settings: sizes=4K,64K,..., operations=all_reduce,..., transport=mem|shm|tcp)",
	Processes: 2,
	Run:       runCollectives,
}

const (
	leastCollectiveBytes = 4
	mostCollectiveBytes  = 1 << 30
)

// collectivesRun is one run of the benchmark, in one process.
type collectivesRun struct {
	out     io.Writer
	options Options
	ranks   int
	chosen  []operation
	cases   []collectiveCase
	report  *Report
	core    *env.Binding // of this process
}

// measured is what is known of a case, a value for each repeat.
type measured struct{ us, mpi, ratio, algbw, busbw, wrong []float64 }

func runCollectives(out io.Writer, o Options) (*Report, error) {
	if err := o.checkArgs("sizes", "operations", "transport"); err != nil {
		return nil, err
	}
	b := &collectivesRun{out: out, options: o, ranks: 2}
	if o.World != nil {
		b.ranks = o.World.Size
	}
	sizes := "4K,64K,1M,16M"
	if o.Tiny {
		sizes = "4K"
	}
	if err := b.setOperations(o.option("operations", "all_reduce,all_to_all_v,all_gather_v,broadcast")); err != nil {
		return nil, err
	}
	if err := b.setSizes(o.option("sizes", sizes)); err != nil {
		return nil, err
	}
	between, within := []string{"shm", "tcp"}, true
	switch v := o.option("transport", ""); {
	case v == "" && o.World != nil:
	case v == "" || v == "mem":
		between = nil
	case v != "shm" && v != "tcp":
		return nil, settingError("transport=%s: want mem, shm or tcp", v)
	case o.World == nil:
		return nil, settingError("transport=%s joins processes, and this one is alone; there is transport=mem", v)
	default:
		between, within = []string{v}, false
	}
	dev, err := kernels.NewCPU(kernels.CPUOptions{})
	if err != nil {
		return nil, err
	}
	b.report = newReport("collectives", dev.Name())
	if o.World == nil || o.World.Rank == 0 {
		b.report.header(out)
	}
	for _, name := range between {
		if err := b.betweenProcesses(name); err != nil {
			return nil, err
		}
	}
	if within && (o.World == nil || o.World.Rank == 0) { // the others have nothing left to do
		if err := b.withinProcess(); err != nil {
			return nil, err
		}
	}
	return b.report, nil
}

// setOperations chooses what is measured.
func (b *collectivesRun) setOperations(list string) error {
	for _, name := range strings.Split(list, ",") {
		i := slices.IndexFunc(operations, func(o operation) bool { return o.name == name })
		if i < 0 {
			return settingError("operations=%s: no operation %q; there are all_reduce, all_to_all_v, all_gather_v and broadcast", list, name)
		}
		b.chosen = append(b.chosen, operations[i])
	}
	return nil
}

// setSizes makes a case of every chosen operation and size.
func (b *collectivesRun) setSizes(list string) error {
	var sizes []int
	for _, word := range strings.Split(list, ",") {
		number, unit := word, 1
		if i := strings.IndexAny(word, "KM"); i >= 0 && i == len(word)-1 {
			number, unit = word[:i], map[byte]int{'K': 1 << 10, 'M': 1 << 20}[word[i]]
		}
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || n > mostCollectiveBytes/unit || n*unit < leastCollectiveBytes*b.ranks {
			return settingError("sizes=%s: %q: want bytes from %d, which is %d for each rank, to 1024M, as in 4K,64K,1M",
				list, word, leastCollectiveBytes*b.ranks, leastCollectiveBytes)
		}
		sizes = append(sizes, n*unit)
	}
	for _, op := range b.chosen {
		for _, bytes := range sizes {
			whole := op.elementBytes
			if op.parts {
				whole *= b.ranks
			}
			b.cases = append(b.cases, collectiveCase{op, bytes / whole * whole})
		}
	}
	return nil
}

func (b *collectivesRun) mostBytes() int {
	most := 0
	for _, c := range b.cases {
		most = max(most, c.bytes)
	}
	return most
}

// betweenProcesses measures a transport between processes; process 0 prints.
func (b *collectivesRun) betweenProcesses(name string) error {
	w := b.options.World
	var mpi *openMPI
	if w.Rank == 0 && name == "shm" {
		m, err := newOpenMPI(b.ranks)
		if err == nil && !w.OneHost {
			m.close()
			err = errors.New("the processes are on several hosts")
		}
		if err != nil {
			b.without(err)
		} else {
			mpi = m
			defer m.close()
		}
	}
	if w.OneHost && w.Size <= runtime.NumCPU() { // as Open MPI's ranks are
		var err error
		if b.core, err = env.Bind(w.Rank); err != nil {
			return err
		}
		defer b.core.Undo()
	}
	ep, err := w.Join(name == "shm")
	if err != nil {
		return err
	}
	r, err := newCollectivesRank(env.Real(), ep, b.mostBytes(), w.Stop)
	if err != nil {
		return errors.Join(err, ep.Close())
	}
	defer r.close()
	found, err := b.measure(r, mpi)
	if err == nil && w.Rank == 0 {
		b.print(name, fmt.Sprintf("%d processes", b.ranks), found)
	}
	return err
}

// withinProcess measures ranks that are goroutines of this process.
func (b *collectivesRun) withinProcess() error {
	e := env.Real()
	eps := transport.NewMem(e, b.ranks, 1)
	stop := func() bool { return false }
	if w := b.options.World; w != nil {
		stop = w.Stop
	}
	var found []measured
	errs, ended := make([]error, b.ranks), make(chan struct{})
	for i, ep := range eps {
		go func() {
			defer func() { ended <- struct{}{} }()
			r, err := newCollectivesRank(e, ep, b.mostBytes(), stop)
			if err != nil {
				errs[i] = errors.Join(err, ep.Close()) // the others lose it
				return
			}
			defer r.close()
			mine, err := b.measure(r, nil)
			if errs[i] = err; i == 0 {
				found = mine
			}
		}()
	}
	for range eps {
		<-ended
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	b.print("mem", fmt.Sprintf("%d ranks of one process", b.ranks), found)
	return nil
}

// measure times all cases, and mpi's in turn with them. All ranks measure; rank 0
// has a use for what was found.
func (b *collectivesRun) measure(r *collectivesRank, mpi *openMPI) ([]measured, error) {
	found := make([]measured, len(b.cases))
	for range b.options.repeats() {
		for i, c := range b.cases {
			us, wrong, err := r.measure(c)
			if err != nil {
				return nil, err
			}
			m := &found[i]
			algbw := float64(c.bytes) / us / 1e3
			m.us, m.wrong = append(m.us, us), append(m.wrong, float64(wrong))
			m.algbw, m.busbw = append(m.algbw, algbw), append(m.busbw, algbw*c.traffic(float64(b.ranks)))
		}
		if mpi == nil {
			continue
		}
		var theirs []float64
		var err error
		b.core.Without(func() { theirs, err = mpi.measure(b.cases) })
		if err != nil {
			b.without(err)
			mpi = nil
		}
		for i := range found {
			m := &found[i]
			if mpi == nil {
				m.mpi, m.ratio = nil, nil
				continue
			}
			m.mpi, m.ratio = append(m.mpi, theirs[i]), append(m.ratio, m.us[len(m.us)-1]/theirs[i])
		}
	}
	if mpi != nil {
		b.report.Against = mpi.version
	}
	return found, r.comm.Barrier().Wait() // nobody leaves while others need it
}

// without says that Open MPI is not measured, and why.
func (b *collectivesRun) without(why error) {
	fmt.Fprintf(b.out, "\nOpen MPI is not measured beside shm: %v\n", why)
}

// print prints the table of a transport and adds its figures to the report.
func (b *collectivesRun) print(name, where string, found []measured) {
	beside := found[0].mpi != nil
	fmt.Fprintf(b.out, "\n%s, %s, medians of %d\n", name, where, b.options.repeats())
	t := table(b.out)
	head, units := "\tsize\tcount\ttype\ttime\talgbw\tbusbw\t#wrong\t", "\tB\telements\t\tus\tGB/s\tGB/s\t\t"
	if beside {
		head, units = head+"mpi\tratio\t", units+"us\t\t"
	}
	fmt.Fprintln(t, head)
	fmt.Fprintln(t, units)
	for i, c := range b.cases {
		m := &found[i]
		add := func(what, unit string, values []float64) float64 {
			return b.report.add(fmt.Sprintf("%s %s %d B%s", name, c.name, c.bytes, what), unit, values...).Median
		}
		wrong := slices.Max(m.wrong)
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%.1f\t%.2f\t%.2f\t%.0f\t", c.name, c.bytes, c.bytes/c.elementBytes, c.element,
			add("", "us", m.us), add(" algbw", "GB/s", m.algbw), add(" busbw", "GB/s", m.busbw), wrong)
		add(" wrong", "elements", m.wrong)
		if beside {
			fmt.Fprintf(t, "%.1f\t%.2f\t", add(" mpi", "us", m.mpi), add(" ratio to mpi", "", m.ratio))
		}
		fmt.Fprintln(t)
	}
	t.Flush()
}
