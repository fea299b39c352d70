package paper

import (
	"strings"
	"testing"

	"github.com/ecrec/ecrec/bench"
)

// fixed returns a report in which each given figure is replaced by one value, without a spread.
func fixed(t *testing.T, r *bench.Report, y float64, name string, of ...string) *bench.Report {
	t.Helper()
	c := changed(t, r, 1, name, of...)
	for i := range c.Figures {
		if f := &c.Figures[i]; f.Name == name && hasCase(f.Case, of) {
			f.Median, f.Min, f.Max, f.Interval = y, y, y, nil
		}
	}
	return c
}

// check finds the check whose text has these words.
func check(t *testing.T, f *Figure, words string) Check {
	t.Helper()
	for _, c := range f.Checks {
		if strings.Contains(c.Text, words) {
			return c
		}
	}
	t.Fatalf("%s has no check with %q: %+v", f.ID, words, f.Checks)
	return Check{}
}

// turn draws a figure twice: check must hold with the first value of a name and case, and not with the second one.
func turn(t *testing.T, id, words string, at int, good, bad float64, name string, of ...string) {
	t.Helper()
	d := drawing(t, id)
	for _, y := range []float64{good, bad} {
		reports := append([]*bench.Report(nil), runTiny(t, d)...)
		reports[at] = fixed(t, reports[at], y, name, of...)
		if c := check(t, drawReports(t, d, reports), words); c.Holds != (y == good) || c.Unclear {
			t.Errorf("%s with %q of %v = %v: %+v", id, name, of, y, c)
		}
	}
}

func TestChecksOfProtection(t *testing.T) {
	const low, high = -1e9, 1e9
	turn(t, "E5", "Ckpt-30 grows with the size", 0, high, low, "overhead", "size", "8S", "minutes", "30")
	turn(t, "E5", "Ckpt-60 grows with the size", 0, high, low, "overhead", "size", "8S", "minutes", "60")
	turn(t, "E5", "8S: the code costs less than Ckpt-30", 0, low, high, "overhead", "size", "8S", "system", "ours", "k", "4")
	turn(t, "E5", "Ckpt-60 costs less than Ckpt-30", 0, high, low, "overhead", "minutes", "30")
	turn(t, "E5", "Original: Ckpt-30 costs less", 0, low, high, "overhead", "size", "Original", "minutes", "30")
	turn(t, "E5", "8S: the code costs less than Ckpt-30, by the bytes", 0, low, high, "overhead", "size", "8S", "system", "ours", "k", "4")
	turn(t, "E5", "Original: Ckpt-30 costs less than the code, by the bytes", 0, high, low, "overhead", "size", "Original", "system", "ours", "k", "4")
	turn(t, "E6", "at least 70 %", 0, 42, 44, "overhead", "size", "8S", "k", "4")
	turn(t, "E6", "Ckpt-30 keeps less", 0, high, -99, "overhead", "size", "8S", "minutes", "30")
	turn(t, "E6", "by the bytes", 0, 0, high, "overhead", "size", "8S", "k", "4")
	turn(t, "E7", "each over its blocks without protection", 0, high, -99, "overhead", "size", "8S", "minutes", "30")
	turn(t, "E-wide", "2S-2D costs more", 0, high, low, "overhead", "size", "2S-2D")
	turn(t, "E-ablation", "fewer commits", 0, high, low, "overhead", "system", "ours", "every", "1")
	turn(t, "E-ablation", "cost less than ECRec's", 0, low, high, "overhead", "system", "ours", "every", "1")
}

// The overheads of Original and 8S grow by factors that are compared with the paper's. A factor over a value that may be 0 is not known.
func TestChecksOfGrowth(t *testing.T) {
	d := drawing(t, "E5")
	draw := func(first, last float64, of ...string) *Figure {
		r := fixed(t, runTiny(t, d)[0], first, "overhead", append([]string{"size", "Original"}, of...)...)
		return drawReports(t, d, []*bench.Report{fixed(t, r, last, "overhead", append([]string{"size", "8S"}, of...)...)})
	}
	code, saved := []string{"system", "ours", "k", "4"}, []string{"minutes", "30"}
	for _, x := range []struct {
		first, last    float64
		of             []string
		words          string
		holds, unclear bool
	}{
		{18.2, 22, code, "overhead of ecrec k=4 grows 1.2 times", true, false}, {18.2, 60, code, "overhead of ecrec k=4 grows 1.2 times", false, false},
		{-1, 60, code, "overhead of ecrec k=4 grows 1.2 times", false, true}, {9, 65, saved, "overhead of Ckpt-30 grows 7.2 times", true, false},
		{9, 20, saved, "overhead of Ckpt-30 grows 7.2 times", false, false}, {-1, 60, code, "by a greater factor", false, true},
	} {
		if c := check(t, draw(x.first, x.last, x.of...), x.words); c.Holds != x.holds || c.Unclear != x.unclear {
			t.Errorf("%v to %v: %+v", x.first, x.last, c)
		}
	}
	r := runTiny(t, d)[0]
	for by, holds := range map[float64]bool{1: true, 3: false} {
		f := drawReports(t, d, []*bench.Report{changed(t, r, by, "bytes of its rows", "size", "8S")})
		if c := check(t, f, "the rows of a checkpoint grow"); c.Holds != holds || c.Few {
			t.Errorf("%g times the bytes on 8S: %+v", by, c)
		}
	}
}

