package ec

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// works reports, by counting, whether every group has a data column.
func works(owners, k, r int) bool {
	for owners > k+r {
		owners -= k + r
	}
	return owners > r
}

// TestLayoutRefuses: NewLayout accepts exactly the numbers of owners that work. An error names
// the nearest one on either side.
func TestLayoutRefuses(t *testing.T) {
	for k := 1; k <= 5; k++ {
		for r := 0; r <= 4; r++ {
			for owners := range 30 {
				_, err := NewLayout(owners, k, r)
				if works(owners, k, r) != (err == nil) {
					t.Fatalf("%d owners, k = %d, r = %d: %v", owners, k, r, err)
				}
				if err == nil {
					continue
				}
				below, above := owners-1, owners+1
				for below > 0 && !works(below, k, r) {
					below--
				}
				for !works(above, k, r) {
					above++
				}
				names := fmt.Sprint(above)
				if below > 0 {
					names = fmt.Sprintf("%d and %d", below, above)
				}
				if !strings.HasSuffix(err.Error(), ": "+names) {
					t.Fatalf("%d owners, k = %d, r = %d: %v; want the numbers %s", owners, k, r, err, names)
				}
			}
		}
	}
	for _, c := range [][2]int{{0, 1}, {1, -1}, {256, 1}, {math.MaxInt, math.MaxInt}} {
		if _, err := NewLayout(10, c[0], c[1]); err == nil || !strings.Contains(err.Error(), "want k >= 1") {
			t.Errorf("k = %d, r = %d: %v", c[0], c[1], err)
		}
	}
}

// TestGroupsDivideTheOwners: groups divide the owners in order.
func TestGroupsDivideTheOwners(t *testing.T) {
	everyLayout(func(l Layout) {
		owner := 0
		for i := range l.Groups() {
			g := l.Group(i)
			if g.First != owner || g.Size < l.Parity+1 || g.Parity != l.Parity || g.Data() != g.Size-l.Parity {
				t.Fatalf("%+v: group %d is %+v, and begins with owner %d", l, i, g, owner)
			}
			if i+1 < l.Groups() && g.Data() != l.Data {
				t.Fatalf("%+v: group %d of %d is short: %+v", l, i, l.Groups(), g)
			}
			for range g.Size {
				if of := l.GroupOf(owner); of != g {
					t.Fatalf("%+v: owner %d is in %+v, want %+v", l, owner, of, g)
				}
				owner++
			}
		}
		if owner != l.Owners {
			t.Fatalf("%+v: the groups have %d owners", l, owner)
		}
	})
}

// TestGroupAgainstDealing compares the arithmetic with the definition: the data slots and parity
// rows of a member are numbered stripe by stripe.
func TestGroupAgainstDealing(t *testing.T) {
	everyGroup(func(g Group) {
		slots, parities := make([]int64, g.Size), make([]int64, g.Size)
		for stripe := range int64(4*g.Size + 3) {
			isParity := make([]bool, g.Size)
			for j := range g.Parity {
				m := int(stripe+int64(j)) % g.Size
				if isParity[m] {
					t.Fatalf("%+v: member %d has two parities of stripe %d", g, m, stripe)
				}
				isParity[m] = true
				checkPlace(t, g, stripe, g.Data()+j, g.First+m, parities[m])
				if s, p := g.ParityStripe(g.First+m, parities[m]); s != stripe || p != j {
					t.Fatalf("%+v: parity row %d of member %d is parity %d of stripe %d, want %d of %d", g, parities[m], m, p, s, j, stripe)
				}
				parities[m]++
			}
			column := 0
			for m := range g.Size {
				if isParity[m] {
					continue
				}
				checkPlace(t, g, stripe, column, g.First+m, slots[m])
				if s, c := g.Stripe(g.First+m, slots[m]); s != stripe || c != column {
					t.Fatalf("%+v: slot %d of member %d is column %d of stripe %d, want %d of %d", g, slots[m], m, c, s, column, stripe)
				}
				slots[m]++
				column++
			}
		}
	})
}

