package paper

import "github.com/ecrec/ecrec/bench"

// bagPipeRecovery is BagPipe's figure about a lost trainer.
func bagPipeRecovery() []Drawing {
	return []Drawing{{ID: "B14", Runs: faultRuns, Draw: drawLostTrainer}}
}

func drawLostTrainer(f *Figure, reports []*bench.Report) error {
	r := reports[0]
	size := sizesOf(r)[0]
	for i, x := range []struct {
		name, quantity string
		of             []string
	}{
		{"ecrec, training continues", "resume", lossOfOurs(size, 4)},
		{"ecrec, the lost step is trained again", "regain", lossOfOurs(size, 4)},
		{"ckpt-full, saved just before", "regain", lossOfCheckpoints(size, 30, "after")},
		{"ckpt-full, saved half an interval before", "regain", lossOfCheckpoints(size, 30, "half")},
	} {
		p, kind, err := point(r, float64(i), "lost trainer", x.quantity, x.of...)
		if err != nil {
			return err
		}
		f.Series = append(f.Series, Series{System: x.name, Kind: kind, Points: []Point{scaled(p, 1e-3)}})
	}
	at := func(i int) Point { return f.Series[i].Points[0] }
	f.Checks = []Check{
		below("a job with the code trains on sooner than one that loads a checkpoint saved just before", at(0), at(2)),
	}
	f.Params = append([]Param{{"model", "DLRM on Criteo Kaggle, 6 GB", "ECRec's " + size + ", scaled"},
		{"lost", "a trainer; rows are on servers", "a rank, which is trainer and server: its rows are lost too"}}, faultParams(r)...)
	f.Notes = append(f.Notes, faultNotes...)
	f.Notes = append(f.Notes, "BagPipe's trainers hold no rows, so it loses none; our rank loses its rows and rebuilds them beside "+
		"training: more work than in the paper. Our model is small, so no check compares our seconds with the paper's.")
	return nil
}
