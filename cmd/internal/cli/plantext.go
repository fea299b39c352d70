package cli

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/ecrec/ecrec/cmd/internal/report"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/machine"
	"github.com/ecrec/ecrec/plan"
	"github.com/ecrec/ecrec/train"
	"github.com/ecrec/ecrec/transport"
)

// planText prints forecasts.
type planText struct {
	out     io.Writer
	memory  float64 // of a machine; 0: it could not be read
	link    *transport.EmulatedLink
	cfg     *config.Config // of the last forecast
	outline *train.Outline
}

// write prints one forecast in full, or several as a table.
func (t *planText) write(all []*plan.Forecast) error {
	j := &t.outline.Job
	fmt.Fprintf(t.out, "%s: %s, %s, %s of %d bytes\n", t.cfg.Job.Name, t.cfg.Model.Kind,
		report.Count(int64(t.outline.DenseParams()), "dense parameter"), report.Count(j.Place.Rows(), "row"), 4*j.Stride)
	if len(all) > 1 {
		t.writeTable(all)
	} else {
		t.writeOne(all[0])
	}
	for _, f := range all {
		t.warnOfMemory(f)
	}
	return nil
}

func (t *planText) writeOne(f *plan.Forecast) {
	fmt.Fprintf(t.out, "%s in %s on %s, batch %s, at most %s a rank\n", report.Count(int64(f.Ranks), "rank"),
		processes(f.Ranks), report.Count(int64(f.Machines), "machine"), report.Thousands(int64(f.Batch)),
		report.Count(int64(f.Slice), "sample"))
	fmt.Fprintln(t.out, counted(f))
	if left := t.outline.Uncounted(); len(left) > 0 {
		fmt.Fprintf(t.out, "not counted: %s\n", strings.Join(left, ", "))
	}
	t.writeMemory(f)
	t.writeTraffic(f)
	if f.Times != nil {
		t.writeTimes(f)
	}
	t.writeWalls(f)
}

func processes(n int) string {
	if n == 1 {
		return "1 process"
	}
	return report.Thousands(int64(n)) + " processes"
}

// counted describes the source of the counts.
func counted(f *plan.Forecast) string {
	line := fmt.Sprintf("counted: %s of the run's ids, %s a step", report.Count(int64(f.Counted), "step"), report.Count(int64(f.Mean.Lookups*float64(f.Ranks)), "lookup"))
	if f.Sample > 1 {
		line += fmt.Sprintf("; one of %d ranks was read, so rows that are waited for and deltas are upper bounds", f.Sample)
	}
	if e := f.Epochs; e > 0 && e < 1 {
		line += fmt.Sprintf("; %.0f %% of an epoch of commits, so deltas are an upper bound", 100*e)
	}
	return line
}

func (t *planText) table() *tabwriter.Writer {
	return tabwriter.NewWriter(t.out, 0, 8, 2, ' ', tabwriter.AlignRight)
}

func bytesText(bytes float64) string { return machine.Size(int64(math.Min(bytes, math.MaxInt64/2))) }

func (t *planText) writeMemory(f *plan.Forecast) {
	w := t.table()
	fmt.Fprint(w, "\nmemory of a process\tmean\tmost\t\n")
	for part := range plan.Parts {
		if f.Memory[part]+f.MostMemory[part] > 0 {
			fmt.Fprintf(w, "%s\t%s\t%s\t\n", part, bytesText(f.Memory[part]), bytesText(f.MostMemory[part]))
		}
	}
	fmt.Fprintf(w, "sum\t%s\t%s\t\n", bytesText(f.Memory.Sum()), bytesText(f.MostMemory.Sum()))
	w.Flush()
}

// neededBy is the memory of the machine that needs the most.
func neededBy(f *plan.Forecast) float64 {
	return f.MostMemory.Sum() + float64(f.Processes-1)*f.Memory.Sum()
}

func (t *planText) warnOfMemory(f *plan.Forecast) {
	if need := neededBy(f); t.memory > 0 && need > t.memory {
		fmt.Fprintf(t.out, "warning: %s need %s on a machine, which has %s; use more machines (--ranks, --per-host), smaller model.tables, or store.tier = \"file\"\n",
			report.Count(int64(f.Ranks), "rank"), bytesText(need), bytesText(t.memory))
	}
}

func (t *planText) writeTraffic(f *plan.Forecast) {
	w := t.table()
	fmt.Fprint(w, "\na rank, in a step\tmessages sent\tbytes sent\tbytes, busiest rank\t\n")
	var sum plan.Rate
	most := 0.0
	for k := range plan.Classes {
		r, x := f.Mean.Sent[k], f.Largest
		if r.Messages == 0 {
			continue
		}
		busiest := math.Max(x.Sent[k].Bytes, x.Received[k].Bytes)
		fmt.Fprintf(w, "%s\t%.1f\t%s\t%s\t\n", k, r.Messages, bytesText(r.Bytes), bytesText(busiest))
		sum.Messages, sum.Bytes, most = sum.Messages+r.Messages, sum.Bytes+r.Bytes, most+busiest
	}
	fmt.Fprintf(w, "sum\t%.1f\t%s\t%s\t\n", sum.Messages, bytesText(sum.Bytes), bytesText(most))
	w.Flush()
}

