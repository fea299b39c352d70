package bench

// runTurns runs jobs by turns, a number of times. Turn calls run for each job, by name. It returns the names, and the
// result of each job by turn. If a stop is requested, the results are those of the turns that are complete.
func runTurns[T any](o Options, turns int, turn func(run func(name string, job func() (T, error)))) (names []string, results [][]T, err error) {
	for o.moreTurns(len(results), turns) {
		names = names[:0]
		var all []T
		turn(func(name string, job func() (T, error)) {
			if err != nil || o.isStopped() { // a job that was stopped is not a result
				return
			}
			var x T
			x, err = job()
			names, all = append(names, name), append(all, x)
		})
		if o.isStopped() {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		results = append(results, all)
	}
	return names, results, nil
}
