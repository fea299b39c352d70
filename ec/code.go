package ec

import (
	"crypto/subtle"
	"fmt"
	"strings"

	"github.com/klauspost/reedsolomon"
)

// Code is a linear code for stripes of k data columns and r parities. Fold and Encode are safe
// for concurrent use; Decoder is not.
type Code struct {
	k int
	// coefficients is (r, k): a row for each parity.
	coefficients [][]byte
	library      reedsolomon.Encoder // nil without parity
	decoders     map[pattern]*Decoder
}

// NewCode makes a code of a family (Codes). A short group has a code of its own, with
// fewer columns.
func NewCode(name string, k, r int) (*Code, error) {
	if err := checkShards(k, r); err != nil {
		return nil, err
	}
	family, ok := Find(name)
	switch {
	case !ok:
		return nil, fmt.Errorf("ec: no code %q; there are %s", name, strings.Join(AllNames(), ", "))
	case !family.Allows(r):
		return nil, fmt.Errorf("ec: code %s with r = %d: %s has r = %s", name, r, name, family.Parities())
	}
	c := &Code{k: k, decoders: map[pattern]*Decoder{}}
	if r == 0 {
		return c, nil
	}
	var err error
	if c.library, err = reedsolomon.New(k, r, family.matrix); err != nil {
		return nil, fmt.Errorf("ec: code %s with k = %d, r = %d: %w", name, k, r, err)
	}
	// The matrix of a linear map is its image of the identity.
	shards := append(identity(k), zeros(r, k)...)
	if err := c.library.Encode(shards); err != nil {
		panic(fmt.Sprintf("ec: k = %d, r = %d: %v", k, r, err))
	}
	c.coefficients = shards[k:]
	return c, nil
}

// Data is k, the number of data columns.
func (c *Code) Data() int { return c.k }

// Parity is r, the number of parities.
func (c *Code) Parity() int { return len(c.coefficients) }

// Delta sets dst to old XOR new. dst may be either of them.
func Delta(dst, old, new []byte) {
	if len(old) != len(dst) || len(new) != len(dst) {
		panic(fmt.Sprintf("ec: delta of %d bytes between %d and %d", len(dst), len(old), len(new)))
	}
	subtle.XORBytes(dst, old, new)
}

// Fold updates parity j for a change of a data column: parity += coefficient(j, column) *
// delta, byte by byte.
func (c *Code) Fold(parity, delta []byte, column, j int) {
	if len(parity) != len(delta) {
		panic(fmt.Sprintf("ec: a delta of %d bytes folded into %d", len(delta), len(parity)))
	}
	addProduct(parity, delta, c.coefficients[j][column])
}

// Factor is the coefficient of a data column in parity j. If it is 1, Fold is plain XOR.
func (c *Code) Factor(column, j int) byte { return c.coefficients[j][column] }

// Encode sets the r parities of k data columns, all of one length. A nil column is zeros.
func (c *Code) Encode(parity, data [][]byte) { multiply(parity, data, c.coefficients) }
