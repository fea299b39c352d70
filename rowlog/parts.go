package rowlog

import (
	"fmt"
	"slices"
)

// AppendPart appends some rows of an epoch. Append with the same step completes the epoch, and its own rows replace those of the parts.
// Without it the parts do not count.
func (l *Log) AppendPart(step int64, slots []int32, rows []byte) error {
	id, err := l.write(segment{kind: kindPart, step: step}, slots, rows, nil)
	if err == nil {
		l.parts = append(l.parts, id)
	}
	return err
}

// pointParts makes the parts of an epoch that is complete now the newest places of their slots.
func (l *Log) pointParts(step int64) error {
	for _, id := range l.parts {
		s := &l.segments[id]
		if s.step != step {
			continue
		}
		slots, err := l.readSlots(s)
		if err != nil {
			l.broken = fmt.Errorf("rowlog: part of step %d: %w", step, err)
			return l.broken
		}
		l.point(id, slots)
	}
	l.parts = l.parts[:0]
	return nil
}

// DropParts removes the parts at the end of the log, whose epoch is not complete. So their space is free for another attempt. After an error
// the log takes no segments any more.
func (l *Log) DropParts() error {
	if l.broken == nil {
		l.broken = l.dropParts()
	}
	return l.broken
}

func (l *Log) dropParts() error {
	if !l.ready {
		panic("rowlog: parts are dropped before CutTo")
	}
	n := len(l.files) - 1 // of the last file that stays
	isOther := func(id uint32) bool { return l.segments[id].kind != kindPart }
	for n > 0 && !slices.ContainsFunc(l.files[n].segments[1:], isOther) {
		n--
	}
	if n < 0 {
		return nil
	}
	f := l.files[n]
	keep := len(f.segments)
	for !isOther(f.segments[keep-1]) { // the first is the head of the file
		keep--
	}
	if n == len(l.files)-1 && keep == len(f.segments) {
		return nil
	}
	l.cleaning, l.cleaned = cleaning{}, nil // it never takes the last file, which another may be now
	if err := l.removeAfter(n); err != nil {
		return err
	}
	end := l.segments[f.segments[keep-1]]
	if err := f.Truncate(end.end(l.layout)); err != nil {
		return err
	}
	l.forget(f, keep)
	f.size, l.number = end.end(l.layout), end.number+1
	f.durable = 0 // other bytes take the place and the numbers of the parts: these must be gone before
	return l.sync()
}

// removeAfter removes the files after the nth, durably. They hold only parts. The nth is cut off afterwards, since their heads list its size.
func (l *Log) removeAfter(n int) error {
	for last := len(l.files) - 1; last > n; last-- {
		f := l.files[last]
		l.forget(f, 0)
		l.o.Lock.Lock()
		l.files = l.files[:last]
		l.o.Lock.Unlock()
		_ = f.Close() // it is removed
		err := l.o.Dir.Remove(f.number)
		if err == nil { // before the next one is removed, which the head of this one lists
			err = l.o.Dir.Sync()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// forget forgets the segments of a file from one on: parts, and the head of the file.
func (l *Log) forget(f *logFile, from int) {
	gone := f.segments[from:]
	f.segments = f.segments[:from]
	l.idle = append(l.idle, gone...)
	l.parts = slices.DeleteFunc(l.parts, func(id uint32) bool { return l.segments[id].file == f.number && !slices.Contains(f.segments, id) })
}
