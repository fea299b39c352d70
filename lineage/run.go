package lineage

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"
)

// ID is a lineage; the zero ID is an unknown one.
type ID [16]byte

// String is the id as 32 hexadecimal digits.
func (id ID) String() string {
	if id == (ID{}) {
		return "unknown"
	}
	return hex.EncodeToString(id[:])
}

// Short is the beginning of the id, for messages and names of folders.
func (id ID) Short() string { return id.String()[:min(len(id.String()), shortDigits)] }

const shortDigits = 8

// MarshalText implements encoding.TextMarshaler.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (id *ID) UnmarshalText(text []byte) error {
	if string(text) == (ID{}).String() {
		*id = ID{}
		return nil
	}
	if len(text) != hex.EncodedLen(len(id)) {
		return fmt.Errorf("%q is not a lineage", text)
	}
	_, err := hex.Decode(id[:], text)
	return err
}

// Fork is the place where a run left another.
type Fork struct {
	Lineage ID    `json:"lineage"` // that it left
	Step    int64 `json:"step"`    // after this step of it
}

// Run identifies a run, in the manifest of a checkpoint.
type Run struct {
	Name    string `json:"name"` // job.name
	Lineage ID     `json:"lineage"`
	// Forks are the forks before it, from the first run on.
	Forks  []Fork `json:"forks,omitempty"`
	Recipe Recipe `json:"recipe"`
}

// New is a run that begins without a checkpoint.
func New(name string, recipe Recipe) Run {
	return Run{Name: name, Lineage: idOf(recipe, nil), Recipe: recipe}
}

// Resume is this run when it continues another one after a step. It has the other's lineage
// if no key that defines the result differs. If one does, it is a fork.
func (r Run) Resume(there Run, step int64) Run {
	r.Lineage, r.Forks = there.Lineage, there.Forks
	if len(Refused(there.Recipe.Diff(r.Recipe, false), nil)) > 0 {
		r = r.Fork(there, step)
	}
	return r
}

// Fork is this run when it leaves another one after a step.
func (r Run) Fork(there Run, step int64) Run {
	r.Forks = append(there.Forks[:len(there.Forks):len(there.Forks)], Fork{there.Lineage, step})
	r.Lineage = idOf(r.Recipe, r.Forks)
	return r
}

// BeginAt is this run when it begins at offsets of a topic, which the recipe does not have. If they are 0 it is the run itself.
func (r Run) BeginAt(offsets []int64) Run {
	if slices.Max(offsets) > 0 {
		r.Lineage = xxh3.Hash128(fmt.Appendf(nil, "%v from %v\n", r.Lineage, offsets)).Bytes()
	}
	return r
}

// String names a run in messages.
func (r *Run) String() string { return fmt.Sprintf("run %q (lineage %s)", r.Name, r.Lineage.Short()) }

// idOf hashes the keys that define the result, and the forks.
func idOf(recipe Recipe, forks []Fork) ID {
	var text strings.Builder
	for _, f := range forks {
		fmt.Fprintf(&text, "%v %d\n", f.Lineage, f.Step)
	}
	for _, e := range recipe {
		if recipe.classOf(e.Key) >= defines {
			fmt.Fprintf(&text, "%s = %s\n", e.Key, e.Value)
		}
	}
	return xxh3.Hash128([]byte(text.String())).Bytes()
}
