package rowlog

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
)

// disk is a folder in memory that can lose power: each sector written since the last sync may be lost, and so may
// the names and the sizes of files. It can also fail, or be full.
type disk struct {
	rnd    *rand.Rand
	files  map[uint64]*content
	named  map[uint64]bool     // durable names
	gone   map[uint64]*content // removed files whose names are durable
	failIn int                 // writes and syncs until one fails; 0: none does
}

type content struct {
	now, durable []byte
	lost         bool // a sync failed: later ones write nothing
}

const sector = 512

var errDisk = errors.New("no space left on device")

func newDisk(rnd *rand.Rand) *disk {
	return &disk{rnd: rnd, files: map[uint64]*content{}, named: map[uint64]bool{}, gone: map[uint64]*content{}}
}

func (d *disk) fails() bool {
	if d.failIn == 0 {
		return false
	}
	d.failIn--
	return d.failIn == 0
}

// cutPower loses a random part of everything that is not durable.
func (d *disk) cutPower() {
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

func (d *disk) List() ([]uint64, error) { return slices.Sorted(maps.Keys(d.files)), nil }

func (d *disk) Create(number uint64) (File, error) {
	if d.fails() {
		return nil, errDisk
	}
	d.files[number] = &content{}
	return &memFile{d, d.files[number]}, nil
}

func (d *disk) Open(number uint64) (File, error) { return &memFile{d, d.files[number]}, nil }

func (d *disk) Remove(number uint64) error {
	if d.fails() {
		return errDisk
	}
	if d.named[number] {
		d.gone[number] = d.files[number]
	}
	delete(d.files, number)
	delete(d.named, number)
	return nil
}

func (d *disk) Sync() error {
	if d.fails() {
		return errDisk
	}
	for n := range d.files {
		d.named[n] = true
	}
	clear(d.gone)
	return nil
}

type memFile struct {
	disk *disk
	*content
}

func (f *memFile) WriteAt(p []byte, at int64) error {
	if at%Align != 0 || len(p)%Align != 0 {
		return errors.New("a write that is not aligned")
	}
	fails := f.disk.fails()
	if fails && f.disk.rnd.IntN(2) == 0 { // else it is complete, and reported as failed
		p = p[:f.disk.rnd.IntN(len(p)+1)]
	}
	if n := int(at) + len(p); n > len(f.now) {
		f.now = append(f.now, make([]byte, n-len(f.now))...)
	}
	copy(f.now[at:], p)
	if fails {
		return errDisk
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
	if f.disk.fails() {
		return errDisk
	}
	if n := int(size) - len(f.now); n > 0 {
		f.now = append(f.now, make([]byte, n)...)
	}
	f.now = f.now[:size]
	return nil
}

// Sync may fail, and drop what it has not written; a later one then reports success.
func (f *memFile) Sync() error {
	if f.disk.fails() {
		f.lost = true
		return errDisk
	}
	if !f.lost {
		f.durable = slices.Clone(f.now)
	}
	return nil
}

func (f *memFile) Close() error { return nil }
