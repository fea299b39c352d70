package oracle

// Columns are read and written in blocks of samples, which stay in the nearest
// cache meanwhile.
const blockSamples = 64

// read sets the columns to ids, (samples, tables).
func (p *Plan) read(ids []uint32) {
	tables := len(p.columns)
	for first := 0; len(ids) > 0; first += blockSamples {
		n := min(blockSamples*tables, len(ids))
		for t := range p.columns {
			readColumn(p.columns[t].of[first:][:n/tables], ids[t:n], tables)
		}
		ids = ids[n:]
	}
}

//go:noinline
func readColumn(of, ids []uint32, tables int) {
	l := 0
	for i := range of {
		of[i] = ids[l]
		l += tables
	}
}

// write sets Index to the columns.
func (p *Plan) write() {
	tables := len(p.columns)
	index := p.Index
	for first := 0; len(index) > 0; first += blockSamples {
		n := min(blockSamples*tables, len(index))
		for t := range p.columns {
			writeColumn(index[t:n], p.columns[t].of[first:][:n/tables], tables)
		}
		index = index[n:]
	}
}

//go:noinline
func writeColumn(index []int32, of []uint32, tables int) {
	l := 0
	for _, u := range of {
		index[l] = int32(u)
		l += tables
	}
}
