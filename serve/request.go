package serve

import "bytes"

// requestReader reads the JSON of requests. It belongs to one goroutine.
type requestReader struct {
	*rowReader
	scanner
	lists []byte // the bags of a batch
	found []int  // by key, fields of a row by position
}

// maxDepth is how deep values of columns that the model does not read may be.
const maxDepth = 32

// beginRequest begins with a request, and reads up to its first row.
func (r *requestReader) beginRequest(text []byte) error {
	r.scanner = scanner{text: text, scratch: r.scratch[:0]}
	if err := r.expect('{', "at the beginning"); err != nil {
		return err
	}
	key, err := r.key()
	if err != nil {
		return err
	}
	if string(key) != "rows" {
		return r.errorf(`the key "rows" is missing`)
	}
	return r.expect('[', `after "rows"`)
}

// endRequest reads the text behind the last row.
func (r *requestReader) endRequest() error {
	if err := r.expect('}', "at the end"); err != nil {
		return err
	}
	if r.next() != 0 || r.at < len(r.text) {
		return r.errorf("text follows the request")
	}
	return nil
}

// readBatch fills the batch with the next rows. first is the number of rows before them. More reports whether others may follow.
func (r *requestReader) readBatch(first int) (n int, more bool, err error) {
	r.beginBatch()
	r.lists, r.scratch = r.lists[:0], r.scratch[:0]
	for r.takesMore(n) {
		if more, err = r.more(first+n == 0, ']'); err != nil || !more {
			return n, false, inRow(first+n, err)
		}
		r.beginRow()
		if err = r.readRow(); err == nil {
			err = r.endRow(n)
		}
		if err != nil {
			return n, false, inRow(first+n, err)
		}
		n++
	}
	return n, true, nil
}

// readRow reads the fields of a row.
func (r *requestReader) readRow() error {
	if err := r.expect('{', "at the beginning of a row"); err != nil {
		return err
	}
	for first := true; ; first = false {
		more, err := r.scanner.more(first, '}')
		if err != nil || !more {
			return err
		}
		key, err := r.key()
		if err != nil {
			return err
		}
		if r.way == rowsByName {
			err = r.readColumn(key)
		} else {
			err = r.readPositions(key)
		}
		if err != nil {
			return err
		}
	}
}

// readColumn reads the value of a column.
func (r *requestReader) readColumn(key []byte) error {
	uses := r.uses[string(key)]
	if uses == nil {
		return r.skipValue()
	}
	return r.readValue(uses)
}

// readPositions reads the list of the fields of a row.
func (r *requestReader) readPositions(key []byte) error {
	at, end := 0, r.dense
	switch string(key) {
	case "dense":
	case "ids":
		at, end = r.dense, len(r.names)
	default:
		return r.errorf(`a row has the keys "dense" and "ids", not %.40q`, key)
	}
	if err := r.expect('[', "after the key"); err != nil {
		return err
	}
	for first := at; ; at++ {
		more, err := r.scanner.more(at == first, ']')
		if err != nil {
			return err
		}
		if more != (at < end) {
			return r.errorf("the list has %d values, the model %d", at-first+btoi(more), end-first)
		}
		if !more {
			return nil
		}
		r.found = append(r.found[:0], at)
		if err := r.readValue(r.found); err != nil {
			return err
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// readValue reads the value of some fields.
func (r *requestReader) readValue(uses []int) error {
	if r.next() == '[' {
		return r.readList(uses)
	}
	text, k, err := r.scalar()
	if err != nil {
		return err
	}
	for _, i := range uses {
		if err := r.setField(i, textOf(text, k, i < r.dense)); err != nil {
			return err
		}
	}
	return nil
}

// textOf is the text of a value, as a file of text has it. A truth value is 1 or 0 in a column of numbers.
func textOf(text []byte, k kind, number bool) []byte {
	switch {
	case k == kindTrue && number:
		return []byte("1")
	case k == kindFalse && number:
		return []byte("0")
	case k == kindTrue:
		return []byte("true")
	case k == kindFalse:
		return []byte("false")
	}
	return text
}

// readList reads the ids of a bag.
func (r *requestReader) readList(uses []int) error {
	r.at++
	begin := len(r.lists)
	for first := true; ; first = false {
		more, err := r.scanner.more(first, ']')
		if err != nil {
			return err
		}
		if !more {
			break
		}
		text, k, err := r.scalar()
		if err != nil {
			return err
		}
		if bytes.IndexByte(text, listSeparator) >= 0 {
			return r.errorf("the character 0 is in an id")
		}
		if !first {
			r.lists = append(r.lists, listSeparator)
		}
		r.lists = append(r.lists, textOf(text, k, false)...)
	}
	for _, i := range uses {
		if err := r.setList(i, r.lists[begin:]); err != nil {
			return err
		}
	}
	return nil
}

// skipValue skips any value.
func (r *requestReader) skipValue() error {
	var ends []byte // of the lists and objects around
	for first := false; ; first = false {
		switch r.next() {
		case '[', '{':
			if len(ends) == maxDepth {
				return r.errorf("values in values, over %d deep", maxDepth)
			}
			ends = append(ends, r.text[r.at]+2) // ']' and '}' are two behind their beginnings
			r.at++
			first = true
		default:
			if _, _, err := r.scalar(); err != nil {
				return err
			}
		}
		for {
			if len(ends) == 0 {
				return nil
			}
			end := ends[len(ends)-1]
			more, err := r.scanner.more(first, end)
			if err != nil {
				return err
			}
			if more {
				if end == '}' {
					if _, err := r.key(); err != nil {
						return err
					}
				}
				break
			}
			ends, first = ends[:len(ends)-1], false
		}
	}
}
