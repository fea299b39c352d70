package paper

import (
	"fmt"
	"strings"

	"github.com/ecrec/ecrec/bench"
)

// splitModels returns the report of the synthetic model with the most samples, and that of Criteo.
func splitModels(reports []*bench.Report) (labels []string, of []*bench.Report, err error) {
	if len(reports) < 2 {
		return nil, nil, fmt.Errorf("%d reports, want those of two models", len(reports))
	}
	return []string{"synthetic", "Criteo"}, reports[len(reports)-2:], nil
}

// drawCapture draws the time of updates, with that of the capture of changed rows.
func drawCapture(f *Figure, reports []*bench.Report) error {
	labels, of, err := splitModels(reports)
	if err != nil {
		return err
	}
	base, custom := Series{System: "base"}, Series{System: "custom"}
	for i, r := range of {
		for _, x := range []struct {
			to  *Series
			job []string
		}{{&base, []string{"system", "full", "store", "disk", "every", "1"}}, {&custom, []string{"system", "stream", "every", "0"}}} {
			optimizer, kind, err := point(r, float64(2*i), labels[i]+", optimizer", "optimizer", x.job...)
			if err != nil {
				return err
			}
			captured, _, err := point(r, 0, "", "capture", x.job...)
			if err != nil {
				return err
			}
			all, _, err := point(r, float64(2*i+1), labels[i]+", all", "time", x.job...)
			if err != nil {
				return err
			}
			if err := x.to.addPoint(sum(optimizer, captured), kind); err != nil {
				return err
			}
			if err := x.to.addPoint(all, kind); err != nil {
				return err
			}
		}
	}
	f.Series = append(f.Series, base, custom)
	describeContinuous(f, reports)
	f.Notes = append(f.Notes, "Ours does not change the optimizer: its time with the capture is that of the updates plus that in "+
		"which the changed rows are copied for the stream. So it is longer by construction, which is no check.")
	for i, label := range labels {
		f.Checks = append(f.Checks, below(label+": updates and capture are less than half of training",
			custom.Points[2*i], scaled(custom.Points[2*i+1], 0.5)))
	}
	return nil
}

// drawSaves draws the seconds in which the dense part, and all of the model, are saved.
func drawSaves(f *Figure, reports []*bench.Report) error {
	labels, of, err := splitModels(reports)
	if err != nil {
		return err
	}
	dense, disk, slow := Series{System: "dense part"}, Series{System: "complete model"}, Series{System: "complete model, slow store"}
	torch := Series{System: "complete model, torch.save"}
	type source struct {
		to   *Series
		name string
		of   []string
	}
	sources := []source{{&dense, "dense part", []string{"system", "stream"}}, {&disk, "saving", []string{"system", "full", "store", "disk"}},
		{&slow, "saving", []string{"system", "full", "store", "slow"}}}
	if hasTorch(of, "saving") {
		sources = append(sources, source{&torch, "saving", []string{"system", "torch"}})
	}
	for i, r := range of {
		for _, every := range intervalsOf(r) {
			label := labels[i] + ", " + epochNames[every]
			for _, x := range sources {
				p, kind, err := point(r, float64(len(x.to.Points)), label, x.name, append(x.of[:len(x.of):len(x.of)], "every", every)...)
				if err != nil {
					return err
				}
				if err := x.to.addPoint(p, kind); err != nil {
					return err
				}
			}
		}
	}
	f.Series = append(f.Series, dense, disk, slow)
	if len(torch.Points) > 0 {
		f.Series = append(f.Series, torch)
	}
	describeContinuous(f, reports)
	f.Notes = append(f.Notes, "The dense part's time is that of its copy at each commit; it is written beside training. The time of "+
		"the complete model is that for which training waits.")
	f.Checks = []Check{
		sameTrainers("the dense part is copied in less time than the model is saved", dense.Points, disk.Points, below),
		sameTrainers("a slow store makes training wait longer", disk.Points, slow.Points, below),
	}
	return nil
}

// drawLost draws the work that the loss of all processes costs, as a mean over the moments of a job.
func drawLost(f *Figure, reports []*bench.Report) error {
	r := reports[len(reports)-1]
	for _, system := range continuousSystems {
		if strings.Contains(system.name, "slow") || system.name == byTorch { // as often as base
			continue
		}
		s := Series{System: system.name}
		for _, every := range intervalsOf(r) {
			of := system.of
			if system.eachEvery {
				of = append(of[:len(of):len(of)], "every", every)
			}
			p, kind, err := point(r, float64(len(s.Points)), epochNames[every], "lost", of...)
			if err != nil {
				return err
			}
			if err := s.addPoint(p, kind); err != nil {
				return err
			}
		}
		f.Series = append(f.Series, s)
	}
	describeContinuous(f, reports)
	f.noteSharedRuns(reports)
	f.Notes = append(f.Notes, "Steps between the end of each step and the newest checkpoint, or commit in the topic, at that "+
		"moment. A fast loop outruns the stream: the rows of the newest commits are on their way then.")
	f.Checks = []Check{
		sameTrainers("continuous loses less work than no checkpoints", f.points("continuous"), f.points("no checkpoints"), below),
		sameTrainers("continuous loses less work than base", f.points("continuous"), f.points("base"), below),
	}
	return nil
}
