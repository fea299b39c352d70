package train

import "github.com/ecrec/ecrec/train/feed"

// Input is the place of a run in the topic that it trains from. It is part of the history, so that commits and checkpoints have it.
type Input struct {
	// End is, by partition, the offset at which the samples end, with data.kafka.at_end = "stop". It is that of the start of the run.
	End []int64 `json:"end,omitempty"`
	// At are the places after some steps, ascending. The last one is that after the newest step.
	At []feed.Position `json:"at"`
}

// placeAt is the place after a step, nil if it is unknown.
func (in *Input) placeAt(step int64) *feed.Position {
	if in == nil {
		return nil
	}
	for i := range in.At {
		if in.At[i].Step == step {
			return &in.At[i]
		}
	}
	return nil
}

// upTo is the input with the place after one step.
func (in *Input) upTo(step int64) *Input {
	if in == nil {
		return nil
	}
	past := &Input{End: in.End}
	if at := in.placeAt(step); at != nil {
		past.At = []feed.Position{*at}
	}
	return past
}
