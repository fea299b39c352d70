package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/ecrec/ecrec/bench/paired"
	"github.com/ecrec/ecrec/internal/buildinfo"
	"github.com/ecrec/ecrec/internal/machine"
)

// Report is the result of a benchmark: its record, and the figures.
type Report struct {
	Bench    string            `json:"bench"`
	Command  []string          `json:"command"`
	Settings map[string]string `json:"settings"` // all of them, with defaults; an empty value is computed
	Build    buildinfo.Info    `json:"build"`
	Machine  Machine           `json:"machine"`
	When     time.Time         `json:"when"`
	Load     *Load             `json:"load,omitempty"`
	// Against names the library that the figures are compared with, and its build.
	Against string `json:"against,omitempty"`
	// MPI is the library of the transport "mpi".
	MPI string `json:"mpi,omitempty"`
	// Incomplete is the part of the run that was done when a signal stopped it: "3 of 15 turns".
	Incomplete string `json:"incomplete,omitempty"`
	// Missing names the parts that this machine cannot measure, and why.
	Missing map[string]string `json:"missing,omitempty"`
	Figures []Figure          `json:"figures"`
	Bars    []BarResult       `json:"bars,omitempty"` // of these settings

	evidence Evidence // of figures that name none
}

// Machine describes the machine of a report.
type Machine struct {
	CPU     string        `json:"cpu"`
	Cores   int           `json:"cores"`
	Memory  int64         `json:"memory_bytes,omitempty"`
	Disk    *machine.Disk `json:"disk,omitempty"` // of the folder of the benchmark's files; nil: it writes none
	Kernels string        `json:"kernels"`
	Go      string        `json:"go"`
	OS      string        `json:"os"`
	Kernel  string        `json:"kernel,omitempty"` // of the operating system
}

// Evidence is the way in which a figure was found.
type Evidence string

// The kinds of evidence.
const (
	// Measured figures are times, or are computed from times of this machine alone.
	Measured Evidence = "measured"
	// Counted figures are exact numbers of rows, messages, bytes or events.
	Counted Evidence = "counted"
	// Modelled figures are computed by a formula whose parts are measured or counted.
	Modelled Evidence = "modelled"
	// Simulated figures are times with emulated links, disks or computations.
	Simulated Evidence = "simulated"
	// Virtual figures are times on a simulated clock with links, computations and disks of given speeds. Work of our own on a CPU
	// takes no time there.
	Virtual Evidence = "virtual"
)

// IsTimed reports whether figures of this kind are times of this machine, which differ from run to run.
func (e Evidence) IsTimed() bool { return e == Measured || e == Simulated }

// LeastRepeats is the least number of repeats of a time with an interval of 95 %.
const LeastRepeats = paired.LeastPairs

// Figure is one quantity.
type Figure struct {
	Name     string   `json:"name"`
	Unit     string   `json:"unit"`
	Evidence Evidence `json:"evidence"`
	Median   float64  `json:"median"` // or the quantile
	Min      float64  `json:"min"`
	Max      float64  `json:"max"`
	N        int      `json:"n"`
	// Quantile is the share of the values that do not exceed Median; 0: it is the median.
	Quantile float64 `json:"quantile,omitempty"`
	// Values has one of each pair, and Interval the 95 % interval of their median. It is nil for figures that compare
	// nothing, and for fewer than paired.LeastPairs pairs.
	Values   []float64   `json:"values,omitempty"`
	Interval *[2]float64 `json:"interval,omitempty"`
	// Case has the values of the settings in which the figures of a report differ.
	Case map[string]string `json:"case,omitempty"`

	between paired.Interval
}

// newReport begins the report of the benchmark that runs.
func (o Options) newReport(kernels string) *Report {
	r := &Report{Bench: o.name, Command: os.Args, Settings: map[string]string{}, Build: buildinfo.Read(), When: time.Now().UTC(),
		Machine: Machine{CPU: machine.CPU(), Cores: runtime.NumCPU(), Kernels: kernels, Go: runtime.Version(),
			OS: runtime.GOOS + "/" + runtime.GOARCH, Kernel: machine.Kernel()}}
	if m, err := machine.ReadMemory(); err == nil {
		r.Machine.Memory = m.Total
	}
	for _, s := range o.settings {
		r.Settings[s.Name] = o.text(s.Name)
		if s.Name != dirSetting.Name {
			continue
		}
		dir := o.text(s.Name)
		if dir == "" {
			dir = os.TempDir()
		}
		if d, err := machine.ReadDisk(dir); err == nil {
			r.Machine.Disk = &d
		}
	}
	if o.Progress != nil {
		r.Load = o.Progress.load
		o.Progress.setReport(r)
	}
	return r
}