func seconds(s float64) string {
	d := time.Duration(s * 1e9)
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return fmt.Sprintf("%.2f s", s)
	case d >= time.Millisecond:
		return fmt.Sprintf("%.2f ms", 1e3*s)
	}
	return fmt.Sprintf("%.3f ms", 1e3*s)
}

func (t *planText) writeTimes(f *plan.Forecast) {
	x := f.Times
	w := t.table()
	fmt.Fprint(w, "\ntime of a step\twaited for\thidden\t\n")
	for _, line := range []struct {
		name           string
		waited, hidden float64
	}{{"forward and backward", x.Compute, 0}, {"sums, copies and updates of rows", x.Rows, 0}, {"dense update", x.Update, 0},
		{plan.LateRows.String(), x.LateRows, x.HidesRows}, {plan.Gradients.String(), x.Gradients, x.HidesGrads},
		{"rows ahead, gradients later", x.Delayed, x.HidesDelayed}, {plan.Dense.String(), x.Dense, x.HidesDense},
		{plan.Status.String(), x.Status, x.HidesStatus}, {"protection", x.Protection, x.Behind}} {
		if line.waited+line.hidden > 0 {
			fmt.Fprintf(w, "%s\t%s\t%s\t\n", line.name, seconds(line.waited), seconds(line.hidden))
		}
	}
	fmt.Fprintf(w, "sum of the waits and the work\t%s\t\t\n", seconds(x.Path))
	fmt.Fprintf(w, "work of all threads, over the cores\t%s\t\t\n", seconds(x.Cores))
	if x.Link > 0 {
		fmt.Fprintf(w, "all bytes, over the link\t%s\t\t\n", seconds(x.Link))
	}
	fmt.Fprintf(w, "step\t%s\t\t\n", seconds(x.Step))
	w.Flush()
	fmt.Fprintf(t.out, "%s samples/s; measured on this machine with %s a process, which may differ from yours\n",
		report.Thousands(int64(float64(f.Batch)/x.Step)), report.Count(int64(t.outline.Threads()), "thread"))
	if t.cfg.Job.Device == "cuda" {
		fmt.Fprintln(t.out, "these are times of the CPU: the plan does not measure GPUs")
	}
	if x.Protection > 0 {
		fmt.Fprintf(t.out, "protection: %.1f %% of the step\n", 100*x.Protection/(x.Step-math.Min(x.Protection, 0.9*x.Step)))
	}
	t.writeRebuild(f)
}

func (t *planText) writeRebuild(f *plan.Forecast) {
	r := f.Rebuild
	if r == nil {
		return
	}
	fmt.Fprintf(t.out, "loss of a rank: %s to rebuild, from %s that %s send", bytesText(r.Bytes), bytesText(r.Read), report.Count(int64(r.Ranks), "rank"))
	if r.OverLink > 0 {
		fmt.Fprintf(t.out, "; at least %s on the link", seconds(r.OverLink))
	}
	fmt.Fprintf(t.out, "\n  training waits for at most %d steps that are trained again (%s); a silent process counts as lost after %s\n", r.Steps,
		seconds(r.Replay), seconds(r.Silence))
}

// writeWalls prints figures that grow with the number of ranks.
func (t *planText) writeWalls(f *plan.Forecast) {
	if f.Ranks == 1 {
		return
	}
	x := f.Walls
	fmt.Fprintf(t.out, "\nwith the number of ranks grow, for each process: %s, %s and %s of step status in a step,\n",
		report.Count(int64(x.Connections), "connection"), report.Count(int64(math.Round(x.Messages)), "message"), bytesText(x.Status))
	fmt.Fprintf(t.out, "  %.0f of the messages for counts of rows and %.0f for the dense all-reduce, and %.0f heartbeats a second; a message of rows carries %.1f rows\n",
		x.Lists, x.Dense, x.Heartbeats, x.RowsPerPair)
}

func (t *planText) writeTable(all []*plan.Forecast) {
	w := t.table()
	fmt.Fprint(w, "\nranks\tbatch\tcounted\tmost memory\tmessages\tbytes sent\twaited for\tconnections\tstatus\trows a message\t")
	timed := all[0].Times != nil
	if timed {
		fmt.Fprint(w, "step\tcompute\tsamples/s\t")
	}
	fmt.Fprintln(w)
	for _, f := range all {
		bytes := 0.0
		for k := range plan.Classes {
			bytes += f.Mean.Sent[k].Bytes
		}
		steps := fmt.Sprint(f.Counted)
		if f.Sample > 1 {
			steps += fmt.Sprintf(" (1/%d)", f.Sample)
		}
		fmt.Fprintf(w, "%d\t%d\t%s\t%s\t%.0f\t%s\t%s\t%d\t%s\t%.1f\t", f.Ranks, f.Batch, steps, bytesText(f.MostMemory.Sum()), f.Walls.Messages,
			bytesText(bytes), bytesText(f.Mean.Sent[plan.LateRows].Bytes+f.Mean.Sent[plan.Gradients].Bytes), f.Walls.Connections,
			bytesText(f.Walls.Status), f.Walls.RowsPerPair)
		if timed {
			fmt.Fprintf(w, "%s\t%s\t%s\t", seconds(f.Times.Step), seconds(f.Times.Compute), report.Thousands(int64(float64(f.Batch)/f.Times.Step)))
		}
		fmt.Fprintln(w)
	}
	w.Flush()
	fmt.Fprintln(t.out, "memory of the largest process; messages, bytes and status of a rank in a step; connections of a process")
}