// checkPlace checks both ways between a shard and its place.
func checkPlace(t *testing.T, g Group, stripe int64, shard, owner int, row int64) {
	t.Helper()
	if o, i := g.Holder(stripe, shard); o != owner || i != row {
		t.Fatalf("%+v: shard %d of stripe %d is row %d of owner %d, want %d of %d", g, shard, stripe, i, o, row, owner)
	}
	if s, i := g.Shard(stripe, owner); s != shard || i != row {
		t.Fatalf("%+v: owner %d holds shard %d of stripe %d in row %d, want shard %d in %d", g, owner, s, stripe, i, shard, row)
	}
}

// TestStripesCoverTheSlots: there are no more stripes than cover all slots, and an owner's parity
// rows are those of these stripes, without gaps.
func TestStripesCoverTheSlots(t *testing.T) {
	everyGroup(func(g Group) {
		for slots := range int64(3*g.Data() + 2) {
			want := int64(0)
			for owner := g.First; owner < g.First+g.Size; owner++ {
				for slot := range slots {
					stripe, _ := g.Stripe(owner, slot)
					want = max(want, stripe+1)
				}
			}
			if got := g.Stripes(slots); got != want {
				t.Fatalf("%+v: %d slots take %d stripes, want %d", g, slots, got, want)
			}
			for owner := g.First; owner < g.First+g.Size; owner++ {
				rows := int64(0)
				for stripe := range want {
					if shard, _ := g.Shard(stripe, owner); shard >= g.Data() {
						rows++
					}
				}
				if got := g.ParityRows(owner, slots); got != rows {
					t.Fatalf("%+v: owner %d has %d parity rows for %d slots, want %d", g, owner, got, slots, rows)
				}
			}
		}
	})
}

// TestBatchesShareAPattern: slots that are equal modulo the data columns share their column and
// their parity holders.
func TestBatchesShareAPattern(t *testing.T) {
	everyGroup(func(g Group) {
		for owner := g.First; owner < g.First+g.Size; owner++ {
			for slot := range int64(g.Data()) {
				stripe, column := g.Stripe(owner, slot)
				later, same := g.Stripe(owner, slot+7*int64(g.Data()))
				if column != same || later != stripe+7*int64(g.Size) {
					t.Fatalf("%+v: slot %d of owner %d is column %d of stripe %d, and 7 rotations later %d of %d", g, slot, owner,
						column, stripe, same, later)
				}
			}
		}
	})
}

// TestColumns compares Columns with Stripe and Shard for each slot.
func TestColumns(t *testing.T) {
	everyGroup(func(g Group) {
		for owner := g.First; owner < g.First+g.Size; owner++ {
			for holder := g.First; holder < g.First+g.Size; holder++ {
				columns, ok := g.Columns(owner, holder)
				for slot := range int64(3 * g.Data()) {
					stripe, column := g.Stripe(owner, slot)
					shard, row := g.Shard(stripe, holder)
					turn, x := slot/int64(g.Data()), slot%int64(g.Data())
					if want := (Column{column, shard - g.Data(), row - turn*int64(g.Parity)}); ok[x] != (shard >= g.Data()) || ok[x] &&
						columns[x] != want {
						t.Fatalf("%+v: slot %d of owner %d at %d: %+v, %v, want %+v", g, slot, owner, holder, columns[x], ok[x], want)
					}
				}
			}
		}
	})
}

// TestSeries compares Series with Shard for each stripe.
func TestSeries(t *testing.T) {
	everyGroup(func(g Group) {
		for owner := g.First; owner < g.First+g.Size; owner++ {
			turns := g.Series(owner)
			for stripe := range int64(3 * g.Size) {
				shard, row := g.Shard(stripe, owner)
				turn := turns[stripe%int64(g.Size)]
				if got := turn.Row + stripe/int64(g.Size)*turn.Step; turn.Shard != shard || got != row {
					t.Fatalf("%+v: stripe %d of owner %d: shard %d in row %d, want %d in %d", g, stripe, owner, turn.Shard, got, shard, row)
				}
			}
		}
	})
}

