package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/rowlog"
	"github.com/ecrec/ecrec/shard"
)

// Below holds the rows of a shard that have no frame in memory: rows that had to leave before the log had them are in a
// file of their own, and the others are in the log. It is used by the goroutine that uses the shard.
type Below struct {
	path      string
	isScratch bool
	rowBytes  int
	spill     *spill
	reader    *rowlog.Reader // nil: there is no log
	ahead     *rowlog.Reader // of reads in the background; nil: there is no log
	logged    func() int64   // the mark up to which the log has rows
	dropped   int64          // the mark up to which spilled rows were dropped
	places    []int32        // scratch: the places of rows that are not spilled
	scratch   scratch
}

// SpillFolder is the folder, in that of a rank, with the rows that had to leave memory before the log had them.
const SpillFolder = "spilled"

// Below returns the place of rows without a frame, beside the log.
func (s *Store) Below() *Below {
	s.below = newBelow(s.path, s.o.Shard, func() (Dir, error) {
		path := filepath.Join(s.path, SpillFolder)
		if s.o.Dir != nil {
			return s.o.Dir(path)
		}
		return openDir(s.o.Env, path)
	})
	s.below.logged = s.lastReadable
	if s.disk != nil {
		s.below.reader, s.below.ahead = s.disk.NewReader(), s.disk.NewReader()
	}
	_ = s.below.spill.openFolder() // the first write tries again
	return s.below
}

// lastReadable is the mark of the newest epoch in the log.
func (s *Store) lastReadable() int64 {
	s.monitor.Lock()
	defer s.monitor.Unlock()
	return s.readable
}

// Scratch returns the place of rows without a frame, for a job that has no log since it only evaluates. Its file is made in a new folder at
// a path. Both are removed once the file is open, so that a process that is killed leaves nothing.
func Scratch(e env.Env, path string, h *shard.Shard) *Below {
	b := newBelow(path, h, nil)
	b.isScratch = true
	b.spill.openDir = func() (Dir, error) {
		err := e.Do("make a folder in "+path, func() (err error) {
			if err = os.MkdirAll(path, 0o777); err == nil {
				b.path, err = os.MkdirTemp(path, "scratch-")
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		return openDir(e, b.path)
	}
	b.spill.opened = func() {
		_ = b.spill.dir.Remove(1) // Close tries again
		b.removeFolder(e)
	}
	return b
}

// removeFolder removes the folder of a Scratch, if it is empty.
func (b *Below) removeFolder(e env.Env) {
	_ = e.Do("remove "+b.path, func() error { return os.Remove(b.path) })
}

// Close implements shard.Below. It removes the file of spilled rows, and the folder of a Scratch.
func (b *Below) Close() {
	b.spill.removeFile()
	if b.isScratch && b.spill.dir != nil {
		_ = os.Remove(b.path) // unless it is gone
	}
}

func newBelow(path string, h *shard.Shard, openDir func() (Dir, error)) *Below {
	return &Below{path: path, rowBytes: h.RowBytes(), spill: newSpill(openDir, h.Slots(), h.RowBytes()), logged: func() int64 { return 0 }}
}

// Read implements shard.Below.
func (b *Below) Read(slots []int32, dst []byte, missing []int32) ([]int32, error) {
	var err error
	if b.places, err = b.spill.read(slots, dst, b.places[:0]); err != nil {
		return missing, b.explain(err)
	}
	missing, err = readOthers(b.reader, slots, b.places, dst, missing, &b.scratch)
	return missing, b.explain(err)
}

// scratch is memory of readOthers.
type scratch struct {
	slots, missing []int32
	rows           []byte
}

// readOthers reads the rows at some places of a list from the log, if there is one. It appends the places of rows that the log lacks to
// missing.
func readOthers(log *rowlog.Reader, slots, places []int32, dst []byte, missing []int32, x *scratch) (_ []int32, err error) {
	if log == nil || len(places) == 0 {
		return append(missing, places...), nil
	}
	n := len(dst) / len(slots)
	to, list := dst, slots
	if len(places) < len(slots) {
		x.slots = x.slots[:0]
		for _, i := range places {
			x.slots = append(x.slots, slots[i])
		}
		if need := len(x.slots) * n; cap(x.rows) < need {
			x.rows = make([]byte, need)
		}
		list, to = x.slots, x.rows[:len(x.slots)*n]
	}
	if x.missing, err = log.Read(list, to, x.missing[:0]); err != nil {
		return missing, err
	}
	next := x.missing
	for k, i := range places {
		if len(next) > 0 && int(next[0]) == k {
			missing, next = append(missing, i), next[1:]
		} else if len(list) < len(slots) {
			copy(dst[int(i)*n:(int(i)+1)*n], to[k*n:(k+1)*n])
		}
	}
	return missing, nil
}

// reading is rows that are read in the background: spilled ones, and others from the log.
type reading struct {
	below   *Below
	slots   []int32
	spilled spilledRows
	places  []int32 // of rows that are not spilled
}

// ReadLater implements shard.Below.
func (b *Below) ReadLater(slots []int32) shard.Reading {
	r := &reading{below: b, slots: slots}
	r.places = b.spill.find(&r.spilled, slots, nil)
	b.spill.beginReads(&r.spilled)
	return r
}

// Read implements shard.Reading.
func (r *reading) Read(dst []byte, missing []int32) ([]int32, error) {
	b := r.below
	if err := r.spilled.read(dst, b.rowBytes); err != nil {
		return missing, b.explain(err)
	}
	missing, err := readOthers(b.ahead, r.slots, r.places, dst, missing, new(scratch))
	return missing, b.explain(err)
}

// End implements shard.Reading.
func (r *reading) End() { r.below.spill.endReads(&r.spilled) }

// Spill implements shard.Below.
func (b *Below) Spill(slots []int32, rows []byte, mark int64) error {
	return b.explain(b.spill.write(slots, rows, mark))
}

// Logged implements shard.Below.
func (b *Below) Logged() int64 {
	mark := b.logged()
	if mark > b.dropped {
		b.spill.drop(mark)
		b.dropped = mark
	}
	return mark
}

// Sort implements shard.Below.
func (b *Below) Sort(slots []int32) {
	n := b.spill.sort(slots)
	if b.reader != nil {
		b.reader.Sort(slots[n:])
	}
}

// Reset implements shard.Below.
func (b *Below) Reset() { b.spill.dropAll() }

func (b *Below) explain(err error) error {
	if err == nil {
		return nil
	}
	var damaged *rowlog.Corrupt
	if errors.As(err, &damaged) && !b.isScratch {
		return fmt.Errorf("store.path: %s: %w; remove the folder, and resume from a checkpoint", b.path, err)
	}
	return fmt.Errorf("store.path: %s: rows that do not fit in store.dram_bytes: %w", b.path, err)
}

var _ shard.Below = (*Below)(nil)
