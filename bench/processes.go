package bench

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

var processesBench = Bench{
	Name: "processes",
	Doc:  "time of a step by the number of processes on this machine, for small batches",
	Detail: "The processes share the cores. One process has a thread for each core, and several have at least one each. " +
		"The work of a step is the time of all cores for a run over its steps, its start included.",
	Settings: []Setting{
		numbers("processes", "1,2,4,8", 1, 64, "numbers of processes, with a rank each").orTiny("1,2"),
		numbers("batch", "256,512,1024,2048", 1, maxSamples, "samples of a step, over all ranks").orTiny("64"),
		number("steps", "1000", 1, maxSteps, "steps of a run").orTiny("4"),
		choice("model", plannedSmall.name, []string{plannedShape.name, plannedSmall.name}, "model; dim64 has larger layers"),
		modeSetting,
	},
	measure: runProcesses,
}

func runProcesses(out io.Writer, o Options) (report *Report, err error) {
	b, err := newPlanRun(o)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(b.dir)
	report = o.newReport("cpu")
	report.writeHeader(out)
	t := table(out)
	fmt.Fprintln(t, "batch\tprocesses\tstep, ms\tleast\tgreatest\twork, ms\tover the first\t")
	for _, batch := range strings.Split(o.text("batch"), ",") {
		if err := b.compareProcesses(t, report, batch); err != nil {
			return nil, err
		}
	}
	return report, t.Flush()
}

// compareProcesses runs jobs of a batch by turns, with each number of processes.
func (b *planRun) compareProcesses(out io.Writer, report *Report, batch string) error {
	numbers := strings.Split(b.o.text("processes"), ",")
	steps, work := make([][]float64, len(numbers)), make([][]float64, len(numbers))
	for turn := 0; b.o.moreTurns(turn, b.o.repeats()); turn++ {
		for i, text := range numbers {
			n, _ := strconv.Atoi(text) // the setting is checked
			r, err := b.timeRun(n, []string{"job.ranks=" + text, "job.save_model=false", "train.global_batch=" + batch,
				fmt.Sprint("train.iterations=", b.o.number("steps")), "cache.mode=" + b.o.text("mode")}, false)
			if err != nil {
				return err
			}
			steps[i], work[i] = append(steps[i], 1e3*r.step), append(work[i], 1e3*r.work/float64(b.o.number("steps")))
		}
	}
	for i, text := range numbers {
		name := fmt.Sprintf("batch %s, %s processes: ", batch, text)
		step, cores := report.addFigure(name+"step", "ms", steps[i]...), report.addFigure(name+"work of a step", "ms", work[i]...)
		over := ""
		if i > 0 {
			over = fmt.Sprintf("%.2f", report.addRatio(name+"step over that of "+numbers[0], steps[i], steps[0]).Median)
		}
		fmt.Fprintf(out, "%s\t%s\t%.2f\t%.2f\t%.2f\t%.2f\t%s\t\n", batch, text, step.Median, step.Min, step.Max, cores.Median, over)
	}
	return nil
}
