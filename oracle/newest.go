package oracle

// newest knows the newest use of each slot: 8 bytes for every slot there is. It is
// no hash table, because a step's slots ascend, so that this is gone through in
// order, and because what a row costs then does not depend on how many are known:
// of Criteo Kaggle, 200 steps of 16,384 samples know every sixth.
//
// A use older than `oldest` is dead: it counts as not there.
type newest struct {
	of     []uint64 // a newestUse of each slot; a dead one where there is none
	oldest uint32
	hand   int // the slot to be swept next

	hugePages func([]uint64) // as in WindowOptions
}

// newestUse is number << 32 | since << 16 | solo: all known uses from step `since`,
// modulo 1<<16, on are by solo, as in step.
type newestUse uint64

func (u newestUse) number() uint32 { return uint32(u >> 32) }
func (u newestUse) since() uint16  { return uint16(u >> 16) }

// sweepSteps is in how many steps all slots are swept, sweepUses in how many uses:
// before one that is dead, or a step long ago, could be taken for one to come.
const (
	sweepSteps = 1 << 13
	sweepUses  = 1 << 29
)

// reserve makes room for a step's slots, which ascend. Uses from oldest on, of steps
// from next on, are alive from now on.
func (x *newest) reserve(slots []int32, oldest uint32, next uint16) {
	passed := oldest - x.oldest
	x.oldest = oldest
	x.sweep(1+len(x.of)/sweepSteps+int(passed)*len(x.of)/sweepUses, next)
	if len(slots) == 0 || int(slots[len(slots)-1]) < len(x.of) {
		return
	}
	old := x.of
	x.of = make([]uint64, max(int(slots[len(slots)-1])+1, len(old)+len(old)/4))
	x.hugePages(x.of)
	copy(x.of, old)
	if oldest-1 < sweepUses {
		return // 0 is dead until it is swept
	}
	for i := len(old); i < len(x.of); i++ {
		x.of[i] = uint64(oldest-1) << 32
	}
}

// sweep goes through the next few slots: what is dead becomes freshly dead, and a
// step before next is as good as next.
func (x *newest) sweep(slots int, next uint16) {
	if x.hand >= len(x.of) {
		x.hand = 0
	}
	part := x.of[x.hand:min(x.hand+slots, len(x.of))]
	x.hand += len(part)
	for i := range part {
		switch u := newestUse(part[i]); {
		case int32(u.number()-x.oldest) < 0:
			part[i] = uint64(x.oldest-1) << 32
		case int16(u.since()-next) < 0:
			part[i] = uint64(u)&^(1<<32-1<<16) | uint64(next)<<16
		}
	}
}
