package paper

import (
	"fmt"

	"github.com/ecrec/ecrec/bench"
)

// exchangeStages are the stages of a step of rank 0 that it waits for, one after the other.
var exchangeStages = []string{"wait", "fetch", "forward", "backward", "push", "reduce", "update"}

// drawB2 draws the stages of an iteration.
func drawB2(f *Figure, reports []*bench.Report) error {
	type bar struct {
		label, system string
		report        int
	}
	var barsOf []bar
	for i, m := range []string{"DLRM", "DeepFM"} {
		for _, system := range []string{"TorchRec", "BagPipe", "ecrec (planned)"} {
			barsOf = append(barsOf, bar{m + ", " + system, system, i})
		}
	}
	for _, stage := range exchangeStages {
		s := Series{System: stage}
		for i, b := range barsOf {
			p, kind, err := point(reports[b.report], float64(i), b.label, "stage", "system", imitated[b.system], "stage", stage)
			if err != nil {
				return err
			}
			if err := s.addPoint(p, kind); err != nil {
				return err
			}
		}
		f.Series = append(f.Series, s)
	}
	shares := map[string]*Series{}
	for i, b := range barsOf {
		s := shares[b.system]
		if s == nil {
			s = &Series{System: b.system}
			shares[b.system] = s
		}
		step, kind, err := point(reports[b.report], 0, "", "step", "system", imitated[b.system])
		if err != nil {
			return err
		}
		fetch, push := f.atLabel("fetch", b.label), f.atLabel("push", b.label)
		p := Point{X: float64(len(barsOf) + i), Label: []string{"DLRM", "DeepFM"}[b.report] + ", embedding access",
			N: step.N, Single: step.Single, Few: step.Few, Unit: "%"}
		p.Y = 100 * (fetch.Y + push.Y) / step.Y
		p.Least, p.Most = 100*(fetch.Least+push.Least)/step.Most, 100*(fetch.Most+push.Most)/step.Least
		if err := s.addPoint(p, kind); err != nil {
			return err
		}
	}
	for _, system := range []string{"TorchRec", "BagPipe", "ecrec (planned)"} {
		f.Series = append(f.Series, *shares[system])
	}
	for _, model := range []string{"DLRM", "DeepFM"} {
		label := model + ", embedding access"
		f.Checks = append(f.Checks, above(model+": TorchRec spends a greater share on embeddings than BagPipe", f.atLabel("TorchRec",
			label), f.atLabel("BagPipe", label)))
		if v, ok := f.paperAt("TorchRec", 0, label); ok {
			f.Checks = append(f.Checks, near(fmt.Sprintf("%s: TorchRec's share within 25 %% of the paper's %s %%", model, number(v)),
				f.atLabel("TorchRec", label), v, 0.25))
		}
	}
	if v, ok := f.paperAt("BagPipe", 0, "DeepFM, embedding access"); ok {
		f.Checks = append(f.Checks, atMost(fmt.Sprintf("DeepFM: BagPipe's share is at most the paper's %s %%", number(v)),
			f.atLabel("BagPipe", "DeepFM, embedding access"), v))
	}
	exchangeParams(f, reports[0])
	exchangeNotes(f, "TorchRec")
	f.Notes = append(f.Notes, "Stages are those of rank 0. Embedding access is the wait for rows and for the return of gradients.")
	return nil
}

// drawB7 draws the designs of a cache.
func drawB7(f *Figure, reports []*bench.Report) error {
	placed := reports[1]
	for _, x := range []struct {
		of      *bench.Report
		systems []string
	}{{reports[0], []string{"replicated"}}, {placed, []string{"partitioned"}},
		{reports[0], []string{"partitioned, samples in order", "LRPP", "ecrec (planned)", "ideal"}}} {
		if err := addTimes(f, x.systems, []string{"iteration"}, []*bench.Report{x.of}); err != nil {
			return err
		}
	}
	p, kind, err := point(placed, 1, "placing the samples of a batch", "placing a batch", "system", "partitioned-placed")
	if err != nil {
		return err
	}
	p.Unit = "s"
	placing := Series{System: "placing of samples", Kind: kind, Points: []Point{p}}
	times := func(system string) Point { return f.atLabel(system, "iteration") }
	for _, system := range []string{"replicated", "partitioned"} {
		ratio := over(times("LRPP"), times(system))
		better := Point{X: 2, Label: "better than " + system, Y: 100 * (1 - ratio.Y), Least: 100 * (1 - ratio.Most),
			Most: 100 * (1 - ratio.Least), N: ratio.N, Single: ratio.Single, Few: ratio.Few, Unit: "%"}
		s := f.series("LRPP")
		s.Points = append(s.Points, better)
	}
	f.Series = append(f.Series, placing)
	f.Checks = append(f.Checks,
		below("LRPP takes less time than replicated", times("LRPP"), times("replicated")),
		below("LRPP takes less time than partitioned, whose samples are placed", times("LRPP"), times("partitioned")),
		below("placing samples makes partitioned faster", times("partitioned"), times("partitioned, samples in order")),
		below("ecrec's planned mode takes less time than any of the three designs",
			times("ecrec (planned)"), fastest(times("LRPP"), times("replicated"), times("partitioned"))))
	for _, system := range []string{"replicated", "partitioned"} {
		if v, ok := f.paperAt("LRPP", 0, "better than "+system); ok {
			f.Checks = append(f.Checks, near(fmt.Sprintf("LRPP is better than %s by the paper's %s %%, within a quarter", system,
				number(v)), f.atLabel("LRPP", "better than "+system), v, 0.25))
		}
	}
	if v, ok := f.paperAt("partitioned", 0, "placing the samples of a batch, 16 cores"); ok {
		f.Checks = append(f.Checks, atMost(fmt.Sprintf("placing the samples takes less than the paper's %s s", number(v)), p, v))
	}
	exchangeParams(f, reports[0])
	exchangeNotes(f)
	f.Notes = append(f.Notes, "Samples are placed exactly, as a transportation problem by min-cost flow; the cost of a sample at "+
		"a trainer is that of its rows that are cached elsewhere. "+
		"The paper's program is a mixed integer one. Its time here has the planning of homes with it.",
		"Bytes of optimizer state are not moved: rows are updated by SGD.")
	return addSynchronised(f, reports[2:])
}

// fastest is the least of some values.
func fastest(points ...Point) Point {
	least := points[0]
	for _, p := range points {
		if p.Y < least.Y {
			least = p
		}
	}
	return least
}
