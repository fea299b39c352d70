package train

import (
	"encoding/json"
	"fmt"

	"github.com/ecrec/ecrec/lineage"
)

// StreamedHistory is the run's history as checkpoints have it, from the record of a commit and the losses up to there. It also returns
// the run of that commit.
func StreamedHistory(record []byte, losses []float64, run lineage.Run) ([]byte, lineage.Run, error) {
	var r runRecord
	if err := json.Unmarshal(record, &r); err != nil {
		return nil, run, fmt.Errorf("the run's past: %w", err)
	}
	run.Lineage, run.Forks = r.Lineage, r.Forks
	r.History.TrainLoss = losses
	text, err := json.Marshal(r.History)
	return text, run, err
}

// SplitHistory is the reverse of StreamedHistory: the record, and the losses.
func SplitHistory(text []byte, run lineage.Run) (record []byte, losses []float64, err error) {
	var h history
	if err := json.Unmarshal(text, &h); err != nil {
		return nil, nil, fmt.Errorf("the run's history: %w", err)
	}
	losses = h.TrainLoss
	h.TrainLoss = nil
	record, err = json.Marshal(runRecord{h, run.Lineage, run.Forks})
	return record, losses, err
}
