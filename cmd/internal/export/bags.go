package export

import (
	"fmt"

	"github.com/ecrec/ecrec/internal/onnx"
)

// Feature is a categorical feature of a model.
type Feature struct {
	// Bag is set if a sample may have any number of ids; else it has one.
	Bag bool
	// Weighted ids of a bag have weights. The rows of a Mean are averaged, else added up.
	Weighted, Mean bool
}

// The inputs of feature f, if it is a bag: ids, (b, n) for the n of the longest bag, where -1 is no id, and
// weights of the same shape.
func idsOf(f int) string     { return fmt.Sprintf("%s_%d", inputIDs, f) }
func weightsOf(f int) string { return fmt.Sprintf("weights_%d", f) }

// lookup is the ids of a feature, as values.
type lookup struct {
	ids     string // (b, 1), or of a bag (b, n), where no id is row 0
	weights string // of a bag, (b, 1, n), 0 where there is no id
	count   string // of a mean, (b, 1, 1): the number of ids, 1 at least
}

// addFeatures adds the inputs of features: one input for the features with one id, and the inputs of each bag.
func (t *translator) addFeatures(features []Feature) {
	var single []string
	for f := range features {
		t.lookups = append(t.lookups, lookup{ids: t.nameValue()})
		if !features[f].Bag {
			single = append(single, t.lookups[f].ids)
		}
	}
	if n := countSingle(features); n > 0 {
		t.AddInput(inputIDs, onnx.Int64, int64(n))
		t.AddNode("Split", []string{inputIDs}, single, onnx.Attribute{Name: "axis", Value: int64(1)})
	}
	for f := range features {
		if features[f].Bag {
			t.addBag(f, &features[f])
		}
	}
}

// countSingle is the number of features that have one id.
func countSingle(features []Feature) (n int) {
	for _, feature := range features {
		if !feature.Bag {
			n++
		}
	}
	return n
}

// addBag adds the inputs of a bag.
func (t *translator) addBag(f int, feature *Feature) {
	l, zero := &t.lookups[f], t.integers(0)
	length := idsOf(f) + "_length"
	t.AddRagged(idsOf(f), onnx.Int64, length)
	t.AddNode("Max", []string{idsOf(f), zero}, []string{l.ids})
	present := t.compute("GreaterOrEqual", []string{idsOf(f), zero})
	ones := t.compute("Cast", []string{present}, onnx.Attribute{Name: "to", Value: int64(onnx.Float)})
	l.weights = t.compute("Unsqueeze", []string{ones, t.integers(1)})
	if feature.Weighted {
		t.AddRagged(weightsOf(f), onnx.Float, length)
		used := t.compute("Where", []string{present, weightsOf(f), t.number(0)})
		l.weights = t.compute("Unsqueeze", []string{used, t.integers(1)})
	}
	if feature.Mean {
		count := t.compute("Max", []string{t.sumAxis1(ones, 1), t.number(1)})
		l.count = t.reshape(count, 1, 1)
	}
}

// gatherRows returns the rows of a table that a lookup reads, as one, (b, 1, width).
func (t *translator) gatherRows(table string, l *lookup) string {
	rows := t.compute("Gather", []string{table, l.ids})
	if l.weights == "" {
		return rows
	}
	rows = t.compute("MatMul", []string{l.weights, rows})
	if l.count != "" {
		rows = t.compute("Div", []string{rows, l.count})
	}
	return rows
}
