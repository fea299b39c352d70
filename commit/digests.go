package commit

import "github.com/ecrec/ecrec/internal/digest"

// Digests is a Sink that finds the digest of its rank's rows at each commit, from that at the
// commit before and the rows that the epoch wrote.
type Digests struct {
	sums []digestAt // of the last commit and of later sets, oldest first
}

// NewDigests makes the sink of a rank whose rows equal their init.
func NewDigests() *Digests { return &Digests{make([]digestAt, 1)} }

// digestAt is the digest of a rank's rows at the end of a step.
type digestAt struct {
	step int64
	sum  digest.Sum
}

// NeedsPreImages implements Sink. Hashes of rows are enough.
func (d *Digests) NeedsPreImages() bool { return false }

// Begin implements Sink. If drawn is false, a Start at this step precedes it, or follows before the next Seal.
func (d *Digests) Begin(step int64, drawn bool) {
	if drawn || d.sums[0].step != step {
		d.Start(step, digest.Sum{})
	}
	d.sums = d.sums[:1]
}

// Start declares rows with a digest to be the commit of a step.
func (d *Digests) Start(step int64, sum digest.Sum) {
	d.sums = append(d.sums[:0], digestAt{step, sum})
}

// Seal implements Sink.
func (d *Digests) Seal(s *Set) error {
	sum, err := s.DigestChange()
	if err != nil {
		return err
	}
	sum.Add(d.newest().sum)
	d.sums = append(d.sums, digestAt{s.Step, sum})
	return nil
}

func (d *Digests) newest() digestAt { return d.sums[len(d.sums)-1] }

// At returns the digest of the rows at the end of a step, which is that of the last commit or of a
// later set.
func (d *Digests) At(step int64) digest.Sum {
	for _, x := range d.sums {
		if x.step == step {
			return x.sum
		}
	}
	panic("commit: the digest of a step that is neither committed nor sealed")
}

// Wait implements Sink. Nothing runs in the background.
func (d *Digests) Wait() error { return nil }

// Prepared implements Sink.
func (d *Digests) Prepared() int64 { return d.newest().step }

// Commit implements Sink. Start may have declared another step, whose world ended before Begin. The newest step up to the committed one
// remains, or the oldest.
func (d *Digests) Commit(step int64) {
	for len(d.sums) > 1 && d.sums[1].step <= step {
		d.sums = append(d.sums[:0], d.sums[1:]...)
	}
}

// Roll implements Sink.
func (d *Digests) Roll(step int64) {
	d.Commit(step)
	d.sums = d.sums[:1]
}

// Close implements Sink.
func (d *Digests) Close() {}
