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
	Doc:  "time and bandwidth of collectives between processes (--np P)",
	Detail: "Shared memory is measured in turn with Open MPI, if that is installed. Processes that have a core each are " +
		"bound to it, as Open MPI's are. TCP is measured in turn with the bytes of the collective over a bare connection from each " +
		"process to the next one, the floor of its time. transport=mpi needs mpirun and a build with MPI; it measures our collectives over MPI, " +
		"in turn with shm and tcp between the same processes.",
	Settings: []Setting{
		text("sizes", "4K,64K,1M,16M", "bytes up to 1024M, separated by commas", "sizes of the buffers").orTiny("4K"),
		text("operations", "all_reduce,all_to_all_v,all_gather_v,broadcast", "some of the default", "operations to measure"),
		choice("transport", "", []string{"mem", "shm", "tcp", "tcp-sealed", "mpi"},
			"transport to measure. Default: mem, and between processes shm and tcp"),
		choice("columns", "nccl", []string{"nccl", "osu", "both"}, "column layout: of nccl-tests or of the OSU micro-benchmarks"),
	},
	Processes: 2,
	measure:   runCollectives,
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
	b := &collectivesRun{out: out, options: o, ranks: 2}
	if o.World != nil {
		b.ranks = o.World.Size
	}
	if err := b.setOperations(o.text("operations")); err != nil {
		return nil, err
	}
	if err := b.setSizes(o.text("sizes")); err != nil {
		return nil, err
	}
	b.columns = columnsOf(o.text("columns"))
	between, within, err := o.chosenTransports()
	if err != nil {
		return nil, err
	}
	dev, err := kernels.NewCPU(kernels.CPUOptions{})
	if err != nil {
		return nil, err
	}
	b.report = o.newReport(dev.Name())
	if o.World == nil || o.World.Rank == 0 {
		b.report.writeHeader(out)
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

// OverMPI reports whether the settings require processes connected by MPI.
func (o Options) OverMPI() bool {
	name, _ := o.argument("transport")
	return name == "mpi"
}

// chosenTransports returns the transports to measure between processes, and whether to measure within one
// process.
func (o Options) chosenTransports() (between []string, within bool, err error) {
	v := o.text("transport")
	switch {
	case v == "mem" || v == "" && o.World == nil:
		return nil, true, nil
	case o.World == nil:
		return nil, false, settingError("transport=%s needs several processes; give --np 2 or more, or use transport=mem", v)
	case v == "mpi" && o.World.MPI == "":
		return nil, false, settingError("transport=mpi: these processes are not connected by MPI; start them by mpirun")
	case v == "" || v == "mpi":
		return o.World.Transports, v == "", nil
	}
	return []string{v}, false, nil
}

// setOperations chooses the operations to measure.
func (b *collectivesRun) setOperations(list string) error {
	for _, name := range strings.Split(list, ",") {
		i := slices.IndexFunc(operations, func(o operation) bool { return o.name == name })
		if i < 0 {
			return settingError("operations=%s: unknown operation %q; want all_reduce, all_to_all_v, all_gather_v or broadcast", list, name)
		}
		b.chosen = append(b.chosen, operations[i])
	}
	return nil
}

// setSizes creates a case for every chosen operation and size.
func (b *collectivesRun) setSizes(list string) error {
	var sizes []int
	for _, word := range strings.Split(list, ",") {
		number, unit := word, 1
		if i := strings.IndexAny(word, "KM"); i >= 0 && i == len(word)-1 {
			number, unit = word[:i], map[byte]int{'K': 1 << 10, 'M': 1 << 20}[word[i]]
		}
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || n > mostCollectiveBytes/unit || n*unit < leastCollectiveBytes*b.ranks {
			return settingError("sizes=%s: %q: want bytes from %d (%d per rank) to 1024M, such as 4K,64K,1M",
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
