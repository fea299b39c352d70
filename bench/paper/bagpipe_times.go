package paper

import (
	"fmt"

	"github.com/ecrec/ecrec/bench"
)

// drawB10 draws four models. DeepFM has its linear model over ids as a dense table, as the paper's code has it; in the last group, in the
// rows.
func drawB10(f *Figure, reports []*bench.Report) error {
	labels, systems := []string{"DLRM", "W&D", "D&C", "DeepFM", "DeepFM, weights in rows"}, []string{"TorchRec", "BagPipe",
		"ecrec (planned)", "ideal"}
	if err := addTimes(f, systems, labels, reports); err != nil {
		return err
	}
	addRatios(f, labels)
	var checks, least []Check
	for _, label := range []string{"DLRM", "D&C", "DeepFM"} {
		least = append(least, below("", f.atLabel("TorchRec", "W&D"+overBagPipe), f.atLabel("TorchRec", label+overBagPipe)))
	}
	for _, label := range []string{"DLRM", "W&D", "D&C"} {
		checks = append(checks, above("", f.atLabel("TorchRec", "DeepFM"+overBagPipe), f.atLabel("TorchRec", label+overBagPipe)))
	}
	f.Checks = append(f.Checks, slower(f, "TorchRec", "BagPipe", labels...), slower(f, "TorchRec", "ecrec (planned)", labels...),
		all("of the four models, DeepFM gains the most", checks...),
		all("of the four models, W&D gains the least", least...))
	addLikePaper(f, systems, labels)
	exchangeParams(f, reports[0])
	exchangeNotes(f, "TorchRec")
	f.Notes = append(f.Notes, "The paper gives no time of an ideal step of W&D and D&C: their wait is DLRM's.",
		"The dense gradient of DeepFM's table of 33.8 M weights is all-reduced in each step, by all systems; it takes most of the step. "+
			"Weights in the rows (49 floats each) need none.")
	return nil
}

// drawB9 draws five systems.
func drawB9(f *Figure, reports []*bench.Report) error {
	labels := []string{"DLRM", "W&D"}
	systems := []string{"FAE", "FB DLRM", "TorchRec", "HET", "BagPipe", "ecrec (planned)", "ideal"}
	if err := addTimes(f, systems, labels, reports); err != nil {
		return err
	}
	addRatios(f, labels)
	for _, other := range systems[:4] {
		f.Checks = append(f.Checks, slower(f, other, "BagPipe", labels...), slower(f, other, "ecrec (planned)", labels...))
	}
	f.Checks = append(f.Checks, slower(f, "FB DLRM", "TorchRec", labels...), slower(f, "FB DLRM", "FAE", labels...), slower(f,
		"FAE", "HET", labels...),
		slower(f, "HET", "TorchRec", labels...))
	addLikePaper(f, systems, labels)
	exchangeParams(f, reports[0])
	exchangeNotes(f, "FAE", "FB DLRM", "TorchRec", "HET")
	return nil
}

// drawB11 draws two machines.
func drawB11(f *Figure, reports []*bench.Report) error {
	labels, systems := []string{"DLRM, p3", "DLRM, g5", "DeepFM, p3", "DeepFM, g5"}, []string{"TorchRec", "BagPipe",
		"ecrec (planned)", "ideal"}
	if err := addTimes(f, systems, labels, reports); err != nil {
		return err
	}
	addRatios(f, labels)
	gains := func(machine string) Point { return f.atLabel("TorchRec", machine+overBagPipe) }
	for _, system := range []string{"TorchRec", "BagPipe"} {
		p := over(f.atLabel(system, "DLRM, p3"), f.atLabel(system, "DLRM, g5"))
		p.X, p.Label = 8, "DLRM, times as fast on g5"
		s := f.series(system)
		s.Points = append(s.Points, p)
		f.Checks = append(f.Checks, all(system+" is faster on g5",
			above("", f.atLabel(system, "DLRM, p3"), f.atLabel(system, "DLRM, g5")), above("", f.atLabel(system, "DeepFM, p3"),
				f.atLabel(system, "DeepFM, g5"))))
	}
	f.Checks = append(f.Checks, slower(f, "TorchRec", "BagPipe", labels...),
		above("the faster network helps TorchRec more than BagPipe (DLRM)", f.atLabel("TorchRec", "DLRM, times as fast on g5"),
			f.atLabel("BagPipe", "DLRM, times as fast on g5")),
		all("BagPipe gains less on g5 than on p3", above("", gains("DLRM, p3"), gains("DLRM, g5")), above("", gains("DeepFM, p3"),
			gains("DeepFM, g5"))))
	for _, label := range []string{"DeepFM, p3", "DeepFM, g5"} {
		if v, ok := f.paperAt("TorchRec", 0, label); ok {
			f.Checks = append(f.Checks, near(fmt.Sprintf("TorchRec, %s: within 25 %% of the paper's %s ms", label, number(v)),
				f.atLabel("TorchRec", label), v, 0.25))
		}
	}
	exchangeParams(f, reports[0])
	f.Params = append(f.Params, Param{"g5", "25 Gb/s, A10G", reports[1].Settings["link"] + ", waits of fig. 15's ideal steps there"})
	exchangeNotes(f, "TorchRec")
	return nil
}

// drawB12 draws two more data sets.
func drawB12(f *Figure, reports []*bench.Report) error {
	labels, systems := []string{"Avazu", "Criteo Terabyte"}, []string{"TorchRec", "BagPipe", "ecrec (planned)", "ideal"}
	if err := addTimes(f, systems, labels, reports); err != nil {
		return err
	}
	addRatios(f, labels)
	f.Checks = append(f.Checks, slower(f, "TorchRec", "BagPipe", labels...), slower(f, "TorchRec", "ecrec (planned)", labels...))
	least, ok := f.paperAt("TorchRec", 0, "over BagPipe, least")
	most, ok2 := f.paperAt("TorchRec", 0, "over BagPipe, greatest")
	if ok && ok2 {
		for _, label := range labels {
			f.Checks = append(f.Checks, within(fmt.Sprintf("%s: TorchRec takes %s to %s times as long as BagPipe", label, number(least),
				number(most)),
				f.atLabel("TorchRec", label+overBagPipe), least, most))
		}
	}
	exchangeParams(f, reports[0])
	exchangeNotes(f, "TorchRec")
	f.Notes = append(f.Notes, "Rows are of 48 floats for both, as in the paper's other figures. Of Terabyte's 882.8 M rows only "+
		"the ones that the steps use are in memory.")
	return nil
}
