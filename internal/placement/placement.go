package placement

import (
	"fmt"
	"sort"
)

// Map places the rows of some tables on M owners. It is immutable.
type Map struct {
	// Base holds the first global row of each table, then the number of rows.
	Base   []int64
	Owners int
}

// New places tables on a number of owners. rows holds the number of rows of each table.
func New(tables []int64, owners int) Map {
	if owners < 1 {
		panic(fmt.Sprintf("placement: %d owners", owners))
	}
	base := make([]int64, len(tables)+1)
	for t, rows := range tables {
		base[t+1] = base[t] + rows
	}
	return Map{Base: base, Owners: owners}
}

// Tables returns the number of tables.
func (m Map) Tables() int { return len(m.Base) - 1 }

// Rows returns the number of rows of all tables.
func (m Map) Rows() int64 { return m.Base[len(m.Base)-1] }

// TableRows returns the number of rows of table t.
func (m Map) TableRows(t int) int64 { return m.Base[t+1] - m.Base[t] }

// Slots returns the number of rows of an owner: its slots are [0, Slots).
func (m Map) Slots(owner int) int64 {
	return (m.Rows() - int64(owner) + int64(m.Owners) - 1) / int64(m.Owners)
}

// Global returns the global number of the row in an owner's slot.
func (m Map) Global(owner int, slot int64) int64 {
	return slot*int64(m.Owners) + int64(owner)
}

// Table returns the table that a global row belongs to.
func (m Map) Table(g int64) int {
	return sort.Search(m.Tables(), func(t int) bool { return m.Base[t+1] > g })
}

// FirstSlot returns the owner's first slot whose global row is g or later.
func (m Map) FirstSlot(owner int, g int64) int64 {
	if g <= int64(owner) {
		return 0
	}
	return (g - int64(owner) + int64(m.Owners) - 1) / int64(m.Owners)
}
