package rowlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"github.com/zeebo/xxh3"
)

// Options describe a log.
type Options struct {
	Dir Dir
	// Lineage identifies the run. Rows of another one are not read.
	Lineage [16]byte
	// Owner is one of Owners that the rows are spread over.
	Owner, Owners int
	RowBytes      int
	Slots         int64 // rows of the owner
	// FileBytes is the size from which on a file is full. 0: defaultFileBytes.
	FileBytes int64
}

const defaultFileBytes = 1 << 30

// Log is the log of one owner. It is used by one goroutine at a time.
type Log struct {
	o Options
	layout
	files    []*logFile // by number
	segments []segment  // in the order of writing
	seeds    []uint64   // of the segments
	newest   []entry    // by slot
	durable  int64      // the last step that is durable
	dirSaved bool       // the names of all files are durable
	buf      []byte     // of writes; aligned
	ready    bool       // nothing follows the last segment on the disk
	broken   error      // a failed Append could not be undone, or a Sync failed
}

// logFile is a file of a log.
type logFile struct {
	File
	number uint64
	size   int64
	synced bool
}

// entry is the place of the newest version of a row. The zero entry means that the log does not hold the row.
type entry struct {
	segment uint32 // its index, plus 1
	place   uint32 // in the segment
}

// Corrupt is the error of bytes that differ from the written ones.
type Corrupt struct {
	File uint64
	At   int64
	Err  error
}

func (e *Corrupt) Error() string {
	return fmt.Sprintf("file %d of the log, offset %d: damaged: %v", e.File, e.At, e.Err)
}

func (e *Corrupt) Unwrap() error { return e.Err }

// Open opens the log of a folder, which may be empty. It writes nothing. The log ends before the first segment that
// is damaged; CutTo removes the rest.
func Open(o Options) (*Log, error) {
	if o.FileBytes == 0 {
		o.FileBytes = defaultFileBytes
	}
	l := &Log{o: o, layout: layout{o.Lineage, o.Owner, o.Owners, o.RowBytes}, newest: make([]entry, o.Slots)}
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
	if err := l.scan(); err != nil {
		l.Close()
		return nil, err
	}
	l.ready = len(l.files) == 0
	return l, nil
}

// scan reads the heads of all files, and the rows of segments that may be torn.
func (l *Log) scan() error {
	l.segments, l.seeds, l.durable = l.segments[:0], l.seeds[:0], 0
	clear(l.newest)
	known := int64(0) // the durable step, by the heads
	for i, f := range l.files {
		for at := int64(0); at < f.size; {
			s, err := l.readHead(f, at)
			if err != nil && !isDamage(err) {
				return err
			}
			if err != nil || s.after != l.Step() || s.step <= l.Step() {
				if err := l.checkEnd(i, f, at); err != nil {
					return err
				}
				return l.verifyTail(known)
			}
			known = max(known, s.durable)
			l.add(s)
			at = s.end(l.layout)
		}
	}
	return l.verifyTail(known)
}

// checkEnd checks that no later file shows that the log was durable beyond the offset of file i at which no segment
// follows.
func (l *Log) checkEnd(i int, f *logFile, at int64) error {
	for _, later := range l.files[i+1:] {
		s, err := l.readHead(later, 0)
		if err != nil && !isDamage(err) {
			return err
		}
		if err == nil && s.durable > l.Step() {
			return &Corrupt{f.number, at, fmt.Errorf("the log ends after step %d, and was durable up to step %d", l.Step(), s.durable)}
		}
	}
	return nil
}

// isDamage reports whether an error is of the content of a file. Others are of the disk.
func isDamage(err error) bool {
	return errors.As(err, new(*Corrupt))
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
	if s, err = decode(head, l.layout, f.number, at, f.size); err != nil {
		return s, &Corrupt{f.number, at, err}
	}
	return s, nil
}

