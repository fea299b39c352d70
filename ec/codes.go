package ec

import (
	"fmt"
	"math"
	"slices"

	"github.com/klauspost/reedsolomon"
)

// Codes is the registry of erasure codes. NewCode, config validation, the config
// reference and benchmarks read it.
//
// To add a linear code that reconstructs any r lost shards, add a line here. The tests
// of the package run on every line.
var Codes = []Family{
	{Name: None, Doc: "no parity: a loss ends the job"},
	{Name: XOR, Doc: "one parity, the XOR of a stripe", LeastParity: 1, MostParity: 1, matrix: reedsolomon.WithJerasureMatrix()},
	{Name: RS, Doc: "Reed-Solomon over GF(2^8)", LeastParity: 1, MostParity: math.MaxInt, matrix: reedsolomon.WithJerasureMatrix()},
}

// The names of the codes.
const (
	None = "none"
	XOR  = "xor"
	RS   = "rs"
)

// Family is the codes of one name, for any number of data columns.
type Family struct {
	Name string // the value of ec.code
	Doc  string // one line
	// LeastParity and MostParity bound r, the parities of a stripe.
	LeastParity, MostParity int

	matrix reedsolomon.Option // how the library makes the matrix of the code
}

// Allows reports whether the family has codes of r parities.
func (f Family) Allows(r int) bool { return r >= f.LeastParity && r <= f.MostParity }

// Parities is how many parities the family allows, as text: "1", "1 or more", "2 to 4".
func (f Family) Parities() string {
	switch {
	case f.LeastParity == f.MostParity:
		return fmt.Sprint(f.LeastParity)
	case f.MostParity == math.MaxInt:
		return fmt.Sprint(f.LeastParity, " or more")
	}
	return fmt.Sprint(f.LeastParity, " to ", f.MostParity)
}

// Find returns the family of a name.
func Find(name string) (family Family, ok bool) {
	i := slices.IndexFunc(Codes, func(f Family) bool { return f.Name == name })
	if i < 0 {
		return Family{}, false
	}
	return Codes[i], true
}

// Names lists the names of the families that have codes of r parities.
func Names(r int) (names []string) {
	for _, f := range Codes {
		if f.Allows(r) {
			names = append(names, f.Name)
		}
	}
	return names
}

// AllNames lists the names of all families.
func AllNames() (names []string) {
	for _, f := range Codes {
		names = append(names, f.Name)
	}
	return names
}
