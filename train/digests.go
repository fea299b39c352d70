package train

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/ecrec/ecrec/checkpoint"
	"github.com/ecrec/ecrec/internal/digest"
)

// exchangeDigests exchanges the digests of all ranks at the newest seal, outside a step.
func (p *protection) exchangeDigests() error {
	d := &p.digests
	mine := d.unsent()
	if mine == nil {
		return nil
	}
	all, err := p.rank.conns.ctl.gather((&sealReport{part: *mine}).words())
	if err != nil {
		return err
	}
	reports := make([]sealReport, len(all))
	for id, w := range all {
		reports[id] = sealReportOf(w)
	}
	return d.received(reports, p.rank.job.tolerated()+1)
}

// beginDigests finds the digest of the model that the run starts from. The sinks need it when they begin.
func (p *protection) beginDigests(drawn bool) error {
	r := p.rank
	var rows digest.Sum
	if p.digests.rows == nil {
		return nil
	}
	if !drawn {
		var err error
		if rows, err = r.shard.Digest(); err != nil {
			return err
		}
	}
	p.digests.begin(r.done, rows)
	if err := p.hashDense(r.done); err != nil {
		return err
	}
	if err := p.exchangeDigests(); err != nil {
		return err
	}
	x, _ := p.digests.at(r.done)
	if was := p.log.digest; was != "" && r.id == 0 && x.String() != was {
		return fmt.Errorf("store.path: the log of step %d was written with digest %s, its rows have %v: bytes have changed although their sums are right; remove the logs of all ranks, and resume from a checkpoint",
			r.done, was, x)
	}
	from := r.checkpoints.loaded
	if from == nil || from.Digest == "" {
		return nil
	}
	if x.String() != from.Digest {
		return fmt.Errorf("%s: the manifest has digest %s, the files have %v: bytes have changed although their sums are right; resume from an earlier checkpoint: %w",
			from.Path, from.Digest, x, checkpoint.ErrUnusable)
	}
	return nil
}

// commitWithDigest commits the steps so far and returns the digest of the model. Without job.digests it does
// nothing.
func (p *protection) commitWithDigest() (string, error) {
	if p == nil || p.digests.rows == nil {
		return "", nil
	}
	if err := p.commitAll(); err != nil {
		return "", err
	}
	x, known := p.digests.at(p.rank.done)
	if !known {
		return "", fmt.Errorf("train: no digest of the commit of step %d", p.rank.done)
	}
	return x.String(), nil
}

// checkDigest checks that the commits of the run lead to the digest of the model at its end.
func (p *protection) checkDigest(total string) error {
	if p == nil || p.digests.rows == nil {
		return nil
	}
	if x, _ := p.digests.at(p.rank.done); x.String() != total {
		return fmt.Errorf("step %d: the digest of the model is %s, and the updates since the start lead to %v: bytes of the model have changed without an update; check the memory of the hosts, and resume from an earlier checkpoint",
			p.rank.done, total, x)
	}
	return nil
}

// hashDense finds the digest of the dense part at a seal, on ranks that keep snapshots.
func (p *protection) hashDense(step int64) (err error) {
	r := p.rank
	var dense digest.Sum
	if p.digests.rows == nil {
		return nil
	}
	if r.job.keepsSnapshots(r.id) {
		if dense, err = r.digestDense(step); err != nil {
			return err
		}
	}
	p.digests.sealed(step, dense)
	return nil
}

// firstLost is the first owner of rows among the ranks that are new; -1 if there is none.
func (j *job) firstLost(fresh []bool) int {
	for id, lost := range fresh {
		if lost && j.roles.ownerOf(id) >= 0 {
			return id
		}
	}
	return -1
}

// shareDigest has all ranks know the digest of a commit that some of them have, before any other rank commits it: else it would be lost if
// those that have it were lost next. lost is the digest of all rows that are lost, together. New
// ranks also learn the lineage of the run.
func (p *protection) shareDigest(step int64, fresh []bool) (lost digest.Sum, err error) {
	r, d := p.rank, &p.digests
	mine := partSum{}
	if d.rows == nil {
		return lost, nil
	}
	if !fresh[r.id] {
		mine.rows = d.rows.At(step)
	}
	sum, known := d.at(step)
	words := append(mine.words(), 0)
	if known {
		words[partSumWords] = 1
	}
	run := r.lineage.Lineage
	all, err := r.conns.ctl.gather(append(append(words, sum.words()...), binary.LittleEndian.Uint64(run[:8]), binary.LittleEndian.Uint64(run[8:])))
	if err != nil {
		return lost, err
	}
	root := slices.IndexFunc(all, func(w []uint64) bool { return w[partSumWords] != 0 })
	if root < 0 { // a rank that has committed the step had it
		return lost, fmt.Errorf("train: no rank has the digest of the commit of step %d", step)
	}
	sum = modelSum{step, partSumOf(all[root][partSumWords+1:])}
	lost = sum.rows
	for _, w := range all {
		lost.Sub(partSumOf(w).rows)
	}
	d.keep(sum)
	if fresh[r.id] { // its forks follow with the history
		n := len(all[root])
		binary.LittleEndian.PutUint64(r.lineage.Lineage[:8], all[root][n-2])
		binary.LittleEndian.PutUint64(r.lineage.Lineage[8:], all[root][n-1])
	}
	return lost, nil
}

// restoreDigests sets the digests to those of a commit that this rank has rolled to. The digest of all rows that are lost becomes that of
// the first rank in fresh that owns rows.
func (p *protection) restoreDigests(step int64, fresh []bool, lost digest.Sum) {
	d := &p.digests
	if d.rows == nil {
		return
	}
	if fresh[p.rank.id] {
		sum := digest.Sum{} // also if the rank had begun with rows, in a world that ended before it trained
		if p.rank.id == p.rank.job.firstLost(fresh) {
			sum = lost
		}
		d.rows.Start(step, sum)
	}
	sum, _ := d.at(step)
	d.seal, d.dense, d.sums = step, sum.dense, append(d.sums[:0], sum)
}

// reportCommits reports the commits up to a step to the Observer, on rank 0.
func (p *protection) reportCommits(step int64) {
	observer := p.rank.job.o.Observer
	switch {
	case p.rank.id != 0:
	case p.digests.rows == nil:
		observer.Committed(step, "")
	default:
		for _, x := range p.digests.sums {
			if x.step > p.announced && x.step <= step {
				observer.Committed(x.step, x.String())
			}
		}
	}
	p.announced = step
}

// reportBegin reports the digest of the commit that a world begins with, which the world before may
// not have reported.
func (p *protection) reportBegin() {
	if p != nil {
		p.announced = p.commits.Committed() - 1
		p.reportCommits(p.announced + 1)
	}
}
