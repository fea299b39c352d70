package paper

import (
	"fmt"
	"strings"

	"github.com/ecrec/ecrec/bench"
)

// linkRuns measure the overhead of the code in virtual time, over the number of ranks.
func linkRuns(size Size) []Run {
	r := Run{Bench: "overhead", Args: []string{"clock=virtual", "r=1"}, Repeats: 1}
	switch size {
	case Tiny:
		r.Args = append(r.Args, "ranks=3,5", "every=1,2", "compute=1ms")
	case Quick:
		r.Args = append(r.Args, "ranks=5,10", "every=1", "steps=2")
	case Full:
		r.Args, r.Repeats = append(r.Args, "ranks=5,15,60", "every=1,10", "steps=10"), 2
	}
	return []Run{r}
}

// drawLinks draws the overhead of the code over the number of ranks, a line for each number of steps between commits.
func drawLinks(f *Figure, reports []*bench.Report) error {
	r := reports[0]
	every := strings.Split(r.Settings["every"], ",")
	for _, n := range every {
		s, err := line(r, "ecrec, a commit every "+n, "with / without the code", "ranks", "every", n)
		if err != nil {
			return err
		}
		one := Point{Y: 1, Least: 1, Most: 1, N: s.Points[0].N}
		for i, p := range s.Points {
			s.Points[i] = scaled(minus(p, one), 100)
		}
		f.Series = append(f.Series, s)
	}
	for _, s := range f.Series {
		for _, p := range s.Points {
			f.Checks = append(f.Checks, atMost(fmt.Sprintf("%s, %s ranks: the links cost at most 5 %%", s.System, number(p.X)), p, 5))
		}
		a, b := s.Points[0], s.Points[len(s.Points)-1]
		f.Checks = append(f.Checks, atMost(s.System+": with the most ranks the links cost at most 1 point more than with the fewest", minus(b, a), 1))
	}
	f.Other = "The paper's overhead has the work of CPUs and of a GPU. Ours is that of the links alone."
	f.Params = []Param{{"ranks", "5 servers", r.Settings["ranks"] + ", each also a server"}, {"batch", "2,048 a trainer", "2,048 a rank"},
		{"links", "25 Gb/s (servers), 10 Gb/s (trainers)", orDefault(r.Settings["link"], "10Gb/s,50us")},
		{"forward and backward", "not in the text", fmt.Sprintf("a wait of %s", orDefault(r.Settings["compute"], "30ms"))},
		{"row", "128 floats and momentum", "48 floats and Adagrad's state"}}
	f.Notes = append(f.Notes, "The production loop on a simulated clock: deltas share the links with rows and gradients, and the work of CPUs, "+
		"such as parities, takes no time. So it is the least that the code costs on such links, and the figure of a cluster of many hosts, "+
		"which this machine cannot be.", f.Other)
	return nil
}

// recoveryOverRanks measures the recovery of a lost rank in virtual time, over the number of ranks.
func recoveryOverRanks(size Size) []Run {
	r := Run{Bench: "recovery", Args: []string{"clock=virtual", "every=4"}, Repeats: 1}
	switch size {
	case Tiny:
		r.Args = append(r.Args, "ranks=3,5", "compute=5ms")
	case Quick:
		r.Args = append(r.Args, "ranks=5,10", "rate=max")
	case Full:
		r.Args, r.Repeats = append(r.Args, "ranks=5,15,30,60"), 3
	}
	return []Run{r}
}

// drawRecoveryOverRanks draws the times of a recovery over the number of ranks.
func drawRecoveryOverRanks(f *Figure, reports []*bench.Report) error {
	r := reports[0]
	for _, x := range []struct{ system, name string }{{"ready to train", "ready_ms"}, {"the first step is done", "resume_ms"},
		{"the lost step is done", "regain_ms"}, {"all is rebuilt", "whole_ms"}} {
		s, err := line(r, x.system, x.name, "ranks")
		if err != nil {
			return err
		}
		f.Series = append(f.Series, s)
	}
	whole := f.points("all is rebuilt")
	f.Checks = []Check{flat("the first step is done as soon with more ranks, within 20 %", f.points("the first step is done"), 0.2),
		atMost("with the most ranks the rebuild takes no longer than with the fewest, within 20 %", whole[len(whole)-1], 1.2*whole[0].Y)}
	f.Params = []Param{{"ranks", "5 servers", r.Settings["ranks"] + ", each also a server"}, {"batch", "2,048 a trainer", "2,048 a rank"},
		{"links", "25 Gb/s (servers), 10 Gb/s (trainers)", orDefault(r.Settings["link"], "10Gb/s,50us")},
		{"forward and backward", "not in the text", fmt.Sprintf("a wait of %s", orDefault(r.Settings["compute"], "30ms"))},
		{"rate of the rebuild", "decoding in the background", "ec.rebuild_rate " + r.Settings["rate"]}}
	f.Notes = append(f.Notes, "The production loop on a simulated clock, from the moment at which the next world is formed. To notice a loss and to start "+
		"a process takes more, and is in the figures of real processes. Only rows that were touched are rebuilt, and a rank of more ranks has fewer of them.")
	return nil
}

func orDefault(value, standard string) string {
	if value == "" {
		return standard
	}
	return value
}
