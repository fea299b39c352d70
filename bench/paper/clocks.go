package paper

import (
	"fmt"
	"strings"

	"github.com/ecrec/ecrec/bench"
)

// clockRuns measure steps on this machine's clock over emulated links, and the same steps in virtual time.
func clockRuns(size Size) []Run {
	steps := Run{Bench: "ideal", Args: []string{"clock=both", "model=dim48", "modes=ideal,none,planned,lrpp", "dense=20000"}}
	code := Run{Bench: "overhead", Args: []string{"clock=both", "model=dim48-bare", "r=1", "ranks=3"}}
	switch size {
	case Tiny:
		steps.Args = append(steps.Args, "ranks=2", "batch=64", "compute=20ms", "link=20Mb/s,1ms", "lookahead=2")
		code.Args = append(code.Args, "every=1", "compute=20ms", "link=20Mb/s,1ms")
		return []Run{steps, code}
	case Quick:
		steps.Args, steps.Repeats = append(steps.Args, "ranks=4"), 2
		code.Args, code.Repeats = append(code.Args, "every=2"), 2
	case Full:
		steps.Args, steps.Repeats = append(steps.Args, "ranks=2,4"), 6
		code.Args, code.Repeats = append(code.Args, "every=2,10"), 6
	}
	steps.Args = append(steps.Args, "batch=2048", "compute=100ms", "link=200Mb/s,1ms", "lookahead=20")
	code.Args = append(code.Args, "batch=2048", "compute=100ms", "link=200Mb/s,1ms")
	return []Run{steps, code}
}

// drawClocks draws the time in virtual time over that on this machine's clock, for each mode of the exchange, and without and with a code.
func drawClocks(f *Figure, reports []*bench.Report) error {
	steps, code := reports[0], reports[1]
	for _, ranks := range strings.Split(steps.Settings["ranks"], ",") {
		s, err := bars(steps, "exchange, "+ranks+" ranks", "virtual over real", "mode", strings.Split(steps.Settings["modes"], ","), "ranks", ranks)
		if err != nil {
			return err
		}
		f.Series = append(f.Series, s)
	}
	for _, every := range strings.Split(code.Settings["every"], ",") {
		s := Series{System: "a commit every " + every + " steps, " + code.Settings["ranks"] + " ranks"}
		for i, name := range []string{"virtual over real, without the code", "virtual over real"} {
			p, kind, err := point(code, float64(i), []string{"without the code", "with the code"}[i], name, "every", every)
			if err != nil {
				return err
			}
			if err := s.addPoint(p, kind); err != nil {
				return err
			}
		}
		f.Series = append(f.Series, s)
	}
	var equal []Check
	for _, s := range f.Series {
		for _, p := range s.Points {
			equal = append(equal, within(fmt.Sprintf("%s, %s", s.System, p.Label), p, 0.9, 1.1))
		}
	}
	f.Checks = []Check{all("both clocks agree within 10 %", equal...)}
	f.Params = []Param{{"links", "-", steps.Settings["link"]}, {"forward and backward", "-", "a wait of " + steps.Settings["compute"]},
		{"batch", "-", steps.Settings["batch"]}, {"row", "-", "48 floats"},
		{"dense parameters", "-", steps.Settings["dense"] + "; with a code those of " + code.Settings["model"]}}
	f.Notes = append(f.Notes, "Links and a wait in place of the layers take their time on both clocks. The work of this machine's CPU takes time on "+
		"the real one only, so a ratio below 1 is its share. Jobs are chosen in which that share is small: the figures in virtual time leave it out.")
	return nil
}
