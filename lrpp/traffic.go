package lrpp

// Moved counts the rows and gradients that ranks receive from other ranks, once for each
// receiver. Ranks wait for the Critical ones. The Delayed ones are sent while a step
// computes.
type Moved struct{ Critical, Delayed Traffic }

// Traffic counts messages of the size of a row, with or without its state.
type Traffic struct{ Rows, Bytes int64 }

// Add adds o.
func (m *Moved) Add(o Moved) {
	m.Critical.Rows, m.Critical.Bytes = m.Critical.Rows+o.Critical.Rows, m.Critical.Bytes+o.Critical.Bytes
	m.Delayed.Rows, m.Delayed.Bytes = m.Delayed.Rows+o.Delayed.Rows, m.Delayed.Bytes+o.Delayed.Bytes
}

// addRows counts rows received from other ranks than this one, me.
func (t *Traffic) addRows(perRank []int, me, rowBytes int) {
	for r, n := range perRank {
		if r != me {
			t.Rows += int64(n)
			t.Bytes += int64(n * rowBytes)
		}
	}
}
