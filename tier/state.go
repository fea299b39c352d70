package tier

import (
	"fmt"
	"math/bits"
)

// state is the state of a row. It is in the word of its slot while the row is absent, and in its frame while it is resident.
type state uint32

const (
	resident state = 1 << 31 // in the word of a slot: the other bits are the number of the frame
	pinned   state = 1 << 31 // in a frame: the row is never a victim
	written  state = 1 << 30 // a step has written the row
	dirty    state = 1 << 29 // in a frame: the log may not have the last write
	inWindow state = 1 << 28 // a step of the window uses the row; the bits below number the last such use

	useBits    = 28
	useNumber  = 1<<useBits - 1
	absentBits = written | inWindow | useNumber // the part that an absent row has
)

// newest is the number of the row's last use in the window, modulo 1<<useBits.
func (s state) newest() uint32 { return uint32(s) & useNumber }

func (s *state) setNewest(n uint32) { *s = *s&^useNumber | inWindow | state(n&useNumber) }

func (s *state) clearNewest() { *s &^= inWindow | useNumber }

// uses are the uses of the window. They are numbered modulo 1<<32 in the order in which they are expected. Use n
// is at n mod the length, a power of two.
type uses struct {
	slot []int32
	next []uint16 // the step of the row's next use modulo 1<<16; that of the use itself if it has none
	end  uint32   // the number of the next use
}

func (u *uses) memory() int64 { return 6 * int64(len(u.slot)) }

// reserveUses makes room for n more uses, and numbers them. Those before oldest are discarded.
func (u *uses) reserveUses(oldest uint32, n int) {
	kept := int(u.end - oldest)
	end := u.end + uint32(n)
	if kept+n > len(u.slot) {
		if kept+n > useNumber {
			panic(fmt.Sprintf("tier: a window of %d uses; the limit is %d: use a smaller lookahead or smaller batches", kept+n, useNumber))
		}
		old := *u
		size := 1 << bits.Len(uint(kept+n-1))
		u.slot, u.next = make([]int32, size), make([]uint16, size)
		for i := oldest; i != old.end; i++ {
			u.slot[u.indexOf(i)], u.next[u.indexOf(i)] = old.slot[old.indexOf(i)], old.next[old.indexOf(i)]
		}
	}
	u.end = end
}

func (u *uses) indexOf(n uint32) int { return int(n) & (len(u.slot) - 1) }

func (u *uses) slotOf(n uint32) int32 { return u.slot[u.indexOf(n)] }

// setUse records a use of a slot by a step, without a next one.
func (u *uses) setUse(n uint32, slot int32, step int64) {
	u.slot[u.indexOf(n)], u.next[u.indexOf(n)] = slot, uint16(step)
}

// linkTo records that the row of use n is used next by step.
func (u *uses) linkTo(n uint32, step int64) { u.next[u.indexOf(n)] = uint16(step) }

// nextOf returns the step of the next use of the row that step uses with use n; step if it has none.
func (u *uses) nextOf(n uint32, step int64) int64 {
	return step + int64(u.next[u.indexOf(n)]-uint16(step))
}
