package paper

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/ecrec/ecrec/bench"
)

// Report is all figures, and where, when and how they were measured.
type Report struct {
	Session Session       `json:"session"`
	Machine bench.Machine `json:"machine"` // of the first run
	// Others and Steal are the shares of all cores, over the time of all timed runs, that other work used, and that the host took away;
	// nil: unknown.
	Others  *float64  `json:"others,omitempty"`
	Steal   *float64  `json:"steal,omitempty"`
	Papers  []Source  `json:"papers"`
	Figures []*Figure `json:"figures"`
}

// makeFrom draws all figures: those of the papers, and the drawings of none. read returns the report of a run that is done.
func makeFrom(drawings []Drawing, s Session, read func(Run) (*bench.Report, error)) *Report {
	r := &Report{Session: s, Papers: Sources()}
	reports := map[string]*bench.Report{}
	failed := map[string]string{}
	for _, x := range s.Runs {
		key := x.Run.String()
		switch {
		case x.Error != "":
			failed[key] = x.Error
		case x.Done:
			b, err := read(x.Run)
			if err != nil {
				failed[key] = err.Error()
				continue
			}
			reports[key] = b
		}
	}
	r.addMachine(s.Runs, reports)
	for _, id := range idsOf(drawings) {
		f := Of(id)
		if i := slices.IndexFunc(drawings, func(d Drawing) bool { return d.ID == id }); i >= 0 {
			f.drawFrom(drawings[i], s, reports, failed)
		} else {
			f.Why = "there is no benchmark for it yet"
		}
		f.Mark = f.findMark()
		r.Figures = append(r.Figures, f)
	}
	return r
}

// addMachine adds the machine of the first run, and the load over all timed ones.
func (r *Report) addMachine(runs []RunRecord, reports map[string]*bench.Report) {
	seconds, others, steal := 0.0, 0.0, 0.0
	for _, x := range runs {
		b := reports[x.Run.String()]
		if b == nil {
			continue
		}
		if r.Machine.CPU == "" {
			r.Machine = b.Machine
		}
		if r.Machine.Disk == nil {
			r.Machine.Disk = b.Machine.Disk
		}
		l := b.Load
		if share, ok := l.Foreign(); x.Run.IsTimed() && ok && l.Steal != nil {
			seconds, others, steal = seconds+l.Seconds, others+l.Seconds*share, steal+l.Seconds**l.Steal
		}
	}
	if seconds > 0 {
		others, steal = others/seconds, steal/seconds
		r.Others, r.Steal = &others, &steal
	}
}

// drawFrom draws a figure if all its runs have reports, else sets the reason why it has no values.
func (f *Figure) drawFrom(d Drawing, s Session, reports map[string]*bench.Report, failed map[string]string) {
	if d.Runs == nil {
		f.Why, f.Impossible = d.Why, d.Impossible
		return
	}
	runs := d.Runs(parseSize(s.Size))
	var inputs []*bench.Report
	for _, run := range runs {
		key := run.String()
		f.Commands = append(f.Commands, "ecrec "+key)
		switch {
		case reports[key] != nil:
			inputs = append(inputs, reports[key])
			f.addLoad(run, reports[key].Load)
		case failed[key] != "" && f.Error == "":
			f.Error = key + ": " + failed[key]
		}
	}
	switch {
	case !isWanted(d.ID, s.Only):
		f.Why = "not asked for: --only " + strings.Join(s.Only, ",")
		f.Error = ""
		return
	case f.Error != "":
		return
	case len(inputs) < len(runs):
		f.Why = "its runs are not done"
		if s.Stopped != "" {
			f.Why = "stopped by a signal after " + s.Stopped
		}
		return
	}
	f.addBuild(inputs)
	if err := f.callDraw(d, inputs); err != nil {
		f.Error = err.Error()
		f.Series, f.Checks = nil, nil // a part of the drawing
	}
}

// addLoad adds the load of a run, if its values depend on it.
func (f *Figure) addLoad(run Run, l *bench.Load) {
	if share, ok := l.Foreign(); ok && run.IsTimed() && l.Steal != nil {
		f.Loads = append(f.Loads, RunLoad{Run: run.String(), Others: share, Steal: *l.Steal, Busy: l.IsBusy()})
	}
}

// callDraw draws, and turns a panic into an error: one figure does not end the report.
func (f *Figure) callDraw(d Drawing, inputs []*bench.Report) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the drawing of %s failed: %v", d.ID, p)
		}
	}()
	if err := d.Draw(f, inputs); err != nil {
		return err
	}
	return f.checkFinite()
}

// addBuild adds the commit and the time of the reports of a figure.
func (f *Figure) addBuild(inputs []*bench.Report) {
	var commits []string
	for _, b := range inputs {
		c := commitText(b.Build.Commit, b.Build.Modified)
		if !slices.Contains(commits, c) {
			commits = append(commits, c)
		}
		if b.When.After(f.When) {
			f.When = b.When.UTC().Truncate(time.Second)
		}
	}
	f.Commit = strings.Join(commits, ", ")
}

// commitText is a short commit, and whether the work tree had changes.
func commitText(commit string, modified bool) string {
	switch {
	case commit == "":
		return "unknown"
	case modified:
		return commit[:min(12, len(commit))] + " with uncommitted changes"
	}
	return commit[:min(12, len(commit))]
}

// checkFinite returns an error if a value of a figure is no number: JSON and CSV could not hold it.
func (f *Figure) checkFinite() error {
	for _, s := range f.Series {
		for _, p := range s.Points {
			for _, v := range []float64{p.X, p.Y, p.Least, p.Most} {
				if math.IsNaN(v) || math.IsInf(v, 0) {
					return fmt.Errorf("the value of %s at %s is %v", s.System, f.placeOf(p.Label, p.X), v)
				}
			}
		}
	}
	return nil
}

// WriteJSON writes the report, with all values of all figures.
func (r *Report) WriteJSON(out io.Writer) error {
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	_, err = out.Write(append(b, '\n'))
	return err
}

// Failed lists the figures whose runs or drawings ended with an error.
func (r *Report) Failed() (ids []string) {
	for _, f := range r.Figures {
		if f.Mark == Failed {
			ids = append(ids, f.ID)
		}
	}
	return ids
}
