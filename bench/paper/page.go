package paper

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ecrec/ecrec/bench"
	"github.com/ecrec/ecrec/bench/chart"
	"github.com/ecrec/ecrec/bench/numbers"
)

//go:embed page.css
var pageCSS string

//go:embed page.html
var pageHTML string

var layout = template.Must(template.New("page").Funcs(template.FuncMap{
	"number": number,
	"full":   full,
	"exact":  func(y float64) string { return strconv.FormatFloat(y, 'g', -1, 64) },
}).Parse(pageHTML))

// kindsOfEvidence explains the kinds.
var kindsOfEvidence = []struct {
	Kind  bench.Evidence
	Means string
}{
	{bench.Measured, "times of this machine: processes of this program, real sockets or shared memory, real files, real kills"},
	{bench.Counted, "exact numbers of rows, messages, bytes or events; they do not depend on the machine"},
	{bench.Modelled, "computed by a formula whose parts are measured or counted"},
	{bench.Simulated, "measured, with emulated links, disks or computations: a link has a given bandwidth and latency, a forward " +
		"and backward pass may be a wait"},
	{bench.Virtual, "times on a simulated clock with links, computations and disks of given speeds; work of our own on a CPU takes " +
		"no time there"},
}

// view is the input of the template.
type view struct {
	Title, Lead, Stopped, Busy string
	Modified                   bool
	CSS                        template.CSS
	Counts                     []countView
	Facts                      []factView
	Kinds, Marks               any
	Papers                     []paperView
	Documents                  []documentView
}

// documentView is the numbers of a document.
type documentView struct {
	Name    string
	Numbers []numbers.Number
}

type countView struct {
	N     int
	Class string
	Mark  Mark
}

type factView struct{ Name, Text string }

type paperView struct {
	Cite, Setup string
	Notes       []string
	Figures     []figureView
}

type figureView struct {
	ID, Paper, Number, Title string
	Mark                     Mark
	Class, Why, Error        string
	Reason                   string // of the line in the table of all figures
	Drawn                    bool
	Kinds                    []bench.Evidence
	Plots                    []plotView
	Checks                   []checkView
	Rows                     []rowView
	Params                   []Param
	Notes, Commands          []string
	Commit, When, Load       string
	Busy                     []string
}

type plotView struct {
	SVG    template.HTML
	Legend []legendView
}

type legendView struct {
	Swatch template.HTML
	Name   string
}

type checkView struct{ Class, Word, Text, Seen string }

type rowView struct {
	row
	ManyFloat float64
}

// HasSpread reports whether the point has a spread that differs from the value.
func (p Point) HasSpread() bool { return p.Least != p.Y || p.Most != p.Y }

// WritePage writes the page of a report.
func (r *Report) WritePage(out io.Writer) error {
	v, err := r.makeView()
	if err != nil {
		return err
	}
	return layout.Execute(out, v)
}

func (r *Report) makeView() (*view, error) {
	s := r.Session
	v := &view{Title: "Figures of papers, measured again by ecrec", CSS: template.CSS(pageCSS), Stopped: s.Stopped, Modified: s.Build.Modified,
		Kinds: kindsOfEvidence, Marks: marks, Facts: r.listFacts()}
	var names []string
	for _, p := range r.Papers {
		names = append(names, p.Name)
	}
	v.Lead = fmt.Sprintf("%d figures and tables of %s; %s runs of %s, commit %s.", len(r.Figures), strings.Join(names, ", "), s.Size, s.When.UTC().Format("2 January 2006"), commitText(s.Build.Commit, s.Build.Modified))
	if r.Others != nil && (*r.Others > busyShare || *r.Steal > busyShare) {
		v.Busy = fmt.Sprintf("Other work used %.0f %% of the cores while the benchmarks ran, and the host of this virtual machine %.0f %%: "+
			"rates are too low. Ratios of pairs suffer less; counted and virtual values do not.", 100**r.Others, 100**r.Steal)
	}
	for _, m := range marks {
		n := 0
		for _, f := range r.Figures {
			if f.Mark == m.Mark {
				n++
			}
		}
		v.Counts = append(v.Counts, countView{n, m.Class, m.Mark})
	}
	l := newLooks(r.Figures)
	for _, p := range append(slices.Clone(r.Papers), Source{Cite: "Figures of ecrec that no paper has"}) {
		view := paperView{Cite: p.Cite, Setup: p.Setup, Notes: p.Notes}
		for _, f := range r.Figures {
			isOwn := !slices.Contains(names, f.Paper)
			if isOwn && p.Name != "" || !isOwn && f.Paper != p.Name {
				continue
			}
			fv, err := f.makeView(l)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", f.ID, err)
			}
			view.Figures = append(view.Figures, fv)
		}
		if len(view.Figures) > 0 {
			v.Papers = append(v.Papers, view)
		}
	}
	var err error
	v.Documents, err = documents()
	return v, err
}

// documents lists the numbers of README.md and docs.
func documents() (all []documentView, err error) {
	list, err := numbers.All()
	for _, n := range list {
		if i := len(all) - 1; i < 0 || all[i].Name != n.Claim.Doc {
			all = append(all, documentView{Name: n.Claim.Doc})
		}
		d := &all[len(all)-1]
		d.Numbers = append(d.Numbers, n)
	}
	return all, err
}

// busyShare is the share of the cores above which other work makes rates doubtful.
const busyShare = 0.05

