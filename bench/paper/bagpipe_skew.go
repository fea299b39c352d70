package paper

import (
	"fmt"
	"strconv"

	"github.com/ecrec/ecrec/bench"
)

// skewShares are the shares of lookups of the hottest 1 % of each table in BagPipe's mixture, in its order.
var skewShares = []int{90, 70, 40, 10, 1}

// bagPipeSkew is the time of an iteration over the skew (B, fig. 18).
func bagPipeSkew() []Drawing {
	return []Drawing{{ID: "B18", Draw: drawB18, Runs: func(size Size) (runs []Run) {
		for _, hot := range skewShares {
			runs = append(runs, runsOf([]string{fmt.Sprintf("stream=mixture-%d", hot), "system=fae,pooled,ideal,planned,lrpp"})(size)...)
		}
		return append(runs, mixtureRuns(size)...)
	}}}
}

func drawB18(f *Figure, reports []*bench.Report) error {
	for _, system := range []string{"BagPipe", "ecrec (planned)", "FAE", "TorchRec", "ideal"} {
		s := Series{System: system, Dashed: system == "ideal"}
		for i, hot := range skewShares {
			p, kind, err := point(reports[i], float64(hot), "", "step", "system", imitated[system], "stream", "mixture-"+strconv.Itoa(hot))
			if err != nil {
				return err
			}
			if err := s.addPoint(p, kind); err != nil {
				return err
			}
		}
		f.Series = append(f.Series, s)
	}
	first, last := float64(skewShares[0]), float64(skewShares[len(skewShares)-1])
	more := over(f.at("BagPipe", last), f.at("BagPipe", first))
	f.Checks = append(f.Checks,
		above("BagPipe takes longer without skew than with most", f.at("BagPipe", last), f.at("BagPipe", first)),
		atMost("BagPipe takes at most 30 % longer without skew", more, 1.3),
		atMost("so does ecrec's planned mode", over(f.at("ecrec (planned)", last), f.at("ecrec (planned)", first)), 1.3))
	if v, ok := f.paperAt("BagPipe", 0, "more time, 1 over 90"); ok {
		f.Checks = append(f.Checks, near(fmt.Sprintf("BagPipe's growth is the paper's %s %%, within 10 points", number(v)),
			scaled(more, 100), 100+v, 10/(100+v)))
	}
	for _, hot := range skewShares {
		f.Checks = append(f.Checks, above(fmt.Sprintf("FAE takes longer than BagPipe at %d %%", hot), f.at("FAE", float64(hot)),
			f.at("BagPipe", float64(hot))))
	}
	if v, ok := f.paperAt("FAE", 0, "factor in the text"); ok {
		f.Checks = append(f.Checks, near(fmt.Sprintf("FAE takes %s times as long as BagPipe where it is worst, within 25 %%",
			number(v)), worstOver(f), v, 0.25))
	}
	exchangeParams(f, reports[0])
	exchangeNotes(f, "FAE", "TorchRec")
	f.Notes = append(f.Notes, "Ids are the paper's own mixture: with the probability on the axis one of the hottest 1 % of the "+
		"rows of a table, each with the same probability, else any row. "+
		"FAE has copies of the most used 0.1 % of all rows.")
	return addMixture(f, reports[len(skewShares)])
}

// worstOver is the greatest ratio of FAE's time and BagPipe's.
func worstOver(f *Figure) (worst Point) {
	for _, hot := range skewShares {
		if p := over(f.at("FAE", float64(hot)), f.at("BagPipe", float64(hot))); p.Y > worst.Y {
			worst = p
		}
	}
	return worst
}
