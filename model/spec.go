package model

import (
	"fmt"

	"github.com/ecrec/ecrec/kernels"
)

// Kind is one kind of model.
type Kind struct {
	// Name is the value of model.kind.
	Name string
	// Doc describes the computation in one line.
	Doc string
	// Keys are the keys of [model] that this kind reads and others may not, such as
	// "bottom_mlp". Every kind reads kind, embedding_dim, tables and init_from.
	Keys []string
	// Optional lists the keys of Keys that may be an empty list.
	Optional []string
	// TopMLP is the default of model.top_mlp. Nil: that of all kinds.
	TopMLP []int
	// BatchNorm is the default of model.batch_norm.
	BatchNorm bool
	// Check finds settings that do not fit each other. It returns a *KeyError. Nil: all settings
	// fit.
	Check func(c Config) error
	// Shape describes a model of a config that passed Check. It allocates nothing
	// on a device.
	Shape func(c Config) Shape
	// Draw draws the forward pass of a config that passed Check, for exports to other programs. Nil: there are none.
	Draw func(d *Drawing)
	// New makes a model of a config that passed Check, with freshly drawn dense
	// parameters.
	New func(dev kernels.Device, s kernels.Stream, c Config) (Model, error)
}

// Reads reports whether the kind reads a key of [model] that only some kinds read.
func (k Kind) Reads(key string) bool {
	for _, own := range k.Keys {
		if own == key {
			return true
		}
	}
	return false
}

// KeyError is a setting that a kind refuses.
type KeyError struct {
	Key  string // of [model], such as "top_mlp"
	What string // the mistake, and its remedy
}

func (e *KeyError) Error() string { return "model." + e.Key + ": " + e.What }

func keyError(key, format string, args ...any) error {
	return &KeyError{key, fmt.Sprintf(format, args...)}
}
