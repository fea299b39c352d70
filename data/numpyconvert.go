package data

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/ecrec/ecrec/internal/env"
)

// numpyFormat makes record files of days.
type numpyFormat struct{ hots []int }

// newNumPyFormat reads the shapes of the first day.
func newNumPyFormat(o *Options) (textFormat, error) {
	files, err := idFiles(o.Files)
	if err != nil {
		return nil, err
	}
	d, err := openDay(o.Env, files[0], checkNumPyFile)
	if err != nil {
		return nil, err
	}
	return &numpyFormat{d.hots()}, d.closeFiles()
}

func (f *numpyFormat) recordLayout() (kind recordKind, dense, categorical int) {
	return recordScaled, criteoDense, len(f.hots)
}

func (f *numpyFormat) settingsText() string { return "" }

// bagLayout implements bagged.
func (f *numpyFormat) bagLayout() (mask []bool, weighted bool) {
	for i, n := range f.hots {
		if n > 1 && mask == nil {
			mask = make([]bool, len(f.hots))
		}
		if n > 1 {
			mask[i] = true
		}
	}
	return mask, false
}

// checkHead implements chunked.
func (f *numpyFormat) checkHead(name string, head []byte) error { return checkNumPyHead(name, head) }

// newReader implements chunked.
func (f *numpyFormat) newReader(o *Options, from place, _ int, _ *textSet) chunkReader {
	return &numpyReader{env: o.Env, format: f, files: o.Files, next: from}
}

// numpyReader cuts the samples of days into chunks. A place's offset counts samples.
type numpyReader struct {
	env    env.Env
	format *numpyFormat
	files  []string
	next   place
	day    *numpyDay // the open one, or nil
}

func (r *numpyReader) closeFile() {
	if r.day != nil {
		r.day.closeFiles()
		r.day = nil
	}
}

// fillChunk implements chunkReader.
func (r *numpyReader) fillChunk(c *chunk) (bool, error) {
	if r.day != nil && r.next.offset == r.day.n {
		r.closeFile()
		r.next = place{file: r.next.file + filesOfDay, line: 1}
	}
	if r.day == nil {
		if r.next.file == len(r.files) {
			return false, nil
		}
		d, err := openDay(r.env, r.files[r.next.file], checkNumPyFile)
		if err != nil {
			return false, err
		}
		r.day = d
		if !slices.Equal(d.hots(), r.format.hots) {
			return false, fileErr(d.file, "its samples have other numbers of ids than those of %s", r.files[0])
		}
		return r.fillChunk(c)
	}
	n := min(r.day.n-r.next.offset, bagBlockRecords, max(1, numpyBlockBytes/int64(r.day.sampleBytes())))
	c.at = r.next
	err := r.env.Do("read "+r.day.file, func() error { return c.numpy.load(r.day, r.next.offset, int(n)) })
	r.next.offset += n
	c.fileBytes = r.next.offset * int64(r.day.sampleBytes())
	return true, err
}

// parseChunk implements textFormat.
func (f *numpyFormat) parseChunk(c *chunk, _ string) {
	mask, _ := f.bagLayout()
	for i := range c.numpy.n {
		if bad := c.numpy.findFault(i); bad != nil {
			c.bad = append(c.bad, bad)
			continue
		}
		f.storeSample(c, i, mask)
	}
}

// storeSample appends the record of sample i, and the ids of its bags.
func (f *numpyFormat) storeSample(c *chunk, i int, mask []bool) {
	le, r := binary.LittleEndian, &c.numpy
	ids := len(r.day.ids())
	label := r.day.labels().kind.number(r.row(ids+1, i))
	c.records = le.AppendUint32(c.records, math.Float32bits(float32(label)))
	c.records = append(c.records, r.row(ids, i)...)
	begin, feature := len(c.heap)/entryBytes(false), 0
	for k := range ids {
		a, row := &r.day.arrays[k], r.row(k, i)
		isBag := mask != nil && mask[feature]
		if isBag {
			c.records = le.AppendUint64(c.records, uint64(a.columns)<<32|uint64(len(c.heap)/entryBytes(false)-begin))
			feature++
		}
		for ; len(row) > 0; row = row[a.kind.bytes():] {
			id := uint64(a.kind.integer(row))
			if isBag {
				c.heap = le.AppendUint64(c.heap, id)
			} else {
				c.records = le.AppendUint64(c.records, id)
				feature++
			}
		}
	}
	if mask != nil {
		c.records = le.AppendUint32(c.records, uint32(begin))
	}
}
