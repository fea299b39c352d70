package paper

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ecrec/ecrec/bench"
)

// continuousTimeline is the parts of a step over time (T, fig. 4.6 and 4.7).
func continuousTimeline() []Drawing {
	return []Drawing{
		{ID: "T4.6", Runs: timelineRuns, Draw: func(f *Figure, reports []*bench.Report) error { return drawTimeline(f, reports[0], "in line") }},
		{ID: "T4.7", Runs: timelineRuns, Draw: func(f *Figure, reports []*bench.Report) error { return drawTimeline(f, reports[0], "beside") }},
	}
}

func timelineRuns(size Size) []Run {
	switch size {
	case Tiny:
		return []Run{{Bench: "timeline"}}
	case Quick:
		return []Run{{Bench: "timeline", Args: []string{"batch=1024"}}}
	}
	return []Run{{Bench: "timeline", Args: []string{"batch=4096", "steps=60"}}}
}

// timelineLines are the lines of a timeline, from the bottom.
var timelineLines = []string{"stream", "dense gradients", "delayed rows", "planner", "step"}

// drawTimeline draws each part as a line from its begin to its end, at the height of its line of the timeline.
func drawTimeline(f *Figure, r *bench.Report, copies string) error {
	f.Y = Axis{Name: "lines, from below: " + strings.Join(timelineLines, ", ")}
	count := map[string]int{}
	for _, x := range r.Figures {
		if x.Name != "begin" || x.Case["copies"] != copies {
			continue
		}
		height := slices.Index(timelineLines, x.Case["line"])
		if height < 0 {
			return fmt.Errorf("the report of %s has a line %q", r.Bench, x.Case["line"])
		}
		end, kind, err := point(r, 0, "", "end", "copies", copies, "span", x.Case["span"])
		if err != nil {
			return err
		}
		name := x.Case["line"] + ": " + x.Case["part"]
		if count[name]++; count[name] > 1 {
			name += fmt.Sprintf(" (%d)", count[name])
		}
		y := float64(height)
		f.Series = append(f.Series, Series{System: name, Kind: kind, Points: []Point{{X: x.Median, Y: y, Least: y, Most: y, N: 1}, {X: end.Y,
			Y: y, Least: y, Most: y, N: 1}}})
	}
	value := func(copies, name string) Point {
		p, _, err := point(r, 0, "", name, "copies", copies)
		if err != nil {
			return Point{}
		}
		return p
	}
	f.Checks = []Check{below("the step waits less for planning and commits than the topic takes to be written", value(copies, "wait"),
		value(copies, "topic"))}
	if copies == "beside" {
		f.Checks = append(f.Checks, below("a step waits less for its rows if the others move beside it", value(copies, "fetch"), value("in "+
			"line", "fetch")))
	}
	f.Params = []Param{{"copies", "changed rows, from a GPU", "rows between ranks, over emulated links of " + r.Settings["link"] + "; " +
		"changed rows to a topic in a folder"},
		{"model and batch", "not stated", r.Settings["model"] + ", " + r.Settings["batch"] + " samples on " + r.Settings["ranks"] + " ranks"}}
	f.Notes = append(f.Notes, "The timeline is that of ecrec train --trace, of the first rank in one step. The thesis's stream for copies "+
		"is one of CUDA; ours here is a thread beside the "+
		"computation. The topic is always written beside the step.")
	return nil
}
