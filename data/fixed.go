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
// arithmetic. A criteo-bin file is nothing but records; a record file has a
// header, and its records come in blocks with a trailer and a checksum.
type fixed struct {
	env      env.Env
	schema   Schema
	segments []segment
	samples  int64 // in the files
	codec    codec
	skipped  int64
	bad      []int64 // malformed records to step over, ascending (criteo-bin, SkipBad)
}

// segment is one file.
type segment struct {
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
	// decode fills samples at, at+1, ... of b from whole records, and returns the
	// number of the first record whose label is neither 0 nor 1, or -1.
	decode(b *Batch, at int, records []byte) int
}

// readState is what a Read needs beside the batch; it lives in the batch so that
// reads allocate nothing.
type readState struct {
	src   *fixed
	batch *Batch
	idx   []int64
	buf   []byte
	do    func() error
}

// maxSpread is how many bytes are read at most for each byte wanted before
// scattered records of a block are read one by one.
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
		r.do = func() error { return r.src.read(r) }
	}
	r.src, r.batch, r.idx = s, b, idx
	return s.env.Do(s.segments[0].what, r.do)
}

// read serves the indexes in order, a stretch within one block at a time.
func (s *fixed) read(r *readState) error {
	for at := 0; at < len(r.idx); {
		p, err := s.physical(r.idx[at])
		if err != nil {
			return err
		}
		seg := s.segmentOf(p)
		block := (p - seg.first) / seg.layout.blockRecords
		start := seg.first + block*seg.layout.blockRecords
		end := min(start+seg.layout.blockRecords, seg.first+seg.n)

		lo, hi, k := p, p+1, 1 // the stretch: k indexes within [lo, hi)
		ascending := true      // and consecutive
		for at+k < len(r.idx) {
			q, err := s.physical(r.idx[at+k])
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
			err = s.readRun(r, seg, block, lo, hi, at)
		case hi-lo <= maxSpread*int64(k):
			err = s.readSpread(r, seg, block, lo, hi, at, k)
		default:
			for i := at; i < at+k && err == nil; i++ {
				p, _ := s.physical(r.idx[i])
				err = s.readRun(r, seg, block, p, p+1, i)
			}
		}
		if err != nil {
			return err
		}
		at += k
	}
	return nil
}

// physical is the position in the files of the sample with an index.
func (s *fixed) physical(i int64) (int64, error) {
	if i < 0 || i >= s.Len() {
		return 0, usageErr("sample %d of %d asked for", i, s.Len())
	}
	if len(s.bad) == 0 {
		return i, nil
	}
	k := sort.Search(len(s.bad), func(k int) bool { return s.bad[k]-int64(k) > i })
	return i + int64(k), nil
}

func (s *fixed) segmentOf(p int64) *segment {
	i := 0
	if len(s.segments) > 1 {
		i = sort.Search(len(s.segments), func(i int) bool { return s.segments[i].first > p }) - 1
	}
	return &s.segments[i]
}

// readRun decodes the records [lo, hi) of one block into samples at, at+1, ...
func (s *fixed) readRun(r *readState, seg *segment, block, lo, hi int64, at int) error {
	rec, err := seg.load(r, block, lo-seg.first, hi-seg.first)
	if err != nil {
		return err
	}
	if bad := s.codec.decode(r.batch, at, rec); bad >= 0 {
		return s.badLabel(seg, lo+int64(bad))
	}
	return nil
}

// readSpread reads all of [lo, hi) at once and decodes the k records wanted.
func (s *fixed) readSpread(r *readState, seg *segment, block, lo, hi int64, at, k int) error {
	rec, err := seg.load(r, block, lo-seg.first, hi-seg.first)
	if err != nil {
		return err
	}
	size := seg.layout.recordBytes
	for i := at; i < at+k; i++ {
		p, err := s.physical(r.idx[i])
		if err != nil {
			return err
		}
		off := (p - lo) * size
		if bad := s.codec.decode(r.batch, i, rec[off:off+size]); bad >= 0 {
			return s.badLabel(seg, p)
		}
	}
	return nil
}

func (s *fixed) badLabel(seg *segment, p int64) error {
	return fileErr(seg.name, "record %d: the label is neither 0 nor 1; repair the file, or set data.on_error = \"skip\"",
		p-seg.first+1)
}

// load returns the bytes of the records [lo, hi) of a block; positions count from
// the file's start. The first load from a block with a checksum reads and checks
// all of it.
func (seg *segment) load(r *readState, block, lo, hi int64) ([]byte, error) {
	l := &seg.layout
	if seg.checked != nil {
		word, bit := &seg.checked[block/32], uint32(1)<<(block%32)
		if word.Load()&bit == 0 {
			first := block * l.blockRecords
			n := min(l.blockRecords, seg.n-first)
			r.buf = grown(r.buf, int(l.blockBytes(n)))
			if err := seg.readAt(r.buf, l.offset(first)); err != nil {
				return nil, err
			}
			if err := l.checkBlock(seg.name, block, r.buf); err != nil {
				return nil, err
			}
			word.Or(bit)
			return r.buf[(lo-first)*l.recordBytes : (hi-first)*l.recordBytes], nil
		}
	}
	r.buf = grown(r.buf, int((hi-lo)*l.recordBytes))
	return r.buf, seg.readAt(r.buf, l.offset(lo))
}

func (seg *segment) readAt(buf []byte, off int64) error {
	n, err := seg.file.ReadAt(buf, off)
	if n == len(buf) {
		return nil
	}
	if err == io.EOF {
		return fileErr(seg.name, "it became shorter while in use: %d bytes at offset %d are gone", len(buf)-n, off+int64(n))
	}
	return fmt.Errorf("read %d bytes at offset %d: %w", len(buf), off, err)
}

func (s *fixed) Close() error {
	var first error
	for i := range s.segments {
		if err := s.segments[i].file.Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}
