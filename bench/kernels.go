package bench

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/ecrec/ecrec/internal/machine"
	"github.com/ecrec/ecrec/kernels"
)

var kernelsBench = Bench{
	Name: "kernels",
	Doc:  "speed of each operation of a step, beside libraries and the memory's own speed",
	Detail: "Matrix products are compared with libraries, row operations with copies and random reads of this machine. " +
		"Idle threads of a library spin, and slow down the turn that follows: set OMP_WAIT_POLICY=passive. " +
		"With device=cuda a GPU's kernels are compared with its copies and with cuBLAS.",
	Settings: []Setting{
		deviceSetting,
		choice("part", "", []string{"products", "rows", "step"}, "part to measure. Default: all; step is for the CPU alone"),
		numbers("threads", "", 1, runtime.GOMAXPROCS(0), "numbers of threads. Default: 1 and all cores"),
		number("m", "", 1, maxSamples, "samples in a batch. Default: 2048; with device=cuda 16384").orTiny("8"),
		text("shapes", "512x256,1024x1024,479x1024,13x512", "KxN, separated by commas", "layers of K inputs and N outputs").orTiny("13x8"),
		text("libraries", "libopenblas.so.0", "names or paths, separated by commas", "OpenBLAS, MKL or oneDNN 3, for comparison of products"),
		number("turn", "60", 1, 10_000, "milliseconds of a turn of a product, after two thirds of that untimed: a library's idle threads may spin for 30 ms"),
		number("table", "2147483648", leastTable, 1<<40, "bytes of the table of rows").orTiny("1048576"),
	},
	Bars: []Bar{{[]string{"device=cpu", "part=products"}, "the products of every shape reach 0.95 of the rate of the best library", oneWay(
		atLeast("exact / best library", Lower, 0.95))}},
	measure: runKernels,
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

// The default shapes are the layers of the Criteo DLRMs. No cache holds the default table.
const (
	defaultSamples = 2048
	leastTable     = 64 << 10
	maxSamples     = 1 << 20
)

func runKernels(out io.Writer, o Options) (*Report, error) {
	b := &kernelBench{out: out, o: o}
	if err := b.readSettings(); err != nil {
		return nil, err
	}
	if o.text("device") == "cuda" {
		return b.runGPU()
	}
	var err error
	if b.dev, err = kernels.NewCPU(kernels.CPUOptions{}); err != nil {
		return nil, err
	}
	b.report = o.newReport(b.dev.Name())
	b.report.writeHeader(out)
	part := o.text("part")
	for _, p := range []struct {
		name string
		run  func() error
	}{{"products", b.measureProducts}, {"rows", b.measureRows}, {"step", b.measureStep}} {
		if part != "" && part != p.name {
			continue
		}
		if err := p.run(); err != nil {
			return nil, err
		}
	}
	return b.report, nil
}

func (b *kernelBench) readSettings() error {
	if b.m = b.o.number("m"); b.m == 0 {
		b.m = defaultSamples
	}
	b.table = b.o.number("table")
	v := b.o.text("shapes")
	for _, s := range strings.Split(v, ",") {
		var l layer
		if n, err := fmt.Sscanf(s+"\n", "%dx%d\n", &l.k, &l.n); n != 2 || err != nil || l.k < 1 || l.n < 1 {
			return settingError("shapes=%s: %q: want KxN, such as 512x256", v, s)
		}
		b.shapes = append(b.shapes, l)
	}
	b.threads = b.o.threadCounts()
	return nil
}

// threadCounts returns the setting threads of benchmarks that try several numbers.
func (o Options) threadCounts() []int {
	if o.isSet("threads") {
		return o.numbers("threads")
	}
	return slices.Compact([]int{1, runtime.GOMAXPROCS(0)})
}

// checkMemory returns an error for settings that need more memory than is free.
func checkMemory(bytes int, setting string) error {
	if free, ok := machine.AvailableMemory(); ok && int64(bytes) > free {
		return settingError("%s: needs %s, and only %s are free; use a smaller value", setting, machine.Size(int64(bytes)), machine.Size(free))
	}
	return nil
}

// inTurn measures the time of one call of each function, in seconds: in every
// round each runs untimed for settle, then timed for least, at least once each.
// settle is for libraries whose idle threads keep spinning for a while.
func (o Options) inTurn(settle, least time.Duration, calls ...func()) [][]float64 {
	if o.Tiny {
		settle, least = 0, 0
	}
	took := make([][]float64, len(calls))
	for range o.repeats() {
		for i, call := range calls {
			o.mustRun()
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

// per converts seconds per call to units per second.
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

// allocBuffer allocates memory of the device and fills it with small positive numbers.
func (b *kernelBench) allocBuffer(floats int, use kernels.Use) (kernels.Buffer, error) {
	buf, err := b.dev.Alloc(4*floats, use)
	if err != nil {
		return buf, err
	}
	const period = 97 // not a power of two, so that rows differ
	v := kernels.HostView[float32](buf)
	for i := range v[:min(period, floats)] {
		v[i] = float32(i+1) * 0.01
	}
	for n := period; n < floats; n *= 2 {
		copy(v[n:], v[:n])
	}
	return buf, nil
}
