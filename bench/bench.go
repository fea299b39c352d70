package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/machine"
)

// Bench is one benchmark.
type Bench struct {
	Name, Doc string
	// Processes is how many measure together where nothing else is said; 0: it is
	// one process's alone.
	Processes int
	// Run measures. With tiny it does the least that exercises everything.
	Run func(out io.Writer, o Options) (*Report, error)
}

// Options are common to all benchmarks.
type Options struct {
	Tiny    bool
	Repeats int // 5 when 0
	// Args are the benchmark's own settings, key=value.
	Args []string
	// World is for benchmarks with Processes; nil: this process is alone. Rank 0
	// has the report.
	World *World
}

func (o Options) repeats() int {
	switch {
	case o.Tiny:
		return 1
	case o.Repeats > 0:
		return o.Repeats
	}
	return 5
}

// All lists the benchmarks by name.
func All() []Bench {
	return []Bench{cacheBench, checkpointBench, collectivesBench, driftBench, ecBench, idealBench, kernelsBench, loadBench, oracleBench, overheadBench, recoveryBench, skewBench, trainBench}
}

// Find finds a benchmark by name.
func Find(name string) (Bench, error) {
	var names []string
	for _, b := range All() {
		if b.Name == name {
			return b, nil
		}
		names = append(names, b.Name)
	}
	return Bench{}, settingError("no benchmark %q; there are: %s", name, strings.Join(names, ", "))
}

// Report is what a benchmark measured.
type Report struct {
	Bench   string    `json:"bench"`
	Command []string  `json:"command"`
	Machine Machine   `json:"machine"`
	When    time.Time `json:"when"`
	// Against names what the figures are compared with, and its build.
	Against string `json:"against,omitempty"`
	// MPI is the library that the transport "mpi" was measured over.
	MPI     string   `json:"mpi,omitempty"`
	Figures []Figure `json:"figures"`
}

// Machine says where a report was made.
type Machine struct {
	CPU     string `json:"cpu"`
	Cores   int    `json:"cores"`
	Kernels string `json:"kernels"`
	Go      string `json:"go"`
	OS      string `json:"os"`
}

// Figure is one measured quantity.
type Figure struct {
	Name   string  `json:"name"`
	Unit   string  `json:"unit"`
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	N      int     `json:"n"`
}

func newReport(name, kernels string) *Report {
	return &Report{Bench: name, Command: os.Args, When: time.Now().UTC(), Machine: Machine{
		CPU: machine.CPU(), Cores: runtime.NumCPU(), Kernels: kernels, Go: runtime.Version(),
		OS: runtime.GOOS + "/" + runtime.GOARCH,
	}}
}

// add records the repeats of one quantity.
func (r *Report) add(name, unit string, values ...float64) Figure {
	f := figure(name, unit, values)
	r.Figures = append(r.Figures, f)
	return f
}

func figure(name, unit string, values []float64) Figure {
	v := slices.Clone(values)
	slices.Sort(v)
	n := len(v)
	return Figure{Name: name, Unit: unit, Median: (v[(n-1)/2] + v[n/2]) / 2, Min: v[0], Max: v[n-1], N: n}
}

// WriteJSON writes a report to a file.
func (r *Report) WriteJSON(path string) error {
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}

// header prints where and when.
func (r *Report) header(out io.Writer) {
	fmt.Fprintf(out, "%s, %s, %d cores, kernels %s, %s\n", r.Bench, r.Machine.CPU, r.Machine.Cores, r.Machine.Kernels, r.Machine.Go)
}

// table aligns columns of a report; call Flush at the end.
func table(out io.Writer) *tabwriter.Writer {
	return tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
}

// option finds key=value among the arguments.
func (o Options) option(key, fallback string) string {
	for _, a := range o.Args {
		if v, ok := strings.CutPrefix(a, key+"="); ok {
			return v
		}
	}
	return fallback
}

// number is a setting that counts something.
func (o Options) number(key string, fallback, low, high int) (int, error) {
	v := o.option(key, "")
	if v == "" {
		return fallback, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < low || n > high {
		return 0, settingError("%s=%s: want a number from %d to %d", key, v, low, high)
	}
	return n, nil
}

// numbers is a setting that lists such numbers.
func (o Options) numbers(key string, fallback []int, low, high int) ([]int, error) {
	v := o.option(key, "")
	if v == "" {
		return fallback, nil
	}
	var list []int
	for _, s := range strings.Split(v, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < low || n > high {
			return nil, settingError("%s=%s: want numbers from %d to %d, with commas between", key, v, low, high)
		}
		list = append(list, n)
	}
	return list, nil
}

// together runs f for each of n goroutines and waits for all.
func together(n int, f func(i int)) {
	e := env.Real()
	done := make([]*env.Event, n)
	for i := range n {
		done[i] = env.NewEvent(e, "bench")
		run := func() { f(i); done[i].Set(nil) }
		if i == n-1 {
			run()
		} else {
			e.Go("bench", run)
		}
	}
	for _, d := range done {
		_ = d.Wait() // set with no error
	}
}

// ErrSetting is what errors about a benchmark's settings are.
var ErrSetting = errors.New("bad setting")

func settingError(format string, args ...any) error {
	return &badSetting{"bench: " + fmt.Sprintf(format, args...)}
}

type badSetting struct{ text string }

func (e *badSetting) Error() string        { return e.text }
func (e *badSetting) Is(target error) bool { return target == ErrSetting }

// device is what a benchmark that has such a setting computes on: cpu or cuda.
func (o Options) device() (string, error) {
	device := o.option("device", "cpu")
	if device != "cpu" && device != "cuda" {
		return "", settingError("device=%s: want cpu or cuda", device)
	}
	return device, nil
}

// checkArgs refuses arguments with other keys than these.
func (o Options) checkArgs(keys ...string) error {
	for _, a := range o.Args {
		key, _, ok := strings.Cut(a, "=")
		if !ok || !slices.Contains(keys, key) {
			return settingError("%q is not a setting of this benchmark; there are: %s (as key=value)", a, strings.Join(keys, ", "))
		}
	}
	return nil
}
