package commit

import (
	"testing"

	"github.com/ecrec/ecrec/ec"
	"github.com/ecrec/ecrec/internal/placement"
)

// TestTouchedParitiesStay begins commits again, as a measurement does before each block: all parity rows keep their memory and marks. Without
// TouchAll they are those of a new model.
func TestTouchedParitiesStay(t *testing.T) {
	for _, touched := range []bool{false, true} {
		m := newClusterOf(t, ec.XOR, 3, 2, 1, 2, placement.New([]int64{300}, 3), 4, 4).members[0]
		m.c.Begin(0, true)
		all := m.p.Rows() * int64(m.h.RowBytes())
		if touched {
			m.p.TouchAll()
		} else {
			m.p.markColumn(0, 0)
			all = 0
		}
		m.c.Begin(2, true)
		if got := m.p.ParityBytes(); got != all {
			t.Errorf("touched %v: parities of %d bytes count as written, want %d", touched, got, all)
		}
	}
}
