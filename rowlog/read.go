package rowlog

import (
	"cmp"
	"fmt"
	"slices"
)

// Bounds of reads.
const (
	maxGap    = 16 << 10 // bytes between two rows that are read with them
	maxPart   = 1 << 20  // bytes of a part
	readBytes = 8 << 20  // bytes in memory, from which on no part begins
)

// wanted is a row that Read reads.
type wanted struct {
	file uint64
	at   int64
	row  int // its place in dst
}

// Read reads the newest versions of rows, which the log holds, to dst, one after the other. Slots may be in any order.
// Rows that are near each other in a file are read at once.
func (l *Log) Read(slots []int32, dst []byte) error {
	if len(dst) != len(slots)*l.rowBytes {
		panic(fmt.Sprintf("rowlog: %d bytes for %d rows of %d", len(dst), len(slots), l.rowBytes))
	}
	list := make([]wanted, len(slots))
	for i, slot := range slots {
		e := l.newest[slot]
		if e.segment == 0 {
			panic(fmt.Sprintf("rowlog: slot %d is not in the log", slot))
		}
		s := &l.segments[e.segment-1]
		list[i] = wanted{s.file, s.place(int64(e.place), l.layout), i}
	}
	slices.SortFunc(list, func(a, b wanted) int { return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.at, b.at)) })
	for len(list) > 0 {
		n := 1
		for n < len(list) && list[n].file == list[0].file {
			n++
		}
		if err := l.readFrom(list[:n], slots, dst); err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}

// readFrom reads rows of one file, which are in the order of their places.
func (l *Log) readFrom(list []wanted, slots []int32, dst []byte) error {
	for len(list) > 0 {
		spans, bytes := l.joinRows(list)
		l.reads = slices.Grow(l.reads[:0], int(bytes))[:bytes]
		parts := make([]Part, len(spans))
		for i, rest := 0, l.reads; i < len(spans); i++ {
			n := spans[i].end - spans[i].at
			parts[i], rest = Part{spans[i].at, rest[:n:n]}, rest[n:]
		}
		if err := l.file(list[0].file).ReadAll(parts); err != nil {
			return err
		}
		for i, p := range parts {
			for _, x := range list[:spans[i].rows] {
				if err := l.takeRow(p.Bytes[x.at-p.At:], slots[x.row], dst[x.row*l.rowBytes:][:l.rowBytes]); err != nil {
					return err
				}
			}
			list = list[spans[i].rows:]
		}
	}
	return nil
}

// span is a part of a file with rows.
type span struct {
	at, end int64
	rows    int
}

// joinRows joins rows that are near each other to spans, up to readBytes of them. It returns their sizes in total.
func (l *Log) joinRows(list []wanted) (spans []span, bytes int64) {
	record := l.recordSize()
	for _, x := range list {
		if n := len(spans); n > 0 {
			if s := &spans[n-1]; x.at-s.end <= maxGap && x.at+record-s.at <= maxPart {
				bytes += x.at + record - s.end
				s.end, s.rows = x.at+record, s.rows+1
				continue
			}
			if bytes+record > readBytes {
				break
			}
		}
		spans, bytes = append(spans, span{x.at, x.at + record, 1}), bytes+record
	}
	return spans, bytes
}

// takeRow checks a record, and copies its row.
func (l *Log) takeRow(record []byte, slot int32, to []byte) error {
	record = record[:l.recordSize()]
	if err := checkRow(&l.segments[l.newest[slot].segment-1], slot, record); err != nil {
		return err
	}
	copy(to, record[sumSize:])
	return nil
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
