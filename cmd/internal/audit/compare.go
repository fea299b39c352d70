package audit

// Verdict is the result of comparing the digests of an interval.
type Verdict struct {
	Equal   int // digests that are equal
	Skipped int // commits of the run that the re-execution did not have, such as those at a stop
	// Difference is the first digest that differs; nil: none does.
	*Difference
}

// Difference is the first digest in which a run and its re-execution differ.
type Difference struct {
	After     int64 // the last step whose digest is equal, or the one before the interval
	Step      int64
	Run, Here string // the digests
}

// CompareDigests compares the digests that a run recorded in an interval with those of its re-execution.
func CompareDigests(run *Record, v Interval, here *Record) Verdict {
	var x Verdict
	after := v.From
	for _, step := range run.within(v) {
		a, b := run.DigestAt(step), here.DigestAt(step)
		switch {
		case b == "":
			x.Skipped++
		case a == b:
			x.Equal++
			after = step
		default:
			x.Difference = &Difference{After: after, Step: step, Run: a, Here: b}
			return x
		}
	}
	return x
}