// addMissing adds a part that cannot be measured here.
func (r *Report) addMissing(part, why string) {
	if r.Missing == nil {
		r.Missing = map[string]string{}
	}
	r.Missing[part] = why
}

// addFigure adds a quantity with its repeats.
func (r *Report) addFigure(name, unit string, values ...float64) Figure {
	return r.addAs(r.evidence, name, unit, values...)
}

// addAs adds a quantity whose kind of evidence is not that of most figures.
func (r *Report) addAs(e Evidence, name, unit string, values ...float64) Figure {
	f := figure(name, unit, values)
	return r.appendFigure(e, f)
}

// addPaired adds a quantity of pairs of neighbouring turns, with the interval of its median.
func (r *Report) addPaired(name, unit string, values ...float64) Figure {
	f := figure(name, unit, values)
	f.Values, f.between = values, paired.Of(values)
	if f.between.IsKnown() {
		f.Interval = &[2]float64{f.between.Low, f.between.High}
	}
	return r.appendFigure(r.evidence, f)
}

// addRatio adds the ratios a / b of the pairs of neighbouring turns.
func (r *Report) addRatio(name string, a, b []float64) Figure {
	return r.addPaired(name, ratioUnit, paired.Ratios(a, b)...)
}

const ratioUnit = "ratio"

// addQuantile adds the least value that a share p of all does not exceed.
func (r *Report) addQuantile(name, unit string, p float64, values []float64) Figure {
	f := figure(name, unit, values)
	f.Median, f.Quantile = quantile(values, p), p
	return r.appendFigure(r.evidence, f)
}

func (r *Report) appendFigure(e Evidence, f Figure) Figure {
	f.Evidence = e
	r.Figures = append(r.Figures, f)
	return f
}

// setCase sets the case of the figures from a number on.
func (r *Report) setCase(first int, of map[string]string) {
	for i := range r.Figures[first:] {
		r.Figures[first+i].Case = of
	}
}

// betweenText returns the interval of a figure of pairs, the number of pairs, and the verdict beside a ratio of 1.
func (f Figure) betweenText(decimals int) string {
	equal := 1.0
	if f.Unit == "%" {
		equal = 100
	}
	return f.between.Text(decimals, equal)
}

// writeLine writes the figure and, for one of pairs, its interval, as a line of a table.
func (f Figure) writeLine(t io.Writer, decimals int) {
	interval := ""
	if f.Values != nil {
		interval = f.betweenText(decimals)
	}
	fmt.Fprintf(t, "%s\t%.*f\t%.*f\t%.*f\t%s\t%s\t\n", f.Name, decimals, f.Median, decimals, f.Min, decimals, f.Max, f.Unit, interval)
}

func figure(name, unit string, values []float64) Figure {
	v := slices.Clone(values)
	slices.Sort(v)
	n := len(v)
	return Figure{Name: name, Unit: unit, Median: (v[(n-1)/2] + v[n/2]) / 2, Min: v[0], Max: v[n-1], N: n}
}

// quantile returns the least value that a share p of all does not exceed.
func quantile(values []float64, p float64) float64 {
	v := slices.Clone(values)
	slices.Sort(v)
	return v[max(0, int(math.Ceil(p*float64(len(v))))-1)]
}

// WriteJSON writes a report to a file.
func (r *Report) WriteJSON(path string) error {
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}

// buildText returns the version and the commit.
func (r *Report) buildText() string {
	if r.Build.Commit == "" {
		return r.Build.String() + ", commit unknown"
	}
	return r.Build.String()
}

// writeHeader writes the machine, the build and the load of a report.
func (r *Report) writeHeader(out io.Writer) {
	m := r.Machine
	memory := ""
	if m.Memory > 0 {
		memory = machine.Size(m.Memory) + ", "
	}
	fmt.Fprintf(out, "%s, %s, %d cores, %skernels %s, %s\n", r.Bench, m.CPU, m.Cores, memory, m.Kernels, m.Go)
	fmt.Fprintf(out, "ecrec %s, %s, load average %s\n", r.buildText(), m.Kernel, r.Load.startText())
	if m.Disk != nil {
		fmt.Fprintf(out, "files in %v\n", m.Disk)
	}
}
