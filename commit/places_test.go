package commit

import "testing"

// checkPlaces checks that parity rows with a marked column have places, and that the places are the first ones, each of one row. Rows with
// markedAll have all columns marked.
func checkPlaces(t *testing.T, p *parityRows) {
	t.Helper()
	rows := make([]int, p.placed)
	for at := range p.Rows() {
		if p.places[at] == 0 {
			if !p.isZero(at) {
				t.Fatalf("parity row %d has a marked column, and no place", at)
			}
			continue
		}
		marked := 0
		for column := range p.group.Data() {
			if p.isMarked(at, column) {
				marked++
			}
		}
		if p.places[at]&markedAll != 0 && marked < p.group.Data() {
			t.Fatalf("parity row %d counts as marked in all of %d columns, and is in %d", at, p.group.Data(), marked)
		}
		if place := int(p.placeOf(at)); place < len(rows) {
			rows[place]++
		} else {
			t.Fatalf("parity row %d has place %d of %d", at, place, len(rows))
		}
	}
	for place, n := range rows {
		if n != 1 {
			t.Fatalf("place %d is that of %d parity rows", place, n)
		}
	}
}

// TestPlacesOfParities: rows get places in the order of their first marks, and keep them when all rows become zeros. The first mark after that
// clears the bytes.
func TestPlacesOfParities(t *testing.T) {
	p := newCluster(t, "xor", 5, 4, 1, 2, 1).members[1].p
	for _, at := range []int64{7, 2, 7, 5} {
		p.markColumn(at, 1)
	}
	for place, at := range []int64{7, 2, 5} {
		if got := p.placeOf(at); got != int32(place) {
			t.Errorf("parity row %d is at %d, not %d", at, got, place)
		}
	}
	p.rows.RowRange(1, 1).Buf.Host()[0] = 1 // of row 2
	p.resetRows()
	if !p.isZero(2) {
		t.Error("after a reset a parity row differs from zeros")
	}
	p.markColumn(2, 0)
	if row := p.rows.RowRange(int(p.placeOf(2)), 1).Buf.Host(); p.placeOf(2) != 1 || row[0] != 0 {
		t.Errorf("after a reset and a mark, parity row 2 is at %d and begins with %d, not at 1 with 0", p.placeOf(2), row[0])
	}
	checkPlaces(t, p.parityRows)
}

// TestMarkedAll: a row has markedAll from the mark of its last column on, until all rows become zeros.
func TestMarkedAll(t *testing.T) {
	p := newCluster(t, "xor", 5, 4, 1, 2, 1).members[1].p
	for _, reset := range []func(){p.discardRows, p.resetRows} {
		for column, want := range []bool{false, false, false, true} {
			p.markColumn(3, column)
			p.markColumn(3, 0) // again
			checkPlaces(t, p.parityRows)
			if got := p.places[3]&markedAll != 0; got != want {
				t.Errorf("after marks of %d columns of 4, all columns are marked: %v", column+1, got)
			}
		}
		p.markRead(4, p.group.Data())
		if p.places[4]&markedAll == 0 {
			t.Error("a row that was built from a parity counts as marked in some columns")
		}
		reset()
		checkPlaces(t, p.parityRows)
	}
}
