package paper

import (
	"slices"
	"strings"

	"github.com/ecrec/ecrec/bench"
)

// continuousMessages is the time of queues and of serialising changed rows (T, tab. 4.2, 4.3, fig. 4.8).
func continuousMessages() []Drawing {
	return []Drawing{
		{ID: "T4.2", Runs: messageRuns, Draw: drawQueues},
		{ID: "T4.3", Runs: messageRuns, Draw: drawGains},
		{ID: "T4.8", Runs: messageRuns, Draw: drawMessages},
	}
}

func messageRuns(Size) []Run { return []Run{{Bench: "messages"}} }

// drawQueues draws the seconds of a put and a get.
func drawQueues(f *Figure, reports []*bench.Report) error {
	r := reports[0]
	for _, x := range []struct{ name, system string }{{"hand-over (ecrec)", "hand-over"}, {"multiprocessing queue", "multiprocessing queue"}} {
		s, err := bars(r, x.name, "time", "op", []string{"put", "get"}, "system", x.system)
		if err != nil && x.system != "hand-over" {
			f.Notes = append(f.Notes, "Python is not installed here: its queue has no bar.")
			continue
		}
		if err != nil {
			return err
		}
		f.Series = append(f.Series, scaledSeries(s, 1e-9))
	}
	f.Params = []Param{{"message", "a dictionary of tensors", "a set of 8 tables of 1.2 KB"}}
	f.Notes = append(f.Notes, "Ours hands over a pointer between two goroutines of one process; Python's queue serialises, and moves bytes "+
		"through a pipe. So the two do not do "+
		"the same: the comparison shows the cost of a design with another process. The thesis's quick queue is not public.")
	if f.series("multiprocessing queue") != nil {
		f.Checks = []Check{
			below("a put of ours is faster than one of Python's queue", f.atLabel("hand-over (ecrec)", "put"), f.atLabel("multiprocessing queue",
				"put")),
			below("a get of ours is faster than one of Python's queue", f.atLabel("hand-over (ecrec)", "get"), f.atLabel("multiprocessing queue",
				"get"))}
		return nil
	}
	f.Checks = []Check{atMost("a put of ours takes at most the 1.7 us of the thesis's quick queue", f.atLabel("hand-over (ecrec)", "put"),
		1.7e-6)}
	return nil
}

// messageSets are the sets of sizes, from small to large.
var messageSets = []string{"1.2 KB", "1.2 to 9.6 KB", "12 KB", "1.2 MB"}

// messageSystems lists the systems of a report that serialise, ours first.
func messageSystems(r *bench.Report) []string {
	all := []string{"frames"}
	for _, x := range r.Figures {
		if x.Case["set"] != "" && !slices.Contains(all, x.Case["system"]) {
			all = append(all, x.Case["system"])
		}
	}
	return all
}

// drawMessages draws the ms of each system and size.
func drawMessages(f *Figure, reports []*bench.Report) error {
	r := reports[0]
	for _, system := range messageSystems(r) {
		for _, op := range []string{"serialise", "deserialise"} {
			s, err := bars(r, system+", "+op, "time", "set", messageSets, "system", system, "op", op)
			if err != nil {
				return err
			}
			f.Series = append(f.Series, scaledSeries(s, 1e-6))
		}
	}
	f.describeMessages(r)
	for _, op := range []string{"serialise", "deserialise"} {
		f.Checks = append(f.Checks, growsWith(op+": larger sets take longer", f.points("frames, "+op)))
	}
	if f.series("Pickle, array, serialise") != nil {
		f.Checks = append(f.Checks, below("the largest set is serialised faster than by Pickle", f.atLabel("frames, serialise", "1.2 MB"),
			f.atLabel("Pickle, array, serialise", "1.2 MB")))
	}
	return nil
}

// drawGains draws how much less time than Pickle's is needed, over all sets: each set has the same weight.
func drawGains(f *Figure, reports []*bench.Report) error {
	r := reports[0]
	pickle := slices.DeleteFunc(messageSystems(r), func(s string) bool { return !strings.HasPrefix(s, "Pickle") })
	if len(pickle) == 0 {
		f.Why = "Python is not installed here, so there is no Pickle to compare with; T4.8 has the times of ours."
	}
	f.describeMessages(r)
	ours := Series{System: "frames"}
	for i, op := range []string{"serialise", "deserialise"} {
		s, err := bars(r, "frames", "time", "set", messageSets, "system", "frames", "op", op)
		if err != nil {
			return err
		}
		if i == 0 {
			ours.Kind = s.Kind
		}
		for _, p := range s.Points {
			p = scaled(p, 1e-6)
			p.X, p.Label = float64(len(ours.Points)), op+", "+p.Label
			ours.Points = append(ours.Points, p)
		}
	}
	f.Series = append(f.Series, ours)
	for _, system := range pickle {
		less := Series{System: "frames over " + system, Kind: ours.Kind}
		for _, op := range []string{"serialise", "deserialise"} {
			var mean Point
			for i, set := range messageSets {
				a, _, err := point(r, 0, "", "time", "system", "frames", "op", op, "set", set)
				if err != nil {
					return err
				}
				b, _, err := point(r, 0, "", "time", "system", system, "op", op, "set", set)
				if err != nil {
					return err
				}
				if p := over(a, b); i == 0 {
					mean = p
				} else {
					mean = sum(mean, p)
				}
			}
			p := scaled(percentOver(scaled(mean, 1/float64(len(messageSets)))), -1)
			p.Label, p.Unit, p.X = op+", less than Pickle", "%", float64(len(less.Points))
			less.Points = append(less.Points, p)
			f.Checks = append(f.Checks, above(op+": frames take less time than "+system, p, Point{N: 1}))
		}
		f.Series = append(f.Series, less)
	}
	return nil
}

func (f *Figure) describeMessages(r *bench.Report) {
	f.Params = []Param{{"sets", "8 arrays of 1.2 KB, 12 KB, 1.2 MB, and 1.2 to 9.6 KB", "rows of " + r.Settings["width"] + " floats: as " +
		"many bytes"},
		{"Pickle", "tensors of PyTorch", strings.Join(messageSystems(r)[1:], "; ")}}
	f.Notes = append(f.Notes, "Our frames carry the numbers of rows, and sums of every byte that are compared when they are read; Pickle "+
		"and safetensors have neither. So ours do more. "+
		"The time of frames includes their copy to a topic in memory.", "Pickle of Python's own arrays copies their bytes at once: it is a "+
		"stronger baseline than lists, and as strong as tensors'.")
}