// listFacts returns the lines about the machine and the session.
func (r *Report) listFacts() (all []factView) {
	s, m := r.Session, r.Machine
	add := func(name, text string) {
		if text != "" {
			all = append(all, factView{name, text})
		}
	}
	if m.CPU != "" {
		add("CPU", fmt.Sprintf("%s, %d cores", m.CPU, m.Cores))
	}
	if m.Memory > 0 {
		add("memory", number(float64(m.Memory)/(1<<30))+" GiB")
	}
	switch {
	case m.Disk != nil:
		add("disk", m.Disk.String())
	case s.Disk != nil:
		add("disk", s.Disk.String())
	}
	add("kernel", strings.TrimSpace(m.Kernel+" "+m.OS))
	add("Go", m.Go)
	accelerators := strings.Join(s.Accelerators, ", ")
	if accelerators == "" {
		accelerators = "none"
	}
	add("accelerators", accelerators)
	add("when", s.When.UTC().Format("2006-01-02 15:04 MST")+", "+durationText(s.Seconds))
	add("commit", commitText(s.Build.Commit, s.Build.Modified)+", ecrec "+s.Build.Version)
	if r.Others != nil {
		add("other work", fmt.Sprintf("%.1f %% of the cores; the host took %.1f %%", 100**r.Others, 100**r.Steal))
	}
	done, reused, failed := 0, 0, 0
	for _, x := range s.Runs {
		switch {
		case x.Error != "":
			failed++
		case x.Reused:
			reused++
			done++
		case x.Done:
			done++
		}
	}
	text := fmt.Sprintf("%d of %d done", done, len(s.Runs))
	if reused > 0 {
		text += fmt.Sprintf(" (%d by an earlier session)", reused)
	}
	if failed > 0 {
		text += fmt.Sprintf(", %d failed", failed)
	}
	add("runs", text)
	add("command", strings.Join(s.Command, " "))
	return all
}

func durationText(seconds float64) string {
	return time.Duration(seconds * float64(time.Second)).Round(time.Second).String()
}

func classOf(m Mark) string {
	for _, x := range marks {
		if x.Mark == m {
			return x.Class
		}
	}
	return ""
}

func (f *Figure) makeView(l looks) (v figureView, err error) {
	v = figureView{ID: f.ID, Paper: f.Paper, Number: f.Number, Title: f.Title, Mark: f.Mark, Class: classOf(f.Mark), Why: f.Why, Error: f.Error,
		Reason: f.findReason(), Drawn: len(f.Series) > 0 && f.Error == "", Kinds: f.listKinds(), Params: f.Params, Notes: f.Notes,
		Commands: f.Commands, Commit: f.Commit}
	if v.Title == "" {
		v.Title = f.ID
	}
	if !f.When.IsZero() {
		v.When = f.When.UTC().Format("2006-01-02 15:04 MST")
	}
	v.Load, v.Busy = f.describeLoad()
	for _, r := range f.listRows() {
		v.Rows = append(v.Rows, rowView{r, float64(r.Many)})
	}
	if !v.Drawn {
		return v, nil
	}
	for _, c := range f.Checks {
		class, words := c.verdict()
		v.Checks = append(v.Checks, checkView{class, words, c.Text, c.Seen})
	}
	for _, c := range f.listCharts(l) {
		if err := v.addPlot(c, f.Title); err != nil {
			return v, err
		}
	}
	return v, nil
}

// describeLoad returns the greatest load of the runs, and a warning for each that others disturbed.
func (f *Figure) describeLoad() (most string, busy []string) {
	if len(f.Loads) == 0 {
		return "", nil
	}
	others, steal := 0.0, 0.0
	for _, l := range f.Loads {
		others, steal = max(others, l.Others), max(steal, l.Steal)
		if l.Busy {
			busy = append(busy, fmt.Sprintf("Other work used %.1f %% of the cores during %s, and the host %.1f %%: its times are doubtful, "+
				"and so are checks of them.", 100*l.Others, l.Run, 100*l.Steal))
		}
	}
	return fmt.Sprintf("other work at most %.1f %% of the cores in a run, the host %.1f %%", 100*others, 100*steal), busy
}

// addPlot adds the chart and its legend.
func (v *figureView) addPlot(c *chart.Chart, title string) error {
	svg, err := c.SVG(title)
	if err != nil {
		return err
	}
	plot := plotView{SVG: template.HTML(svg)}
	for _, s := range c.Series {
		swatch, err := c.Swatch(s)
		if err != nil {
			return err
		}
		name := s.Name
		if s.Hollow {
			name += paperSuffix
		}
		plot.Legend = append(plot.Legend, legendView{template.HTML(swatch), name})
	}
	v.Plots = append(v.Plots, plot)
	return nil
}

// findReason returns the line below the title in the table of all figures: why there are no values, or the checks that do not
// hold and whether other work disturbed a run.
func (f *Figure) findReason() string {
	switch {
	case f.Error != "":
		first, _, _ := strings.Cut(f.Error, "\n")
		return first
	case len(f.Series) == 0:
		return f.Why
	case f.Mark == OtherQuantity:
		return f.Other
	}
	var texts []string
	for _, c := range f.Checks {
		if !c.Holds {
			texts = append(texts, c.Text)
		}
	}
	if _, busy := f.describeLoad(); len(busy) > 0 {
		texts = append(texts, "other work disturbed a run")
	}
	return strings.Join(texts, "; ")
}

// Summary is a line with the number of figures of each mark.
func (r *Report) Summary() string {
	var parts []string
	for _, m := range marks {
		n := 0
		for _, f := range r.Figures {
			if f.Mark == m.Mark {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", m.Mark, n))
		}
	}
	return fmt.Sprintf("%d figures: %s", len(r.Figures), strings.Join(parts, ", "))
}
