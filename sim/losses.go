package sim

import "maps"

// losses records the state that ranks have lost and not recovered: for each rank the
// world in which it was lost.
type losses struct {
	first       int            // the rank of owner 0
	owners      int            // of rows
	group       int            // number of owners in a coding group; the last group may have fewer
	spare       int            // number of losses that a group tolerates
	snapshots   int            // ranks 0 to snapshots-1 keep the dense part of a commit
	rows, dense map[int]uint64 // by rank
}

// newLosses returns a record without losses.
func newLosses(first, owners, k, r int) losses {
	return losses{first, owners, k + r, r, r + 1, map[int]uint64{}, map[int]uint64{}}
}

// with returns the losses after some ranks have lost all their state in a world.
func (l losses) with(generation uint64, ranks ...int) losses {
	l.rows, l.dense = maps.Clone(l.rows), maps.Clone(l.dense)
	for _, rank := range ranks {
		if owner := rank - l.first; owner >= 0 && owner < l.owners {
			l.rows[rank] = generation
		}
		if rank < l.snapshots {
			l.dense[rank] = generation
		}
	}
	return l
}

// isSurvivable reports whether each group has lost no more than it tolerates, and some
// rank has the dense part.
func (l *losses) isSurvivable() bool {
	gone := map[int]int{}
	for rank := range l.rows {
		g := (rank - l.first) / l.group
		if gone[g]++; gone[g] > l.spare {
			return false
		}
	}
	return len(l.dense) < l.snapshots
}

// hasRows is called when a rank has recovered all its rows in a world.
func (l *losses) hasRows(rank int, generation uint64) { found(l.rows, rank, generation) }

// hasDense is called when a rank has the dense part of the current commit.
func (l *losses) hasDense(rank int, generation uint64) { found(l.dense, rank, generation) }

func found(lost map[int]uint64, rank int, generation uint64) {
	if in, ok := lost[rank]; ok && in < generation {
		delete(lost, rank)
	}
}

// rebuilt is called when all ranks have recovered everything that was lost in worlds
// before generation.
func (l *losses) rebuilt(generation uint64) {
	before := func(_ int, in uint64) bool { return in < generation }
	maps.DeleteFunc(l.rows, before)
	maps.DeleteFunc(l.dense, before)
}
