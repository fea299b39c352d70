package rowlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/zeebo/xxh3"
)

// Open opens the log of a folder, which may be empty. It writes nothing. The log ends before the first segment that
// is damaged and was not durable; CutTo removes the rest. A log of another run is a Foreign error, and one of another format a Format error.
func Open(o Options) (*Log, error) {
	if o.FileBytes == 0 {
		o.FileBytes = defaultFileBytes
	}
	if o.Lock == nil {
		o.Lock = noLock{}
	}
	l := &Log{o: o, layout: layout{o.Lineage, o.Owner, o.Owners, o.RowBytes}}
	numbers, err := o.Dir.List()
	if err != nil {
		return nil, err
	}
	for _, n := range numbers {
		f := &logFile{number: n}
		if f.File, err = o.Dir.Open(n); err == nil {
			l.files = append(l.files, f)
			f.size, err = f.Size()
		}
		if err != nil {
			l.Close()
			return nil, err
		}
	}
	l.ready = len(l.files) == 0
	if err := l.scan(); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// listed is a file that the head of a later one lists: its number, its size, and the number of segments up to its end.
type listed struct {
	number uint64
	size   int64
	end    uint64
}

// scan finds the files and segments of the log, and fills the index. A file is durable before the next one is made, so
// only the newest file can be torn.
func (l *Log) scan() error {
	var found []segment // of the newest file
	n := len(l.files) - 1
	for ; n >= 0; n-- {
		var err error
		if found, err = l.scanLast(l.files[n]); err != nil {
			return err
		}
		if len(found) > 0 {
			break
		}
	}
	l.dropped = nil
	for _, f := range l.files[n+1:] { // they are torn
		l.dropped = append(l.dropped, dropped{f, 0})
	}
	if n < 0 {
		l.files = nil
		return nil
	}
	last := l.files[n]
	before, err := l.filesBefore(found)
	if err != nil {
		return err
	}
	kept := make([]*logFile, 0, len(before)+1)
	for _, f := range l.files[:n] {
		if !slices.ContainsFunc(before, func(x listed) bool { return x.number == f.number }) {
			l.dropped = append(l.dropped, dropped{f, 0})
			continue
		}
		kept = append(kept, f)
	}
	l.files = append(kept, last)
	for _, x := range before {
		i := slices.IndexFunc(kept, func(f *logFile) bool { return f.number == x.number })
		if i < 0 {
			return &Corrupt{x.number, 0, errors.New("the file is missing")}
		}
		if err := l.scanListed(kept[i], x); err != nil {
			return err
		}
	}
	for _, s := range found {
		l.add(last, s)
	}
	last.size = found[len(found)-1].end(l.layout)
	for i := range l.dropped { // files that are listed no longer: the segments that say so must be durable first
		if l.dropped[i].file.number < last.number {
			l.dropped[i].after = l.number
		}
	}
	return l.buildIndex()
}

// scanLast returns the segments of a file that may be torn, none if it has no head. It reads those that were not durable
// completely.
func (l *Log) scanLast(f *logFile) (found []segment, err error) {
	at, durable := int64(0), int64(0)
	for at < f.size {
		s, err := l.readHead(f, at)
		if err == nil && (len(found) == 0) != (s.kind == kindFile) || len(found) > 0 && err == nil && s.number != found[len(found)-1].number+1 {
			err = &Corrupt{f.number, at, errNoHead}
		}
		if isDamage(err) || len(found) > 0 && errors.As(err, new(*Foreign)) {
			if err := l.checkEnd(f, at); err != nil {
				return nil, err
			}
			break
		}
		if err != nil {
			return nil, err
		}
		found, at, durable = append(found, s), s.end(l.layout), max(durable, s.durable)
	}
	for i := range found {
		s := &found[i]
		if s.at < durable {
			continue
		}
		if err = l.verify(f, s); isDamage(err) {
			found = found[:i]
			break
		}
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// checkEnd checks that no head after an offset, at which there is no segment, shows that the file was durable beyond.
func (l *Log) checkEnd(f *logFile, at int64) error {
	for next := at + Align; next < f.size; next += Align {
		s, err := l.readHead(f, next)
		if err != nil && !isDamage(err) && !errors.As(err, new(*Foreign)) {
			return err
		}
		if err == nil && s.durable > at {
			return &Corrupt{f.number, at, fmt.Errorf("no head of a segment, and the file was durable up to offset %d", s.durable)}
		}
	}
	return nil
}

// filesBefore lists the files that must exist beside the newest one, by its segments.
func (l *Log) filesBefore(found []segment) (before []listed, err error) {
	for i := range found {
		s := &found[i]
		if s.kind != kindFile && s.kind != kindDrop {
			continue
		}
		b, err := l.readExtraOf(l.fileNumbered(s.file), s)
		if err != nil {
			return nil, err
		}
		x := wordsOf(b)
		if s.kind == kindDrop {
			before = slices.DeleteFunc(before, func(f listed) bool { return slices.Contains(x, f.number) })
			continue
		}
		for ; len(x) >= 3; x = x[3:] {
			before = append(before, listed{x[0], int64(x[1]), x[2]})
		}
	}
	return before, nil
}

// fileNumbered returns a file by its number, before files is final.
func (l *Log) fileNumbered(number uint64) *logFile {
	return l.files[slices.IndexFunc(l.files, func(f *logFile) bool { return f.number == number })]
}

// scanListed adds the segments of a file, all of which are durable.
func (l *Log) scanListed(f *logFile, x listed) error {
	if f.size < x.size {
		return &Corrupt{f.number, f.size, fmt.Errorf("the file has %d bytes, and had %d", f.size, x.size)}
	}
	f.size, f.durable = x.size, x.size
	for at := int64(0); at < f.size; {
		s, err := l.readHead(f, at)
		if err != nil {
			return err
		}
		if at > 0 && s.number != l.number || (at == 0) != (s.kind == kindFile) {
			return &Corrupt{f.number, at, errNoHead}
		}
		l.add(f, s)
		at = s.end(l.layout)
	}
	if l.number != x.end {
		return &Corrupt{f.number, f.size, fmt.Errorf("%d segments up to the end of the file, and there were %d", l.number, x.end)}
	}
	return nil
}

// buildIndex finds epochs, cuts, the settled step and the newest versions of rows from the segments.
func (l *Log) buildIndex() error {
	l.epochs, l.cuts = l.epochs[:0], l.cuts[:0]
	clear(l.newest)
	for _, f := range l.files {
		for _, id := range f.segments {
			s := &l.segments[id]
			s.live, l.settled = 0, max(l.settled, s.settled)
			switch s.kind {
			case kindEpoch:
				l.epochs = append(l.epochs, id)
			case kindCut:
				b, err := l.readExtra(s)
				if err != nil {
					return err
				}
				if len(b) != 8 {
					return &Corrupt{s.file, s.at, errNoHead}
				}
				l.cuts = append(l.cuts, cut{s.step, binary.LittleEndian.Uint64(b), s.file})
			}
		}
	}
	l.epochs = slices.DeleteFunc(l.epochs, func(id uint32) bool { return l.isVoid(&l.segments[id]) })
	if !slices.IsSortedFunc(l.epochs, func(a, b uint32) int { return int(max(-1, min(1, l.segments[a].step-l.segments[b].step))) }) {
		return &Corrupt{l.last().number, 0, errors.New("the steps of its epochs do not ascend")}
	}
	for _, f := range l.files {
		for _, id := range f.segments {
			s := &l.segments[id]
			if s.rows == 0 || l.isVoid(s) {
				continue
			}
			slots, err := l.readSlots(s)
			if err != nil {
				return err
			}
			l.point(id, slots)
		}
	}
	return nil
}

// isVoid reports whether a segment does not count: a cut has removed its epoch, or the epoch is not complete.
func (l *Log) isVoid(s *segment) bool {
	if s.kind != kindEpoch && s.kind != kindPart {
		return false
	}
	if slices.ContainsFunc(l.cuts, func(c cut) bool { return s.step > c.step && s.number < c.before }) {
		return true
	}
	if s.kind == kindEpoch {
		return false
	}
	i, ok := l.findEpoch(s.step)
	return !ok || l.segments[l.epochs[i]].number < s.number
}

// readHead reads the head of a segment.
func (l *Log) readHead(f *logFile, at int64) (s segment, err error) {
	if f.size-at < headSize {
		return s, &Corrupt{f.number, at, errNoHead}
	}
	head := make([]byte, headSize)
	if err := f.ReadAll([]Part{{at, head}}); err != nil {
		return s, err
	}
	if s, err = decode(head, l.layout, f.number, at, f.size); errors.Is(err, errNoHead) {
		err = &Corrupt{f.number, at, err}
	}
	return s, err
}

// readSlots reads the slots of a segment.
func (l *Log) readSlots(s *segment) ([]int32, error) { return l.readSlotsOf(l.file(s.file), s) }

func (l *Log) readSlotsOf(f *logFile, s *segment) ([]int32, error) {
	b := make([]byte, 4*s.rows)
	if err := f.ReadAll([]Part{{s.at + headSize, b}}); err != nil {
		return nil, err
	}
	err := error(nil)
	if xxh3.Hash(b) != s.slotSum {
		err = errors.New("the sum of its slots is wrong")
	}
	var slots []int32
	if err == nil {
		slots, err = decodeSlots(b, s.rows, l.o.Slots)
	}
	if err != nil {
		return nil, &Corrupt{s.file, s.at, err}
	}
	return slots, nil
}

// readExtra reads the extra part of a segment.
func (l *Log) readExtra(s *segment) ([]byte, error) { return l.readExtraOf(l.file(s.file), s) }

func (l *Log) readExtraOf(f *logFile, s *segment) ([]byte, error) {
	b := make([]byte, s.extra)
	if err := f.ReadAll([]Part{{s.extraAt(l.layout), b}}); err != nil {
		return nil, err
	}
	if xxh3.Hash(b) != s.exSum {
		return nil, &Corrupt{s.file, s.at, errors.New("the sum of the extra part is wrong")}
	}
	return b, nil
}

// verifyBytes is how many bytes of rows are verified at a time.
const verifyBytes = 1 << 20

// verify compares all sums of a segment.
func (l *Log) verify(f *logFile, s *segment) error {
	slots, err := l.readSlotsOf(f, s)
	if err != nil {
		return err
	}
	record := int(l.recordSize())
	step := max(1, verifyBytes/record)
	chunk := make([]byte, min(step, len(slots))*record)
	for n := 0; n < len(slots); n += step {
		b := chunk[:min(step, len(slots)-n)*record]
		if err := f.ReadAll([]Part{{s.place(int64(n), l.layout), b}}); err != nil {
			return err
		}
		for k := 0; k < len(b); k += record {
			if err := checkRow(s, slots[n+k/record], b[k:k+record]); err != nil {
				return err
			}
		}
	}
	_, err = l.readExtraOf(f, s)
	return err
}

var errRowSum = errors.New("the sum of a row is wrong")

// checkRow checks the sum in front of a row of a segment.
func checkRow(s *segment, slot int32, record []byte) error {
	if !isIntact(s.seed, slot, record) {
		return &Corrupt{s.file, s.at, errRowSum}
	}
	return nil
}

// isIntact reports whether a record has the sum of its row, of a slot and of a segment with a seed.
func isIntact(seed uint64, slot int32, record []byte) bool {
	return binary.LittleEndian.Uint32(record) == rowSum(seed, slot, record[sumSize:])
}
