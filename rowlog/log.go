package rowlog

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"unsafe"
)

// Options describe a log.
type Options struct {
	Dir Dir
	// Lineage identifies the run. The log of another one is Foreign.
	Lineage [16]byte
	// Owner is one of Owners that the rows are spread over.
	Owner, Owners int
	RowBytes      int
	Slots         int64 // the limit of slots; the index takes 8 bytes for each up to the largest in use
	// Lock is held while the index changes, and while Readers find rows there, never during a read or write. Nil: there are no Readers in other goroutines.
	Lock sync.Locker
	// FileBytes is the size from which on a file is full. 0: defaultFileBytes.
	FileBytes int64
}

const defaultFileBytes = 1 << 30

// noLock is the lock of a log that one goroutine uses.
type noLock struct{}

func (noLock) Lock()   {}
func (noLock) Unlock() {}

// Log is the log of one owner. It is used by one goroutine at a time, beside its Readers.
type Log struct {
	o Options
	layout
	files    []*logFile // by number; the last one is written to
	segments []segment  // by id; those of removed files are idle
	idle     []uint32   // ids that are free
	epochs   []uint32   // ids of the epochs that are not void, in the order of their steps
	parts    []uint32   // ids of the parts of an epoch that is not complete
	cuts     []cut
	newest   []entry // by slot, up to the largest in use
	number   uint64  // of the next segment
	synced   uint64  // segments of smaller numbers are durable
	durable  int64   // the last step that is durable
	settled  int64   // the job never goes back before this step
	buf      []byte  // of writes; aligned
	reader   *Reader // of Read
	ready    bool    // nothing follows the last segment on the disk
	broken   error   // a failed Append could not be undone, or a Sync failed

	cleaning cleaning
	credit   int64      // bytes that Clean may copy
	copied   int64      // bytes that it has copied
	cleaned  []cleaning // files whose rows are copied
	dropped  []dropped  // files that can be removed
}

// logFile is a file of a log.
type logFile struct {
	File
	number   uint64
	size     int64
	durable  int64    // the file is durable up to this offset
	segments []uint32 // ids, by place
	readers  int      // rows that Readers read from it; it stays open until there are none
}

// cut makes the epochs after a step void that were written before a segment.
type cut struct {
	step   int64
	before uint64 // the number of the segment
	file   uint64 // that holds it
}

// IndexBytes is the memory of the index for each slot.
const IndexBytes = 8

// entry is the place of the newest version of a row. The zero entry means that the log does not hold the row.
type entry struct {
	segment uint32 // its id, plus 1
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

// isDamage reports whether an error is of the content of a file. Others are of the disk.
func isDamage(err error) bool { return errors.As(err, new(*Corrupt)) }

// file returns a file by its number.
func (l *Log) file(number uint64) *logFile {
	i, ok := slices.BinarySearchFunc(l.files, number, func(f *logFile, n uint64) int {
		if f.number < n {
			return -1
		}
		return int(min(1, f.number-n))
	})
	if !ok {
		panic(fmt.Sprintf("rowlog: no file %d", number))
	}
	return l.files[i]
}

// last is the file that is written to, nil if there is none.
func (l *Log) last() *logFile {
	if len(l.files) == 0 {
		return nil
	}
	return l.files[len(l.files)-1]
}

// add adds a segment behind the others, and returns its id.
func (l *Log) add(f *logFile, s segment) uint32 {
	l.o.Lock.Lock()
	defer l.o.Lock.Unlock()
	id := uint32(len(l.segments))
	if n := len(l.idle); n > 0 {
		id, l.idle = l.idle[n-1], l.idle[:n-1]
		l.segments[id] = s
	} else {
		l.segments = append(l.segments, s)
	}
	f.segments = append(f.segments, id)
	l.number = s.number + 1
	return id
}

// point makes a segment the newest place of its slots.
func (l *Log) point(id uint32, slots []int32) {
	l.o.Lock.Lock()
	defer l.o.Lock.Unlock()
	if n := len(slots); n > 0 {
		if more := int(slots[n-1]) + 1 - len(l.newest); more > 0 {
			l.newest = append(l.newest, make([]entry, more)...)
		}
	}
	for place, slot := range slots {
		e := &l.newest[slot]
		if e.segment != 0 {
			l.segments[e.segment-1].live--
		}
		*e = entry{id + 1, uint32(place)}
	}
	l.segments[id].live = int64(len(slots))
}

// Step is the step of the newest epoch, 0 if there is none.
func (l *Log) Step() int64 {
	if len(l.epochs) == 0 {
		return 0
	}
	return l.segments[l.epochs[len(l.epochs)-1]].step
}

// StepUpTo is the step of the last epoch that does not end after a step and that CutTo may be called with, 0 if there is none.
func (l *Log) StepUpTo(step int64) int64 {
	i, ok := l.findEpoch(step)
	if !ok {
		if i == 0 {
			return 0
		}
		step = l.segments[l.epochs[i-1]].step
	}
	if step < l.settled {
		return 0
	}
	return step
}

// Holds reports whether CutTo may be called with a step: the log ends an epoch with it, and it is not before the settled step. Rows of
// epochs before that may be missing.
func (l *Log) Holds(step int64) bool {
	_, ok := l.findEpoch(step)
	return ok && step >= l.settled || step == 0
}

// Settled is the step of Settle, also of an earlier process. It may be somewhat older then: it is written with the next segment.
func (l *Log) Settled() int64 { return l.settled }

// findEpoch returns the index in epochs of the first epoch of a step or a later one.
func (l *Log) findEpoch(step int64) (int, bool) {
	return slices.BinarySearchFunc(l.epochs, step, func(id uint32, step int64) int {
		return int(max(-1, min(1, l.segments[id].step-step)))
	})
}

// Durable is the last step whose epoch survives a loss of power. After Open it is unknown, and 0, until CutTo.
func (l *Log) Durable() int64 { return l.durable }

// Has reports whether the log holds a row.
func (l *Log) Has(slot int32) bool { return int(slot) < len(l.newest) && l.newest[slot].segment != 0 }

// Slots lists the rows from slot first to end-1 that the log holds.
func (l *Log) Slots(first, end int32) (slots []int32) {
	for slot := first; slot < min(end, int32(len(l.newest))); slot++ {
		if l.Has(slot) {
			slots = append(slots, slot)
		}
	}
	return slots
}

// Extra returns the extra part of the newest epoch.
func (l *Log) Extra() ([]byte, error) {
	if len(l.epochs) == 0 {
		return nil, errors.New("rowlog: the log has no epoch")
	}
	return l.readExtra(&l.segments[l.epochs[len(l.epochs)-1]])
}

// Size is the number of bytes of all files, and of the rows in them that are the newest.
func (l *Log) Size() (total, live int64) {
	for _, f := range l.files {
		total += f.size
		live += l.liveBytes(f)
	}
	return total, live
}

// Failed returns the error after which the log takes nothing more, nil if there was none.
func (l *Log) Failed() error { return l.broken }

// Close closes the files. Segments that are not durable may be lost.
func (l *Log) Close() {
	for _, f := range l.files {
		_ = f.Close() // nothing depends on it: Sync reports errors of writes
	}
	for _, d := range l.dropped {
		_ = d.file.Close()
	}
	l.files, l.dropped = nil, nil
}

// aligned returns a buffer whose address is a multiple of Align.
func aligned(n int) []byte {
	b := make([]byte, n+Align)
	off := -int(uintptr(unsafe.Pointer(&b[0]))) & (Align - 1)
	return b[off : off+n : off+n]
}
