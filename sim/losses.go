package sim

import "maps"

// losses is what ranks have lost and have not back: of each the world that it was lost in.
type losses struct {
	first       int            // the rank that is owner 0
	owners      int            // of rows
	group       int            // owners that code together, the last of them perhaps fewer
	spare       int            // of a group
	snapshots   int            // ranks that keep the dense part of a commit, the first ones
	rows, dense map[int]uint64 // by rank
}

// newLosses is none.
func (set *setting) newLosses(k, r int) losses {
	return losses{set.trainers, set.owners, k + r, r, r + 1, map[int]uint64{}, map[int]uint64{}}
}

// and is what is lost where some ranks lose all they hold in a world.
func (l losses) and(generation uint64, ranks ...int) losses {
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

// survivable reports whether each group has lost no more than it can spare, and some rank
// has the dense part.
func (l *losses) survivable() bool {
	gone := map[int]int{}
	for rank := range l.rows {
		g := (rank - l.first) / l.group
		if gone[g]++; gone[g] > l.spare {
			return false
		}
	}
	return len(l.dense) < l.snapshots
}

// hasRows is called when a rank has all back that it should hold, in a world.
func (l *losses) hasRows(rank int, generation uint64) { found(l.rows, rank, generation) }

// hasDense is called when a rank has the dense part of the commit that all are at.
func (l *losses) hasDense(rank int, generation uint64) { found(l.dense, rank, generation) }

func found(lost map[int]uint64, rank int, generation uint64) {
	if in, ok := lost[rank]; ok && in < generation {
		delete(lost, rank)
	}
}

// whole is called when all ranks have all back that was lost in worlds before one.
func (l *losses) whole(generation uint64) {
	before := func(_ int, in uint64) bool { return in < generation }
	maps.DeleteFunc(l.rows, before)
	maps.DeleteFunc(l.dense, before)
}
