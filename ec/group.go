package ec

import (
	"fmt"
	"math"
)

// Group is the owners [First, First+Size), which are coded together. It is immutable.
type Group struct {
	First, Size int
	Parity      int // r: parities of a stripe
}

// Data is the number of data columns: k, or fewer in a short last group.
func (g Group) Data() int { return g.Size - g.Parity }

// Stripe returns the stripe and the data column of the row in an owner's slot.
func (g Group) Stripe(owner int, slot int64) (stripe int64, column int) {
	m := g.memberOf(owner)
	rotation, i := divide(slot, g.Data())
	at := g.parityAt(m).placeOutside(i)
	return rotation*int64(g.Size) + int64(at), m - g.parityOf(at).countBelow(m)
}

// ParityStripe returns the stripe and the parity, 0 ... Parity-1, of an owner's parity row.
func (g Group) ParityStripe(owner int, row int64) (stripe int64, parity int) {
	m := g.memberOf(owner)
	rotation, i := divide(row, g.Parity)
	at := g.parityAt(m).placeInside(i)
	return rotation*int64(g.Size) + int64(at), mod(m-at, g.Size)
}

// Holder returns the owner that holds a shard of a stripe, and its row there: a slot or, for
// shards from Data on, a parity row. If the owner has no such slot, the data column is zeros.
func (g Group) Holder(stripe int64, shard int) (owner int, row int64) {
	if shard < 0 || shard >= g.Size {
		panic(fmt.Sprintf("ec: shard %d of %d", shard, g.Size))
	}
	rotation, at := divide(stripe, g.Size)
	if shard < g.Data() {
		m := g.parityOf(at).placeOutside(shard)
		return g.First + m, g.dataRow(rotation, at, m)
	}
	m := mod(at+shard-g.Data(), g.Size)
	return g.First + m, g.parityRow(rotation, at, m)
}

// Shard returns the shard of a stripe that an owner holds, and its row there: a slot or, for
// shards from Data on, a parity row.
func (g Group) Shard(stripe int64, owner int) (shard int, row int64) {
	m := g.memberOf(owner)
	rotation, at := divide(stripe, g.Size)
	if j := mod(m-at, g.Size); j < g.Parity {
		return g.Data() + j, g.parityRow(rotation, at, m)
	}
	return m - g.parityOf(at).countBelow(m), g.dataRow(rotation, at, m)
}

// Column describes the slots of an owner that are equal modulo Data, for one holder of a parity
// of their stripes. They are data column Column of these stripes. The holder has parity Parity
// of them, in its parity rows Row, Row + r, Row + 2r, ...
type Column struct {
	Column, Parity int
	Row            int64
}

// Columns returns the Column of an owner's slots and a holder, by slot modulo Data. ok is false
// for slots of which the holder has no parity.
func (g Group) Columns(owner, holder int) (columns []Column, ok []bool) {
	for slot := range g.Data() {
		stripe, column := g.Stripe(owner, int64(slot))
		shard, row := g.Shard(stripe, holder)
		columns, ok = append(columns, Column{column, shard - g.Data(), row}), append(ok, shard >= g.Data())
	}
	return columns, ok
}

// Series describes an owner's shards of the stripes that are equal modulo Size. They are shard
// Shard of these stripes, in the owner's slots or parity rows Row, Row + Step, ...
type Series struct {
	Shard     int
	Row, Step int64
}

// Series returns those of an owner, by stripe modulo Size. They give the results of Shard for many
// stripes.
func (g Group) Series(owner int) (all []Series) {
	for at := range int64(g.Size) {
		s := Series{Step: int64(g.Data())}
		if s.Shard, s.Row = g.Shard(at, owner); s.Shard >= g.Data() {
			s.Step = int64(g.Parity)
		}
		all = append(all, s)
	}
	return all
}

// Stripes is how many stripes cover the first slots of every member: slots of them each.
func (g Group) Stripes(slots int64) int64 {
	if slots == 0 {
		return 0
	}
	rotation, i := divide(slots-1, g.Data())
	return rotation*int64(g.Size) + int64(i+g.Parity+1)
}

// ParityRows is how many parity rows an owner holds of these stripes: about slots * r/k.
func (g Group) ParityRows(owner int, slots int64) int64 {
	m := g.memberOf(owner)
	rotation, at := divide(g.Stripes(slots), g.Size)
	return g.parityRow(rotation, at, m)
}

// parityOf is the members that hold the parity of stripes at a place of a rotation. A rotation
// is Size stripes; the next one has the same members.
func (g Group) parityOf(at int) arc { return arc{at, g.Parity, g.Size} }

// parityAt is the places of a rotation at which a member holds parity.
func (g Group) parityAt(m int) arc { return arc{mod(m-g.Parity+1, g.Size), g.Parity, g.Size} }

// dataRow is how many stripes before one have a data column on a member.
func (g Group) dataRow(rotation int64, at, m int) int64 {
	return rotation*int64(g.Data()) + int64(at-g.parityAt(m).countBelow(at))
}

// parityRow is how many stripes before one have a parity on a member.
func (g Group) parityRow(rotation int64, at, m int) int64 {
	return rotation*int64(g.Parity) + int64(g.parityAt(m).countBelow(at))
}

func (g Group) memberOf(owner int) int {
	m := owner - g.First
	if m < 0 || m >= g.Size {
		panic(fmt.Sprintf("ec: owner %d is not in the group of owners %d to %d", owner, g.First, g.First+g.Size-1))
	}
	return m
}

// arc is a part of a circle of size places: length places from begin on, of which wrappedPlaces
// places begin again at 0.
type arc struct{ begin, length, size int }

// wrappedPlaces is how many places of the arc are past the end of the circle.
func (a arc) wrappedPlaces() int { return max(0, a.begin+a.length-a.size) }

// countBelow counts the places of the arc below x.
func (a arc) countBelow(x int) int {
	return min(x, a.wrappedPlaces()) + min(max(0, x-a.begin), a.length)
}

// placeInside is the i-th place of the arc, in ascending order.
func (a arc) placeInside(i int) int {
	if wrapped := a.wrappedPlaces(); i >= wrapped {
		return a.begin + i - wrapped
	}
	return i
}

// placeOutside is the i-th place that is not in the arc, in ascending order.
func (a arc) placeOutside(i int) int {
	x := i + a.wrappedPlaces()
	if x >= a.begin {
		x += a.length
	}
	return x
}

// divide returns the rotation of a row or stripe, and its place there.
func divide(x int64, by int) (rotation int64, at int) {
	if x < 0 || by == 0 {
		panic(fmt.Sprintf("ec: row or stripe %d, %d to a rotation", x, by))
	}
	if x <= math.MaxUint32 { // nearly always; wide divisions are slow on many CPUs
		q := uint32(x) / uint32(by)
		return int64(q), int(uint32(x) - q*uint32(by))
	}
	rotation = x / int64(by)
	return rotation, int(x - rotation*int64(by))
}

// mod is x mod n for -n <= x < 2n.
func mod(x, n int) int {
	switch {
	case x < 0:
		return x + n
	case x >= n:
		return x - n
	}
	return x
}