// readSlots reads the slots of a segment.
func (l *Log) readSlots(s *segment) ([]int32, error) {
	b := make([]byte, 4*s.rows)
	if err := l.file(s.file).ReadAll([]Part{{s.at + headSize, b}}); err != nil {
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

func (l *Log) file(number uint64) *logFile {
	for i := len(l.files) - 1; i >= 0; i-- {
		if l.files[i].number == number {
			return l.files[i]
		}
	}
	panic(fmt.Sprintf("rowlog: no file %d", number))
}

// add adds a segment behind the others.
func (l *Log) add(s segment) {
	l.segments = append(l.segments, s)
	l.seeds = append(l.seeds, s.seed(l.layout))
}

// verifyTail fills the index. It reads all of the segments behind the durable step, which may be torn, and ends the log
// before the first that is damaged.
func (l *Log) verifyTail(durable int64) error {
	for i := range l.segments {
		s := &l.segments[i]
		slots, err := l.readSlots(s)
		if err == nil && s.step > durable {
			err = l.verifySegment(i, slots)
		}
		if isDamage(err) && s.step > durable {
			l.segments, l.seeds = l.segments[:i], l.seeds[:i]
			break
		}
		if err != nil {
			return err
		}
		l.point(i, slots)
	}
	l.durable = min(durable, l.Step())
	return nil
}

// point makes a segment the newest place of its slots.
func (l *Log) point(i int, slots []int32) {
	for place, slot := range slots {
		l.newest[slot] = entry{uint32(i + 1), uint32(place)}
	}
}

// verifyBytes is how many bytes of rows are verified at a time.
const verifyBytes = 1 << 20

// verifySegment compares the sums of all rows of a segment, and of its extra part.
func (l *Log) verifySegment(i int, slots []int32) error {
	s, record := &l.segments[i], int(l.recordSize())
	f, step := l.file(s.file), max(1, verifyBytes/record)
	chunk := make([]byte, step*record)
	for n := 0; n < len(slots); n += step {
		b := chunk[:min(step, len(slots)-n)*record]
		if err := f.ReadAll([]Part{{s.place(int64(n), l.layout), b}}); err != nil {
			return err
		}
		for k := 0; k < len(b); k += record {
			if err := l.checkRow(i, slots[n+k/record], b[k:k+record]); err != nil {
				return err
			}
		}
	}
	_, err := l.readExtra(s)
	return err
}

var errRowSum = errors.New("the sum of a row is wrong")

// checkRow checks the sum in front of a row of a segment.
func (l *Log) checkRow(i int, slot int32, record []byte) error {
	if binary.LittleEndian.Uint32(record) != rowSum(l.seeds[i], slot, record[sumSize:]) {
		return &Corrupt{l.segments[i].file, l.segments[i].at, errRowSum}
	}
	return nil
}

func (l *Log) readExtra(s *segment) ([]byte, error) {
	b := make([]byte, s.extra)
	if err := l.file(s.file).ReadAll([]Part{{s.extraAt(l.layout), b}}); err != nil {
		return nil, err
	}
	if xxh3.Hash(b) != s.exSum {
		return nil, &Corrupt{s.file, s.at, errors.New("the sum of the extra part is wrong")}
	}
	return b, nil
}

// Step is the step of the newest segment, 0 if there is none.
func (l *Log) Step() int64 {
	if len(l.segments) == 0 {
		return 0
	}
	return l.segments[len(l.segments)-1].step
}

// Durable is the last step whose segment survives a loss of power. It may be too early a step after Open, until
// CutTo or Sync.
func (l *Log) Durable() int64 { return l.durable }

// Has reports whether the log holds a row.
func (l *Log) Has(slot int32) bool { return l.newest[slot].segment != 0 }

// Extra returns the extra part of the newest segment.
func (l *Log) Extra() ([]byte, error) {
	if len(l.segments) == 0 {
		return nil, errors.New("rowlog: the log is empty")
	}
	return l.readExtra(&l.segments[len(l.segments)-1])
}

// CutTo removes the segments of steps after a step, durably. The log then ends with the newest segment of a step up to
// that one. After an error only Close may be called.
func (l *Log) CutTo(step int64) error {
	n := len(l.segments)
	for n > 0 && l.segments[n-1].step > step {
		n--
	}
	end := int64(0)
	keep := 0 // files
	if n > 0 {
		last := &l.segments[n-1]
		end = last.end(l.layout)
		for l.files[keep].number != last.file {
			keep++
		}
		keep++
	}
	for i := len(l.files) - 1; i >= keep; i-- {
		_ = l.files[i].Close() // it is removed
		if err := l.o.Dir.Remove(l.files[i].number); err != nil {
			return err
		}
		l.files = l.files[:i]
	}
	if keep > 0 {
		f := l.files[keep-1]
		if err := f.Truncate(end); err != nil {
			return err
		}
		f.size, f.synced = end, false
	}
	cut := len(l.segments) - n
	l.segments, l.seeds, l.dirSaved, l.ready = l.segments[:n], l.seeds[:n], false, true
	if err := l.Sync(); err != nil || cut == 0 {
		return err
	}
	clear(l.newest)
	for i := range l.segments {
		slots, err := l.readSlots(&l.segments[i])
		if err != nil {
			return err
		}
		l.point(i, slots)
	}
	return nil
}

// Close closes the files. Segments that are not durable may be lost.
func (l *Log) Close() {
	for _, f := range l.files {
		_ = f.Close() // nothing depends on it: Sync reports errors of writes
	}
	l.files = nil
}

// aligned returns a buffer whose address is a multiple of Align.
func aligned(n int) []byte {
	b := make([]byte, n+Align)
	off := -int(uintptr(unsafe.Pointer(&b[0]))) & (Align - 1)
	return b[off : off+n : off+n]
}
