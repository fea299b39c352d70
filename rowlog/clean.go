package rowlog

import "slices"

// cleaning is the copying of the newest rows of a file to the end of the log. The file can be removed once every
// row in it is replaced by an epoch that the job never goes back before, or by a durable copy.
type cleaning struct {
	file *logFile // nil: nothing is copied
	next int      // of its segments

	settled int64 // when all is copied: the step that must be settled
}

// dropped is a file that is removed when the segments before a number are durable.
type dropped struct {
	file  *logFile
	after uint64
}

// copyBytes is about how many bytes of rows are copied at a time.
const copyBytes = 4 << 20

// Settle says that the job never goes back before a step: it has committed the step, and it is durable on all ranks. The next segment
// records that.
func (l *Log) Settle(step int64) { l.settled = max(l.settled, step) }

// Clean allows the log to copy a further number of bytes of rows. While it may copy more than it has, it copies rows
// out of files that are mostly replaced, whose removal follows in a later Sync. If Clean is called with the bytes
// that are appended, the files are at most about twice as large as the rows, and a few files.
func (l *Log) Clean(bytes int64) error {
	if l.broken != nil {
		return l.broken
	}
	if err := l.dropCleaned(); err != nil {
		return err
	}
	for l.credit += bytes; l.credit > 0; {
		if l.cleaning.file == nil {
			if l.cleaning.file = l.mostReplaced(); l.cleaning.file == nil {
				l.credit = 0
				return nil
			}
		}
		if l.cleaning.next < len(l.cleaning.file.segments) {
			if err := l.copyNewest(); err != nil {
				return err
			}
			continue
		}
		l.cleaning.settled = l.Step()
		l.cleaned, l.cleaning = append(l.cleaned, l.cleaning), cleaning{}
	}
	return nil
}

// mostReplaced returns the file whose newest rows have the smallest share of it, nil if none has less than half. Its
// epochs are settled, and a later one too: only its rows are needed.
func (l *Log) mostReplaced() (worst *logFile) {
	settled := int64(0) // the last epoch that is
	for _, id := range l.epochs {
		if s := &l.segments[id]; s.step <= l.settled {
			settled = s.step
		}
	}
	needed := l.filesOfParts()
	least := 0.5
	for _, f := range l.files[:max(1, len(l.files))-1] {
		isNeeded := func(id uint32) bool {
			s := &l.segments[id]
			return (s.kind == kindEpoch || s.kind == kindPart) && !l.isVoid(s) && s.step >= settled
		}
		if needed[f.number] || slices.ContainsFunc(f.segments, isNeeded) ||
			slices.ContainsFunc(l.cleaned, func(c cleaning) bool { return c.file == f }) {
			continue
		}
		first := &l.segments[f.segments[0]]
		if share := float64(l.copySize(f)) / float64(max(1, f.size-first.end(l.layout))); share < least {
			worst, least = f, share
		}
	}
	return worst
}

// filesOfParts lists the files that are needed for parts of epochs: those with parts of an epoch that is not
// complete, and those with the last segment of an epoch that has parts elsewhere whose rows are the newest.
func (l *Log) filesOfParts() map[uint64]bool {
	needed := map[uint64]bool{}
	for _, id := range l.parts {
		needed[l.segments[id].file] = true
	}
	for _, f := range l.files {
		for _, id := range f.segments {
			s := &l.segments[id]
			if s.kind != kindPart || s.live == 0 {
				continue
			}
			if i, ok := l.findEpoch(s.step); ok {
				if last := l.segments[l.epochs[i]].file; last != f.number {
					needed[last] = true
				}
			}
		}
	}
	return needed
}

// liveBytes is the bytes of a file's rows that are the newest.
func (l *Log) liveBytes(f *logFile) (live int64) {
	for _, id := range f.segments {
		live += l.segments[id].live * l.recordSize()
	}
	return live
}

