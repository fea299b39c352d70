package bench

import (
	"fmt"
	"slices"
)

// runTurns runs jobs by turns, a number of times. Turn calls run for each job, by name. It returns the names, and the
// result of each job by turn.
func runTurns[T any](turns int, turn func(run func(name string, job func() (T, error)))) (names []string, results [][]T, err error) {
	for range turns {
		names = names[:0]
		var all []T
		turn(func(name string, job func() (T, error)) {
			if err != nil {
				return
			}
			var x T
			x, err = job()
			names, all = append(names, name), append(all, x)
		})
		if err != nil {
			return nil, nil, err
		}
		results = append(results, all)
	}
	return names, results, nil
}

// ratioText is the interval of the median of some ratios, and whether they are told apart from 1.
func ratioText(ratios []float64) string {
	low, high := medianInterval(slices.Clone(ratios))
	text := fmt.Sprintf("%.3f to %.3f", low, high)
	if low <= 1 && high >= 1 {
		text += ", not told apart"
	}
	return text
}
