package train

import (
	"encoding/json"
	"math"
	"slices"
	"testing"
)

// An evaluation whose AUC is undefined must not end a checkpoint or a recovery.
func TestHistoryWithAnUndefinedAUC(t *testing.T) {
	want := history{TrainLoss: losses{0.1, 0.30000000000000004, math.Inf(1), math.Copysign(0, -1)},
		Eval: []Eval{{3, 0.7, math.NaN()}, {6, 0.6, 0.5}, {9, 0.5, 0}}}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got history
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Eval) != 3 || !math.IsNaN(got.Eval[0].AUC) || got.Eval[0].Logloss != 0.7 || got.Eval[1] != want.Eval[1] ||
		got.Eval[2] != want.Eval[2] {
		t.Errorf("%s became %+v", text, got)
	}
	if !slices.Equal(got.TrainLoss.bytes(), want.TrainLoss.bytes()) {
		t.Errorf("losses became %v", got.TrainLoss)
	}
}

// A run whose losses are restored continues in the same memory.
func TestLossesKeepTheirMemory(t *testing.T) {
	text, err := json.Marshal(losses{1, 2, 3})
	if err != nil {
		t.Fatal(err)
	}
	room := make(losses, 0, 5)
	read := room
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(read, losses{1, 2, 3}) || &read[0] != &room[:1][0] {
		t.Errorf("read %v, into other memory: %v", read, &read[0] != &room[:1][0])
	}
	if got := read.at(2); !slices.Equal(got, losses{1, 2}) {
		t.Errorf("at step 2: %v", got)
	}
	if err := json.Unmarshal([]byte(`"AAAA"`), &read); err == nil {
		t.Error("3 bytes were taken for losses")
	}
}
