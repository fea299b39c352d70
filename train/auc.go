package train

import (
	"math"

	"github.com/ecrec/ecrec/internal/auc"
	"github.com/ecrec/ecrec/kernels"
)

// gatherAUC is the exact AUC of the scores of all ranks, NaN if it is undefined, and the
// share of positive labels. Each rank counts one range of the scores.
func gatherAUC(c *control, scores []auc.Packed) (area, rate float64, err error) {
	h := make([]uint64, auc.Buckets)
	auc.Histogram(h, scores)
	all, err := c.gather(h)
	if err != nil {
		return 0, 0, err
	}
	clear(h)
	for _, part := range all {
		for i, n := range part {
			h[i] += n
		}
	}
	mine, err := scatterScores(c, scores, auc.Splitters(h, c.comm.Size()))
	if err != nil {
		return 0, 0, err
	}
	part := auc.Sum(mine)
	lists, err := c.gather([]uint64{part.Wins, part.Positives, part.Negatives})
	if err != nil {
		return 0, 0, err
	}
	ranges := make([]auc.Partial, len(lists))
	var positives, negatives uint64
	for i, l := range lists {
		ranges[i] = auc.Partial{Wins: l[0], Positives: l[1], Negatives: l[2]}
		positives, negatives = positives+l[1], negatives+l[2]
	}
	rate = float64(positives) / float64(positives+negatives)
	area, ok := auc.Combine(ranges)
	if !ok {
		area = math.NaN()
	}
	return area, rate, nil
}

// scatterScores sends each score to the rank of its range, and returns those of this
// rank's range. Cut holds the limits of the ranges.
func scatterScores(c *control, scores []auc.Packed, cut []int) ([]auc.Packed, error) {
	n := c.comm.Size()
	parts := make([][]auc.Packed, n)
	for _, s := range scores {
		to := auc.Range(cut, s)
		parts[to] = append(parts[to], s)
	}
	counts := make([]uint64, n)
	send := make([]auc.Packed, 0, len(scores))
	for to, p := range parts {
		counts[to] = uint64(len(p))
		send = append(send, p...)
	}
	table, err := c.gather(counts)
	if err != nil {
		return nil, err
	}
	sendBytes, recvBytes := make([]int, n), make([]int, n)
	total := 0
	for i := range n {
		sendBytes[i] = 4 * int(counts[i])
		recvBytes[i] = 4 * int(table[i][c.comm.Rank()])
		total += int(table[i][c.comm.Rank()])
	}
	mine := make([]auc.Packed, total)
	return mine, c.comm.AllToAllV(kernels.HostBuffer(mine), recvBytes, kernels.HostBuffer(send), sendBytes).Wait()
}
