package oracle

// newest holds the newest use of each slot, 8 bytes for every slot of the owner. It is an
// array and not a hash table for two reasons. The slots of a step ascend, so the array is
// read in order. The cost of a row does not depend on how many rows are known: 200 steps
// of 16,384 samples of Criteo Kaggle use every sixth row.
//
// A use older than `oldest` is dead, which means that it counts as absent.
type newest struct {
	of     []uint64 // a newestUse of each slot; a dead one if the slot has none
	oldest uint32
	hand   int // the slot to be swept next

	hugePages func([]uint64) // as in WindowOptions
}

// newestUse is number << 32 | since << 16 | solo. All known uses from step `since` on,
// modulo 1<<16, are made by solo, which is defined in step.
type newestUse uint64

func (u newestUse) number() uint32 { return uint32(u >> 32) }
func (u newestUse) since() uint16  { return uint16(u >> 16) }

// All slots are swept within sweepSteps steps and within sweepUses uses. Without the
// sweep, numbers wrap around, and a dead use or an old step could be mistaken for a
// future one.
const (
	sweepSteps = 1 << 13
	sweepUses  = 1 << 29
)

// reserveSlots makes room for the slots of a step, which ascend. From now on the uses
// from oldest on, of the steps from next on, are alive.
func (x *newest) reserveSlots(slots []int32, oldest uint32, next uint16) {
	passed := oldest - x.oldest
	x.oldest = oldest
	x.sweepSlots(1+len(x.of)/sweepSteps+int(passed)*len(x.of)/sweepUses, next)
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

// sweepSlots visits the next few slots. It renews the number of a dead use, and replaces
// a step before next by next, which is equivalent.
func (x *newest) sweepSlots(slots int, next uint16) {
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
