package store

import (
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
	logged    func() int64   // the mark up to which the log has rows
	dropped   int64          // the mark up to which spilled rows were dropped
	slots     []int32        // scratch: slots that the spilled rows lack
	places    []int32        // scratch: their places
	missing   []int32        // scratch
	rows      []byte         // scratch: their rows
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
	if s.log != nil {
		s.below.reader = s.log.NewReader()
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

// Scratch returns the place of rows without a frame, for a job that has no log since it only evaluates. Its file is in a new folder at
// a path, which Close removes.
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
	return b
}

// Close implements shard.Below. It removes the file of spilled rows, and the folder of a Scratch.
func (b *Below) Close() {
	b.spill.removeFile()
	if b.isScratch && b.spill.dir != nil {
		_ = os.Remove(b.path) // it is empty
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
	if b.reader == nil || len(b.places) == 0 {
		return append(missing, b.places...), nil
	}
	n := b.rowBytes
	to := dst
	list := slots
	if len(b.places) < len(slots) {
		b.slots = b.slots[:0]
		for _, i := range b.places {
			b.slots = append(b.slots, slots[i])
		}
		if need := len(b.slots) * n; cap(b.rows) < need {
			b.rows = make([]byte, need)
		}
		list, to = b.slots, b.rows[:len(b.slots)*n]
	}
	if b.missing, err = b.reader.Read(list, to, b.missing[:0]); err != nil {
		return missing, b.explain(err)
	}
	next := b.missing
	for k, i := range b.places {
		if len(next) > 0 && int(next[0]) == k {
			missing, next = append(missing, i), next[1:]
		} else if len(list) < len(slots) {
			copy(dst[int(i)*n:(int(i)+1)*n], to[k*n:(k+1)*n])
		}
	}
	return missing, nil
}

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
	if b.reader != nil {
		b.reader.Sort(slots)
	}
}

// Reset implements shard.Below.
func (b *Below) Reset() { b.spill.dropAll() }

func (b *Below) explain(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("store.path: %s: rows that do not fit in store.dram_bytes: %w", b.path, err)
}

var _ shard.Below = (*Below)(nil)
