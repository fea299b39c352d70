package paper

import (
	"fmt"

	"github.com/ecrec/ecrec/bench"
)

// openEmbeddingExchange is the comparison of OpenEmbedding with TensorFlow (O, fig. 15).
func openEmbeddingExchange() []Drawing {
	return []Drawing{{ID: "O15", Draw: drawO15, Runs: func(size Size) (runs []Run) {
		for _, b := range o15Bars {
			runs = append(runs, runsOf([]string{"model=openembedding", fmt.Sprintf("dim=%d", b.dim), fmt.Sprintf("ranks=%d", b.ranks),
				fmt.Sprintf("batch=%d", o15Batch(size)*b.ranks), "link=30Gb/s,50us", "system=none,planned,lrpp"})(size)...)
		}
		return runs
	}}}
}

var o15Bars = []struct{ dim, ranks int }{{16, 1}, {16, 2}, {16, 4}, {64, 1}, {64, 2}, {64, 4}}

// o15Batch is the number of samples of a GPU.
func o15Batch(size Size) int {
	if size == Tiny {
		return 16
	}
	return 4096
}

func drawO15(f *Figure, reports []*bench.Report) error {
	bytes := Series{System: "TensorFlow"}
	labels := make([]string, len(o15Bars))
	for i, b := range o15Bars {
		labels[i] = fmt.Sprintf("dim %d, %d GPUs", b.dim, b.ranks)
		if b.ranks == 1 {
			labels[i] = fmt.Sprintf("dim %d, 1 GPU", b.dim)
		}
		p, kind, err := point(reports[i], float64(len(o15Bars)+i), labels[i]+", bytes", "bytes", "system", "dense rows")
		if err != nil {
			return err
		}
		p.Unit = "bytes/step"
		if err := bytes.addPoint(p, kind); err != nil {
			return err
		}
	}
	for _, x := range []struct{ system, of string }{{"DRAM-PS", "none"}, {"ecrec (planned)", "planned"}, {"ecrec (lrpp)", "lrpp"}} {
		s := Series{System: x.system}
		for i := range o15Bars {
			tensorflow, kind, err := point(reports[i], 0, "", "step", "system", "dense rows")
			if err != nil {
				return err
			}
			step, _, err := point(reports[i], float64(i), labels[i], "step", "system", x.of)
			if err != nil {
				return err
			}
			p := scaled(over(step, tensorflow), 100)
			p.X, p.Label, p.Unit = float64(i), labels[i], ""
			p.Y, p.Least, p.Most = p.Y-100, p.Least-100, p.Most-100
			if err := s.addPoint(p, kind); err != nil { // by the kind of TensorFlow's time
				return err
			}
		}
		f.Series = append(f.Series, s)
	}
	f.Series = append(f.Series, bytes)
	for _, label := range labels {
		if v, ok := f.paperAt("PMem-OE", 0, label); ok {
			f.Checks = append(f.Checks, within(fmt.Sprintf("%s: within 10 points of PMem-OE's %s %%", label, number(v)),
				f.atLabel("ecrec (planned)", label), v-10, v+10))
		}
	}
	f.Params = []Param{
		{"batch", "4,096 a GPU", fmt.Sprintf("%s samples of %d ranks", reports[len(reports)-1].Settings["batch"], o15Bars[len(o15Bars)-1].ranks)},
		{"network", "30 Gb/s, GPUs of one machine", reports[0].Settings["link"] + " between all ranks"},
		{"forward and backward", "V100, DeepFM 400-400-400", "a wait of 10 ms; the paper gives none"},
		{"TensorFlow", "TensorFlow", "the gradient of all rows, as one dense gradient, over the same links: bytes counted, time by the " +
			"bandwidth"},
	}
	f.Notes = append(f.Notes, "TensorFlow's time is modelled on the supposition that its tables are dense variables, whose "+
		"gradients are all-reduced. With these bytes over a network TensorFlow would lose far more than the paper shows, so its GPUs "+
		"exchanged them over a faster link, or did not exchange them densely: a check beside the paper's values that fails shows that "+
		"a supposition does not hold. That the gain grows with the GPUs follows from the formula, so it is no check.",
		"DRAM-PS is cache mode none: owners in memory, rows fetched and gradients returned while nothing computes. PMem and its caches "+
			"are figures of their own.")
	return nil
}
