package rowlog

import (
	"encoding/binary"
	"fmt"

	"github.com/zeebo/xxh3"
)

// writeBytes is the size of a write.
const writeBytes = 1 << 20

// Append appends the rows of an epoch that ended with a step, later than all before: the slots, which ascend, the
// rows one after the other, and bytes of the caller. After an error the log is as it was.
func (l *Log) Append(step int64, slots []int32, rows, extra []byte) error {
	if l.broken != nil {
		return l.broken
	}
	if !l.ready {
		panic("rowlog: Append before CutTo")
	}
	if step <= l.Step() || len(rows) != len(slots)*l.rowBytes {
		panic(fmt.Sprintf("rowlog: step %d after %d, %d slots, %d bytes of rows", step, l.Step(), len(slots), len(rows)))
	}
	f, err := l.fileToWrite()
	if err != nil {
		return err
	}
	s := segment{file: f.number, at: f.size, step: step, after: l.Step(), durable: l.durable, rows: int64(len(slots)), extra: int64(len(extra)), exSum: xxh3.Hash(extra)}
	w := &writer{f: f, at: f.size, buf: l.writeBuffer()}
	f.synced = false
	if err := l.writeSegment(w, &s, slots, rows, extra); err != nil {
		if e := f.Truncate(f.size); e != nil {
			l.broken = fmt.Errorf("rowlog: file %d cannot be cut off behind its last segment after a failed write (%w): %w", f.number, err, e)
		}
		return err
	}
	f.size = s.end(l.layout)
	l.add(s)
	l.point(len(l.segments)-1, slots)
	return nil
}

// fileToWrite returns the last file, or a new one if that is full.
func (l *Log) fileToWrite() (*logFile, error) {
	number := uint64(1)
	if n := len(l.files); n > 0 {
		last := l.files[n-1]
		if last.size < l.o.FileBytes {
			return last, nil
		}
		number = last.number + 1
	}
	f, err := l.o.Dir.Create(number)
	if err != nil {
		return nil, err
	}
	l.dirSaved = false
	l.files = append(l.files, &logFile{File: f, number: number})
	return l.files[len(l.files)-1], nil
}

func (l *Log) writeBuffer() []byte {
	if l.buf == nil {
		l.buf = aligned(writeBytes)
	}
	return l.buf[:0]
}

func (l *Log) writeSegment(w *writer, s *segment, slots []int32, rows, extra []byte) error {
	sum := xxh3.New()
	var b [4]byte
	for _, slot := range slots {
		binary.LittleEndian.PutUint32(b[:], uint32(slot))
		_, _ = sum.Write(b[:]) // a hash takes all
	}
	s.slotSum = sum.Sum64()
	head := make([]byte, headSize)
	s.encode(head, l.layout)
	w.write(head)
	for _, slot := range slots {
		binary.LittleEndian.PutUint32(b[:], uint32(slot))
		w.write(b[:])
	}
	w.pad()
	seed := s.seed(l.layout)
	for i, slot := range slots {
		row := rows[i*l.rowBytes : (i+1)*l.rowBytes]
		binary.LittleEndian.PutUint32(b[:], rowSum(seed, slot, row))
		w.write(b[:])
		w.write(row)
	}
	w.pad()
	w.write(extra)
	w.pad()
	w.flush()
	return w.err
}

// Sync makes all segments durable. After an error the log takes no segments any more: the system may have dropped
// bytes that it could not write, and report success the next time.
func (l *Log) Sync() error {
	if l.broken == nil {
		l.broken = l.sync()
	}
	return l.broken
}

func (l *Log) sync() error {
	for _, f := range l.files {
		if f.synced {
			continue
		}
		if err := f.Sync(); err != nil {
			return err
		}
		f.synced = true
	}
	if !l.dirSaved {
		if err := l.o.Dir.Sync(); err != nil {
			return err
		}
		l.dirSaved = true
	}
	l.durable = l.Step()
	return nil
}

// writer collects bytes and writes them in large aligned pieces.
type writer struct {
	f   *logFile
	at  int64 // of the first byte of buf
	buf []byte
	err error
}

func (w *writer) write(p []byte) {
	for len(p) > 0 {
		n := copy(w.buf[len(w.buf):cap(w.buf)], p)
		w.buf = w.buf[:len(w.buf)+n]
		if p = p[n:]; len(w.buf) == cap(w.buf) {
			w.flush()
		}
	}
}

// pad fills up to a multiple of Align with zeros.
func (w *writer) pad() {
	n := int(roundUp(int64(len(w.buf)))) - len(w.buf)
	clear(w.buf[len(w.buf) : len(w.buf)+n])
	if w.buf = w.buf[:len(w.buf)+n]; len(w.buf) == cap(w.buf) {
		w.flush()
	}
}

func (w *writer) flush() {
	if w.err == nil && len(w.buf) > 0 {
		w.err = w.f.WriteAt(w.buf, w.at)
	}
	w.at += int64(len(w.buf))
	w.buf = w.buf[:0]
}
