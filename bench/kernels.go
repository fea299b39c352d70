package bench

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/ecrec/ecrec/internal/machine"
	"github.com/ecrec/ecrec/internal/openblas"
	"github.com/ecrec/ecrec/kernels"
)

var kernelsBench = Bench{
	Name: "kernels",
	Doc: "what each operation of a step reaches: matrix products beside OpenBLAS, rows beside this machine's copies and random reads; " +
		"with device=cuda what a GPU's kernels reach, beside its copies " +
		"(settings: device=cpu|cuda, part=products|rows|step, threads=N,N, m=samples, shapes=KxN,KxN, table=bytes)",
	Run: runKernels,
}

// kernelBench is one run of the benchmark.
type kernelBench struct {
	out     io.Writer
	o       Options
	report  *Report
	dev     kernels.Device
	threads []int
	m       int // samples in a batch
	shapes  []layer
	table   int // bytes
}

// The defaults: the layers of the Criteo DLRMs, and a table that no cache holds.
const (
	defaultSamples = 2048
	defaultTable   = 2 << 30
	tinyTable      = 1 << 20
	leastTable     = 64 << 10
	maxSamples     = 1 << 20
)

var defaultShapes = []layer{{512, 256}, {1024, 1024}, {479, 1024}, {13, 512}}

func runKernels(out io.Writer, o Options) (*Report, error) {
	b := &kernelBench{out: out, o: o}
	if err := b.settings(); err != nil {
		return nil, err
	}
	device, err := o.device()
	if err != nil {
		return nil, err
	}
	if device == "cuda" {
		return b.runGPU()
	}
	if b.dev, err = kernels.NewCPU(kernels.CPUOptions{}); err != nil {
		return nil, err
	}
	b.report = newReport("kernels", b.dev.Name())
	b.report.header(out)
	part := o.option("part", "")
	for _, p := range []struct {
		name string
		run  func() error
	}{{"products", b.products}, {"rows", b.rows}, {"step", b.step}} {
		if part != "" && part != p.name {
			continue
		}
		if err := p.run(); err != nil {
			return nil, err
		}
	}
	return b.report, nil
}

func (b *kernelBench) settings() error {
	if err := b.o.checkArgs("device", "part", "threads", "m", "shapes", "table"); err != nil {
		return err
	}
	if part := b.o.option("part", "rows"); !slices.Contains([]string{"products", "rows", "step"}, part) {
		return settingError("part=%s: want products, rows or step", part)
	}
	b.m, b.shapes, b.table = defaultSamples, defaultShapes, defaultTable
	if b.o.Tiny {
		b.m, b.shapes, b.table = 8, []layer{{13, 8}}, tinyTable
	}
	var err error
	if b.m, err = b.o.number("m", b.m, 1, maxSamples); err != nil {
		return err
	}
	if b.table, err = b.o.number("table", b.table, leastTable, 1<<40); err != nil {
		return err
	}
	if v := b.o.option("shapes", ""); v != "" {
		b.shapes = nil
		for _, s := range strings.Split(v, ",") {
			var l layer
			if n, err := fmt.Sscanf(s+"\n", "%dx%d\n", &l.k, &l.n); n != 2 || err != nil || l.k < 1 || l.n < 1 {
				return settingError("shapes=%s: %q is no KxN, like 512x256", v, s)
			}
			b.shapes = append(b.shapes, l)
		}
	}
	all := runtime.GOMAXPROCS(0)
	b.threads, err = b.o.numbers("threads", slices.Compact([]int{1, all}), 1, all)
	return err
}

// checkMemory refuses what would not fit, before anything is allocated.
func checkMemory(bytes int, setting string) error {
	if free, ok := machine.AvailableMemory(); ok && int64(bytes) > free {
		return settingError("%s would take %s and %s are free; make it smaller", setting, machine.Size(int64(bytes)), machine.Size(free))
	}
	return nil
}

// inTurn measures what one call of each function takes, in seconds: in every
// round each runs untimed for settle, then timed for least, at least once each.
// settle is for libraries whose idle threads go on spinning for a while.
func (o Options) inTurn(settle, least time.Duration, calls ...func()) [][]float64 {
	if o.Tiny {
		settle, least = 0, 0
	}
	took := make([][]float64, len(calls))
	for range o.repeats() {
		for i, call := range calls {
			repeat(call, settle)
			n, spent := repeat(call, least)
			took[i] = append(took[i], spent.Seconds()/float64(n))
		}
	}
	return took
}

func repeat(call func(), least time.Duration) (n int, spent time.Duration) {
	for begin := time.Now(); n == 0 || spent < least; spent = time.Since(begin) {
		call()
		n++
	}
	return n, max(spent, 1)
}

// per turns seconds into units per second, with so many units in a call.
func per(units float64, seconds []float64) []float64 {
	out := make([]float64, len(seconds))
	for i, s := range seconds {
		out[i] = units / s
	}
	return out
}

// percent is a/b of each round.
func percent(a, b []float64) []float64 {
	out := make([]float64, len(a))
	for i := range a {
		out[i] = 100 * a[i] / b[i]
	}
	return out
}

// spread prints a figure as median (least-greatest).
func spread(f Figure) string {
	return fmt.Sprintf("%.1f (%.1f-%.1f)", f.Median, f.Min, f.Max)
}

// alloc is memory of the device, all of it touched, holding small positive numbers.
func (b *kernelBench) alloc(floats int, use kernels.Use) (kernels.Buffer, error) {
	buf, err := b.dev.Alloc(4*floats, use)
	if err != nil {
		return buf, err
	}
	const period = 97 // no power of two: rows differ
	v := kernels.HostView[float32](buf)
	for i := range v[:min(period, floats)] {
		v[i] = float32(i+1) * 0.01
	}
	for n := period; n < floats; n *= 2 {
		copy(v[n:], v[:n])
	}
	return buf, nil
}

// blas is OpenBLAS and what it says of itself, or nil and why it is not there.
func blas() (kernels.Device, string) {
	dev, err := kernels.NewCPU(kernels.CPUOptions{BLAS: "openblas"})
	if err != nil {
		return nil, err.Error()
	}
	lib, err := openblas.Open()
	if err != nil {
		return nil, err.Error()
	}
	config := lib.Config()
	if !strings.Contains(config, "USE_OPENMP") {
		config += " (not an OpenMP build: those with threads of their own can be slower on several cores than on one; Debian has libopenblas0-openmp)"
	}
	return dev, config
}
