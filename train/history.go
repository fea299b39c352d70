package train

import (
	"encoding/json"
	"fmt"
	"math"
	"unsafe"
)

// history holds a run's results up to a step. It is part of checkpoints and commits.
type history struct {
	TrainLoss losses `json:"train_loss"`
	Eval      []Eval `json:"eval"`
	// Kept are the models that were the best when they were evaluated, by step.
	Kept []Kept `json:"kept,omitempty"`
	// Recoveries are all recoveries of the run, also those after the step.
	Recoveries []Recovery `json:"recoveries,omitempty"`
	// Input is the place in the topic that the run trains from; nil: it trains from files.
	Input *Input `json:"input,omitempty"`
}

// upTo is the history at the end of a step, without losses.
func (h *history) upTo(step int64) history {
	past := history{Recoveries: h.Recoveries, Input: h.Input.upTo(step)}
	for _, e := range h.Eval {
		if e.Step <= step {
			past.Eval = append(past.Eval, e)
		}
	}
	for _, k := range h.Kept {
		if k.Step <= step {
			past.Kept = append(past.Kept, k)
		}
	}
	return past
}

// addEval appends an evaluation. It replaces an earlier one of the same step: a run that resumes at
// its end evaluates again.
func (h *history) addEval(e Eval) {
	if n := len(h.Eval); n > 0 && h.Eval[n-1].Step == e.Step {
		h.Eval = h.Eval[:n-1]
	}
	h.Eval = append(h.Eval, e)
}

// losses are the mean losses of steps 1, 2, ...
type losses []float64

// at returns the losses up to a step.
func (l losses) at(step int64) losses { return l[:min(int64(len(l)), step)] }

// bytes is the memory of l.
func (l losses) bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(l))), 8*len(l))
}

// MarshalJSON implements json.Marshaler: a run of weeks has millions of losses, so
// a loss is 8 bytes, little-endian, and all of them are in base64.
func (l losses) MarshalJSON() ([]byte, error) { return json.Marshal(l.bytes()) }

// UnmarshalJSON implements json.Unmarshaler. It appends to l[:0], and so keeps its
// memory where that is enough.
func (l *losses) UnmarshalJSON(b []byte) error {
	var raw []byte
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	if len(raw)%8 != 0 {
		return fmt.Errorf("%d bytes of losses, which are 8 each", len(raw))
	}
	*l = append((*l)[:0], make(losses, len(raw)/8)...)
	copy(l.bytes(), raw)
	return nil
}

// mostLosses is how many losses the memory of openHistory holds at most. A longer list is
// copied to the Go heap as it grows.
const mostLosses = 1 << 30

// evalText is an Eval in JSON, which has no NaN: an undefined AUC is null.
type evalText struct {
	Step    int64
	Logloss float64
	AUC     *float64
}

// MarshalJSON implements json.Marshaler.
func (e Eval) MarshalJSON() ([]byte, error) {
	text := evalText{Step: e.Step, Logloss: e.Logloss}
	if !math.IsNaN(e.AUC) {
		text.AUC = &e.AUC
	}
	return json.Marshal(text)
}

// UnmarshalJSON implements json.Unmarshaler.
func (e *Eval) UnmarshalJSON(b []byte) error {
	var text evalText
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	*e = Eval{Step: text.Step, Logloss: text.Logloss, AUC: math.NaN()}
	if text.AUC != nil {
		e.AUC = *text.AUC
	}
	return nil
}