// FuzzGroup computes the place of a shard and the shard of that place, for numbers of any size.
func FuzzGroup(f *testing.F) {
	f.Add(uint8(5), uint8(1), uint8(2), int64(7))
	f.Add(uint8(255), uint8(3), uint8(200), int64(math.MaxInt32)*3)
	f.Add(uint8(3), uint8(2), uint8(0), int64(math.MaxInt64>>9))
	f.Fuzz(func(t *testing.T, size, parity, member uint8, row int64) {
		g := Group{First: 1000, Size: int(size) + 1}
		g.Parity = int(parity) % g.Size
		owner := g.First + int(member)%g.Size
		row &= math.MaxInt64 >> 9 // times Size fits
		stripe, column := g.Stripe(owner, row)
		checkPlace(t, g, stripe, column, owner, row)
		if g.Stripes(row+1) <= stripe {
			t.Fatalf("%+v: stripe %d of slot %d is not among %d", g, stripe, row, g.Stripes(row+1))
		}
		if g.Parity > 0 {
			stripe, j := g.ParityStripe(owner, row)
			checkPlace(t, g, stripe, g.Data()+j, owner, row)
		}
	})
}

func TestPlacesThatAreNotThere(t *testing.T) {
	l, err := NewLayout(10, 3, 1)
	if err != nil {
		t.Fatal(err)
	}
	g := l.Group(1)
	for name, call := range map[string]func(){
		"group":        func() { l.Group(3) },
		"owner":        func() { l.GroupOf(10) },
		"member below": func() { g.Stripe(3, 0) },
		"member above": func() { g.Shard(0, 8) },
		"slot":         func() { g.Stripe(4, -1) },
		"stripe":       func() { g.Holder(-1, 0) },
		"shard":        func() { g.Holder(0, 4) },
		"no parity":    func() { Group{Size: 3}.ParityStripe(0, 0) },
	} {
		mustPanic(t, name, call)
	}
}

func TestPlacingDoesNotAllocate(t *testing.T) {
	g := Group{First: 5, Size: 5, Parity: 2}
	if n := testing.AllocsPerRun(100, func() {
		stripe, column := g.Stripe(7, 1234)
		g.Holder(stripe, column)
		g.Shard(stripe, 8)
		g.ParityStripe(6, 77)
	}); n != 0 {
		t.Errorf("placing allocates %v times", n)
	}
}

// everyLayout calls f with all small layouts.
func everyLayout(f func(Layout)) {
	for k := 1; k <= 5; k++ {
		for r := range 4 {
			for owners := 1; owners <= 3*(k+r); owners++ {
				if l, err := NewLayout(owners, k, r); err == nil {
					f(l)
				}
			}
		}
	}
}

// everyGroup calls f with the groups of all small layouts.
func everyGroup(f func(Group)) {
	everyLayout(func(l Layout) {
		for i := range l.Groups() {
			f(l.Group(i))
		}
	})
}

func TestCrowded(t *testing.T) {
	for _, c := range []struct {
		k, r    int
		on      string // the machine of each owner, a letter
		first   int
		members []int
	}{
		{4, 1, "aaaaa", 0, []int{0, 1, 2, 3, 4}},
		{4, 1, "abcde", 0, nil},
		{4, 1, "abcda", 0, []int{0, 4}},
		{3, 2, "abcab", 0, nil},
		{3, 2, "abcaa", 0, []int{0, 3, 4}},
		{1, 1, "abcdeeff", 4, []int{4, 5}},
		{1, 1, "abababab", 0, nil},
	} {
		l, err := NewLayout(len(c.on), c.k, c.r)
		if err != nil {
			t.Fatal(err)
		}
		g, members := l.Crowded(func(owner int) string { return c.on[owner : owner+1] })
		if !slices.Equal(members, c.members) || g.First != c.first {
			t.Errorf("k = %d, r = %d on %s: %v of the group from %d on, want %v of %d", c.k, c.r, c.on, members, g.First, c.members, c.first)
		}
	}
}
