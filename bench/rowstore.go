package bench

import (
	"os"
	"path/filepath"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/shard"
)

// rowStore is a store of rows as in the baselines of OpenEmbedding (ICDE 2023, section VI): a hash table in memory has
// the place of each row on the device, and each row is an operation of its own, under a lock, on the path of the
// request. The device is a file in the page cache: a read or write of a row takes about a microsecond there, where
// their persistent memory took 0.3.
type rowStore struct {
	lock  env.Monitor
	file  *os.File
	bytes int
	place map[int32]int64
	end   int64
	err   error // of the file's creation
}

// newRowStore makes a store in a folder, for the rows of a shard.
func newRowStore(e env.Env, dir string, h *shard.Shard) *rowStore {
	s := &rowStore{lock: e.Monitor("row store"), bytes: h.RowBytes(), place: map[int32]int64{}}
	if s.file, s.err = os.CreateTemp(dir, "rows-*"); s.err == nil {
		s.err = os.Remove(s.file.Name())
	}
	return s
}

// Read implements shard.Below.
func (s *rowStore) Read(slots []int32, dst []byte, missing []int32) ([]int32, error) {
	if s.err != nil {
		return missing, s.err
	}
	for i, slot := range slots {
		s.lock.Lock()
		at, ok := s.place[slot]
		var err error
		if ok {
			_, err = s.file.ReadAt(dst[i*s.bytes:(i+1)*s.bytes], at)
		} else {
			missing = append(missing, int32(i))
		}
		s.lock.Unlock()
		if err != nil {
			return missing, err
		}
	}
	return missing, nil
}

// Spill implements shard.Below.
func (s *rowStore) Spill(slots []int32, rows []byte, _ int64) error {
	if s.err != nil {
		return s.err
	}
	for i, slot := range slots {
		s.lock.Lock()
		at, ok := s.place[slot]
		if !ok {
			at = s.end
			s.end += int64(s.bytes)
			s.place[slot] = at
		}
		_, err := s.file.WriteAt(rows[i*s.bytes:(i+1)*s.bytes], at)
		s.lock.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// Sort implements shard.Below.
func (s *rowStore) Sort([]int32) {}

// ReadLater implements shard.Below.
func (s *rowStore) ReadLater([]int32) shard.Reading { panic("bench: the baselines read nothing ahead") }

// Logged implements shard.Below: there is no log.
func (s *rowStore) Logged() int64 { return 0 }

// Reset implements shard.Below.
func (s *rowStore) Reset() { clear(s.place) }

// Close implements shard.Below.
func (s *rowStore) Close() {
	if s.file != nil {
		_ = s.file.Close() // the file is removed
	}
}

// hashFrames is the number of rows of the baseline without a cache that are in memory: those of one operation.
const hashFrames = 4

func (b *tieredRun) openStore(_ int, h *shard.Shard) shard.Below {
	return newRowStore(env.Real(), filepath.Clean(b.dir), h)
}
