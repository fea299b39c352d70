package train

import (
	"github.com/ecrec/ecrec/checkpoint"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/lineage"
)

// increments decides which checkpoints of a rank are increments, with checkpoint.kind "incremental". A save is full
// if any rank cannot list the rows that were written since the last one: it has lost a peer since, or has resumed
// from elsewhere. It is also full if the last one or a parent of it is no longer there, or if the increments since the
// last full one hold half as many rows as that one. So the files that a load reads are bounded, and so are the bytes
// that saves write.
type increments struct {
	isOn bool
	// follows: the shard of this rank lists the rows that were written since the last checkpoint.
	follows bool

	// On rank 0:
	parent *checkpoint.Parent // the last checkpoint; nil: no increment can follow
	full   int64              // rows of the last full checkpoint
	since  int64              // rows of the increments since then
	n      int                // of them
}

// isNext reports whether this rank can save an increment of the last checkpoint.
func (x *increments) isNext(id int, step int64) bool {
	if !x.follows || id != 0 {
		return x.follows
	}
	return x.parent != nil && x.parent.Step < step && x.n < checkpoint.MaxIncrements && 2*x.since < x.full
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

// followLoaded makes the next checkpoint an increment of a loaded one, if that is of this run, in the folder dir,
// and of as many ranks. It reports whether it does.
func (x *increments) followLoaded(c *checkpoint.Checkpoint, dir string, ranks int, run lineage.ID) bool {
	x.parent = c.AsParent(dir, ranks)
	x.follows = x.isOn && x.parent != nil && c.Run != nil && c.Run.Lineage == run
	x.full, x.since, x.n = c.ChainRows()
	return x.follows
}

// savesIncrements reports whether checkpoints may be increments.
func savesIncrements(c config.Checkpoint, evalOnly bool) bool {
	return c.Kind == "incremental" && c.Dir != "" && !evalOnly
}
