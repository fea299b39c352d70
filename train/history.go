package train

import (
	"encoding/json"
	"math"
)

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