// copySize is about the size of a copy of a file's newest rows.
func (l *Log) copySize(f *logFile) int64 {
	c := segment{rows: l.liveBytes(f) / l.recordSize()}
	return c.end(l.layout)
}

// copyNewest copies the newest rows of the next segments of the file that is cleaned.
func (l *Log) copyNewest() error {
	c := &l.cleaning
	var slots []int32
	next := c.next
	for ; next < len(c.file.segments) && len(slots)*l.rowBytes < copyBytes; next++ {
		id := c.file.segments[next]
		if l.segments[id].live == 0 {
			continue
		}
		all, err := l.readSlots(&l.segments[id])
		if err != nil {
			return err
		}
		for _, slot := range all {
			if l.newest[slot].segment == id+1 {
				slots = append(slots, slot)
			}
		}
	}
	slices.Sort(slots)
	for chunk := range slices.Chunk(slots, max(1, copyBytes/l.rowBytes)) {
		rows := make([]byte, len(chunk)*l.rowBytes)
		if err := l.Read(chunk, rows); err != nil {
			return err
		}
		if err := l.writeCopy(chunk, rows); err != nil {
			return err
		}
		l.credit -= int64(len(rows))
		l.copied += int64(len(rows))
	}
	c.next = next
	return nil
}

// dropCleaned drops the files whose rows are all replaced for good.
func (l *Log) dropCleaned() error {
	for len(l.cleaned) > 0 && l.cleaned[0].settled <= l.settled {
		f := l.cleaned[0].file
		if err := l.copyCuts(f); err != nil {
			return err
		}
		if _, err := l.write(segment{kind: kindDrop}, nil, nil, words(f.number)); err != nil {
			return err
		}
		l.o.Lock.Lock()
		l.files = slices.DeleteFunc(l.files, func(x *logFile) bool { return x == f })
		l.o.Lock.Unlock()
		l.drop(f, l.number)
		l.cleaned = l.cleaned[1:]
	}
	return nil
}

// copyCuts writes the cuts of a file again that still make epochs of other files void.
func (l *Log) copyCuts(f *logFile) error {
	for i := range l.cuts {
		c := &l.cuts[i]
		if c.file != f.number {
			continue
		}
		isNeeded := slices.ContainsFunc(l.files, func(x *logFile) bool {
			return x != f && slices.ContainsFunc(x.segments, func(id uint32) bool {
				s := &l.segments[id]
				return s.kind == kindEpoch && s.step > c.step && s.number < c.before
			})
		})
		if !isNeeded {
			continue
		}
		id, err := l.write(segment{kind: kindCut, step: c.step}, nil, nil, words(c.before))
		if err != nil {
			return err
		}
		c.file = l.segments[id].file
	}
	l.cuts = slices.DeleteFunc(l.cuts, func(c cut) bool { return c.file == f.number })
	return nil
}

// drop forgets the segments of a file, which is removed when the segments before a number are durable.
func (l *Log) drop(f *logFile, after uint64) {
	l.epochs = slices.DeleteFunc(l.epochs, func(id uint32) bool { return l.segments[id].file == f.number })
	l.idle = append(l.idle, f.segments...)
	f.segments = nil
	l.dropped = append(l.dropped, dropped{f, after})
}

// removeDropped removes the files that can be removed. One that a Reader reads, and those after it, are left for the next time.
func (l *Log) removeDropped() error {
	removed := false
	for len(l.dropped) > 0 && l.dropped[0].after <= l.synced && !l.isRead(l.dropped[0].file) {
		f := l.dropped[0].file
		_ = f.Close() // it is removed
		if err := l.o.Dir.Remove(f.number); err != nil {
			return err
		}
		l.dropped, removed = l.dropped[1:], true
	}
	if !removed {
		return nil
	}
	return l.o.Dir.Sync()
}

// isRead reports whether a Reader reads a file.
func (l *Log) isRead(f *logFile) bool {
	l.o.Lock.Lock()
	defer l.o.Lock.Unlock()
	return f.readers > 0
}
