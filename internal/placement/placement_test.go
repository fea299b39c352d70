package placement

import "testing"

// Every row has one place, and the slots of an owner are dense.
func TestEveryRowHasOnePlace(t *testing.T) {
	for _, owners := range []int{1, 2, 3, 5, 8} {
		m := New([]int64{7, 1, 100, 3}, owners)
		seen := make([]int64, owners)
		for g := range m.Rows() {
			owner, slot := int(g)%owners, g/int64(owners)
			if slot != seen[owner] {
				t.Fatalf("%d owners: row %d is in slot %d of owner %d, after %d rows", owners, g, slot, owner, seen[owner])
			}
			seen[owner]++
			if back := m.Global(owner, slot); back != g {
				t.Fatalf("%d owners: slot %d of owner %d is row %d, want %d", owners, slot, owner, back, g)
			}
			if f := m.FirstSlot(owner, g); f != slot {
				t.Fatalf("%d owners: first slot from row %d is %d, want %d", owners, g, f, slot)
			}
			if table := m.Table(g); g < m.Base[table] || g >= m.Base[table+1] {
				t.Fatalf("row %d is not in table %d", g, table)
			}
		}
		for o, n := range seen {
			if m.Slots(o) != n {
				t.Fatalf("%d owners: owner %d has %d slots, counted %d", owners, o, m.Slots(o), n)
			}
		}
	}
}
