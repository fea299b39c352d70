package oracle

// MarkCommon sets bit at the entries of a that b has too. Both ascend: the rows of
// an owner that two steps use. Cache mode planned needs to know no more than which
// rows of a step its neighbours use: what the step before updates comes late, what
// the next one reads goes now.
func MarkCommon(classes []uint8, a, b []int32, bit uint8) {
	j := 0
	for i, x := range a {
		for j < len(b) && b[j] < x {
			j++
		}
		if j == len(b) {
			return
		}
		if b[j] == x {
			classes[i] |= bit
		}
	}
}
