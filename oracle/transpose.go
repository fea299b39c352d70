package oracle

// Ids and indexes are transposed in blocks of samples that fit the innermost cache.
const blockSamples = 64

// readIDs distributes ids, (samples, tables), to the tables.
func (p *Plan) readIDs(ids []uint32) {
	tables := len(p.tables)
	for first := 0; len(ids) > 0; first += blockSamples {
		n := min(blockSamples*tables, len(ids))
		for t := range p.tables {
			readTable(p.tables[t].of[first:][:n/tables], ids[t:n], tables)
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
func (p *Plan) writeIndex() {
	tables := len(p.tables)
	index := p.Index
	for first := 0; len(index) > 0; first += blockSamples {
		n := min(blockSamples*tables, len(index))
		for t := range p.tables {
			writeTable(index[t:n], p.tables[t].of[first:][:n/tables], tables)
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
