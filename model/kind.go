package model

import (
	"fmt"
	"slices"

	"github.com/ecrec/ecrec/kernels"
)

// Kinds is the registry of model kinds. Config validation, memory planning,
// checkpoints, exports, benchmarks and the config reference read it.
//
// To add a kind, write one file like dlrm.go that defines a Kind, and add it to
// this list. A new key of [model] is also a field of config.Model and of Config.
// Run modeltest.Run on the kind in a test. A test may append a kind of its own
// before it loads a config.
var Kinds = []Kind{dlrmKind, wdlKind, dcnKind, deepfmKind}

// Find returns the kind of a name.
func Find(name string) (kind Kind, ok bool) {
	for _, k := range Kinds {
		if k.Name == name {
			return k, true
		}
	}
	return Kind{}, false
}

// Names lists the names of all kinds.
func Names() (names []string) {
	for _, k := range Kinds {
		names = append(names, k.Name)
	}
	return names
}

// Check finds an unknown kind, or settings that do not fit it. It returns a
// *KeyError.
func Check(c Config) error {
	k, ok := Find(c.Kind)
	if !ok {
		return keyError("kind", "%q is not one of %v", c.Kind, Names())
	}
	if !(c.Dropout >= 0 && c.Dropout < 1) { // also NaN
		return keyError("dropout", "%v is no share of units to drop; use a number from 0 to below 1", c.Dropout)
	}
	if c.Dense == 0 && k.Reads(bottomMLP) && len(c.BottomMLP) > 0 {
		return k.refuseBottom(c)
	}
	if k.Check == nil {
		return nil
	}
	return k.Check(c)
}

// bottomMLP is the key of the MLP over dense features.
const bottomMLP = "bottom_mlp"

// refuseBottom returns the error for a bottom MLP of a config without dense features.
func (k Kind) refuseBottom(c Config) error {
	remedy := "set it to []"
	if !slices.Contains(k.Optional, bottomMLP) {
		remedy = `use another model.kind, such as "deepfm"`
	}
	return keyError(bottomMLP, "has %d layers over numbers, but the data has no column of numbers; name some in data.csv.dense, or %s",
		len(c.BottomMLP), remedy)
}

// ShapeOf describes the model of a config that passes Check.
func ShapeOf(c Config) Shape {
	k, ok := Find(c.Kind)
	if !ok {
		panic(fmt.Sprintf("model: no kind %q", c.Kind))
	}
	return k.Shape(c)
}

// New makes a model with freshly drawn dense parameters.
func New(dev kernels.Device, s kernels.Stream, c Config) (Model, error) {
	if err := Check(c); err != nil {
		return nil, err
	}
	k, _ := Find(c.Kind)
	return k.New(dev, s, c)
}

// GraphOf returns the graph of a config that passes Check, false if its kind has none.
func GraphOf(c Config) (graph Graph, ok bool) {
	k, known := Find(c.Kind)
	if !known || k.Draw == nil {
		return Graph{}, false
	}
	g := &Drawing{Config: c}
	k.Draw(g)
	return g.Graph, true
}
