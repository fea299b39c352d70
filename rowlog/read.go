package rowlog

import (
	"cmp"
	"fmt"
	"slices"
)

// wanted is a row that is read.
type wanted struct {
	file    *logFile
	at      int64  // of its record
	seed    uint64 // of its segment's sums
	segment int64  // the offset of the segment
	row     int    // its place in dst
}

// Reader reads rows of a log, also while another goroutine appends to it, cleans it and makes it durable. It is used by one
// goroutine at a time, and not during CutTo or Close.
type Reader struct {
	l       *Log
	list    []wanted
	records RecordReader
	at      []int64 // scratch: offsets of records
}

// NewReader returns a Reader of the log.
func (l *Log) NewReader() *Reader { return &Reader{l: l} }

// Read reads the newest versions of rows to dst, one after the other. Slots may be in any order. Rows that are near
// each other in a file are read at once. It appends to missing the places in slots of those rows that the log does not hold.
func (r *Reader) Read(slots []int32, dst []byte, missing []int32) ([]int32, error) {
	if len(dst) != len(slots)*r.l.rowBytes {
		panic(fmt.Sprintf("rowlog: %d bytes for %d rows of %d", len(dst), len(slots), r.l.rowBytes))
	}
	missing = r.find(slots, missing)
	defer r.end()
	r.sortList()
	for list := r.list; len(list) > 0; {
		n := 1
		for n < len(list) && list[n].file == list[0].file {
			n++
		}
		if err := r.readFrom(list[:n], slots, dst); err != nil {
			return missing, err
		}
		list = list[n:]
	}
	return missing, nil
}

// find lists the places of rows. Their files stay open until end.
func (r *Reader) find(slots []int32, missing []int32) []int32 {
	l := r.l
	l.o.Lock.Lock()
	defer l.o.Lock.Unlock()
	r.list = r.list[:0]
	for i, slot := range slots {
		if !l.Has(slot) {
			missing = append(missing, int32(i))
			continue
		}
		e := l.newest[slot]
		s := &l.segments[e.segment-1]
		f := l.file(s.file)
		f.readers++
		r.list = append(r.list, wanted{f, s.place(int64(e.place), l.layout), s.seed, s.at, i})
	}
	return missing
}

// Sort orders slots by their places in the files, so that reads of some at a time are sequential. Rows that the log does not hold are
// first.
func (r *Reader) Sort(slots []int32) {
	missing := r.find(slots, nil)
	defer r.end()
	r.sortList()
	sorted := make([]int32, 0, len(slots))
	for _, i := range missing {
		sorted = append(sorted, slots[i])
	}
	for _, x := range r.list {
		sorted = append(sorted, slots[x.row])
	}
	copy(slots, sorted)
}

func (r *Reader) sortList() {
	slices.SortFunc(r.list, func(a, b wanted) int {
		return cmp.Or(cmp.Compare(a.file.number, b.file.number), cmp.Compare(a.at, b.at))
	})
}

func (r *Reader) end() {
	r.l.o.Lock.Lock()
	defer r.l.o.Lock.Unlock()
	for i := range r.list {
		r.list[i].file.readers--
	}
	r.list = r.list[:0]
}

// Read is that of a Reader, for rows that the log holds.
func (l *Log) Read(slots []int32, dst []byte) error {
	if l.reader == nil {
		l.reader = l.NewReader()
	}
	missing, err := l.reader.Read(slots, dst, nil)
	if len(missing) > 0 {
		panic(fmt.Sprintf("rowlog: slot %d is not in the log", slots[missing[0]]))
	}
	return err
}

// readFrom reads rows of one file, which are in the order of their places.
func (r *Reader) readFrom(list []wanted, slots []int32, dst []byte) error {
	rowBytes := r.l.rowBytes
	r.at = r.at[:0]
	for _, x := range list {
		r.at = append(r.at, x.at)
	}
	return r.records.Read(list[0].file, r.at, int(r.l.recordSize()), func(i int, record []byte) error {
		x := &list[i]
		if !isIntact(x.seed, slots[x.row], record) {
			return &Corrupt{x.file.number, x.segment, errRowSum}
		}
		copy(dst[x.row*rowBytes:(x.row+1)*rowBytes], record[sumSize:])
		return nil
	})
}

// eachBytes is about how many bytes of rows Each reads at a time.
const eachBytes = 4 << 20

// Each calls f with the newest versions of all rows, some at a time, in the order of their places in the files. The
// slices are valid until f returns.
func (l *Log) Each(f func(slots []int32, rows []byte) error) error {
	record := int(l.recordSize())
	step := max(1, eachBytes/record)
	chunk := make([]byte, step*record)
	for _, file := range l.files {
		for _, id := range file.segments {
			s := &l.segments[id]
			if s.live == 0 {
				continue
			}
			slots, err := l.readSlots(s)
			if err != nil {
				return err
			}
			for n := 0; n < len(slots); n += step {
				some := slots[n:min(n+step, len(slots))]
				b := chunk[:len(some)*record]
				if err := file.ReadAll([]Part{{s.place(int64(n), l.layout), b}}); err != nil {
					return err
				}
				if err := l.passNewest(id, some, b, f); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// passNewest calls f with those rows of a segment that are the newest. It moves them together in place.
func (l *Log) passNewest(id uint32, slots []int32, records []byte, f func(slots []int32, rows []byte) error) error {
	record, n := int(l.recordSize()), 0
	for i, slot := range slots {
		if l.newest[slot].segment != id+1 {
			continue
		}
		b := records[i*record : (i+1)*record]
		if err := checkRow(&l.segments[id], slot, b); err != nil {
			return err
		}
		copy(records[n*l.rowBytes:], b[sumSize:])
		slots[n] = slot
		n++
	}
	if n == 0 {
		return nil
	}
	return f(slots[:n], records[:n*l.rowBytes])
}
