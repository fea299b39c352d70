package baseline

// Resort orders samples as FAE does: batches of hot samples and batches of others take turns, in the proportion of their numbers. A
// hot sample uses rows with copies only. The samples of each kind stay in order. The one batch that may have both kinds is the last
// of the hot ones. It returns the sample at each position, and how many batches are hot.
func Resort(hot []bool, batch int) (order []int32, hotBatches int) {
	var kinds [2][]int32
	for i, h := range hot {
		kind := 0
		if h {
			kind = 1
		}
		kinds[kind] = append(kinds[kind], int32(i))
	}
	batches := (len(hot) + batch - 1) / batch
	hotBatches = len(kinds[1]) / batch
	taken := 0
	for b := range batches {
		kind := 0
		if due := (b + 1) * hotBatches / batches; due > taken {
			kind, taken = 1, taken+1
		}
		for range min(batch, len(hot)-len(order)) {
			from := kind
			if len(kinds[from]) == 0 {
				from = 1 - from
			}
			order = append(order, kinds[from][0])
			kinds[from] = kinds[from][1:]
		}
	}
	return order, hotBatches
}
