package train

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ecrec/ecrec/commit"
	"github.com/ecrec/ecrec/internal/digest"
)

// digests find the digest of the model at each commit. Every rank has that of its own rows, and
// the ranks with snapshots have that of the dense part. All ranks exchange these once for each
// epoch, in the first status after its seal, and so have the sum before the commit is decided.
//
// Without job.digests they do nothing, and rows is nil.
//
// The digest is a sum over rows. So if ranks are lost, the parts of the survivors and the sum
// of all give that of the lost rows together, before any of them is rebuilt.
type digests struct {
	rows  *commit.Digests
	dense digest.Sum // of the dense part at the newest seal; zero on ranks that keep no snapshots
	seal  int64      // the step of the newest seal
	sums  []modelSum // of the newest steps that all ranks have exchanged, oldest first
}

// partSum is the digest of one rank's part of the model: rows that it owns, and the dense part if
// it keeps snapshots.
type partSum struct{ rows, dense digest.Sum }

// partSumWords is how many 64-bit words a partSum has on the wire.
const partSumWords = 4

func (x partSum) words() []uint64 { return []uint64{x.rows.Hi, x.rows.Lo, x.dense.Hi, x.dense.Lo} }

func partSumOf(w []uint64) partSum {
	return partSum{digest.Sum{Hi: w[0], Lo: w[1]}, digest.Sum{Hi: w[2], Lo: w[3]}}
}

// modelSum is the digest of the model at the end of a step.
type modelSum struct {
	step int64
	partSum
}

func (x modelSum) String() string {
	total := x.rows
	total.Add(x.dense)
	return total.String()
}

// keptSums is how many sums are kept: of the last commit and of later seals.
const keptSums = 3

// sealed notes that an epoch is sealed; dense is the digest of the dense part after it.
func (d *digests) sealed(step int64, dense digest.Sum) { d.seal, d.dense = step, dense }

// unsent returns the digest of this rank's part at the newest seal, if it has not been exchanged
// yet, else nil. It is nil on all ranks or on none, since all seal at the same steps.
func (d *digests) unsent() *partSum {
	if n := len(d.sums); d.rows == nil || n > 0 && d.sums[n-1].step == d.seal {
		return nil
	}
	return &partSum{d.rows.At(d.seal), d.dense}
}

// received adds up the digests of all ranks at the newest seal. Ranks with snapshots have the same
// dense part, unless one has computed it wrongly.
func (d *digests) received(all []sealReport, snapshots int) error {
	sum := modelSum{step: d.seal, partSum: partSum{dense: all[0].part.dense}}
	for id := range all {
		x := &all[id].part
		sum.rows.Add(x.rows)
		if id < snapshots && x.dense != sum.dense {
			return fmt.Errorf("step %d: the dense parameters of ranks 0 and %d differ (digests %v and %v): one of them has computed or stored them wrongly; check the memory of their hosts",
				d.seal, id, sum.dense, x.dense)
		}
	}
	d.sums = append(d.sums, sum)
	if len(d.sums) > keptSums {
		d.sums = append(d.sums[:0], d.sums[1:]...)
	}
	return nil
}

// at returns the digest of the model at a commit.
func (d *digests) at(step int64) (x modelSum, known bool) {
	i := slices.IndexFunc(d.sums, func(x modelSum) bool { return x.step == step })
	if i < 0 {
		return x, false
	}
	return d.sums[i], true
}

// keep adds the digest of a commit, unless it is known.
func (d *digests) keep(sum modelSum) {
	i, found := slices.BinarySearchFunc(d.sums, sum.step, func(x modelSum, step int64) int { return cmp.Compare(x.step, step) })
	if !found {
		d.sums = slices.Insert(d.sums, i, sum)
	}
}

// begin declares the present model to be a commit; rows is the digest of this rank's rows.
func (d *digests) begin(step int64, rows digest.Sum) {
	d.rows.Start(step, rows)
	d.seal, d.dense, d.sums = step, digest.Sum{}, d.sums[:0]
}
