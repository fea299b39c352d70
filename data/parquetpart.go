package data

// parquetPart is a column of some rows, in memory that is reused.
type parquetPart struct {
	narrow []uint32 // the bits of each row, if 32 are enough
	wide   []uint64 // else
	// Of bags and of kept values:
	counts []int32 // of each row: the ids of its bag, or the bytes of its value, -1 for a null
	heap   []byte  // the ids, as in a record file, or the values
	faults []rowFault
}

// rowFault is a malformed field.
type rowFault struct {
	row  int
	text []byte
	what string
}

// addFault adds a malformed field, unless its row has one.
func (p *parquetPart) addFault(f rowFault) {
	if n := len(p.faults); n == 0 || p.faults[n-1].row != f.row {
		p.faults = append(p.faults, f)
	}
}

// fillPart sets a part to the next n rows.
func (c *parquetCursor) fillPart(part *parquetPart, n int) error {
	*part = parquetPart{narrow: part.narrow[:0], wide: part.wide[:0], counts: part.counts[:0], heap: part.heap[:0], faults: part.faults[:0]}
	switch {
	case c.leaf.element > 0:
		return c.fillLists(part, n)
	case c.isText():
		return c.fillFields(part, n)
	case c.use.keep != nil:
		part.heap = append(part.heap, 0)[:0] // an empty value is no null
		return c.eachWindow(n, func(_ int, w *parquetWindow) error { c.keepValues(part, w); return nil })
	case c.use.isWide():
		part.wide = grown(part.wide, n)
	default:
		part.narrow = grown(part.narrow, n)
	}
	return c.eachWindow(n, func(row int, w *parquetWindow) (err error) {
		s := c.scratch
		if c.use.isWide() {
			to := part.wide[row:][:w.n]
			err = storeRows(to, &s.wide, w, c.use.missing, func(to []uint64) error { return c.wideBits(to, w) })
		} else {
			to := part.narrow[row:][:w.n]
			err = storeRows(to, &s.narrow, w, uint32(c.use.missing), func(to []uint32) error { return c.narrowBits(to, w) })
		}
		c.addFaults(part, row, w)
		return err
	})
}

// eachWindow calls do with the windows of the next n rows, of a column with one value a row.
func (c *parquetCursor) eachWindow(n int, do func(row int, w *parquetWindow) error) error {
	for row := 0; row < n; {
		w, err := c.nextWindow(n - row)
		if err == nil {
			err = do(row, &w)
		}
		if err != nil {
			return err
		}
		row += w.n
	}
	return nil
}

// storeRows sets to to the bits of the entries of a window. bits finds those of the values.
func storeRows[T uint32 | uint64](to []T, found *[]T, w *parquetWindow, missing T, bits func(to []T) error) error {
	if w.levels == nil {
		return bits(to)
	}
	*found = grown(*found, w.present+1)
	from := *found
	if err := bits(from[:w.present]); err != nil {
		return err
	}
	// No branch: whether a value is null is hard to predict.
	at := 0
	for i, level := range w.levels {
		x, more := from[at], 1
		if level != w.whole {
			x, more = missing, 0
		}
		to[i] = x
		at += more
	}
	return nil
}

// wideBits sets to to the bits of the values of a window.
func (c *parquetCursor) wideBits(to []uint64, w *parquetWindow) error {
	if w.index == nil {
		w.in.bad = nil
		return c.use.convert(w.in, w.first, to, c.use.texts)
	}
	if c.use.texts != nil {
		c.use.addTexts(w.in, w.index)
	}
	if !lookUp(to, c.wide, w.index) {
		return c.checkIndex(w.index)
	}
	return nil
}

// narrowBits sets to to the bits of the values of a window.
func (c *parquetCursor) narrowBits(to []uint32, w *parquetWindow) error {
	if w.index == nil {
		s := c.scratch
		s.wide = grown(s.wide, len(to))
		if err := c.wideBits(s.wide, w); err != nil {
			return err
		}
		c.use.narrowBits(to, s.wide)
		return nil
	}
	if !lookUp(to, c.narrow, w.index) {
		return c.checkIndex(w.index)
	}
	return nil
}

// lookUp sets to to the words at positions. It reports whether there are such words.
func lookUp[T uint32 | uint64](to, words []T, index []uint32) bool {
	to = to[:len(index)]
	for i, at := range index {
		if int(at) >= len(words) {
			return false
		}
		to[i] = words[at]
	}
	return true
}

// addFaults lists the malformed fields of a window, which begins at a row.
func (c *parquetCursor) addFaults(part *parquetPart, row int, w *parquetWindow) {
	if len(w.in.bad) == 0 && (w.levels == nil || c.use.fault == "") {
		return
	}
	w.eachValue(func(at int) {
		if at < 0 && c.use.fault != "" {
			part.faults = append(part.faults, rowFault{row, nil, c.use.fault})
		} else if what, ok := w.in.bad[at]; ok {
			part.faults = append(part.faults, rowFault{row, c.faultText(w.in, at, !c.use.isCategory()), what})
		}
		row++
	})
}

// faultText is a copy of the beginning of the text of a malformed value. Many rows may have one long value.
func (c *parquetCursor) faultText(v *parquetValues, at int, number bool) []byte {
	return append([]byte(nil), clipText(v.textOf(at, number, nil))...)
}

// keepValues appends the values of a window to a part.
func (c *parquetCursor) keepValues(part *parquetPart, w *parquetWindow) {
	w.eachValue(func(at int) {
		if at < 0 {
			part.counts = append(part.counts, -1)
			return
		}
		begin := len(part.heap)
		part.heap = c.use.keep(part.heap, w.in, at)
		part.counts = append(part.counts, int32(len(part.heap)-begin))
	})
}

// eachKept calls do for each value that is kept, nil for a null.
func (p *parquetPart) eachKept(do func(row int, value []byte)) {
	at := 0
	for row, n := range p.counts {
		if n < 0 {
			do(row, nil)
			continue
		}
		do(row, p.heap[at:at+int(n):at+int(n)])
		at += int(n)
	}
}

// fillFields sets a part to the ids of the next n fields, of a column with one value a row: as those of a CSV file.
func (c *parquetCursor) fillFields(part *parquetPart, n int) error {
	f := c.use.bag
	if f.separator == 0 {
		return fileErr(c.name, "column %q is named in data.csv.bags, and is no list; set data.csv.separator, or remove it there", c.leaf.Name())
	}
	ch := chunk{texts: c.use.texts, heap: part.heap}
	var scratch [64]byte
	var slot [8]byte
	err := c.eachWindow(n, func(_ int, w *parquetWindow) error {
		w.eachValue(func(at int) {
			var text []byte
			if at >= 0 {
				text = w.in.textOf(at, false, scratch[:])
			}
			begin := len(ch.heap)
			if what := f.storeBag(&ch, c.use.form, text, slot[:], begin); what != "" {
				ch.heap = ch.heap[:begin]
				part.faults = append(part.faults, rowFault{len(part.counts), append([]byte(nil), clipText(text)...), what})
			}
			part.counts = append(part.counts, int32((len(ch.heap)-begin)/f.entryBytes()))
		})
		return nil
	})
	part.heap = ch.heap
	return err
}
