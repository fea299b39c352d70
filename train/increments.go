package train

import (
	"slices"

	"github.com/ecrec/ecrec/checkpoint"
	"github.com/ecrec/ecrec/lineage"
)

// increments decides which checkpoints of a rank are increments, with checkpoint.kind "incremental". A save is full
// if any rank cannot list the rows that were written since the last one: it has lost a peer since, or has resumed
// from elsewhere. It is also full if the increments since the last full one hold half as many rows as that one. So
// what is read to load a checkpoint is bounded, and so is what is written.
type increments struct {
	isOn bool
	// follows: the rows that this rank's shard lists are those that were written since the last checkpoint.
	follows bool

	// On rank 0:
	parent *checkpoint.Parent // the last checkpoint; nil: no increment can follow
	full   int64              // rows of the last full checkpoint
	since  int64              // rows of the increments since then
	n      int                // of them
}

// isNext reports whether this rank can save an increment of the last checkpoint.
func (x *increments) isNext(id int, step int64) bool {
	if !x.isOn || !x.follows || id != 0 {
		return x.isOn && x.follows
	}
	return x.parent != nil && x.parent.Step < step && x.n < checkpoint.MaxIncrements && 2*x.since < x.full
}

// agree reports whether the checkpoint of a step is an increment, on all ranks.
func (x *increments) agree(id int, step int64, c *control) (bool, error) {
	if !x.isOn {
		return false, nil
	}
	mine := uint64(0)
	if x.isNext(id, step) {
		mine = 1
	}
	all, err := c.gather([]uint64{mine})
	return err == nil && !slices.ContainsFunc(all, func(m []uint64) bool { return m[0] == 0 }), err
}

// saved takes note of a checkpoint of so many rows, which is the next parent. Only rank 0 needs to know it.
func (x *increments) saved(s *checkpoint.Save, rows int64) {
	if s.Parent == nil {
		x.full, x.since, x.n = rows, 0, 0
	} else {
		x.since, x.n = x.since+rows, x.n+1
	}
	x.parent = s.AsParent()
}

// followLoaded makes the next checkpoint an increment of the one that was loaded, if that is of this run, in
// checkpoint.dir, and of as many ranks.
func (k *checkpointer) followLoaded(c *checkpoint.Checkpoint, run lineage.ID) {
	x := &k.increments
	if !x.isOn {
		return
	}
	x.parent = c.AsParent(k.topology.cfg.Checkpoint.Dir, k.topology.roles.rows)
	x.follows = x.parent != nil && c.Run != nil && c.Run.Lineage == run
	x.full, x.since, x.n = c.ChainRows()
	if x.follows {
		k.part.shard.ForgetWritten()
	}
}

// savesIncrements reports whether checkpoints may be increments.
func (j *job) savesIncrements() bool {
	c := j.cfg.Checkpoint
	return c.Kind == "incremental" && c.Dir != "" && !j.o.EvalOnly
}
