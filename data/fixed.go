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
	env    env.Env
	schema Schema
	files  []sourceFile
	fileSamples
	codec   codec
	skipped int64
}

// fileSamples is the samples of files, without malformed ones that are skipped.
type fileSamples struct {
	samples int64   // in the files
	bad     []int64 // those to skip, ascending (SkipBad)
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
	src   interface{ readSamples(r *readState) error }
	batch *Batch
	idx   []int64
	buf   []byte
	do    func() error

	blocks *blockCache // nil: each Read reads what it needs

	// Of criteo-numpy: the samples that are loaded, and the places in them of those to read.
	rows  numpyRows
	picks []int
}

// maxSpread bounds the bytes read for each byte used. Beyond it, the scattered records
// of a block are read one by one.
const maxSpread = 8

func (s *fixed) Schema() Schema { return s.schema }
func (s *fixed) Skipped() int64 { return s.skipped }

// Len implements Source.
func (k *fileSamples) Len() int64 { return k.samples - int64(len(k.bad)) }

func (s *fixed) Read(b *Batch, idx []int64) error {
	b.resize(len(idx), &s.schema)
	if len(idx) == 0 {
		return nil
	}
	r := b.beginRead(idx)
	r.src = s
	return s.env.Do(s.files[0].what, r.do)
}

// beginRead prepares the scratch memory for a Read of some samples. The caller sets src.
func (b *Batch) beginRead(idx []int64) *readState {
	r := &b.read
	if r.do == nil {
		r.do = func() error { return r.src.readSamples(r) }
	}
	r.batch, r.idx = b, idx
	return r
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

		t, err := s.findStretch(r.idx[at:], start, end)
		switch {
		case err != nil:
		case t.ascending && t.n > 1:
			err = s.readRun(r, src, block, t.lo, t.hi, at)
		default:
			err = s.readScattered(r, src, block, &t, at)
		}
		if err != nil {
			return err
		}
		at += t.n
	}
	return nil
}

// stretch is some indexes, of samples in [lo, hi).
type stretch struct {
	n         int
	lo, hi    int64
	ascending bool // and consecutive
}

// isDense reports whether all of [lo, hi) is read at once.
func (t *stretch) isDense() bool { return t.hi-t.lo <= maxSpread*int64(t.n) }

// findStretch returns the first indexes, one at least, whose samples are in [start, end).
func (k *fileSamples) findStretch(idx []int64, start, end int64) (t stretch, err error) {
	p, err := k.physicalIndex(idx[0])
	if err != nil {
		return t, err
	}
	t = stretch{n: 1, lo: p, hi: p + 1, ascending: true}
	for ; t.n < len(idx); t.n++ {
		q, err := k.physicalIndex(idx[t.n])
		if err != nil {
			return t, err
		}
		if q < start || q >= end {
			break
		}
		t.ascending = t.ascending && q == p+int64(t.n)
		t.lo, t.hi = min(t.lo, q), max(t.hi, q+1)
	}
	return t, nil
}

// physicalIndex is the position in the files of the sample with an index.
func (k *fileSamples) physicalIndex(i int64) (int64, error) {
	if i < 0 || i >= k.Len() {
		return 0, usageErr("sample %d is out of range; there are %d", i, k.Len())
	}
	if len(k.bad) == 0 {
		return i, nil
	}
	n := sort.Search(len(k.bad), func(n int) bool { return k.bad[n]-int64(n) > i })
	return i + int64(n), nil
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

// readScattered decodes the records of a stretch: from the block in memory, from all bytes of the stretch if they are few, or by
// themselves.
func (s *fixed) readScattered(r *readState, src *sourceFile, block int64, t *stretch, at int) error {
	if r.blocks != nil {
		l := &src.layout
		first := block * l.blockRecords
		n := min(l.blockRecords, src.n-first)
		b := r.blocks.findPlace(src, block, n)
		if !b.loaded && b.wants(t.n, n*l.recordBytes) {
			b.body = grown(b.body, int(l.blockBytes(n)))
			if err := src.loadBlock(block, b.body); err != nil {
				return err
			}
			b.loaded = true
		}
		if b.loaded {
			return s.decodeSome(r, src, b.body, src.first+first, at, t.n)
		}
	}
	if t.isDense() {
		rec, err := src.loadRecords(r, block, t.lo-src.first, t.hi-src.first)
		if err != nil {
			return err
		}
		return s.decodeSome(r, src, rec, t.lo, at, t.n)
	}
	for i := at; i < at+t.n; i++ {
		p, err := s.physicalIndex(r.idx[i])
		if err == nil {
			err = s.readRun(r, src, block, p, p+1, i)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// decodeSome decodes k records, of samples at, at+1, ..., from the bytes of the records from lo on.
func (s *fixed) decodeSome(r *readState, src *sourceFile, rec []byte, lo int64, at, k int) error {
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
			if err := src.loadBlock(block, r.buf); err != nil {
				return nil, err
			}
			return r.buf[(lo-first)*l.recordBytes : (hi-first)*l.recordBytes], nil
		}
	}
	r.buf = grown(r.buf, int((hi-lo)*l.recordBytes))
	return r.buf, src.readAt(r.buf, l.recordOffset(lo))
}

// loadBlock reads a block, and checks it if it has a checksum that was not checked before.
func (src *sourceFile) loadBlock(block int64, buf []byte) error {
	l := &src.layout
	if err := src.readAt(buf, l.recordOffset(block*l.blockRecords)); err != nil || src.checked == nil {
		return err
	}
	word, bit := &src.checked[block/32], uint32(1)<<(block%32)
	if word.Load()&bit != 0 {
		return nil
	}
	if err := l.checkBlock(src.name, block, buf); err != nil {
		return err
	}
	word.Or(bit)
	return nil
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
