package commit

import (
	"math"
	"math/bits"
)

// divisor divides slots by a number, without a division, which would take several nanoseconds. The quotient is the high word of a
// product (Granlund and Montgomery, "Division by invariant integers using multiplication", 1994).
type divisor struct {
	by    int32
	magic uint64 // 2^64 / by, rounded up; 0 for 2^64
}

// newDivisor returns the divisor by a number from 1 to 2^16.
func newDivisor(by int) divisor {
	return divisor{int32(by), math.MaxUint64/uint64(by) + 1}
}

// quotient returns slot / by and slot mod by. The slot is at least 0.
func (d divisor) quotient(slot int32) (quotient, rest int32) {
	if d.magic == 0 {
		return slot, 0
	}
	high, _ := bits.Mul64(uint64(slot), d.magic)
	return int32(high), slot - int32(high)*d.by
}
