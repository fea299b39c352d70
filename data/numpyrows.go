package data

import "fmt"

// numpyRows is consecutive samples of a day, in memory that is reused.
type numpyRows struct {
	day   *numpyDay
	first int64 // of the day
	n     int
	buf   []byte   // the rows of each array, one array after the other
	parts [][]byte // of buf: those of each array
}

// load reads n samples of a day from a first one on.
func (r *numpyRows) load(d *numpyDay, first int64, n int) error {
	r.day, r.first, r.n = d, first, n
	r.buf = grown(r.buf, n*d.sampleBytes())
	r.parts = grown(r.parts, len(d.arrays))
	rest := r.buf
	for i := range d.arrays {
		size := n * d.arrays[i].rowBytes()
		r.parts[i], rest = rest[:size], rest[size:]
		if err := d.arrays[i].readRows(r.parts[i], first); err != nil {
			return err
		}
	}
	return nil
}

// row is sample i in an array of the day.
func (r *numpyRows) row(array, i int) []byte {
	size := r.day.arrays[array].rowBytes()
	return r.parts[array][i*size:][:size]
}

// findFault returns the first mistake in sample i, nil if there is none.
func (r *numpyRows) findFault(i int) *Error {
	d := r.day
	for k := range d.arrays {
		a := &d.arrays[k]
		for j, row := 0, r.row(k, i); j < a.columns; j++ {
			b, what := row[j*a.kind.bytes():], ""
			switch {
			case a == d.labels():
				if x := a.kind.number(b); x != 0 && x != 1 {
					what = fmt.Sprintf("the label is %v, and must be 0 or 1", x)
				}
			case a == d.dense():
				if x := a.kind.number(b); x-x != 0 {
					what = fmt.Sprintf("number %d is %v", j+1, x)
				}
			default:
				if x := a.kind.integer(b); x < 0 {
					what = fmt.Sprintf("id %d is %d, and must not be negative", j+1, x)
				}
			}
			if what != "" {
				return a.failAt(r.first+int64(i), what+`; repair the file, or set data.on_error = "skip"`)
			}
		}
	}
	return nil
}
