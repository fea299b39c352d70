package train

import (
	"encoding/json"
	"fmt"
	"math"
	"unsafe"

	"github.com/ecrec/ecrec/kernels"
)

// history is what a run has given up to a step; checkpoints and commits hold it.
type history struct {
	TrainLoss losses `json:"train_loss"`
	Eval      []Eval `json:"eval"`
	// Recoveries are those of the run, whatever was gone back to.
	Recoveries []Recovery `json:"recoveries,omitempty"`
}

// upTo is the history as it was at the end of a step, but for the losses.
func (h *history) upTo(step int64) history {
	past := history{Recoveries: h.Recoveries}
	for _, e := range h.Eval {
		if e.Step <= step {
			past.Eval = append(past.Eval, e)
		}
	}
	return past
}

// losses are the mean losses of steps 1, 2, ...
type losses []float64

// at are the losses of the steps up to one.
func (l losses) at(step int64) losses { return l[:min(int64(len(l)), step)] }

// bytes is the memory of l.
func (l losses) bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(l))), 8*len(l))
}

// MarshalJSON implements json.Marshaler: a run of weeks has millions of losses, so
// they are 8 bytes each, little-endian, and these in base64.
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

// mostLosses is for how many steps there is memory from the start. Later ones are kept
// too, but in a list that is copied as it grows.
const mostLosses = 1 << 30

// openHistory takes memory for the losses of all steps, where the rank keeps them. It is
// off the Go heap and becomes physical as they come.
func (r *rank) openHistory() (err error) {
	if !r.job.remembers(r.id) || r.job.o.EvalOnly {
		return nil
	}
	if r.lossMemory, err = r.job.host.Alloc(8*int(min(r.job.steps, mostLosses)), kernels.Sparse); err != nil {
		return fmt.Errorf("train: memory for the losses of %d steps: %w", r.job.steps, err)
	}
	r.history.TrainLoss = r.lossRoom()
	return nil
}

// lossRoom is the memory of the losses, with none in it.
func (r *rank) lossRoom() losses {
	room := r.lossMemory.Host()
	return unsafe.Slice((*float64)(unsafe.Pointer(unsafe.SliceData(room))), len(room)/8)[:0]
}

// readHistory sets the history to one of a checkpoint.
func (r *rank) readHistory(text []byte) error {
	past := history{TrainLoss: r.lossRoom()}
	if err := json.Unmarshal(text, &past); err != nil {
		return err
	}
	if !r.job.remembers(r.id) {
		past.TrainLoss = nil
	}
	r.history = past
	return nil
}

// remembers reports whether a rank keeps every step's loss: the one that tells them, and
// those that have a snapshot should it be lost.
func (j *job) remembers(id int) bool { return id == 0 || j.protects() && j.snaps(id) }

// evalText is an Eval in JSON, which knows no NaN: an AUC that is undefined is null.
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
