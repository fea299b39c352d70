package ec

import (
	"fmt"
	"math"
)

// Group is the owners [First, First+Size), which code together. It is immutable.
type Group struct {
	First, Size int
	Parity      int // r: parities of a stripe
}

// Data is the number of data columns: k, or fewer in a short last group.
func (g Group) Data() int { return g.Size - g.Parity }

// Stripe says which stripe and data column the row in an owner's slot is.
func (g Group) Stripe(owner int, slot int64) (stripe int64, column int) {
	m := g.member(owner)
	turn, i := divide(slot, g.Data())
	at := g.parityAt(m).outside(i)
	return turn*int64(g.Size) + int64(at), m - g.parityOf(at).below(m)
}

// ParityStripe says which stripe and which of its parities, 0 ... Parity-1, an
// owner's parity row is.
func (g Group) ParityStripe(owner int, row int64) (stripe int64, parity int) {
	m := g.member(owner)
	turn, i := divide(row, g.Parity)
	at := g.parityAt(m).inside(i)
	return turn*int64(g.Size) + int64(at), mod(m-at, g.Size)
}

// Holder says who holds a shard of a stripe, and in which slot or, for shards from
// Data on, in which parity row. The owner may have no such slot: then the data
// column is zeros.
func (g Group) Holder(stripe int64, shard int) (owner int, row int64) {
	if shard < 0 || shard >= g.Size {
		panic(fmt.Sprintf("ec: shard %d of %d", shard, g.Size))
	}
	turn, at := divide(stripe, g.Size)
	if shard < g.Data() {
		m := g.parityOf(at).outside(shard)
		return g.First + m, g.dataRow(turn, at, m)
	}
	m := mod(at+shard-g.Data(), g.Size)
	return g.First + m, g.parityRow(turn, at, m)
}

// Shard says which shard of a stripe an owner holds, and in which slot or, for
// shards from Data on, in which parity row.
func (g Group) Shard(stripe int64, owner int) (shard int, row int64) {
	m := g.member(owner)
	turn, at := divide(stripe, g.Size)
	if j := mod(m-at, g.Size); j < g.Parity {
		return g.Data() + j, g.parityRow(turn, at, m)
	}
	return m - g.parityOf(at).below(m), g.dataRow(turn, at, m)
}

// Column says of an owner's slots that are equal modulo Data, and one holder of their
// parity: they are data column Column of their stripes, whose parity Parity is in the
// holder's parity rows Row, Row + r, Row + 2r, ...
type Column struct {
	Column, Parity int
	Row            int64
}

// Columns is where a holder has the parity of an owner's slots, by slot modulo Data; ok
// is false where it holds none of it.
func (g Group) Columns(owner, holder int) (columns []Column, ok []bool) {
	for slot := range g.Data() {
		stripe, column := g.Stripe(owner, int64(slot))
		shard, row := g.Shard(stripe, holder)
		columns, ok = append(columns, Column{column, shard - g.Data(), row}), append(ok, shard >= g.Data())
	}
	return columns, ok
}

// Turn says of the stripes that are equal modulo Size where an owner has its shards of
// them: they are shard Shard, in its slots or parity rows Row, Row + Step, ...
type Turn struct {
	Shard     int
	Row, Step int64
}

// Turns is an owner's, by stripe modulo Size: what Shard says, for who asks often.
func (g Group) Turns(owner int) (turns []Turn) {
	for at := range int64(g.Size) {
		t := Turn{Step: int64(g.Data())}
		if t.Shard, t.Row = g.Shard(at, owner); t.Shard >= g.Data() {
			t.Step = int64(g.Parity)
		}
		turns = append(turns, t)
	}
	return turns
}

// Stripes is how many stripes cover the first slots of every member.
func (g Group) Stripes(slots int64) int64 {
	if slots == 0 {
		return 0
	}
	turn, i := divide(slots-1, g.Data())
	return turn*int64(g.Size) + int64(i+g.Parity+1)
}

// ParityRows is how many parity rows an owner holds of the stripes that cover the
// first slots of every member: about slots * r/k.
func (g Group) ParityRows(owner int, slots int64) int64 {
	m := g.member(owner)
	turn, at := divide(g.Stripes(slots), g.Size)
	return g.parityRow(turn, at, m)
}

// parityOf is the members that hold the parity of stripes at this place of a turn
// (a turn is Size stripes, after which the rotation begins anew).
func (g Group) parityOf(at int) arc { return arc{at, g.Parity, g.Size} }

// parityAt is the places of a turn at which a member holds parity.
func (g Group) parityAt(m int) arc { return arc{mod(m-g.Parity+1, g.Size), g.Parity, g.Size} }

// dataRow counts a member's data stripes before one, parityRow its parity stripes.
func (g Group) dataRow(turn int64, at, m int) int64 {
	return turn*int64(g.Data()) + int64(at-g.parityAt(m).below(at))
}

func (g Group) parityRow(turn int64, at, m int) int64 {
	return turn*int64(g.Parity) + int64(g.parityAt(m).below(at))
}

func (g Group) member(owner int) int {
	m := owner - g.First
	if m < 0 || m >= g.Size {
		panic(fmt.Sprintf("ec: owner %d is not in the group of owners %d to %d", owner, g.First, g.First+g.Size-1))
	}
	return m
}

// arc is the length places from begin on, of size places in a circle: places 0 up
// to what went round, and begin up to the end.
type arc struct{ begin, length, size int }

// round is how many places of the arc went round, and so begin at 0.
func (a arc) round() int { return max(0, a.begin+a.length-a.size) }

// below counts the places of the arc below x.
func (a arc) below(x int) int {
	return min(x, a.round()) + min(max(0, x-a.begin), a.length)
}

// inside is the i-th place of the arc, counted upwards.
func (a arc) inside(i int) int {
	if round := a.round(); i >= round {
		return a.begin + i - round
	}
	return i
}

// outside is the i-th place that is not in the arc, counted upwards.
func (a arc) outside(i int) int {
	x := i + a.round()
	if x >= a.begin {
		x += a.length
	}
	return x
}

// divide is a row or stripe's turn and its place there.
func divide(x int64, by int) (turn int64, at int) {
	if x < 0 || by == 0 {
		panic(fmt.Sprintf("ec: row or stripe %d, %d to a turn", x, by))
	}
	if x <= math.MaxUint32 { // as nearly always; wide divisions are slow on many CPUs
		q := uint32(x) / uint32(by)
		return int64(q), int(uint32(x) - q*uint32(by))
	}
	turn = x / int64(by)
	return turn, int(x - turn*int64(by))
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
