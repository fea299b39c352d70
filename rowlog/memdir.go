package rowlog

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
)

// MemDir is a folder in memory, for tests and simulations. It can lose power: each sector written since the last sync may be
// lost, and so may the names and the sizes of files. It can also fail, or be full.
type MemDir struct {
	rnd    *rand.Rand
	files  map[uint64]*content
	named  map[uint64]bool     // durable names
	gone   map[uint64]*content // removed files whose names are durable
	begun  bool                // the note of SetBegun, which is durable at once
	failIn atomic.Int64
}

type content struct {
	now, durable []byte
	lost         bool // a sync failed: later ones write nothing
}

const sector = 512

// ErrDisk is the error of a MemDir that fails.
var ErrDisk = errors.New("no space left on device")

// NewMemDir returns an empty folder. rnd decides what a loss of power spares.
func NewMemDir(rnd *rand.Rand) *MemDir {
	return &MemDir{rnd: rnd, files: map[uint64]*content{}, named: map[uint64]bool{}, gone: map[uint64]*content{}}
}

// FailIn lets one write or sync fail, the nth from now. 0: none fails.
func (d *MemDir) FailIn(n int) { d.failIn.Store(int64(n)) }

func (d *MemDir) fails() bool {
	return d.failIn.Load() > 0 && d.failIn.Add(-1) == 0
}

// CutPower loses a random part of everything that is not durable.
func (d *MemDir) CutPower() {
	for n, c := range d.gone {
		if d.files[n] == nil && d.rnd.IntN(2) == 0 {
			d.files[n] = c
			d.named[n] = true
		}
	}
	clear(d.gone)
	for n, c := range d.files {
		if !d.named[n] && d.rnd.IntN(2) == 0 {
			delete(d.files, n)
			continue
		}
		d.named[n] = true
		size := len(c.durable)
		if more := len(c.now) - size; more != 0 && d.rnd.IntN(3) > 0 {
			size += d.rnd.IntN(max(more, -more)+1) * max(-1, min(1, more))
		}
		after := make([]byte, size)
		copy(after, c.durable)
		for at := 0; at < size; at += sector {
			if to := min(at+sector, size, len(c.now)); to > at && d.rnd.IntN(2) == 0 {
				copy(after[at:to], c.now[at:to])
			}
		}
		c.now, c.durable, c.lost = after, slices.Clone(after), false
	}
}

// Begun reports whether the folder has the note of SetBegun.
func (d *MemDir) Begun() (bool, error) { return d.begun, nil }

// SetBegun makes the note that the log begins, or removes it.
func (d *MemDir) SetBegun(begun bool) error {
	if d.fails() {
		return ErrDisk
	}
	d.begun = begun
	return nil
}

// List implements Dir.
func (d *MemDir) List() ([]uint64, error) { return slices.Sorted(maps.Keys(d.files)), nil }

// Create implements Dir.
func (d *MemDir) Create(number uint64) (File, error) {
	if d.fails() {
		return nil, ErrDisk
	}
	d.files[number] = &content{}
	return &memFile{d, d.files[number]}, nil
}

// Open implements Dir.
func (d *MemDir) Open(number uint64) (File, error) { return &memFile{d, d.files[number]}, nil }

// Remove implements Dir.
func (d *MemDir) Remove(number uint64) error {
	if d.fails() {
		return ErrDisk
	}
	if d.named[number] {
		d.gone[number] = d.files[number]
	}
	delete(d.files, number)
	delete(d.named, number)
	return nil
}

// Sync implements Dir.
func (d *MemDir) Sync() error {
	if d.fails() {
		return ErrDisk
	}
	for n := range d.files {
		d.named[n] = true
	}
	clear(d.gone)
	return nil
}

type memFile struct {
	dir *MemDir
	*content
}

func (f *memFile) WriteAt(p []byte, at int64) error {
	if at%Align != 0 || len(p)%Align != 0 {
		return errors.New("a write that is not aligned")
	}
	fails := f.dir.fails()
	if fails && f.dir.rnd.IntN(2) == 0 { // else it is complete, and reported as failed
		p = p[:f.dir.rnd.IntN(len(p)+1)]
	}
	if n := int(at) + len(p); n > len(f.now) {
		f.now = append(f.now, make([]byte, n-len(f.now))...)
	}
	copy(f.now[at:], p)
	if fails {
		return ErrDisk
	}
	return nil
}

func (f *memFile) ReadAll(parts []Part) error {
	for _, p := range parts {
		if p.At < 0 || p.At+int64(len(p.Bytes)) > int64(len(f.now)) {
			return errors.New("a read beyond the end of the file")
		}
		copy(p.Bytes, f.now[p.At:])
	}
	return nil
}

func (f *memFile) Size() (int64, error) { return int64(len(f.now)), nil }

func (f *memFile) Truncate(size int64) error {
	if f.dir.fails() {
		return ErrDisk
	}
	if n := int(size) - len(f.now); n > 0 {
		f.now = append(f.now, make([]byte, n)...)
	}
	f.now = f.now[:size]
	return nil
}

// Sync may fail, and drop what it has not written; a later one then reports success.
func (f *memFile) Sync() error {
	if f.dir.fails() {
		f.lost = true
		return ErrDisk
	}
	if !f.lost {
		f.durable = slices.Clone(f.now)
	}
	return nil
}

// Close does nothing.
func (d *MemDir) Close() {}

func (f *memFile) Close() error { return nil }
