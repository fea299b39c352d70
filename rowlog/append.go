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
	if step <= l.Step() {
		panic(fmt.Sprintf("rowlog: step %d after %d", step, l.Step()))
	}
	id, err := l.write(segment{kind: kindEpoch, step: step}, slots, rows, extra)
	if err != nil {
		return err
	}
	l.epochs = append(l.epochs, id)
	if err := l.pointParts(step); err != nil {
		return err
	}
	l.point(id, slots)
	return nil
}

func (l *Log) writeCopy(slots []int32, rows []byte) error {
	id, err := l.write(segment{kind: kindCopy}, slots, rows, nil)
	if err == nil {
		l.point(id, slots)
	}
	return err
}

// CutTo removes the epochs after a step, durably; the log holds the step (Holds), or it is 0 and nothing stays. CutTo
// also removes what a loss of power has left. After an error only CutTo(0) and Close may be called.
func (l *Log) CutTo(step int64) error {
	if !l.Holds(step) {
		panic(fmt.Sprintf("rowlog: a cut to step %d, which no epoch ends with, or which is before the settled step %d", step, l.settled))
	}
	i, ok := l.findEpoch(step)
	l.cleaning, l.cleaned, l.parts = cleaning{}, nil, nil
	if f := l.last(); f != nil {
		if err := f.Truncate(f.size); err != nil {
			return err
		}
	}
	l.ready = true
	if err := l.removeDropped(); err != nil {
		return err
	}
	switch {
	case step == 0 && len(l.files) > 0:
		if err := l.begin(); err != nil {
			return err
		}
	case ok && i+1 < len(l.epochs):
		id, err := l.write(segment{kind: kindCut, step: step}, nil, nil, words(l.number))
		if err != nil {
			return err
		}
		s := &l.segments[id]
		l.cuts = append(l.cuts, cut{step, s.number, s.file})
		if err := l.buildIndex(); err != nil {
			return err
		}
	}
	return l.Sync()
}

// begin begins the log anew, in a file that lists no other. After an error the log is as it was.
func (l *Log) begin() error {
	old, settled := l.files, l.settled
	next := l.last().number + 1
	l.files, l.settled = nil, 0
	if err := l.create(next); err != nil {
		l.files, l.settled = old, settled
		return err
	}
	for _, f := range old {
		l.drop(f, l.number)
	}
	l.epochs, l.cuts = l.epochs[:0], l.cuts[:0]
	clear(l.newest)
	return nil
}

// write appends a segment, whose head has its kind and step, and returns its id.
func (l *Log) write(s segment, slots []int32, rows, extra []byte) (id uint32, err error) {
	if l.broken != nil {
		return 0, l.broken
	}
	if !l.ready {
		panic("rowlog: a write before CutTo")
	}
	if len(rows) != len(slots)*l.rowBytes {
		panic(fmt.Sprintf("rowlog: %d slots, %d bytes of rows", len(slots), len(rows)))
	}
	if f := l.last(); f == nil {
		err = l.create(1)
	} else if f.size >= l.o.FileBytes {
		if err = l.Sync(); err == nil {
			err = l.create(f.number + 1)
		}
	}
	if err != nil {
		return 0, err
	}
	return l.writeTo(l.last(), s, slots, rows, extra)
}

// create makes the file that is written to from now on, whose head lists the others.
func (l *Log) create(number uint64) error {
	f, err := l.o.Dir.Create(number)
	if err != nil {
		return err
	}
	var list []uint64
	for _, x := range l.files {
		list = append(list, x.number, uint64(x.size), l.segments[x.segments[len(x.segments)-1]].number+1)
	}
	x := &logFile{File: f, number: number}
	if _, err := l.writeTo(x, segment{kind: kindFile}, nil, nil, words(list...)); err != nil {
		_ = f.Close() // err is the cause
		if e := l.o.Dir.Remove(number); e != nil {
			l.broken = fmt.Errorf("rowlog: file %d cannot be removed after a failed write (%w): %w", number, err, e)
		}
		return err
	}
	l.o.Lock.Lock()
	defer l.o.Lock.Unlock()
	l.files = append(l.files, x)
	return nil
}

func (l *Log) writeTo(f *logFile, s segment, slots []int32, rows, extra []byte) (id uint32, err error) {
	s.file, s.at, s.number, s.durable, s.settled = f.number, f.size, l.number, f.durable, l.settled
	s.rows, s.extra, s.exSum = int64(len(slots)), int64(len(extra)), xxh3.Hash(extra)
	s.seed = s.seedOf(l.layout)
	if l.buf == nil {
		l.buf = aligned(writeBytes)
	}
	w := &writer{f: f, at: f.size, buf: l.buf[:0]}
	if err := l.writeSegment(w, &s, slots, rows, extra); err != nil {
		if e := f.Truncate(f.size); e != nil {
			l.broken = fmt.Errorf("rowlog: file %d cannot be cut off behind its last segment after a failed write (%w): %w", f.number, err, e)
		}
		return 0, err
	}
	f.size = s.end(l.layout)
	return l.add(f, s), nil
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
	for i, slot := range slots {
		row := rows[i*l.rowBytes : (i+1)*l.rowBytes]
		binary.LittleEndian.PutUint32(b[:], rowSum(s.seed, slot, row))
		w.write(b[:])
		w.write(row)
	}
	w.pad()
	w.write(extra)
	w.pad()
	w.flush()
	return w.err
}

// Sync makes all segments durable, and removes files that are not needed then. After an error the log takes no segments any more: the
// system may have dropped bytes that it could not write, and report success the next time.
func (l *Log) Sync() error {
	if l.broken == nil {
		l.broken = l.sync()
	}
	return l.broken
}

func (l *Log) sync() error {
	// All files but the last are durable, with their names.
	if f := l.last(); f != nil && f.durable < f.size {
		if err := f.Sync(); err != nil {
			return err
		}
		if f.durable == 0 {
			if err := l.o.Dir.Sync(); err != nil {
				return err
			}
		}
		f.durable = f.size
	}
	l.durable, l.synced = l.Step(), l.number
	return l.removeDropped()
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
