package oracle

// MarkCommon sets bit at the entries of a that b has too. Both ascend: the rows of
// an owner that two steps use. Cache mode planned needs to know no more than which
// rows of a step its neighbours use: what the step before updates comes late, what
// the next one reads goes now.
//
// Which list has the lower row is chance, so nothing branches on it.
func MarkCommon(classes []uint8, a, b []int32, bit uint8) {
	classes = classes[:len(a)]
	for i, j := 0, 0; i < len(a) && j < len(b); {
		d := int64(a[i]) - int64(b[j])
		below := uint64(d) >> 63  // 1: a is behind
		above := uint64(-d) >> 63 // 1: b is
		classes[i] |= bit & uint8(below+above-1)
		i += int(1 - above)
		j += int(1 - below)
	}
}
