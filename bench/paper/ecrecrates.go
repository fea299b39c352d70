package paper

import (
	"strings"

	"github.com/ecrec/ecrec/bench"
)

func rateRuns(size Size) []Run {
	r := Run{Bench: "rebuild", Repeats: 1, Args: []string{"part=jobs", "rates=auto,max", "kills=1"}}
	switch size {
	case Quick:
		r.Args = append(r.Args, "first=40", "gap=40")
	case Full:
		r.Args[1], r.Repeats = "rates=8MiB,32MiB,auto,max", 3
	}
	return []Run{r}
}

// drawRates draws the throughput while a rank is rebuilt over the bound on the rate of the rebuild.
func drawRates(f *Figure, reports []*bench.Report) error {
	r := reports[0]
	kept, took := Series{System: "ecrec k=4, of normal"}, Series{System: "ecrec k=4, time to rebuild"}
	for i, rate := range strings.Split(r.Settings["rates"], ",") {
		label := "ec.rebuild_rate = " + rate
		p, kind, err := point(r, float64(i), label, "throughput meanwhile, of normal", "rate", rate)
		if err == nil { // a rebuild that ends with the first step shows nothing of its throughput
			p.Unit = "%"
			if err := kept.addPoint(p, kind); err != nil {
				return err
			}
		}
		if p, kind, err = point(r, float64(i), label, "from loss to rebuilt", "rate", rate); err != nil {
			return err
		}
		p = scaled(p, 1e-3)
		p.Unit = "s"
		if err := took.addPoint(p, kind); err != nil {
			return err
		}
	}
	f.Series = []Series{took}
	if len(kept.Points) > 0 {
		f.Series = []Series{kept, took}
	}
	f.Checks = []Check{
		atLeast("with the default rate, at least 87 % of the throughput is kept", f.atLabel(kept.System, "ec.rebuild_rate = auto"), 87),
		below("without a bound, a rank is rebuilt sooner than at the least rate", took.Points[len(took.Points)-1], took.Points[0]),
	}
	f.Other = "The paper has the gain of 10 locks over 1. Ours is the throughput that is kept at each rate."
	f.Params = []Param{{"knob", "10 locks in place of 1", "ec.rebuild_rate, the bound on the rate of a rebuild"}, {"model", "E-DLRM",
		r.Settings["model"] + ", Criteo Kaggle"},
		{"rows lost", "all of a server", "the rows that a short run has touched"}}
	f.Notes = append(f.Notes, f.Other, "Ours has no locks: all ranks rebuild in rounds between their steps, at a commit that all of them "+
		"hold, so no row is locked while it is decoded. ECRec's locks trade throughput for the time of a rebuild; the bound on its "+
		"rate does so here.")
	return nil
}
