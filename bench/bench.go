package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/machine"
)

// Bench is one benchmark.
type Bench struct {
	Name     string
	Doc      string // one sentence without a full stop, for lists
	Detail   string // further sentences, for help; may be empty
	Settings []Setting
	// Processes is the default number of processes that measure together; 0: the benchmark
	// runs in one process.
	Processes int

	// measure measures. With Options.Tiny it does the least that exercises everything.
	measure func(out io.Writer, o Options) (*Report, error)
}

// Options are the settings that all benchmarks share.
type Options struct {
	Tiny    bool
	Repeats int // 5 when 0
	// Args are settings of the benchmark, KEY=VALUE. The first of several with one key counts.
	Args []string
	// World is the group of processes, for benchmarks with Processes; nil: this process is
	// alone. Only rank 0 returns a report.
	World *World
	// Program is the path of the ecrec executable that benchmarks of jobs start;
	// empty: the executable of this process.
	Program string

	settings []Setting // of the benchmark that runs
}

func (o Options) programPath() (string, error) {
	if o.Program != "" {
		return o.Program, nil
	}
	return os.Executable()
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

// Report is the result of a benchmark.
type Report struct {
	Bench   string    `json:"bench"`
	Command []string  `json:"command"`
	Machine Machine   `json:"machine"`
	When    time.Time `json:"when"`
	// Against names the library that the figures are compared with, and its build.
	Against string `json:"against,omitempty"`
	// MPI is the library of the transport "mpi".
	MPI     string   `json:"mpi,omitempty"`
	Figures []Figure `json:"figures"`
}

// Machine describes the machine of a report.
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

// addFigure adds a quantity with its repeats.
func (r *Report) addFigure(name, unit string, values ...float64) Figure {
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

// writeHeader writes the machine of a report.
func (r *Report) writeHeader(out io.Writer) {
	fmt.Fprintf(out, "%s, %s, %d cores, kernels %s, %s\n", r.Bench, r.Machine.CPU, r.Machine.Cores, r.Machine.Kernels, r.Machine.Go)
}

// table aligns columns of a report; call Flush at the end.
func table(out io.Writer) *tabwriter.Writer {
	return tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
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

// ErrSetting is wrapped by errors about a benchmark's settings.
var ErrSetting = errors.New("bad setting")

func settingError(format string, args ...any) error {
	return &badSetting{"bench: " + fmt.Sprintf(format, args...)}
}

type badSetting struct{ text string }

func (e *badSetting) Error() string        { return e.text }
func (e *badSetting) Is(target error) bool { return target == ErrSetting }
