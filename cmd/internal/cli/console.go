package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ecrec/ecrec/checkpoint"
	"github.com/ecrec/ecrec/cmd/internal/report"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/machine"
	"github.com/ecrec/ecrec/launcher"
	"github.com/ecrec/ecrec/train"
)

// console shows a job to a person: a header, a line for steps, and a line for each event.
type console struct {
	unobserved
	app     *app
	visible io.Writer // the output of the process; app.out discards until the process reports for the job
	cfg     *config.Config
	node    string                   // " on " and the node's name; empty in a job of one process
	lostOn  func(ranks []int) string // names the nodes on which ranks were lost
	bars    *bars                    // progress of the preparation
	live    *report.Live             // progress of the training; nil before its first step and after its end
	steps   int64                    // observed
	since   interval                 // of the next line about steps
}

func newConsole(a *app, cfg *config.Config, isAlone bool, lostOn func(ranks []int) string) *console {
	c := &console{app: a, visible: a.out, cfg: cfg, lostOn: lostOn, bars: a.newBars()}
	if !isAlone {
		c.node = " on " + machine.NodeName()
	}
	return c
}

// printLine prints a line above the progress.
func (c *console) printLine(format string, args ...any) {
	if c.live != nil {
		c.live.Line(format, args...)
		return
	}
	c.bars.endBars()
	report.Line(c.app.out, format, args...)
}

// show makes the console visible once the preparation is over.
func (c *console) show() {
	c.app.out = c.visible
	c.bars.endBars()
}

// showSteps begins to show the progress of the training.
func (c *console) showSteps(steps int64) { c.live = report.NewLive(c.app.out, "step", steps) }

// printHeader describes the job: the model, the ranks, the processes, and the first step.
func (c *console) printHeader(i train.Info, w *launcher.World) {
	steps := report.Count(i.Steps, "step")
	if i.Endless {
		steps = "steps until " + c.cfg.Data.Train[0] + " ends"
	}
	fmt.Fprintf(c.app.out, "%s: %s, %s, %s of %d bytes, %s, %s on %s, %s\n",
		c.cfg.Job.Name, c.cfg.Model.Kind, report.Count(int64(i.DenseParams), "dense parameter"), report.Count(i.Rows, "row"), i.BytesPerRow,
		report.Count(int64(i.Ranks), "rank"), report.Count(int64(i.Threads), "thread"), i.Device, steps)
	if w != nil {
		here := fmt.Sprintf("%d processes on %s", len(present(w)), someOf(nodes(w)))
		if spares := c.cfg.Elastic.Spares; spares > 0 {
			here += ", " + report.Count(int64(spares), "spare")
		}
		fmt.Fprintln(c.app.out, here)
	}
	if i.Origin != nil {
		c.printOrigin(i.Origin)
	}
	if saved := checkpoint.Newest(c.cfg.Checkpoint.Dir); i.Began == 0 && saved != "" {
		c.printLine("%s still holds checkpoints of an earlier run (newest: %s); --resume auto uses them for that run only",
			c.cfg.Checkpoint.Dir, saved)
	}
	if c.cfg.Kernels.BLAS == "openblas" {
		fmt.Fprintln(c.app.out, "kernels.blas = \"openblas\": the digest is reproducible on this CPU type with this number of threads only")
	}
}

// Step shows the first step, and those after which a line is due. A live line shows every step.
func (c *console) Step(i train.StepInfo) {
	c.steps++
	c.since.addStep(i)
	if c.since.steps == 1 {
		c.since.from = i.Step - 1
	}
	due := c.steps == 1 || isDue(i, c.cfg.Train.LogEvery)
	if due || c.live.Draws() {
		if c.live.Step(c.since.toMetrics(i)) && due {
			c.since = interval{}
		}
	}
}

// Evaluated prints an evaluation.
func (c *console) Evaluated(e train.Eval) {
	c.printLine("eval after step %s%s: logloss %.5f, AUC %s", report.Thousands(e.Step), c.node, e.Logloss, formatAUC(e.AUC))
}

func formatAUC(x float64) string {
	if math.IsNaN(x) {
		return "undefined (all labels are equal)"
	}
	return fmt.Sprintf("%.5f", x)
}

// Checkpointed prints the path of a checkpoint, or why it could not be saved.
func (c *console) Checkpointed(step int64, path string, err error) {
	if err != nil {
		c.printLine("checkpoint after step %s%s failed: %s", report.Thousands(step), c.node, oneLine(err))
		return
	}
	c.printLine("checkpoint after step %s%s: %s", report.Thousands(step), c.node, path)
}

// SkippedCheckpoint prints why a checkpoint was not used.
func (c *console) SkippedCheckpoint(_ string, err error) { c.printLine("%s", skipped(err)) }

// skipped describes a checkpoint that was not used.
func skipped(err error) string { return "skipped checkpoint: " + oneLine(err) }

// Recovered prints a recovery.
func (c *console) Recovered(x train.Recovery) {
	c.printLine("recovered from the loss of %s on %s at step %s: back to step %s, training again after %.0f ms, all rebuilt after %.0f ms",
		ranksText(x.Ranks), cmp.Or(c.lostOn(x.Ranks), "this node"), report.Thousands(x.Step), report.Thousands(x.CommittedStep),
		x.ResumeMS, x.WholeMS)
}

// Warned prints a warning.
func (c *console) Warned(what string) { c.printLine("warning: %s", oneLine(errors.New(what))) }

// ranksText returns "rank 3" or "ranks 3, 4".
func ranksText(ranks []int) string {
	var names []string
	for _, r := range ranks {
		names = append(names, strconv.Itoa(r))
	}
	if len(ranks) == 1 {
		return "rank " + names[0]
	}
	return "ranks " + someOf(names)
}

// someOf lists names, of many only the first.
func someOf(names []string) string {
	const most = 8
	if len(names) > most {
		names = append(slices.Clone(names[:most]), fmt.Sprintf("... (%d in all)", len(names)))
	}
	return strings.Join(names, ", ")
}
