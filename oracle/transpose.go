package oracle

// Ids and indexes are transposeSamples in blocks of samples that fit the innermost cache.
const transposeSamples = 64

// readIDs distributes ids, (samples, tables), to the tables.
func (x *tableByTable) readIDs(ids []uint32) {
	tables := len(x.tables)
	for first := 0; len(ids) > 0; first += transposeSamples {
		n := min(transposeSamples*tables, len(ids))
		for t := range x.tables {
			readTable(x.tables[t].of[first:][:n/tables], ids[t:n], tables)
		}
		ids = ids[n:]
	}
}

//go:noinline
func readTable(of, ids []uint32, tables int) {
	l := 0
	for i := range of {
		of[i] = ids[l]
		l += tables
	}
}

// writeIndex gathers Index, (samples, tables), from the tables.
func (x *tableByTable) writeIndex(index []int32) {
	tables := len(x.tables)
	for first := 0; len(index) > 0; first += transposeSamples {
		n := min(transposeSamples*tables, len(index))
		for t := range x.tables {
			writeTable(index[t:n], x.tables[t].of[first:][:n/tables], tables)
		}
		index = index[n:]
	}
}

//go:noinline
func writeTable(index []int32, of []uint32, tables int) {
	l := 0
	for _, u := range of {
		index[l] = int32(u)
		l += tables
	}
}
