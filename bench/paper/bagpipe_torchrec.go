package paper

import (
	"fmt"
	"strconv"

	"github.com/ecrec/ecrec/bench"
)

// torchRecRuns measure TorchRec's own exchange beside pooled, which stands for it in the other figures.
func torchRecRuns(size Size) []Run {
	r := Run{Bench: "torchrec", Args: []string{"ranks=2"}}
	switch size {
	case Quick:
		r.Args, r.Repeats = append(r.Args, "batch=2048"), 1
	case Full:
		r.Args, r.Repeats = append(r.Args, "batch=16384"), 6
	}
	return []Run{r}
}

// drawTorchRec draws the bytes and the time of a step of each system.
func drawTorchRec(f *Figure, reports []*bench.Report) error {
	r := reports[0]
	systems := []string{"pooled"}
	if why := r.Missing["torchrec"]; why != "" {
		f.Notes = append(f.Notes, "TorchRec has no values: "+why+".")
	} else {
		systems = append(systems, "torchrec")
	}
	names := map[string]string{"pooled": "pooled", "torchrec": "TorchRec"}
	for _, system := range systems {
		x, kind, err := point(r, 0, "vectors and gradients", "vectors", "system", system)
		if err != nil {
			return err
		}
		f.Series = append(f.Series, Series{System: names[system] + ", bytes", Kind: kind, Points: []Point{scaled(x, 1e-6)}})
		x, kind, err = point(r, 1, "step", "step", "system", system)
		if err != nil {
			return err
		}
		x.Unit = "ms"
		f.Series = append(f.Series, Series{System: names[system] + ", time", Kind: kind, Points: []Point{x}})
	}
	formula, err := pooledBytes(r)
	if err != nil {
		return err
	}
	f.Checks = append(f.Checks, near("pooled: the bytes are 2 x batch x tables x dim x 4 x (n - 1) / n, within 1 %",
		f.points("pooled, bytes")[0], formula/1e6, 0.01))
	if len(systems) > 1 {
		ratio, _, err := point(r, 0, "", "step, over pooled", "system", "torchrec")
		if err != nil {
			return err
		}
		f.Checks = append(f.Checks,
			near("TorchRec's bytes are those of pooled, within 1 %", f.points("TorchRec, bytes")[0], f.points("pooled, bytes")[0].Y, 0.01),
			atLeast("a step of pooled takes no longer than one of TorchRec", ratio, 1))
	}
	f.Params = append(f.Params, Param{"ranks, batch", "8, 16,384", fmt.Sprintf("%s, %s", r.Settings["ranks"], r.Settings["batch"])},
		Param{"tables", "Criteo Kaggle", r.Settings["tables"] + ": the rows that the steps use"},
		Param{"row", "48 floats", r.Settings["dim"] + " floats"},
		Param{"network", "10 Gb/s", "loopback of this machine: gloo for TorchRec, our TCP for pooled"})
	f.Notes = append(f.Notes, "The other figures have pooled in TorchRec's place. Here both exchange the vectors of the same ids, without "+
		"layers. TorchRec runs without its pipeline, which would send the ids of the next step meanwhile: that makes it weaker here. "+
		"Its ranks are processes, ours are threads of one: that makes it weaker too.")
	return nil
}

// pooledBytes is the number of bytes that all ranks send in a step, by BagPipe's formula.
func pooledBytes(r *bench.Report) (float64, error) {
	bytes := 2.0 * 4 * kaggleTables
	for _, key := range []string{"batch", "dim"} {
		x, err := strconv.ParseFloat(r.Settings[key], 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", key, err)
		}
		bytes *= x
	}
	n, err := strconv.ParseFloat(r.Settings["ranks"], 64)
	return bytes * (n - 1) / n, err
}

// kaggleTables is the number of Criteo Kaggle's tables.
const kaggleTables = 26
