package store

import (
	"fmt"
	"path/filepath"

	"github.com/ecrec/ecrec/rowlog"
	"github.com/ecrec/ecrec/shard"
)

// Below holds the rows of a shard that have no frame in memory: rows that had to leave before the log had them are in a
// file of their own, and the others are in the log. It is used by the goroutine that uses the shard.
type Below struct {
	s       *Store
	spill   *spill
	reader  *rowlog.Reader // nil: there is no log
	dropped int64          // the mark up to which spilled rows were dropped
	slots   []int32        // scratch: slots that the spilled rows lack
	places  []int32        // scratch: their places
	missing []int32        // scratch
	rows    []byte         // scratch: their rows
}

// SpillFolder is the folder, in that of a rank, with the rows that had to leave memory before the log had them.
const SpillFolder = "spilled"

// Below returns the place of rows without a frame, beside the log. The store closes it.
func (s *Store) Below() *Below {
	open := func() (Dir, error) {
		path := filepath.Join(s.path, SpillFolder)
		if s.o.Dir != nil {
			return s.o.Dir(path)
		}
		return openDir(s.o.Env, path)
	}
	b := &Below{s: s, spill: newSpill(open, s.slots(), s.o.Shard.RowBytes())}
	_ = b.spill.openFolder() // the first write tries again
	if s.log != nil {
		b.reader = s.log.NewReader()
	}
	s.below = b
	return b
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
	n := b.s.o.Shard.RowBytes()
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
	b.s.monitor.Lock()
	mark := b.s.readable
	b.s.monitor.Unlock()
	if mark > b.dropped {
		b.spill.drop(mark)
		b.dropped = mark
	}
	return mark
}

// Reset implements shard.Below.
func (b *Below) Reset() { b.spill.dropAll() }

func (b *Below) explain(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("store.path: %s: rows that do not fit in store.dram_bytes: %w", b.s.path, err)
}

var _ shard.Below = (*Below)(nil)
