package oracle

// MarkCommon sets bit in the class of each entry of a that b also contains. Both lists
// ascend. They are the rows of one owner that two steps use. Cache mode planned needs
// only the rows that a step shares with its neighbours. Rows that the previous step
// updates are fetched late. Rows that the next step reads are written back at once.
//
// It is random which list has the lower row, so there is no branch on it.
func MarkCommon(classes []uint8, a, b []int32, bit uint8) {
	classes = classes[:len(a)]
	for i, j := 0, 0; i < len(a) && j < len(b); {
		d := int64(a[i]) - int64(b[j])
		below := uint64(d) >> 63  // 1: a is behind
		above := uint64(-d) >> 63 // 1: b is behind
		classes[i] |= bit & uint8(below+above-1)
		i += int(1 - above)
		j += int(1 - below)
	}
}
