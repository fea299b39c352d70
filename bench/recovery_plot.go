package bench

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/ecrec/ecrec/bench/chart"
)

// windowMS is the length of a window of a throughput over time.
const windowMS = 500

// throughputWindows returns the samples per second in each complete window from the end of the first step on. Steps that a loss made
// redo do not count. The samples of a step are spread over its time, at most twice the median of the steps: the rest of a longer one is
// a pause, whose windows are 0.
func (r *jobRun) throughputWindows() []float64 {
	begin, end := r.steps[0].UnixMS, r.steps[len(r.steps)-1].UnixMS
	windows := make([]float64, (end-begin)/windowMS)
	var times []float64
	for i, s := range r.steps[1:] {
		times = append(times, float64(s.UnixMS-r.steps[i].UnixMS))
	}
	if len(times) == 0 {
		return windows
	}
	longest := max(1, 2*figure("", "", times).Median)
	done := r.steps[0].Step
	for i, s := range r.steps[1:] {
		if s.Step <= done {
			continue
		}
		done = s.Step
		to := float64(s.UnixMS - begin)
		from := to - max(1, min(times[i], longest))
		for w := max(0, int(from/windowMS)); w < len(windows) && float64(w*windowMS) < to; w++ {
			inside := min(to, float64((w+1)*windowMS)) - max(from, float64(w*windowMS))
			windows[w] += float64(r.batch) * inside / (to - from) * 1e3 / windowMS
		}
	}
	return windows
}

// plotThroughput draws the samples per second of a run over its time, with a line at each loss and at the end of each rebuild. The
// format is that of the ending of the name.
func plotThroughput(path, title string, r jobRun, report *Report) error {
	begin := r.steps[0].UnixMS
	line := chart.Series{Name: "new samples", Number: 0, Plain: true, Steps: true}
	windows := r.throughputWindows()
	for i, y := range windows {
		line.Points = append(line.Points, chart.Point{X: float64(i) * windowMS / 1e3, Y: y, Least: y, Most: y})
	}
	if n := len(windows); n > 0 { // the last window has a length too
		last := line.Points[n-1]
		last.X += windowMS / 1e3
		line.Points = append(line.Points, last)
	}
	c := chart.Chart{X: chart.Axis{Label: "time (s)"}, Y: chart.Axis{Label: "throughput (samples/s)"}, Series: []chart.Series{line}}
	var lost []string
	for i := range r.Recoveries {
		x := &r.Recoveries[i]
		at := float64(r.steps[max(0, r.lossOf(x)-1)].UnixMS-begin) / 1e3
		c.Marks = append(c.Marks, chart.Mark{Name: "loss", Number: 1, X: at}, chart.Mark{Name: "rebuilt", Number: 2, X: at + x.WholeMS/1e3})
		lost = append(lost, strings.Trim(fmt.Sprint(x.Ranks), "[]"))
	}
	caption := []string{
		fmt.Sprintf("Windows of %.1f s; steps that a loss made redo do not count. Ranks killed, in order: %s.", windowMS/1e3, strings.Join(lost, ", ")),
		fmt.Sprintf("%s, %d cores. ecrec %s. %s.", report.Machine.CPU, report.Machine.Cores, report.buildText(), report.When.Format("2006-01-02 15:04 MST")),
	}
	command := "ecrec"
	if len(report.Command) > 1 {
		command += " " + strings.Join(report.Command[1:], " ")
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := c.WriteFile(f, path, title, append(caption, chart.Wrap(command, 125)...)); err != nil {
		return err
	}
	return f.Close()
}

// plotFiles draws a run in the files of the settings png and svg.
func (b *recoveryRun) plotFiles(report *Report, run jobRun) error {
	for _, key := range pictureKeys {
		if path := b.o.text(key); path != "" {
			if err := plotThroughput(path, "Throughput of a job whose ranks are killed: "+b.String(), run, report); err != nil {
				return err
			}
		}
	}
	return nil
}

// pictureKeys are the settings that name pictures, which are also the endings of their names.
var pictureKeys = []string{"png", "svg"}

// checkPictures returns an error that is ErrSetting if a picture has another ending than its format.
func (o Options) checkPictures() error {
	i := slices.IndexFunc(pictureKeys, func(key string) bool {
		path := o.text(key)
		return path != "" && !strings.HasSuffix(strings.ToLower(path), "."+key)
	})
	if i >= 0 {
		return settingError("%s=%s: want a name that ends in .%s", pictureKeys[i], o.text(pictureKeys[i]), pictureKeys[i])
	}
	return nil
}
