package rowlog

import "slices"

// Bounds of reads.
const (
	maxGap    = 16 << 10 // bytes between two records that are read with them
	maxPart   = 1 << 20  // bytes of a part
	readBytes = 8 << 20  // bytes in memory, from which on no part begins
)

// RecordReader reads records of a file. One goroutine at a time uses it. It keeps its memory.
type RecordReader struct {
	spans []span
	parts []Part
	buf   []byte
}

// span is a part of a file with records.
type span struct {
	at, end int64
	records int
}

// Read reads records of some bytes at offsets that ascend, and calls do with the index of each and its bytes, in this order. Records that
// are near each other are read at once.
func (r *RecordReader) Read(f File, at []int64, size int, do func(i int, record []byte) error) error {
	for first := 0; first < len(at); {
		bytes := r.joinRecords(at[first:], int64(size))
		r.buf = slices.Grow(r.buf[:0], int(bytes))[:bytes]
		r.parts = r.parts[:0]
		rest := r.buf
		for _, s := range r.spans {
			n := s.end - s.at
			r.parts = append(r.parts, Part{s.at, rest[:n:n]})
			rest = rest[n:]
		}
		if err := f.ReadAll(r.parts); err != nil {
			return err
		}
		for k, p := range r.parts {
			for range r.spans[k].records {
				if err := do(first, p.Bytes[at[first]-p.At:][:size]); err != nil {
					return err
				}
				first++
			}
		}
	}
	return nil
}

// joinRecords joins records that are near each other to spans, up to readBytes of them. It returns their sizes in total.
func (r *RecordReader) joinRecords(at []int64, size int64) (bytes int64) {
	r.spans = r.spans[:0]
	for _, x := range at {
		if n := len(r.spans); n > 0 {
			if s := &r.spans[n-1]; x-s.end <= maxGap && x+size-s.at <= maxPart {
				bytes += x + size - s.end
				s.end, s.records = x+size, s.records+1
				continue
			}
			if bytes+size > readBytes {
				break
			}
		}
		r.spans, bytes = append(r.spans, span{x, x + size, 1}), bytes+size
	}
	return bytes
}