func TestChecksOfCompression(t *testing.T) {
	d := drawing(t, "E13")
	for saved, holds := range map[float64]bool{30: true, 20: false} {
		r := fixed(t, runTiny(t, d)[0], 10, "overhead", "size", "8S", "system", "ours", "k", "4")
		r = fixed(t, r, saved, "overhead", "size", "8S", "minutes", "30")
		if c := check(t, drawReports(t, d, []*bench.Report{r}), "more than 60 %"); c.Holds != holds || c.Unclear {
			t.Errorf("%g %%: %+v", saved, c)
		}
	}
}

// A pause fills a window for sure only if it lasts for two of them.
func TestCheckOfStanding(t *testing.T) {
	d := drawing(t, "E6")
	of := []string{"size", "8S", "minutes", "30"}
	for _, x := range []struct {
		least, pause   float64 // samples/s, and windows of 1 s
		holds, unclear bool
	}{{0, 3, true, false}, {0, 1, true, false}, {5, 3, false, false}, {5, 1, false, true}} {
		reports := append([]*bench.Report(nil), runTiny(t, d)...)
		reports[0] = fixed(t, fixed(t, fixed(t, reports[0], x.least, "throughput", of...), x.pause, "pause", of...), 1, "window", of...)
		if c := check(t, drawReports(t, d, reports), "falls to 0"); c.Holds != x.holds || c.Unclear != x.unclear {
			t.Errorf("%+v: %+v", x, c)
		}
	}
}

func TestChecksOfLinks(t *testing.T) {
	turn(t, "E-links", "every 1, 3 ranks: the links cost at most 5 %", 0, 1.04, 1.06, "with / without the code", "every", "1", "ranks", "3")
	turn(t, "E-links", "every 2: with the most ranks", 0, 0.5, 1e3, "with / without the code", "every", "2", "ranks", "5")
}

func TestChecksOfRanks(t *testing.T) {
	d := drawing(t, "E-ranks")
	first := runTiny(t, d)[0]
	resume := fixed(t, fixed(t, first, 10, "resume_ms", "ranks", "3"), 11, "resume_ms", "ranks", "5")
	if c := check(t, drawReports(t, d, []*bench.Report{resume}), "as soon"); !c.Holds {
		t.Errorf("10 and 11 ms: %+v", c)
	}
	if c := check(t, drawReports(t, d, []*bench.Report{fixed(t, resume, 13, "resume_ms", "ranks", "5")}), "as soon"); c.Holds || c.Unclear {
		t.Errorf("10 and 13 ms: %+v", c)
	}
	turn(t, "E-ranks", "takes no longer", 0, 0, 1e6, "whole_ms", "ranks", "5")
}

func TestChecksOfRecovery(t *testing.T) {
	const low, high = -1e9, 1e9
	turn(t, "E10", "sooner with the code", 0, low, high, "resume", "system", "ours", "k", "4", "moment", "step")
	turn(t, "E10", "not trained before", 0, 1e6, -1, "net samples until recovered, of normal", "system", "ours", "k", "4")
	turn(t, "E11", "at its worst", 0, high, -high, "samples done", "system", "ours", "k", "4", "moment", "step")
	turn(t, "E12", "a higher k is slower", 0, high, low, "recovered", "system", "ours", "k", "4", "rate", "max")
	turn(t, "E12", "average of Ckpt-30", 0, low, high, "recovered", "system", "ours", "k", "4", "rate", "max")
	turn(t, "B14", "saved just before", 0, low, high, "resume", "system", "ours", "k", "4", "moment", "step")
	turn(t, "E-locks", "sooner than at the least rate", 0, low, high, "from loss to rebuilt", "rate", "max")
}

func TestChecksOfSaves(t *testing.T) {
	const low, high = -1e9, 1e9
	turn(t, "O12", "at the shortest interval", 0, low, high, "time, of that without checkpoints", "system", "increments beside training")
	turn(t, "O13", "1 ranks", 0, low, high, "time, of that without checkpoints", "system", "increments beside training")
	turn(t, "O14", "rows stay on the disk", 0, low, high, "start to the first step, rows on the disk")
	turn(t, "O14", "in memory loads faster", 1, low, high, "start to the first step, from a checkpoint")
}

func TestCompressionAtWhichCheckpointsMeetTheCode(t *testing.T) {
	p := meetAt(spread(0, 22, 20, 24), spread(0, 65, 60, 70))
	if int(p.Y) != 66 || p.Least != 60 || int(p.Most) != 71 {
		t.Errorf("%+v", p)
	}
	if p := meetAt(spread(0, 22, 20, 24), spread(0, 1, -1, 2)); p.N != 0 {
		t.Errorf("an overhead that may be less than 0: %+v", p)
	}
}
