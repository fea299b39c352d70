package data

import (
	"fmt"
	"io"
	"os"
	"sort"
	"sync/atomic"

	"github.com/ecrec/ecrec/internal/env"
)

// fixed is a Source over files of fixed-size records, of which any is found by
// arithmetic. A criteo-bin file holds records only. A record file has a header, and
// blocks of records with a trailer and a checksum each.
type fixed struct {
	env     env.Env
	schema  Schema
	files   []sourceFile
	samples int64 // in the files
	codec   codec
	skipped int64
	bad     []int64 // malformed records to skip, ascending (criteo-bin, SkipBad)
}

// sourceFile is one file of a source.
type sourceFile struct {
	file  *os.File
	name  string
	what  string // for env.Do
	first int64  // index of its first sample
	n     int64  // samples

	layout  layout
	checked []atomic.Uint32 // one bit per block whose checksum held; nil: no checksums
}

// codec turns the bytes of records into samples.
type codec interface {
	// decode fills samples at, at+1, ... of b from complete records. It returns the
	// index of the first record whose label is neither 0 nor 1, or -1.
	decode(b *Batch, at int, records []byte) int
}

// readState is the scratch memory of a Read. It is part of the batch so that reads
// allocate nothing.
type readState struct {
	src   *fixed
	batch *Batch
	idx   []int64
	buf   []byte
	do    func() error
}

// maxSpread bounds the bytes read for each byte used. Beyond it, the scattered records
// of a block are read one by one.
const maxSpread = 8

func (s *fixed) Schema() Schema { return s.schema }
func (s *fixed) Len() int64     { return s.samples - int64(len(s.bad)) }
func (s *fixed) Skipped() int64 { return s.skipped }

func (s *fixed) Read(b *Batch, idx []int64) error {
	b.resize(len(idx), &s.schema)
	if len(idx) == 0 {
		return nil
	}
	r := &b.read
	if r.do == nil {
		r.do = func() error { return r.src.readSamples(r) }
	}
	r.src, r.batch, r.idx = s, b, idx
	return s.env.Do(s.files[0].what, r.do)
}

// readSamples serves the indexes in order, a stretch within one block at a time.
func (s *fixed) readSamples(r *readState) error {
	for at := 0; at < len(r.idx); {
		p, err := s.physicalIndex(r.idx[at])
		if err != nil {
			return err
		}
		src := s.fileOf(p)
		block := (p - src.first) / src.layout.blockRecords
		start := src.first + block*src.layout.blockRecords
		end := min(start+src.layout.blockRecords, src.first+src.n)

		lo, hi, k := p, p+1, 1 // the stretch: k indexes within [lo, hi)
		ascending := true      // and consecutive
		for at+k < len(r.idx) {
			q, err := s.physicalIndex(r.idx[at+k])
			if err != nil {
				return err
			}
			if q < start || q >= end {
				break
			}
			ascending = ascending && q == p+int64(k)
			lo, hi = min(lo, q), max(hi, q+1)
			k++
		}
		switch {
		case ascending:
			err = s.readRun(r, src, block, lo, hi, at)
		case hi-lo <= maxSpread*int64(k):
			err = s.readSpread(r, src, block, lo, hi, at, k)
		default:
			for i := at; i < at+k && err == nil; i++ {
				p, _ := s.physicalIndex(r.idx[i])
				err = s.readRun(r, src, block, p, p+1, i)
			}
		}
		if err != nil {
			return err
		}
		at += k
	}
	return nil
}

// physicalIndex is the position in the files of the sample with an index.
func (s *fixed) physicalIndex(i int64) (int64, error) {
	if i < 0 || i >= s.Len() {
		return 0, usageErr("sample %d is out of range; there are %d", i, s.Len())
	}
	if len(s.bad) == 0 {
		return i, nil
	}
	k := sort.Search(len(s.bad), func(k int) bool { return s.bad[k]-int64(k) > i })
	return i + int64(k), nil
}

func (s *fixed) fileOf(p int64) *sourceFile {
	i := 0
	if len(s.files) > 1 {
		i = sort.Search(len(s.files), func(i int) bool { return s.files[i].first > p }) - 1
	}
	return &s.files[i]
}

// readRun decodes the records [lo, hi) of one block into samples at, at+1, ...
func (s *fixed) readRun(r *readState, src *sourceFile, block, lo, hi int64, at int) error {
	rec, err := src.loadRecords(r, block, lo-src.first, hi-src.first)
	if err != nil {
		return err
	}
	if bad := s.codec.decode(r.batch, at, rec); bad >= 0 {
		return s.badLabel(src, lo+int64(bad))
	}
	return nil
}

// readSpread reads all of [lo, hi) at once and decodes k records of it.
func (s *fixed) readSpread(r *readState, src *sourceFile, block, lo, hi int64, at, k int) error {
	rec, err := src.loadRecords(r, block, lo-src.first, hi-src.first)
	if err != nil {
		return err
	}
	size := src.layout.recordBytes
	for i := at; i < at+k; i++ {
		p, err := s.physicalIndex(r.idx[i])
		if err != nil {
			return err
		}
		off := (p - lo) * size
		if bad := s.codec.decode(r.batch, i, rec[off:off+size]); bad >= 0 {
			return s.badLabel(src, p)
		}
	}
	return nil
}

func (s *fixed) badLabel(src *sourceFile, p int64) error {
	return fileErr(src.name, "record %d: the label is neither 0 nor 1; repair the file, or set data.on_error = \"skip\"",
		p-src.first+1)
}

// loadRecords returns the bytes of the records [lo, hi) of a block; positions count from
// the file's start. The first load from a block with a checksum reads and checks
// all of it.
func (src *sourceFile) loadRecords(r *readState, block, lo, hi int64) ([]byte, error) {
	l := &src.layout
	if src.checked != nil {
		word, bit := &src.checked[block/32], uint32(1)<<(block%32)
		if word.Load()&bit == 0 {
			first := block * l.blockRecords
			n := min(l.blockRecords, src.n-first)
			r.buf = grown(r.buf, int(l.blockBytes(n)))
			if err := src.readAt(r.buf, l.recordOffset(first)); err != nil {
				return nil, err
			}
			if err := l.checkBlock(src.name, block, r.buf); err != nil {
				return nil, err
			}
			word.Or(bit)
			return r.buf[(lo-first)*l.recordBytes : (hi-first)*l.recordBytes], nil
		}
	}
	r.buf = grown(r.buf, int((hi-lo)*l.recordBytes))
	return r.buf, src.readAt(r.buf, l.recordOffset(lo))
}

func (src *sourceFile) readAt(buf []byte, off int64) error {
	n, err := src.file.ReadAt(buf, off)
	if n == len(buf) {
		return nil
	}
	if err == io.EOF {
		return fileErr(src.name, "it became shorter while in use: %d bytes at offset %d are gone", len(buf)-n, off+int64(n))
	}
	return fmt.Errorf("read %d bytes at offset %d: %w", len(buf), off, err)
}

func (s *fixed) Close() error {
	var first error
	for i := range s.files {
		if err := s.files[i].file.Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}
