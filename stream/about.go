package stream

import (
	"encoding/json"

	"github.com/ecrec/ecrec/lineage"
)

// About describes the run that writes to a topic, for readers that make checkpoints of it.
type About struct {
	Owners []int           `json:"owners"` // by rank, of rows; -1: the rank owns none
	Run    lineage.Run     `json:"run"`
	Model  json.RawMessage `json:"model"`            // as in the manifest of a checkpoint
	Recipe []byte          `json:"recipe,omitempty"` // of the data, as in a checkpoint
}
