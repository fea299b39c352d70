package bench

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/rowlog"
)

const (
	probeList = 16384 // reads of a list, as the rows of a step
	probeTime = time.Second
)

// probeReads returns how many random reads of a row's length the files of a log give per second, without any other work: those of
// the first rank, which a job has just left. They are read as the log itself is, in lists, past the page cache.
func (b *tieredRun) probeReads() (perSecond float64, err error) {
	folders, err := filepath.Glob(filepath.Join(b.dir, "store", "rank-*"))
	if err != nil || len(folders) == 0 {
		return 0, errors.Join(err, errors.New("bench: the job left no log"))
	}
	d, err := rowlog.OpenDir(env.Real(), folders[0], rowlog.Access{})
	if err != nil {
		return 0, err
	}
	defer d.Close()
	numbers, err := d.List()
	if err != nil {
		return 0, err
	}
	bytes, memory := int(b.info.BytesPerRow), make([]byte, probeList*int(b.info.BytesPerRow))
	var files []rowlog.File
	var ends []int64 // of each file: the readable offsets of it and of all files before it
	for _, n := range numbers {
		f, err := d.Open(n)
		if err != nil {
			return 0, err
		}
		defer f.Close() //nolint:errcheck // it was only read
		size, err := f.Size()
		if err != nil {
			return 0, err
		}
		if size < int64(bytes) {
			continue
		}
		files, ends = append(files, f), append(ends, size-int64(bytes)+1)
		if k := len(ends) - 1; k > 0 {
			ends[k] += ends[k-1]
		}
	}
	if len(files) == 0 {
		return 0, errors.New("bench: the log of the job has no rows")
	}
	rnd, reads, wall := rand.New(rand.NewPCG(1, 2)), 0, time.Duration(0)
	parts := make([][]rowlog.Part, len(files))
	for wall < probeTime {
		for i := range parts {
			parts[i] = parts[i][:0]
		}
		for k := range probeList {
			at, i := rnd.Int64N(ends[len(ends)-1]), 0
			for at >= ends[i] {
				i++
			}
			if i > 0 {
				at -= ends[i-1]
			}
			parts[i] = append(parts[i], rowlog.Part{At: at, Bytes: memory[k*bytes : (k+1)*bytes]})
		}
		began := time.Now()
		for i, f := range files {
			if err := f.ReadAll(parts[i]); err != nil {
				return 0, err
			}
		}
		reads, wall = reads+probeList, wall+time.Since(began)
	}
	return float64(reads) / wall.Seconds(), nil
}
