package rowlog

import (
	"cmp"
	"fmt"
	"slices"
)

// Bounds of a part that is read at once.
const (
	maxGap  = 16 << 10 // bytes between two rows that are read with them
	maxPart = 1 << 20
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
	record := l.recordSize()
	var parts []Part
	var firsts []int // in list, of each part
	for i, x := range list {
		if n := len(parts); n > 0 {
			p := &parts[n-1]
			end := p.At + int64(len(p.Bytes))
			if x.at-end <= maxGap && x.at+record-p.At <= maxPart {
				p.Bytes = slices.Grow(p.Bytes, int(x.at+record-end))[:max(x.at+record, end)-p.At]
				continue
			}
		}
		parts, firsts = append(parts, Part{x.at, make([]byte, record)}), append(firsts, i)
	}
	if err := l.file(list[0].file).ReadAll(parts); err != nil {
		return err
	}
	for k, p := range parts {
		last := len(list)
		if k+1 < len(parts) {
			last = firsts[k+1]
		}
		for _, x := range list[firsts[k]:last] {
			b, slot := p.Bytes[x.at-p.At:][:record], slots[x.row]
			if err := l.checkRow(int(l.newest[slot].segment)-1, slot, b); err != nil {
				return err
			}
			copy(dst[x.row*l.rowBytes:], b[sumSize:])
		}
	}
	return nil
}
