package bench

import (
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/kernels"
)

var collectivesBench = Bench{
	Name: "collectives",
	Doc: "all-reduce and exchanges between processes, with the columns of nccl-tests or OSU's; through shared memory beside Open MPI, where that is installed; " +
		"processes that have a core each are bound to it, as Open MPI's are; " +
		"transport=mpi, in a build for MPI and under mpirun: over MPI, and in turn with that shm and tcp between the same processes " +
		"(--np P; settings: sizes=4K,64K,..., operations=all_reduce,..., transport=mem|shm|tcp|mpi, columns=nccl|osu|both)",
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
	columns columns
	chosen  []operation
	cases   []collectiveCase
	report  *Report
	core    *env.Binding // of this process
}

func runCollectives(out io.Writer, o Options) (*Report, error) {
	if err := o.checkArgs("sizes", "operations", "transport", "columns"); err != nil {
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
	if err := b.columns.set(o.option("columns", "nccl")); err != nil {
		return nil, err
	}
	between, within, err := o.transports()
	if err != nil {
		return nil, err
	}
	dev, err := kernels.NewCPU(kernels.CPUOptions{})
	if err != nil {
		return nil, err
	}
	b.report = newReport("collectives", dev.Name())
	if o.World == nil || o.World.Rank == 0 {
		b.report.header(out)
	}
	if len(between) > 0 {
		if err := b.betweenProcesses(between); err != nil {
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

// OverMPI reports whether the settings ask for processes that MPI connects.
func (o Options) OverMPI() bool { return o.option("transport", "") == "mpi" }

// transports are those that are measured between processes, and whether that within
// one is.
func (o Options) transports() (between []string, within bool, err error) {
	v := o.option("transport", "")
	switch {
	case v != "" && !slices.Contains([]string{"mem", "shm", "tcp", "mpi"}, v):
		return nil, false, settingError("transport=%s: want mem, shm, tcp or mpi", v)
	case v == "mem" || v == "" && o.World == nil:
		return nil, true, nil
	case o.World == nil:
		return nil, false, settingError("transport=%s joins processes, and this one is alone; there is transport=mem", v)
	case v == "mpi" && o.World.MPI == "":
		return nil, false, settingError("transport=mpi: these processes were not joined by MPI")
	case v == "" || v == "mpi":
		return o.World.Transports, v == "", nil
	}
	return []string{v}, false, nil
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
