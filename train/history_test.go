package train

import (
	"encoding/json"
	"math"
	"testing"
)

// An evaluation whose AUC is undefined must not end a checkpoint or a recovery.
func TestHistoryWithAnUndefinedAUC(t *testing.T) {
	want := history{TrainLoss: []float64{0.1, 0.30000000000000004}, Eval: []Eval{{3, 0.7, math.NaN()}, {6, 0.6, 0.5}, {9, 0.5, 0}}}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got history
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Eval) != 3 || !math.IsNaN(got.Eval[0].AUC) || got.Eval[0].Logloss != 0.7 || got.Eval[1] != want.Eval[1] || got.Eval[2] != want.Eval[2] {
		t.Errorf("%s became %+v", text, got)
	}
	if len(got.TrainLoss) != 2 || got.TrainLoss[1] != want.TrainLoss[1] {
		t.Errorf("losses became %v", got.TrainLoss)
	}
}
