package kernels

// RowInit draws the initial weights of embedding rows: a pure function of
// (Seed, table, id), so that a row never touched costs nothing to hold, to
// protect or to recover (DESIGN.md section 3). Weight j of a row of a table with
// n rows is uniform in (-sqrt(1/n), sqrt(1/n)), as in the reference DLRM.
type RowInit struct {
	Seed uint64
	// Owners and Owner place rows: slot s is global row s*Owners + Owner.
	Owners, Owner int
	// Base holds the first global row of each table and, last, the row count.
	Base []int64
	// Scale holds sqrt(1/rows) of each table.
	Scale []float32
	// Width is how many weights a row has.
	Width int
}
