package lrpp

// Moved counts what travels between ranks: a row or its gradient, once for each
// rank that receives it; Critical ones are waited for, Delayed ones move while a
// step computes.
type Moved struct{ Critical, Delayed Traffic }

// Traffic is messages of the size of a row, with or without its state.
type Traffic struct{ Rows, Bytes int64 }

// Add adds o.
func (m *Moved) Add(o Moved) {
	m.Critical.Rows, m.Critical.Bytes = m.Critical.Rows+o.Critical.Rows, m.Critical.Bytes+o.Critical.Bytes
	m.Delayed.Rows, m.Delayed.Bytes = m.Delayed.Rows+o.Delayed.Rows, m.Delayed.Bytes+o.Delayed.Bytes
}

// add counts rows that come from ranks, but those of this one.
func (t *Traffic) add(perRank []int, me, rowBytes int) {
	for r, n := range perRank {
		if r != me {
			t.Rows += int64(n)
			t.Bytes += int64(n * rowBytes)
		}
	}
}
