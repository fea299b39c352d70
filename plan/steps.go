package plan

// Steps counts consecutive steps of a run, from a first one to about steps later. last is the last step of the run. read
// appends the global row of each lookup of a slice to dst. In cache mode planned a step is counted only if its neighbours are
// read too.
//
// With sample > 1 only every sample-th trainer is read, in place of as many. The neighbours of a row are not all there
// then, so all rows and gradients count as waited for, and changed rows as different ones: both are the most that
// there can be.
func Steps(j Job, first, steps, last int64, sample int, read func(step int64, trainer int, dst []int64) ([]int64, error)) (*Counter, error) {
	split := j.Split && sample == 1
	end := min(first+steps-1, last)
	if split {
		end = min(first+steps+1, last)
	}
	c, err := NewCounter(j, !split || end < 3)
	if err != nil {
		return nil, err
	}
	c.job.Split, c.weight = split, int64(sample)
	var rows []int64
	for step := first; step <= end; step++ {
		for trainer := 0; trainer < j.Trainers; trainer += sample {
			if rows, err = read(step, trainer, rows[:0]); err != nil {
				return nil, err
			}
			c.AddSlice(trainer, rows)
		}
		c.EndStep()
	}
	if split && end < last {
		c.Stop()
	} else {
		c.Finish()
	}
	return c, nil
}
