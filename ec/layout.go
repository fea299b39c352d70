package ec

import (
	"fmt"
	"slices"
)

// MaxShards is the most that k + r may be: Reed-Solomon over GF(2^8) has no more shards.
const MaxShards = 256

// Layout divides owners into groups. It is immutable.
type Layout struct {
	Owners int
	// Data and Parity are k and r: the data columns and the parities of a stripe.
	// A short last group has fewer data columns.
	Data, Parity int
}

// NewLayout divides owners into groups of k + r; the last group may be shorter. The last group
// needs a data column: if it would have only parities, the error names the nearest numbers of
// owners that work.
func NewLayout(owners, k, r int) (Layout, error) {
	if err := checkShards(k, r); err != nil {
		return Layout{}, err
	}
	l := Layout{Owners: owners, Data: k, Parity: r}
	left := owners % (k + r)
	if owners >= 1 && (left == 0 || left > r) {
		return l, nil
	}
	full := max(owners, 0) / (k + r) * (k + r) // owners of full groups
	nearest := fmt.Sprint(full + r + 1)
	if full > 0 {
		nearest = fmt.Sprintf("%d and %s", full, nearest)
	}
	return Layout{}, fmt.Errorf("ec.k = %d, ec.r = %d: %d ranks with rows in groups of %d leave %d for the last group, which needs %d or more; the nearest number that works: %s",
		k, r, owners, k+r, left, r+1, nearest)
}

func checkShards(k, r int) error {
	if k < 1 || r < 0 || k > MaxShards-r {
		return fmt.Errorf("ec.k = %d, ec.r = %d: want k >= 1, r >= 0 and k + r <= %d", k, r, MaxShards)
	}
	return nil
}

// Groups is the number of groups.
func (l Layout) Groups() int {
	n := l.Data + l.Parity
	return (l.Owners + n - 1) / n
}

// Group returns group g.
func (l Layout) Group(g int) Group {
	if g < 0 || g >= l.Groups() {
		panic(fmt.Sprintf("ec: group %d of %d", g, l.Groups()))
	}
	n := l.Data + l.Parity
	first := g * n
	return Group{First: first, Size: min(n, l.Owners-first), Parity: l.Parity}
}

// GroupOf returns the group of an owner.
func (l Layout) GroupOf(owner int) Group {
	if owner < 0 || owner >= l.Owners {
		panic(fmt.Sprintf("ec: owner %d of %d", owner, l.Owners))
	}
	return l.Group(owner / (l.Data + l.Parity))
}

// Crowded returns members of one group that are on one machine and are more than the group may
// lose: of all groups and machines the most. members is empty if there are none. machine
// returns the name of an owner's machine.
func (l Layout) Crowded(machine func(owner int) string) (g Group, members []int) {
	for i := range l.Groups() {
		group, on := l.Group(i), map[string][]int{}
		for owner := group.First; owner < group.First+group.Size; owner++ {
			m := machine(owner)
			on[m] = append(on[m], owner)
			if len(on[m]) > max(len(members), l.Parity) {
				g, members = group, on[m]
			}
		}
	}
	return g, slices.Clone(members)
}
