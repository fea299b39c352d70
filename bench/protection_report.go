package bench

import (
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/ecrec/ecrec/internal/machine"
	"github.com/ecrec/ecrec/train"
)

// addFigures adds the figures of a job's systems to the report.
func (g *guardedJob) addFigures(info train.Info) error {
	b, r := g.b, g.b.report
	bytes := float64(info.Rows) * float64(info.BytesPerRow)
	fmt.Fprintf(b.out, "\n%s / %d: %s of rows and state on %d ranks, batch %d a rank, link %v, computing %v, blocks of %d steps, "+
		"cache.mode %s\n",
		g.size.name, b.scale, machine.Size(int64(bytes)), b.ranks, b.o.number("batch"), b.link, b.compute, g.steps, g.cfg.Cache.Mode)
	t := table(b.out)
	fmt.Fprintln(t, "\tms per step\tleast\tgreatest\toverhead %\tinterval\tby parts %\tpause s\tof it on the disk\t")
	for i, of := range g.job.guards {
		first := len(r.Figures)
		c := of.caseOf(g.size.name, g.job.every)
		var ms, over, parts, paused, saved, reached []float64
		for turn, x := range g.with[i] {
			plain := g.plain[i][turn].perStep()
			ms, over = append(ms, x.perStep()), append(over, 100*(x.perStep()/plain-1))
			parts = append(parts, 100*1e3*partsOf(x.cost).Seconds()/plain)
			paused, saved = append(paused, x.paused.Seconds()), append(saved, x.saved.Seconds())
			reached = append(reached, g.saved.all/1e6/x.saved.Seconds())
		}
		step, overhead := r.addFigure("step", "ms", ms...), r.addPaired("overhead", "%", over...)
		fmt.Fprintf(t, "%s\t%.2f\t%.2f\t%.2f\t%.2f\t%s\t", of.setting+g.everyText(of), step.Median, step.Min, step.Max, overhead.Median,
			overhead.between.Text(2, 0))
		switch {
		case of.minutes > 0:
			pause := r.addFigure("pause", "s", paused...)
			disk := r.addAs(Measured, "pause, on the disk", "s", saved...)
			r.addAs(Measured, "rate of the disk", "MB/s", reached...)
			r.addAs(Counted, "bytes of a checkpoint", "B", g.saved.all)
			r.addAs(Counted, "bytes of its rows", "B", g.saved.rows)
			fmt.Fprintf(t, "-\t%.3f\t%.3f\t\n", pause.Median, disk.Median)
		case of.like == nil:
			fmt.Fprintf(t, "%.2f\t-\t-\t\n", r.addFigure("overhead by parts", "%", parts...).Median)
		default:
			fmt.Fprint(t, "-\t-\t-\t\n")
		}
		r.addAs(Counted, "rows and state", "B", bytes)
		r.setCase(first, c)
		if g.size.name == b.o.text("timeline") {
			g.addWindows(c, g.with[i])
		}
	}
	g.addPlain()
	return t.Flush()
}

func (g *guardedJob) everyText(of guard) string {
	if of.k == 0 || of.like != nil {
		return ""
	}
	return fmt.Sprintf(", every %d", g.job.every)
}

// partsOf is the time of the training goroutine for protection.
func partsOf(c train.Cost) time.Duration {
	return c.PreImages + c.Snapshots + c.Waited + c.Sealed + c.Folded
}

// addPlain adds the figures without protection, once for each size.
func (g *guardedJob) addPlain() {
	r, c := g.b.report, noGuard.caseOf(g.size.name, 0)
	for _, f := range r.Figures {
		if f.Name == "step" && maps.Equal(f.Case, c) {
			return
		}
	}
	first := len(r.Figures)
	var ms []float64
	for _, x := range g.plain[0] {
		ms = append(ms, x.perStep())
	}
	r.addFigure("step", "ms", ms...)
	r.setCase(first, c)
	if g.size.name == g.b.o.text("timeline") {
		g.addWindows(c, g.plain[0])
	}
}

// addWindows adds the throughput over time, in windows of half a second / scale * 200, or three steps if that is longer, and the mean of
// each block.
func (g *guardedJob) addWindows(of map[string]string, blocks []guardBlock) {
	r, samples := g.b.report, float64(g.b.ranks*g.b.o.number("batch"))
	window := g.b.windows[g.size.name]
	if window == 0 { // all jobs of a size have the same
		window = max(g.b.interval(30)/18, time.Duration(3*g.plain[0][0].perStep()*float64(time.Millisecond)))
		g.b.windows[g.size.name] = window
	}
	var means []float64
	for _, x := range blocks {
		means = append(means, samples*float64(x.steps)/x.took.Seconds())
	}
	first := len(r.Figures)
	r.addFigure("mean throughput", "samples/s", means...)
	r.addAs(Counted, "window", "s", window.Seconds())
	r.setCase(first, of)
	done := 0
	for i, n := range stepsOfWindows(blocks, window) {
		done += n
		at := maps.Clone(of)
		at["at"] = strconv.FormatFloat((window * time.Duration(i+1)).Seconds(), 'f', 3, 64)
		first := len(r.Figures)
		r.addFigure("throughput", "samples/s", samples*float64(n)/window.Seconds())
		r.addFigure("samples done", "samples", samples*float64(done))
		r.setCase(first, at)
	}
}

// stepsOfWindows counts the steps that end in each window of some blocks, end to end. The last window, which is not full, is left out.
func stepsOfWindows(blocks []guardBlock, window time.Duration) []int {
	var (
		ends []time.Duration
		all  time.Duration
	)
	for _, x := range blocks {
		for _, end := range x.ends {
			ends = append(ends, all+end)
		}
		all += x.took
	}
	counts := make([]int, max(1, int(all/window)))
	for _, end := range ends {
		if i := int(end / window); i < len(counts) {
			counts[i]++
		}
	}
	return counts
}
